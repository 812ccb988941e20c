"""The benchmark's tables and its own measurements; what it measures of the loop is run by `make bench`."""

from datetime import UTC, datetime

import pytest
from report_records import full_record
from rich.console import Console

from bench.model import BenchResult, Limit
from bench.run import help_seconds, measure, peak_memory_mb, summed_up
from bench.tables import measured_on_a_processor, sheets
from graph.runs.machine import this_machine
from graph.runs.tables import drawn
from harness.nouns.errors import UserError


def result() -> BenchResult:
    won = summed_up("softsign", full_record())
    lost = won.model_copy(update={"name": "gelu", "timing": None, "wanted": None})
    missed = won.model_copy(update={"name": "diag_matmul", "wanted": 20.0, "over_compiled": 4.0})
    return BenchResult(
        machine=this_machine(),
        peak_gb_s=22.0,
        peak_gflop_s=120.0,
        measured_at=datetime(2026, 1, 31, tzinfo=UTC),
        load=0.1,
        limits=(
            Limit(name="a verdict", measured=5.2, allowed=6, unit="s"),
            Limit(name="memory", measured=251, allowed=250, unit="MB"),
        ),
        verdicts=5,
        phases={"build": 2.0, "in all": 5.2},
        examples=(won, lost, missed),
    )


def page(found: BenchResult) -> str:
    return "\n\n".join(measured_on_a_processor(found))


def test_an_example_issummed_up_from_its_record() -> None:
    summed = result().examples[0]
    assert summed.move == "chunk size"
    assert summed.shapes == "16"
    assert summed.kernels_judged == 6
    assert summed.share_of_roof == pytest.approx(0.597, abs=1e-3)
    assert summed.wanted == 1.8


def test_the_page_lists_wins_and_losses_alike() -> None:
    text = page(result())
    rows = {line.split("|")[1].strip(): line for line in text.splitlines() if line.startswith("| ")}
    assert "1.93x" in rows["softsign"]
    assert "1.8x met" in rows["softsign"]
    assert "20x missed" in rows["diag_matmul"]
    assert "no kernel" in rows["gelu"]
    assert "| 4.00x |" in rows["diag_matmul"] and "4.00x" not in rows["softsign"]
    assert "Geometric means of the examples: 1.93x over eager (2), 4.00x over torch.compile (1)." in text
    assert rows["a verdict"].endswith("| met |")
    assert rows["memory"].endswith("| missed |")
    assert this_machine().cpu in text


def test_a_gpu_adds_a_table() -> None:
    with_gpu = result().model_copy(update={"cuda_phases": {"build": 7.5, "in all": 9.25}})
    assert len(sheets(with_gpu)) == len(sheets(result())) + 1
    assert "| in all | 9.25 |" in page(with_gpu)


def test_a_busy_machine_is_admitted() -> None:
    assert "busy" not in page(result())
    assert "busy" in page(result().model_copy(update={"load": 4.0}))


def test_every_row_is_as_long_as_its_head(capsys: pytest.CaptureFixture[str]) -> None:
    for sheet in sheets(result()):
        assert {len(row) for row in sheet.rows} == {len(sheet.head)}
        Console(width=200).print(drawn(sheet))
    assert "last move kept" in capsys.readouterr().out


def test_the_result_survives_its_file() -> None:
    assert BenchResult.model_validate_json(result().model_dump_json()) == result()


def test_its_own_measurements_are_plausible() -> None:
    assert 0.02 < help_seconds() < 30
    assert 10 < peak_memory_mb() < 10_000


def test_an_unknown_example_is_refused() -> None:
    with pytest.raises(UserError, match="no example nothing"):
        measure(("nothing",), 1, Console(quiet=True))
