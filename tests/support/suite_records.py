"""Rows and records of suites, made by hand."""

from datetime import UTC, datetime

from report_records import candidate, passed

from graph.runs.machine import this_machine
from graph.runs.suite_record import Row, SuiteRecord, SuiteTask
from harness.nouns.device_facts import DeviceFacts
from harness.nouns.verdict import Timing
from nodes.settings import Settings

FACTS = DeviceFacts(
    device="Test", threads=2, simd_floats=8, l1_bytes=1, l2_bytes=1, l3_bytes=1, peak_gb_s=100.0, peak_gflop_s=1000.0,
    source="made up",
)  # fmt: skip
TASK = SuiteTask(id=30, name="30_softsign", source="class Model: ...")


def timing(speedup: float) -> Timing:
    found = passed(candidate("x", "playbook"), speedup).timing
    assert found is not None
    return found


def row(number: int, speedup: float | None, **fields: object) -> Row:
    status = "no_kernel" if speedup is None else "improved" if timing(speedup).wins else "nothing_faster"
    found = Row(id=number, name=f"task{number}", status=status, timing=timing(speedup) if speedup else None)
    return found.model_copy(update=fields)


def suite_record(*rows: Row, outcome: str = "finished") -> SuiteRecord:
    return SuiteRecord(
        id="20260131-1", name="level1", outcome=outcome, created=datetime(2026, 1, 31, tzinfo=UTC), scale=0.5, jobs=8,
        seconds=61.0, settings=Settings().model_dump(mode="json"), machine=this_machine(), facts=FACTS, rows=rows,
    )  # fmt: skip
