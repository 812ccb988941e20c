"""What the nodes of an evolution hand each other: proposals, and the run that they are part of."""

from __future__ import annotations

from operator import add
from typing import Annotated, Self

from pydantic import BaseModel, ConfigDict, model_validator

from harness.nouns.candidate import Candidate, TargetName
from harness.nouns.frozen import Frozen, Label, SanitizedText
from harness.nouns.task import Task
from harness.nouns.tier import Tier
from harness.nouns.verdict import Verdict
from nodes.assessment import Critique
from nodes.request import Shown
from nodes.settings import Operator
from nodes.state import Best, Result, Step, Stop, Usage, append
from nodes.thread_settings import ThreadSettings, latest
from tools.opinions import Opinion, score_of

EXCHANGES_OF_A_TURN = 1000
"""No turn has more; proposal number n numbers its exchanges from n times as many, whoever speaks beside it."""


class Order(Frozen):
    """What one proposer is asked for. `number` counts a run's orders from 0.

    `parents` are digests, the first the kernel to begin with. `turn` tells apart the orders of one generation that
    are otherwise the same: an author that answers by rule gives its answer number `turn`.
    """

    number: int
    generation: int
    island: int = 0
    operator: Operator
    model: str
    temperature: float | None = None
    parents: tuple[str, ...] = ()
    turn: int = 0


class Proposal(Frozen):
    """One kernel on its way: ordered, then written or declined, then dropped or judged.

    `dropped` says why it was never judged. `machine_code` is the fingerprint of what was built of it, `opinions` are
    the verifiers'.
    """

    order: Order
    candidate: Candidate | None = None
    move: SanitizedText = ""
    dropped: SanitizedText = ""
    machine_code: str = ""
    opinions: tuple[Opinion, ...] = ()
    verdict: Verdict | None = None
    usage: Usage = Usage()
    seconds: float = 0.0

    @model_validator(mode="after")
    def _the_verdict_is_its_own(self) -> Self:
        if self.candidate is None and not self.dropped:
            raise ValueError("a proposal without a kernel says why")
        if self.verdict is not None and (self.candidate is None or self.verdict.candidate != self.candidate.digest):
            raise ValueError("a proposal's verdict is one on its kernel")
        return self

    @property
    def digest(self) -> str:
        """The kernel's; empty where none was written."""
        return self.candidate.digest if self.candidate else ""

    @property
    def waits(self) -> bool:
        """Whether it is still to be judged."""
        return self.verdict is None and not self.dropped

    @property
    def promise(self) -> tuple[float, int]:
        """What the verifiers think of it, to be compared: how likely it is right, then how little of its move is
        missing."""
        return score_of(self.opinions), -sum(len(each.unmet) for each in self.opinions)

    @property
    def speedup(self) -> float | None:
        """Over the baseline; absent where it did not pass."""
        return self.verdict.timing.speedup if self.verdict and self.verdict.timing else None


def put(left: tuple[Proposal, ...], right: tuple[Proposal, ...]) -> tuple[Proposal, ...]:
    """The reducer of the pool: what is said later of a proposal replaces what was said before."""
    return tuple(each for _, each in sorted(({p.order.number: p for p in (*left, *right)}).items()))


class Brief(Frozen):
    """What goes out to one proposer or verifier: an order, and as much of the run as they and their tools need.

    `pool` holds what a proposer may be shown: its parents, the best kernels, the latest failures; of a verifier the
    kernel to look at. `taken` are the digests of all kernels of the run.
    """

    order: Order
    settings: Annotated[ThreadSettings | None, latest] = None
    task: Task
    target: TargetName
    tier: Tier
    best: Best | None = None
    verdict: Verdict | None = None
    pool: tuple[Proposal, ...] = ()
    taken: tuple[str, ...] = ()
    inspiration: tuple[Shown, ...] = ()
    recommendations: tuple[SanitizedText, ...] = ()
    critique: Critique | None = None
    history: tuple[Step, ...] = ()
    attempts: int
    usage: Usage
    seconds: float
    device_seconds: float


class EvolutionState(BaseModel):
    """The run. Pool, history, usage and the two clocks grow by what a node returns; every other field is replaced.

    `orders` are those of the present generation, whose number is `generation`. `best` is the fastest kernel by
    head-to-heads; `verdict` the last word on one. `attempts` counts kernels judged, and `withdrawn` names those with
    which a sanitizer found fault, `archived` those that the archive has. `inspiration` came from there.
    `recommendations` were drawn from the profile of the kernel `summarized`, `critique` says what a reviewer thinks of
    the kernel `reviewed`, or of a best one before it.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    source: str
    name: Label = "task"
    settings: Annotated[ThreadSettings | None, latest] = None
    task: Task | None = None
    target: TargetName | None = None
    tier: Tier | None = None
    generation: int = 0
    orders: tuple[Order, ...] = ()
    pool: Annotated[tuple[Proposal, ...], put] = ()
    best: Best | None = None
    verdict: Verdict | None = None
    withdrawn: tuple[str, ...] = ()
    archived: tuple[str, ...] = ()
    inspiration: tuple[Shown, ...] = ()
    recommendations: tuple[SanitizedText, ...] = ()
    summarized: str = ""
    critique: Critique | None = None
    reviewed: str = ""
    attempts: int = 0
    history: Annotated[tuple[Step, ...], append] = ()
    usage: Annotated[Usage, add] = Usage()
    seconds: Annotated[float, add] = 0.0
    device_seconds: Annotated[float, add] = 0.0
    stop_reason: Stop | None = None
    result: Result | None = None

    @property
    def begun(self) -> int:
        """How many generations were proposed."""
        return 1 + max((each.order.generation for each in self.pool), default=-1)

    @model_validator(mode="after")
    def _all_verdicts_are_on_its_task(self) -> Self:
        digest = self.task.digest if self.task else ""
        verdicts = (self.verdict, self.best and self.best.verdict, *(each.verdict for each in self.pool))
        if any(verdict.task != digest for verdict in verdicts if verdict):
            raise ValueError("a verdict in this state is one on another task")
        return self
