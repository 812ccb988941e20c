"""Real judges that take little time over timing: for who asks what passes, by real compilers and cages."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any
from unittest import mock

from brief_terms import brief
from own_turns import own_turns

from harness.judging.local import LocalJudge
from harness.judging.protocol import JudgeOrder
from harness.nouns.batches import Batches
from harness.nouns.task import Task
from harness.nouns.verdict import Interval, Verdict
from harness.targets.select import resolve_target
from tools.judges import terms_of

SEED = 1
"""Of the trials of a run that names none: the suite says the same of the same tree."""


class BriefJudge(LocalJudge):
    """See `LocalJudge`. A head-to-head that a busy machine leaves undecided is decided by its ratio alone: a run takes
    the same moves as on an idle one. Nor does it try other batches, which is most of a short run's time."""

    def batches(self, task: Task) -> Batches:
        return Batches(refused="nobody asks")

    def evaluate(self, *given: Any, seed: int | None = None, **others: Any) -> Verdict:
        verdict = super().evaluate(*given, seed=SEED if seed is None else seed, **others)
        met = verdict.timing.head_to_head if verdict.timing else None
        if verdict.timing is None or met is None or met.outcome != "undecided":
            return verdict
        low, high = met.speedup, max(1.0, met.speedup)
        decided = met.model_copy(update={"interval": Interval(low=low, high=high)})
        return verdict.model_copy(update={"timing": verdict.timing.model_copy(update={"head_to_head": decided})})


@contextmanager
def brief_here() -> Iterator[None]:
    """Meanwhile such judges are those of this process, one for each order; they take turns with no other process."""

    @cache
    def local_judge(order: JudgeOrder) -> BriefJudge:
        return BriefJudge(resolve_target(order.target, order.ordinal), brief(terms_of(order)))

    with own_turns(), mock.patch("tools.judges.local_judge", local_judge):
        yield
