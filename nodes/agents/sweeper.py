"""The sweeper tries the values that a move leaves open: all variants are built at once, then timed one by one."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from contextvars import copy_context
from dataclasses import dataclass, replace
from functools import cache
from threading import Lock
from typing import TypeVar

from harness.judging.device_lock import held_s
from harness.nouns.candidate import Candidate
from harness.nouns.verdict import HeadToHead, Timing, Verdict
from nodes.state import RunState, Step, Stop, Usage, Variant, require
from nodes.stops import over_budget
from nodes.turn.node import NodeContext, Update
from nodes.turn.speak import best_speedup
from tools.kernel_tools import KernelTools, call_tool
from tools.sweep import Sweep, rank_correlation, say_values

MAX_MESSAGE_CHARS = 200


@dataclass(frozen=True)
class Entry:
    """One variant: its values and its kernel, and what the judge said of it once its turn has come."""

    values: dict[str, str]
    candidate: Candidate
    verdict: Verdict | None = None

    @property
    def timing(self) -> Timing | None:
        """Present where it is right."""
        return self.verdict.timing if self.verdict else None


def sweeper(state: RunState, node_context: NodeContext) -> Update:
    """Go on with the fastest right variant, which the tester then judges like any kernel.

    Where none is right it goes on with the first one, so that its failure is diagnosed. A budget that is spent on the
    way ends the sweep, not what it has found. Killed, it begins again, with every build at hand.
    """
    written, sweep = require(state.candidate, "candidate"), require(state.sweep, "sweep")
    contest = _Contest(state, node_context)
    entries = contest.run(entries_of(written, sweep))
    winner, met = contest.winner(entries)
    merits = merits_of(entries)
    chosen = winner or entries[0]
    step = Step(
        depth=state.depth,
        agent="sweeper",
        move=state.move,
        candidate=chosen.candidate.digest,
        parent=written.parent,
        message=_told(entries, winner, met, merits),
        speedup=best_speedup(state.best),
        usage=contest.usage,
        variants=tuple(_variant(entry, winner, met, merits) for entry in entries),
    )
    return {
        "candidate": chosen.candidate,
        "sweep": None,
        "attempts": state.attempts + contest.ran,
        "device_seconds": contest.device_seconds,
        "history": (step,),
        "usage": contest.usage,
        "stop_reason": None if winner else contest.stop(),
    }


def entries_of(written: Candidate, sweep: Sweep) -> list[Entry]:
    """Every variant, the one as written first; without the kernel that the move starts from, which is known."""
    made = (
        Entry(values, written.model_copy(update={"source": sweep.source(written.source, values)}))
        for values in sweep.points()
    )
    return [entry for entry in made if entry.candidate.digest != written.parent]


@dataclass(frozen=True)
class Merits:
    """By what right variants are ranked, by their digests: gains over the best kernel, or over the baseline."""

    over_best: bool
    gains: dict[str, float]


def merits_of(entries: Sequence[Entry]) -> Merits:
    """Over the best kernel where all right variants met it, else over the baseline."""
    right = {entry.candidate.digest: entry.timing for entry in entries if entry.timing}
    met = {digest: timing.head_to_head for digest, timing in right.items()}
    over_best = all(met.values())
    return Merits(over_best, {digest: _merit(timing, over_best) for digest, timing in right.items()})


def ranked(entries: Sequence[Entry]) -> list[Entry]:
    """The right variants, the best first (see `Merits`)."""
    gains = merits_of(entries).gains
    right = [entry for entry in entries if entry.timing]
    return sorted(right, key=lambda entry: gains[entry.candidate.digest], reverse=True)


def beyond_noise(first: Entry, second: Entry) -> bool:
    """Whether the timings of two right variants, each against the same kernel, leave no doubt that one is faster."""
    ours, theirs = require(first.timing, "timing"), require(second.timing, "timing")
    if ours.head_to_head and theirs.head_to_head and ours.head_to_head.measure == theirs.head_to_head.measure:
        return ours.head_to_head.interval.low > theirs.head_to_head.interval.high
    return ours.speedup_interval.low > theirs.speedup_interval.high


def _merit(timing: Timing, met: bool) -> float:
    return timing.head_to_head.speedup if met and timing.head_to_head else timing.speedup


@dataclass(frozen=True)
class Met:
    """How the second of two variants did against the first, in the same rounds."""

    first: Entry
    second: Entry
    head_to_head: HeadToHead


class _Contest:
    """Builds and judges variants while the run's budgets last, and counts what they used up."""

    def __init__(self, state: RunState, node_context: NodeContext) -> None:
        self.device_seconds = 0.0
        self.ran = 0
        self._built: set[str] = set()
        self._counting = Lock()
        self._began = time.monotonic()
        self._state = state
        self._node_context = node_context
        self._settings = node_context.settings
        self._judge = node_context.judge(state)
        self._tools = node_context.tools(state, quick=True)

    @property
    def usage(self) -> Usage:
        """The builds that are no attempts: of variants that did not run."""
        return Usage(builds=len(self._built) - self.ran)

    def run(self, entries: Sequence[Entry]) -> list[Entry]:
        """The entries with their verdicts, as far as the budgets reached. What the screen refuses is not built."""
        task = require(self._state.task, "task")
        refused = {entry.candidate.digest for entry in entries if self._judge.screen(task, entry.candidate)}
        wanted = [entry for entry in entries if entry.candidate.digest not in refused]
        side_by_side(self._build, wanted)
        ready = refused | self._built
        return [self._judged(entry) if entry.candidate.digest in ready else entry for entry in entries]

    def winner(self, entries: Sequence[Entry]) -> tuple[Entry | None, Met | None]:
        """The fastest right variant. Where noise may have chosen between the best two, they meet each other."""
        best = ranked(entries)[:2]
        if len(best) < 2 or beyond_noise(best[0], best[1]) or self._exhausted():
            return (best[0] if best else None), None
        first, second = best
        tools = self._node_context.tools(self._state, quick=True, incumbent=first.candidate)
        timing = self._run(tools, second).timing
        met = timing.head_to_head if timing else None
        return second if met and met.speedup > 1 else first, Met(first, second, met) if met else None

    def stop(self) -> Stop | None:
        """The budget that is spent, if one is."""
        spent = self._spent()
        return over_budget(spent.model_copy(update={"usage": spent.usage + self.usage}), self._settings)

    def _build(self, entry: Entry) -> None:
        with self._counting:
            if self._exhausted(builds=len(self._built)):
                return
            self._built.add(entry.candidate.digest)
        call_tool(self._tools.compile_kernel, entry.candidate.source)

    def _judged(self, entry: Entry) -> Entry:
        if self._exhausted():
            return entry
        verdict = self._run(self._tools, entry)
        if verdict.build is not None and verdict.build.succeeded:
            self.ran += 1
        return replace(entry, verdict=verdict)

    def _run(self, tools: KernelTools, entry: Entry) -> Verdict:
        """The kernel's verdict; its time on the device is counted."""
        before = held_s()
        verdict: Verdict = call_tool(tools.run_kernel, entry.candidate.source)
        self.device_seconds += held_s() - before
        return verdict

    def _exhausted(self, builds: int = 0) -> bool:
        """Whether a budget is spent; one test is left over for the variant that is chosen."""
        spent = self._spent()
        reserved = {"attempts": spent.attempts + 1, "usage": spent.usage + Usage(builds=builds)}
        return over_budget(spent.model_copy(update=reserved), self._settings) is not None

    def _spent(self) -> RunState:
        """The state with what the sweep has used so far."""
        return self._state.model_copy(
            update={
                "attempts": self._state.attempts + self.ran,
                "device_seconds": self._state.device_seconds + self.device_seconds,
                "seconds": self._state.seconds + time.monotonic() - self._began,
            }
        )


