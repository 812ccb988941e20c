"""The jobs a forked child of the warm parent can do."""

from __future__ import annotations

from typing import Any

from harness.trusted.cross_workload import mix
from harness.trusted.facts.describing import describe
from harness.trusted.facts.drawing import draw
from harness.trusted.facts.filters import examine
from harness.trusted.judging import judge
from harness.trusted.models.capturing import capture
from harness.trusted.reference import Reference
from harness.trusted.timing.as_called import time_as_called
from harness.trusted.timing.compile_ahead import compile_ahead
from harness.wire.job import AsCalledJob, CompileJob, JudgeJob, MixJob, ReferenceJob

PAUSING = ("judge", "mix")
"""The jobs that stop and continue another process, the candidate's; no other job may signal outside itself."""


def run_job(kind: str, payload: dict[str, Any], descriptors: list[int]) -> dict[str, Any]:
    """Do one job and return its JSON-ready result."""
    if kind == "describe":
        return describe(payload["source"], payload["name"])
    if kind == "draw":
        return draw(payload)
    if kind == "examine":
        return examine(payload)
    if kind == "judge":
        return judge(JudgeJob.model_validate(payload), *descriptors)
    if kind == "mix":
        return mix(MixJob.model_validate(payload), *descriptors)
    if kind == "compile":
        return compile_ahead(CompileJob.model_validate(payload))
    if kind == "as_called":
        return time_as_called(AsCalledJob.model_validate(payload))
    if kind == "capture":
        return capture(ReferenceJob.model_validate(payload))
    if kind == "init":
        return {"arguments": Reference(payload["source"], payload["name"]).plain_arguments()}
    raise ValueError(f"no such job: {kind}")
