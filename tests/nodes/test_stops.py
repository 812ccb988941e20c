"""Every condition that ends a run: it fires at its limit, not before it, and says so in a sentence."""

from __future__ import annotations

from typing import Any

import pytest
from run_samples import attempt, best, kernel, passed, profile, run, wrong

from nodes.settings import Settings
from nodes.state import RunState, StopName, Usage
from nodes.stops import after_giving_up, after_profile, after_test, out_of_repairs

K = kernel()
PASSED: dict[str, Any] = {"candidate": K, "verdict": passed(K, 2.0), "best": best()}
FAILED: dict[str, Any] = {"candidate": K, "verdict": wrong(K)}


def idle(count: int) -> dict[str, Any]:
    """A run whose last `count` optimizations brought nothing."""
    steps = [step for number in range(count) for step in attempt(f"move {number}", K, passed(K, 1.0))]
    return {**PASSED, "history": tuple(steps)}


CASES: list[tuple[StopName, dict[str, Any], dict[str, Any], dict[str, Any]]] = [
    ("depth", {"max_depth": 3}, {**PASSED, "depth": 3}, {**PASSED, "depth": 2}),
    ("depth", {"max_depth": 0}, PASSED, {**FAILED}),
    ("attempts", {"max_attempts": 4}, {**PASSED, "attempts": 4}, {**PASSED, "attempts": 3}),
    ("attempts", {"max_attempts": 4}, {**FAILED, "attempts": 4}, {**FAILED, "attempts": 3}),
    ("wall_time", {"max_wall_s": 60}, {**PASSED, "seconds": 60.0}, {**PASSED, "seconds": 59.9}),
    ("device_time", {"max_device_s": 5}, {**FAILED, "device_seconds": 5.0}, {**FAILED, "device_seconds": 4.9}),
    ("tokens", {"max_tokens": 10}, {**PASSED, "usage": Usage(input_tokens=6, output_tokens=4)}, PASSED),
    ("dollars", {"max_dollars": 0.5}, {**PASSED, "usage": Usage(dollars=0.5)}, {**PASSED, "usage": Usage(dollars=0.4)}),
    ("target_speedup", {"target_speedup": 1.9}, PASSED, {**PASSED, "best": best(1.91)}),
    ("patience", {"patience": 2}, idle(2), idle(1)),
    ("patience", {"patience": 2}, {**idle(2), **FAILED, "repairs": 3}, {**idle(2), **FAILED, "repairs": 2}),
    ("repairs_exhausted", {}, {**FAILED, "repairs": 3, "regenerations": 2}, {**FAILED, "repairs": 3}),
    ("repairs_exhausted", {}, {**FAILED, "gave_up": True, "regenerations": 2}, {**FAILED, "regenerations": 2}),
    (
        "repairs_exhausted",
        {"max_repairs": 0, "max_regenerations": 0},
        FAILED,
        {**FAILED, "best": best()},
    ),
]


@pytest.mark.parametrize(("name", "settings", "at_the_limit", "before_it"), CASES)
def test_each_condition_fires_at_its_limit_and_not_before(
    name: StopName, settings: dict[str, Any], at_the_limit: dict[str, Any], before_it: dict[str, Any]
) -> None:
    stop = after_test(run(**at_the_limit), Settings(**settings))
    assert stop is not None
    assert stop.name == name
    assert stop.message.endswith(".")
    assert after_test(run(**before_it), Settings(**settings)) is None


def test_a_share_of_the_roof_ends_the_run_after_profiling() -> None:
    settings = Settings(roof_share=0.8)
    profiled = best().model_copy(update={"profile": profile(0.8)})
    stop = after_profile(run(best=profiled), settings)
    assert stop is not None
    assert stop.name == "roof_share"
    assert after_profile(run(best=profiled), Settings(roof_share=0.81)) is None
    assert after_profile(run(best=best()), settings) is None


def test_profiling_may_use_the_last_device_second() -> None:
    stop = after_profile(run(best=best(), device_seconds=9.0), Settings(max_device_s=9))
    assert stop is not None
    assert stop.name == "device_time"


def test_a_met_target_is_named_before_a_budget_that_ran_out_with_it() -> None:
    state = run(**PASSED, depth=3, attempts=60, seconds=1e6)
    stop = after_test(state, Settings(target_speedup=1.5, max_depth=3))
    assert stop is not None
    assert stop.name == "target_speedup"


def test_giving_up_ends_a_run_that_has_nothing_to_fall_back_to() -> None:
    hopeless = run(**FAILED, gave_up=True, regenerations=2)
    stop = after_giving_up(hopeless, Settings())
    assert stop is not None
    assert stop.name == "repairs_exhausted"
    assert after_giving_up(run(**FAILED, gave_up=True), Settings()) is None
    assert after_giving_up(hopeless.model_copy(update={"best": best()}), Settings()) is None


@pytest.mark.parametrize(
    ("repairs", "gave_up", "out"), [(0, False, False), (2, False, False), (3, False, True), (0, True, True)]
)
def test_repairs_run_out_by_number_or_by_giving_up(repairs: int, gave_up: bool, out: bool) -> None:
    state: RunState = run(**FAILED, repairs=repairs, gave_up=gave_up)
    assert out_of_repairs(state, Settings()) is out
