"""The jobs a forked child of the warm parent can do."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from harness.nouns.frozen import Frozen
from harness.nouns.task import Variant
from harness.trusted.facts.batches import find_batches
from harness.trusted.facts.describing import describe
from harness.trusted.facts.drawing import draw
from harness.trusted.facts.filters import examine
from harness.trusted.jobs.contest import contest
from harness.trusted.jobs.cross_workload import mix
from harness.trusted.jobs.judging import judge
from harness.trusted.models.accepting import accept
from harness.trusted.models.capturing import capture
from harness.trusted.models.cutting import cut
from harness.trusted.models.whole_compiled import compile_whole_ahead
from harness.trusted.reference import Reference
from harness.trusted.timing.as_called import time_as_called
from harness.trusted.timing.compile_ahead import compile_ahead
from harness.wire.job import (
    AcceptJob,
    AsCalledJob,
    CaptureJob,
    CompileJob,
    ContestJob,
    CutJob,
    JudgeJob,
    MixJob,
    WholeCompileJob,
)

PAUSING: dict[str, tuple[type[Frozen], Callable[..., Frozen]]] = {
    "judge": (JudgeJob, judge),
    "mix": (MixJob, mix),
    "contest": (ContestJob, contest),
}
"""The jobs that stop and continue other processes, the candidates', whose lines are their further arguments; no other
job may signal outside itself."""
_TYPED: dict[str, tuple[type[Frozen], Callable[[Any], dict[str, Any]]]] = {
    "compile": (CompileJob, compile_ahead),
    "as_called": (AsCalledJob, time_as_called),
    "capture": (CaptureJob, capture),
    "cut": (CutJob, cut),
    "compile_whole": (WholeCompileJob, compile_whole_ahead),
    "accept": (AcceptJob, accept),
}
_PLAIN: dict[str, Callable[[dict[str, Any]], dict[str, Any]]] = {
    "describe": lambda payload: describe(payload["source"], payload["name"]),
    "batches": lambda payload: find_batches(payload["source"], payload["name"]),
    "draw": draw,
    "examine": examine,
    "init": lambda payload: {"arguments": [*map(partial(_made_from, payload), payload["variants"])]},
}


def _made_from(payload: dict[str, Any], variant: dict[str, Any]) -> list[Any]:
    """The constructor's arguments in a workload."""
    chosen = Variant.model_validate(variant)
    return Reference(payload["source"], payload["name"], variant=chosen).plain_arguments()


def run_job(kind: str, payload: dict[str, Any], descriptors: Sequence[int]) -> dict[str, Any]:
    """Do one job and return its JSON-ready result."""
    if kind in PAUSING:
        job, do = PAUSING[kind]
        return do(job.model_validate(payload), *descriptors).model_dump(mode="json")
    if kind in _TYPED:
        job, answer = _TYPED[kind]
        return answer(job.model_validate(payload))
    if kind not in _PLAIN:
        raise ValueError(f"no such job: {kind}")
    return _PLAIN[kind](payload)
