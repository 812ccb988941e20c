"""docs/suites.md: made of what was measured, on a processor and on a GPU."""

import xml.etree.ElementTree as ET
from datetime import UTC, datetime

import pytest
from ablation_records import ablation, gated
from suite_records import row, suite_record

from bench.gpu_model import FailedTest, GpuResult, GpuTests, ProfiledKernel
from bench.results_page import ASKED, GPU, PAGE, page, picture, stored
from graph.runs.ablation import schedule_of
from graph.runs.machine import this_machine


def gpu_result() -> GpuResult:
    rows = (row(1, 1.45), row(14, 3.0), row(25, 2.41), row(9, None, reason="It declined."))
    return GpuResult(
        machine=this_machine(),
        driver="580.65.06",
        measured_at=datetime(2026, 1, 31, tzinfo=UTC),
        commands=("python -m bench.gpu_check --minutes 8",),
        tests=GpuTests(passed=40, failed=1, skipped=2, seconds=60.0, failures=(FailedTest(test="t::a", said="no"),)),
        phases={"build": 7.0, "in all": 9.5},
        suite=suite_record(*rows),
        ablations=(ablation(schedule_of(gated(1, 4)), schedule_of(gated(11, None))),),
        profiles=(ProfiledKernel(task="25_swish", move="vectors", speedup=2.41, text="bound  memory, at 96 %"),),
        problems=("ablations: no time left.",),
        notes=("Nothing else used the GPU.",),
    )


def cells(text: str, name: str) -> list[str]:
    lines = [[cell.strip() for cell in line.split("|")[1:-1]] for line in text.splitlines() if line.startswith("| ")]
    return next(line for line in lines if name in line[:2])


def test_the_gpus_part_lists_wins_and_losses_with_what_was_asked() -> None:
    processor, _ = stored()
    text = page(processor, gpu_result())
    assert cells(text, "task1")[-1] == "1.30x met"
    assert cells(text, "task14")[-1] == "4.00x missed"
    assert cells(text, "task9")[-1] == "1.30x missed"
    assert cells(text, "1-18, products (3)")[1:3] == ["2", "2"]
    assert cells(text, "19-32, activations (1)")[1] == "1"
    assert cells(text, "the 26 of the published table (3)")[1] == "3"
    for part in (
        "Driver 580.65.06", "python -m bench.gpu_check --minutes 8", "bound  memory, at 96 %", "| in all | 9.50 |",
        "40 passed, 1 failed", "- ablations: no time left.", "(ablation-softsign.svg)", "## On a processor",
        "- Nothing else used the GPU.", "At most 12 s are asked: met.",
    ):  # fmt: skip
        assert part in text


def test_every_task_of_level1_is_asked_something() -> None:
    assert sorted(ASKED) == list(range(1, 33))


def test_without_a_gpus_measurements_the_page_has_none() -> None:
    processor, _ = stored()
    assert "On a GPU" not in page(processor, None)
    bare = GpuResult(
        machine=this_machine(), driver="580", measured_at=datetime(2026, 1, 31, tzinfo=UTC), commands=("x",)
    )
    assert "### level1" not in page(processor, bare)


def test_a_result_survives_its_file() -> None:
    assert GpuResult.model_validate_json(gpu_result().model_dump_json()) == gpu_result()


def test_the_page_in_the_documents_is_of_this_form() -> None:
    processor, gpu = stored()
    assert PAGE.read_text(encoding="utf-8") == page(processor, gpu)


def test_the_figures_in_the_documents_belong_to_the_numbers() -> None:
    if not GPU.exists():
        pytest.skip("docs/suites-cuda.json is not there")
    _, gpu = stored()
    assert gpu is not None
    for each in gpu.ablations:
        ET.parse(picture(each))
