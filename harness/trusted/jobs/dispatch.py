"""The jobs a forked child of the warm parent can do."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

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

PAUSING = ("judge", "mix", "contest")
"""The jobs that stop and continue another process, the candidate's; no other job may signal outside itself."""


def _judge(payload: dict[str, Any], descriptors: list[int]) -> dict[str, Any]:
    return judge(JudgeJob.model_validate(payload), *descriptors).model_dump(mode="json")


def _mix(payload: dict[str, Any], descriptors: list[int]) -> dict[str, Any]:
    return mix(MixJob.model_validate(payload), *descriptors).model_dump(mode="json")


def _contest(payload: dict[str, Any], descriptors: list[int]) -> dict[str, Any]:
    return contest(ContestJob.model_validate(payload), descriptors)


_WITH_DESCRIPTORS = {"judge": _judge, "mix": _mix, "contest": _contest}
_JOBS: dict[str, Callable[[dict[str, Any]], dict[str, Any]]] = {
    "describe": lambda payload: describe(payload["source"], payload["name"]),
    "draw": draw,
    "examine": examine,
    "compile": lambda payload: compile_ahead(CompileJob.model_validate(payload)),
    "as_called": lambda payload: time_as_called(AsCalledJob.model_validate(payload)),
    "capture": lambda payload: capture(CaptureJob.model_validate(payload)),
    "cut": lambda payload: cut(CutJob.model_validate(payload)),
    "compile_whole": lambda payload: compile_whole_ahead(WholeCompileJob.model_validate(payload)),
    "accept": lambda payload: accept(AcceptJob.model_validate(payload)),
    "init": lambda payload: {"arguments": Reference(payload["source"], payload["name"]).plain_arguments()},
}


def run_job(kind: str, payload: dict[str, Any], descriptors: list[int]) -> dict[str, Any]:
    """Do one job and return its JSON-ready result."""
    if kind in _WITH_DESCRIPTORS:
        return _WITH_DESCRIPTORS[kind](payload, descriptors)
    if kind not in _JOBS:
        raise ValueError(f"no such job: {kind}")
    return _JOBS[kind](payload)
