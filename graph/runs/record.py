"""Everything a run found, as one value: what record.json holds and the report is drawn from."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from typing import Any, Literal

from pydantic import Field

from graph.runs.machine import Machine
from harness.nouns.candidate import Candidate
from harness.nouns.frozen import Frozen, Label, SanitizedText
from harness.nouns.profile import Profile
from harness.nouns.task import Task
from harness.nouns.verdict import HeadToHead, Interval, Timing, Verdict
from nodes.evolution.state import Order
from nodes.state import Best, Final, Step, Usage
from tools.opinions import Opinion

Outcome = Literal["improved", "nothing_faster", "interrupted", "waiting", "running"]


class Proposed(Frozen):
    """One proposal without its source. `kernel` is its digest; `dropped` says why it was never judged."""

    order: Order
    kernel: str = ""
    move: SanitizedText = ""
    dropped: SanitizedText = ""
    machine_code: str = ""
    opinions: tuple[Opinion, ...] = ()
    usage: Usage = Usage()


class Search(Frozen):
    """What an evolution did: every order with what came of it. Kernels and verdicts stand in the record."""

    generations: int
    proposals: tuple[Proposed, ...]
    withdrawn: tuple[str, ...] = ()


class RunRecord(Frozen):
    """One run. `candidates`, `verdicts` and `profiles` are keyed by the candidate's digest.

    `outcome` is "improved" where the best kernel's whole interval lies above 1 and the run came to its end, "running"
    or "interrupted" where `--resume` goes on, and "waiting" where a model's question waits for its answer. `settings`
    never hold a key of a model endpoint. `search` is there where the run was an evolution. `final` times the kernels
    that were the best once together: those are `best`'s times, while each of `verdicts` was timed by itself.
    """

    schema_version: Literal[2] = 2
    id: str
    outcome: Outcome
    stop_reason: SanitizedText = ""
    task: Task | None = None
    name: Label
    created: datetime
    seconds: float
    settings: dict[str, Any]
    machine: Machine
    steps: tuple[Step, ...] = ()
    candidates: dict[str, Candidate] = Field(default_factory=dict)
    verdicts: dict[str, Verdict] = Field(default_factory=dict)
    profiles: dict[str, Profile] = Field(default_factory=dict)
    best: Best | None = None
    usage: Usage = Usage()
    search: Search | None = None
    final: Final = Final()

    @property
    def timing(self) -> Timing | None:
        """The best kernel's timing; absent where no kernel passed."""
        return self.best.verdict.timing if self.best else None

    @property
    def degenerate(self) -> str:
        """Why no kernel wins on this task, as a sentence; empty where one may."""
        return self.timing.degenerate if self.timing else ""

    @property
    def influence(self) -> str:
        """Which family shows what the outputs depend on, as a sentence, where the file's own inputs hardly do."""
        return self.timing.influence_said if self.timing else ""

    @property
    def views(self) -> str:
        """Which of its results a drop-in answers with views, as a sentence; empty where none is one."""
        return self.task.views_said if self.task else ""

    @property
    def served(self) -> str:
        """At which batches its kernel is right, as a sentence; empty where nobody tried."""
        found = self.best.verdict.served if self.best else None
        return found.said if found else ""

    @property
    def authors(self) -> tuple[str, ...]:
        """Who wrote kernels in this run, as "agent:model", in order of appearance."""
        return tuple(dict.fromkeys(candidate.author for candidate in self.candidates.values()))

    @property
    def by_playbook(self) -> bool:
        """Whether the playbook wrote any of them, which is always said."""
        return any("playbook" in author for author in self.authors)


# -- How fast each kernel of a run is beside the others, on one scale: what the report's curve and tables show --------

# A kernel's own speed-up over eager was measured in rounds of its own, on a machine that was another one in the next.
# The scale hangs on the kernels that were timed together at the end; where that was not done, on the best one. All
# others stand on it by the head-to-heads in which they met them.


class Level(Frozen):
    """A kernel's speed-up over eager on the run's scale, with its interval."""

    speedup: float
    interval: Interval


def levels(record: RunRecord) -> dict[str, Level]:
    """Of every kernel that was timed, by its digest."""
    tests = [step for step in record.steps if step.agent == "tester" and step.candidate]
    found = dict(_together(record))
    kept = [step for step in tests if step.improved]
    for step in reversed(kept):
        met, mine = _met(step), found.get(step.candidate or "") or _alone(record, step)
        if mine and met and met.incumbent not in found:
            found[met.incumbent] = _times(mine, 1 / met.speedup, 1 / met.interval.high, 1 / met.interval.low)
        if mine:
            found.setdefault(step.candidate or "", mine)
    for step in tests:
        met = _met(step)
        theirs = found.get(met.incumbent) if met else None
        mine = _times(theirs, met.speedup, met.interval.low, met.interval.high) if met and theirs else None
        if mine := mine or _alone(record, step):
            found.setdefault(step.candidate or "", mine)
    return found


def stair(record: RunRecord, found: dict[str, Level]) -> dict[str, float]:
    """The curve: of each kernel that was the best once and led to the result, how fast the best was from then on.

    It does not fall: each of them beat the one before it, so a level above a later one's is within what that leaves
    open, and the kernel is drawn no higher than that.
    """
    result = record.best.candidate.digest if record.best else None
    tests = [step for step in record.steps if step.agent == "tester"]
    path = [*dict.fromkeys(step.candidate for step in tests if step.improved or step.candidate == result)]
    path = [digest for digest in path if digest in found]
    path = path[: path.index(result) + 1] if result in path else path
    drawn, least = dict[str, float](), float("inf")
    for digest in reversed(path):
        least = min(least, found[digest or ""].speedup)
        drawn[digest or ""] = least
    return drawn


def _together(record: RunRecord) -> Iterator[tuple[str, Level]]:
    for each in record.final.standings:
        yield each.candidate, Level(speedup=each.timing.speedup, interval=each.timing.speedup_interval)
    timing, best = record.timing, record.best
    if timing and best and not record.final.standings:
        yield best.candidate.digest, Level(speedup=timing.speedup, interval=timing.speedup_interval)


def _alone(record: RunRecord, step: Step) -> Level | None:
    verdict = record.verdicts.get(step.candidate or "")
    timing = verdict.timing if verdict else None
    return Level(speedup=timing.speedup, interval=timing.speedup_interval) if timing else None


def _met(step: Step) -> HeadToHead | None:
    return step.head_to_head if step.status == "passed" else None


def _times(level: Level, gain: float, low: float, high: float) -> Level:
    """A kernel so many times as fast, somewhere between these gains."""
    speedup = level.speedup
    return Level(speedup=speedup * gain, interval=Interval(low=speedup * low, high=speedup * high))
