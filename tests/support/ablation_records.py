"""Ablations as they could have been, for the tests of what is drawn from them."""

from __future__ import annotations

from datetime import UTC, datetime

from report_records import full_record

from graph.runs.ablation import Ablation, Schedule
from graph.runs.record import RunRecord
from nodes.state import Step


def gated(depth: int, profiled_after: int | None) -> RunRecord:
    """The full record, with a profiler's step after so many others."""
    record = full_record()
    steps = list(record.steps)
    if profiled_after is not None:
        steps.insert(profiled_after, Step(depth=1, agent="profiler"))
    return record.model_copy(
        update={"steps": tuple(steps), "settings": {"profile_from_depth": {"gemm": depth, "elementwise": depth}}}
    )


def ablation(*schedules: Schedule, task: str = "softsign") -> Ablation:
    return Ablation(
        task=task, shapes="16", created=datetime(2026, 1, 31, tzinfo=UTC), device="Testing GPU", baseline="eager",
        schedules=schedules,
    )  # fmt: skip
