"""The benchmark's tables and its own measurements; what it measures of the loop is run by `make bench`."""

from datetime import UTC, datetime

import pytest
from report_records import full_record
from rich.console import Console

from bench.model import BenchResult, Limit
from bench.run import help_seconds, measure, peak_memory_mb, summed_up
from bench.tables import measured_on_a_processor, sheets
from graph.runs.machine import this_machine
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


def test_a_gpu_adds_a_table() -> None:
    with_gpu = result().model_copy(update={"cuda_phases": {"build": 7.5, "in all": 9.25}})
    assert len(sheets(with_gpu)) == len(sheets(result())) + 1
    assert "| in all | 9.25 |" in page(with_gpu)


def test_its_own_measurements_are_plausible() -> None:
    assert 0.02 < help_seconds() < 30
    assert 10 < peak_memory_mb() < 10_000


def test_an_unknown_example_is_refused() -> None:
    with pytest.raises(UserError, match="no example nothing"):
        measure(("nothing",), 1, Console(quiet=True))
