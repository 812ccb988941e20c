"""Everything a run found, as one value: what record.json holds and the report is drawn from."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Literal

from pydantic import Field

from graph.runs.machine import Machine
from harness.nouns.candidate import Candidate
from harness.nouns.frozen import Frozen, Label, SanitizedText
from harness.nouns.profile import Profile
from harness.nouns.task import Task
from harness.nouns.verdict import Timing, Verdict
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
    def authors(self) -> tuple[str, ...]:
        """Who wrote kernels in this run, as "agent:model", in order of appearance."""
        return tuple(dict.fromkeys(candidate.author for candidate in self.candidates.values()))

    @property
    def by_playbook(self) -> bool:
        """Whether the playbook wrote any of them, which is always said."""
        return any("playbook" in author for author in self.authors)
