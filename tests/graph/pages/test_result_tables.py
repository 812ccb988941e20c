"""The benchmark's tables and docs/suites.md, at the edges: what is met, what is missed, and what was not measured."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from ablation_records import ablation
from bench.gpu_model import GpuResult
from bench.model import BenchResult, ExampleResult, Limit
from bench.results_page import measured_on_a_gpu, page, stored
from bench.run import summed_up
from bench.tables import measured_on_a_processor, sheets, telling
from report_records import full_record
from suite_records import row, suite_record, timing

from graph.cli.doctor import OPTIONAL, blocking
from graph.runs.ablation import Schedule, schedule_of
from graph.runs.machine import this_machine
from graph.runs.record import RunRecord
from graph.runs.tables import Sheet, markdown
from harness.nouns.verdict import Interval
from harness.targets.prerequisites import Prerequisite, check_prerequisites

EXAMPLE = ExampleResult(
    name="softsign", shapes="4096x4096", outcome="improved", timing=timing(2.0), move="vectors", share_of_roof=0.956,
    kernels_judged=7, seconds=61.4, stop_reason="no gain in 2 depths", wanted=1.8,
)  # fmt: skip
LIMITS = (
    Limit(name="verdict", measured=6.0, allowed=6, unit="s"),
    Limit(name="help", measured=0.504, allowed=0.5, unit="s"),
    Limit(name="step", measured=49.6, allowed=50, unit="ms"),
    Limit(name="memory", measured=250.4, allowed=250, unit="MB"),
)


def result(*examples: ExampleResult, load: float = 0.25) -> BenchResult:
    return BenchResult(
        machine=this_machine(), peak_gb_s=22.04, peak_gflop_s=120.6,
        measured_at=datetime(2026, 1, 31, 7, 5, tzinfo=UTC), load=load, limits=LIMITS, verdicts=5,
        phases={"build": 2.004, "in all": 5.2}, examples=examples or (EXAMPLE,),
    )  # fmt: skip


def told(sheet: Sheet) -> list[dict[str, str]]:
    return [dict(zip(sheet.head, cells, strict=True)) for cells in sheet.rows]


def test_an_examples_cells_stand_under_their_heads() -> None:
    (found,) = told(sheets(result())[0])
    assert found == {
        "example": "softsign", "shapes": "4096x4096", "speed-up": "2.00x", "95 % interval": "1.92 to 2.08",
        "by the judge": "2.00x", "as called": "", "over torch.compile": "",
        "last move kept": "vectors", "kernel": "10 ms", "eager": "20 ms", "roof": "96%", "judged": "7", "run": "61 s",
        "asked": "1.8x met",
    }  # fmt: skip
    (bare,) = told(sheets(result(EXAMPLE.model_copy(update={"timing": None})))[0])
    assert {name for name, cell in bare.items() if cell} == {
        "example", "shapes", "speed-up", "judged", "run", "asked",
    }  # fmt: skip
    assert (bare["speed-up"], bare["asked"]) == ("no kernel", "1.8x")


@pytest.mark.parametrize(
    ("speedup", "low", "wanted", "asked"),
    [
        (1.8, 1.7, 1.8, "1.8x met"),
        (1.79, 1.7, 1.8, "1.8x missed"),
        (1.9, 1.0, 1.8, "1.8x missed"),  # what may be noise meets nothing
        (1.9, 1.7, None, ""),
    ],
)
def test_what_was_asked_is_met_by_a_sure_win_of_that_size(
    speedup: float, low: float, wanted: float | None, asked: str
) -> None:
    found = timing(1.0).model_copy(update={"speedup": speedup, "speedup_interval": Interval(low=low, high=2.5)})
    (cells,) = told(sheets(result(EXAMPLE.model_copy(update={"timing": found, "wanted": wanted})))[0])
    assert cells["asked"] == asked


def test_limits_are_met_up_to_what_is_allowed() -> None:
    assert [tuple(each.values()) for each in told(sheets(result())[1])] == [
        ("verdict", "6.00 s", "6 s", "met"),
        ("help", "0.50 s", "0.5 s", "missed"),
        ("step", "50 ms", "50 ms", "met"),
        ("memory", "250 MB", "250 MB", "missed"),
    ]


def test_what_is_the_same_in_every_row_is_said_once() -> None:
    rows = [("a", "judge", "2", "", "0.00", "met"), ("b", "judge", "3", "", "0.00", "met")]
    said, table = telling(("task", "clock", "depth", "note", "cost $", "asked"), rows)
    assert said == "In every row: clock judge."
    assert table == "| task | depth | asked |\n| --- | --- | --- |\n| a | 2 | met |\n| b | 3 | met |"
    assert telling(("task", "clock", "asked"), rows=[("a", "judge", "")]) == [
        "| task | clock | asked |\n| --- | --- | --- |\n| a | judge |  |"
    ]


def test_the_processors_part_says_how_it_was_measured() -> None:
    text = "\n\n".join(measured_on_a_processor(result()))
    for words in (
        "`python -m bench.run --write`", "22.0 GB/s, 121 GFLOP/s", "2026-01-31 07:05 UTC, load 0.2 before the start",
        "| build | 2.00 |", "medians over 5 new kernels", "- softsign: no gain in 2 depths",
    ):  # fmt: skip
        assert words in text
    titles = [line for line in text.splitlines() if line.startswith("### ")]
    assert len(titles) == 4, "a GPU's phases are absent"


@pytest.mark.parametrize(("load", "busy"), [(0.0, False), (1.0, False), (1.01, True)])
def test_a_machine_that_did_other_work_is_called_busy(load: float, busy: bool) -> None:
    assert ("The machine was busy" in "\n".join(measured_on_a_processor(result(load=load)))) == busy


def test_an_example_without_a_kernel_is_summed_up_too() -> None:
    found = summed_up("gelu", full_record().model_copy(update={"best": None}))
    assert (found.timing, found.move, found.share_of_roof, found.wanted) == (None, "", None, None)
    full = full_record()
    assert full.best is not None
    unprofiled = full.model_copy(update={"best": full.best.model_copy(update={"profile": None})})
    assert summed_up("matmul", unprofiled).share_of_roof is None
    bare = RunRecord.model_validate({**full.model_dump(), "steps": (), "task": None})
    assert (summed_up("softsign", bare).move, summed_up("softsign", bare).shapes) == ("", "")


# -- docs/suites.md ---------------------------------------------------------------------------------------------------


def gpu(**parts: object) -> GpuResult:
    return GpuResult(
        machine=this_machine(), driver="580.65.06", measured_at=datetime(2026, 1, 31, tzinfo=UTC),
        commands=("one", "two"),
    ).model_copy(update=parts)  # fmt: skip


def test_what_was_not_measured_has_no_heading() -> None:
    assert measured_on_a_gpu(gpu()) == ["## On a GPU", "Driver 580.65.06. Commands:", "```\none\ntwo\n```"]


@pytest.mark.parametrize(("seconds", "word"), [(11.99, "met"), (12.0, "met"), (12.01, "missed")])
def test_the_seconds_to_a_verdict_are_held_against_what_is_asked(seconds: float, word: str) -> None:
    parts = measured_on_a_gpu(gpu(phases={"in all": seconds}))
    assert parts[-1] == f"At most 12 s are asked: {word}."


@pytest.mark.parametrize(
    ("number", "speedup", "defect", "asked"),
    [
        (14, 4.0, "", "4.00x met"),
        (14, 3.99, "", "4.00x missed"),
        (14, 9.0, "The output is constant.", "4.00x missed"),
        (14, None, "", "4.00x missed"),
        (99, 4.0, "", ""),
    ],
)
def test_each_task_of_the_suite_is_held_against_what_is_asked(
    number: int, speedup: float | None, defect: str, asked: str
) -> None:
    kernel = timing(speedup).model_copy(update={"task_defect": defect}) if speedup else None
    parts = measured_on_a_gpu(gpu(suite=suite_record(row(number, speedup, timing=kernel))))
    (line,) = (line for part in parts for line in part.splitlines() if line.startswith(f"| {number} |"))
    assert line.split("|")[-2].strip() == asked


def test_the_sums_are_those_of_their_own_tasks() -> None:
    rows = (row(1, 4.0), row(9, 1.0), row(18, 1.0), row(19, 2.0), row(32, 2.0), row(24, None))
    parts = measured_on_a_gpu(gpu(suite=suite_record(*rows)))
    lines = [
        [cell.strip() for cell in line.split("|")] for part in parts for line in part.splitlines() if "x |" in line
    ]
    sums = {cells[1]: cells[2:6] for cells in lines}
    assert sums["all (6)"] == ["5", "3", "1.74x", "2.00x"]
    assert sums["1-18, products (3)"] == ["3", "1", "1.59x", "1.00x"]
    assert sums["19-32, activations (3)"] == ["2", "2", "2.00x", "2.00x"]
    assert sums["the 26 of the published table (4)"] == ["3", "3", "2.52x", "2.00x"]


def test_a_schedule_without_a_kernel_has_its_line() -> None:
    empty = Schedule(profile_from=11, points=(), profiles=0, seconds=1.0, stop_reason="declined")
    full = full_record().model_copy(update={"settings": {"profile_from_depth": {"gemm": 1}}})
    text = "\n".join(measured_on_a_gpu(gpu(ablations=(ablation(schedule_of(full), empty),))))
    assert "| 1 | 1.93x | chunk size | 5 | 0 |" in text
    assert "| 11 | no kernel |  | 0 | 0 |" in text
    processor, _ = stored()
    assert page(processor, None).count("\n## ") == 1


def test_a_table_in_markdown_keeps_its_columns() -> None:
    assert markdown(("a", "b"), [("1", "x|y"), ("", "2")]) == "| a | b |\n| --- | --- |\n| 1 | x/y |\n|  | 2 |"


# -- the doctor --------------------------------------------------------------------------------------------------------


def test_only_what_every_run_needs_and_is_missing_blocks() -> None:
    names = [each.name for each in check_prerequisites()]
    for status in ("found", "limited", "missing"):
        everything = tuple(Prerequisite(name=name, status=status, detail="d", needed_for="n") for name in names)
        stopped = {each.name for each in blocking(everything)}
        assert stopped == ({*names} - {"OpenMP", "objdump", "nvcc", "GPU", "ncu"} if status == "missing" else set())
    assert {"OpenMP", "objdump", "nvcc", "GPU", "ncu"} < OPTIONAL
