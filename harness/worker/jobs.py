"""The jobs a forked child of the warm parent can do."""

from __future__ import annotations

from typing import Any

from harness.worker.as_called import time_as_called
from harness.worker.compile_ahead import compile_ahead
from harness.worker.describing import describe
from harness.worker.drawing import draw
from harness.worker.filters import examine
from harness.worker.judging import judge
from harness.worker.mixing import mix
from harness.worker.reference import Reference

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
        return judge(payload, *descriptors)
    if kind == "mix":
        return mix(payload, *descriptors)
    if kind == "compile":
        return compile_ahead(payload)
    if kind == "as_called":
        return time_as_called(payload)
    if kind == "init":
        return {"arguments": Reference(payload["source"], payload["name"]).plain_arguments()}
    raise ValueError(f"no such job: {kind}")
