"""Which baselines a model has to beat, and what is said of them."""

from __future__ import annotations

import pytest

from graph.model.report import verdict_of
from harness.nouns.acceptance import Acceptance, BesideCompiled, not_faster
from harness.nouns.verdict import Interval


def beside(mode: str, low: float | None) -> BesideCompiled:
    if low is None:
        return BesideCompiled(mode=mode, failure="the time for compiling was over before it")
    return BesideCompiled(mode=mode, ms=10.0, speedup=low + 0.1, interval=Interval(low=low, high=low + 0.2))


@pytest.mark.parametrize(
    ("eager", "default", "tuned", "said"),
    [
        (1.2, None, None, ""),
        (1.2, 1.01, None, ""),
        (1.2, 1.1, 1.01, ""),
        (1.0, 1.2, 1.2, "The model is not shown to be faster than eager."),
        (1.2, 0.86, None, "The model is not shown to be faster than torch.compile: use that instead."),
        (1.2, 1.0, 1.1, "The model is not shown to be faster than torch.compile: use that instead."),
        (1.2, 0.9, 0.8, "The model is not shown to be faster than torch.compile (max-autotune): use that instead."),
        (3.0, None, 0.99, "The model is not shown to be faster than torch.compile (max-autotune): use that instead."),
    ],
)
def test_a_model_is_faster_than_every_baseline_that_was_timed(
    eager: float, default: float | None, tuned: float | None, said: str
) -> None:
    compiled = (beside("default", default), beside("max-autotune", tuned))
    assert not_faster(Interval(low=eager, high=eager + 0.1), compiled) == said


def reported(accepted: bool, *compiled: BesideCompiled) -> str:
    acceptance = Acceptance(
        accepted=accepted, reason="" if accepted else "The model is not shown to be faster than torch.compile.",
        eager_ms=22.0, ms=11.0, speedup=2.0, interval=Interval(low=1.9, high=2.1), rounds=11, compiled=compiled,
        oracle="float64",
    )  # fmt: skip
    return " ".join(verdict_of(acceptance, ()))


def test_the_report_says_what_both_sides_ran_under() -> None:
    measured = Acceptance(
        accepted=True, eager_ms=2.0, ms=1.0, speedup=2.0, interval=Interval(low=1.9, high=2.1), rounds=11,
        conditions=("PyTorch 2.13.0 on the processor", "operators of eager replaced by PyTorch: none"),
    )  # fmt: skip
    wanted = "Measured with PyTorch 2.13.0 on the processor; operators of eager replaced by PyTorch: none."
    assert wanted in verdict_of(measured, ())


def test_the_report_says_against_what_a_model_was_accepted() -> None:
    assert "Accepted against eager and torch.compile." in reported(True, beside("default", 1.1))
    assert "Accepted against eager." in reported(True, beside("default", None))
    refused = reported(False, beside("default", 0.8))
    assert "Accepted" not in refused
    assert refused.startswith("Nothing faster: the model stays as it is. 2.00x over eager")