def _variant(entry: Entry, winner: Entry | None, met: Met | None, merits: Merits) -> Variant:
    verdict, timing = entry.verdict, entry.timing
    duel = timing.head_to_head if timing and merits.over_best else None
    return Variant(
        values=entry.values,
        status=verdict.status if verdict else None,
        message=" ".join(verdict.message.split())[:MAX_MESSAGE_CHARS] if verdict else "",
        latency_ms=timing.candidate_ms if timing else None,
        speedup=timing.speedup if timing else None,
        gain=merits.gains.get(entry.candidate.digest) if merits.over_best else None,
        interval=duel.interval if duel else timing.speedup_interval if timing else None,
        measure=duel.measure if duel else "wall time",
        met=met.head_to_head if met and entry is met.second else None,
        chosen=entry is winner,
    )


def _told(entries: Sequence[Entry], winner: Entry | None, met: Met | None, merits: Merits) -> str:
    """How many are right, and which was chosen by which figures."""
    right = sum(entry.timing is not None for entry in entries)
    told = f"{right} of {len(entries)} variants are right"
    if winner is None or winner.timing is None:
        return told
    over = "the best" if merits.over_best else "eager"
    found = [f"{told}; the fastest: {say_values(winner.values)} ({merits.gains[winner.candidate.digest]:.2f}x {over}"]
    if met is not None:
        other, factor = (
            (met.first, met.head_to_head.speedup)
            if winner is met.second
            else (met.second, 1 / met.head_to_head.speedup)
        )
        found.append(f", {factor:.2f}x {say_values(other.values)} when they met")
    found.append(")")
    timed = [(entry.values, 1 / merits.gains[entry.candidate.digest]) for entry in entries if entry.timing]
    agreement = rank_correlation(timed)
    if agreement is not None:
        found.append(f"; the expected order against the gains: rank correlation {agreement:.2f}")
    return "".join(found)


# -- Builds side by side, as many as there are cores, whichever of this process's runs asks for them ------------------


Given = TypeVar("Given")
Made = TypeVar("Made")


def side_by_side(build: Callable[[Given], Made], wanted: Iterable[Given]) -> list[Made]:
    """What `build` makes of each, in their order; returns when all are done. Raises the first exception of a build."""
    building = [_builders().submit(copy_context().run, build, each) for each in wanted]
    wait(building)  # also of those beside one that failed, or a run that is cancelled would leave a process
    return [each.result() for each in building]


@cache
def _builders() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(len(os.sched_getaffinity(0)), thread_name_prefix="build")
