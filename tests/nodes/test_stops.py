"""Every condition that ends a run: it fires at its limit, not before it, and says so in a sentence."""

from __future__ import annotations

from typing import Any

import pytest
from run_samples import attempt, best, kernel, passed, profile, run, wrong

from nodes.settings import Settings
from nodes.state import RunState, StopName, Usage
from nodes.stops import after_giving_up, after_profile, after_test, broke_off, may_mend, out_of_repairs

K = kernel()
PASSED: dict[str, Any] = {"candidate": K, "verdict": passed(K, 2.0), "best": best()}
FAILED: dict[str, Any] = {"candidate": K, "verdict": wrong(K)}


def idle(count: int) -> dict[str, Any]:
    """A run whose last `count` optimizations brought nothing."""
    steps = [step for number in range(count) for step in attempt(f"move {number}", K, passed(K, 1.0))]
    return {**PASSED, "history": tuple(steps)}


def met(low: float) -> dict[str, Any]:
    """A best kernel whose speed-up is at least this."""
    held = best()
    return {**PASSED, "best": held.model_copy(update={"verdict": passed(held.candidate, 2.0, low=low)})}


CASES: list[tuple[StopName, dict[str, Any], dict[str, Any], dict[str, Any]]] = [
    ("depth", {"max_depth": 3}, {**PASSED, "depth": 3}, {**PASSED, "depth": 2}),
    ("depth", {"max_depth": 0}, PASSED, {**FAILED}),
    ("attempts", {"max_attempts": 4}, {**PASSED, "attempts": 4}, {**PASSED, "attempts": 3}),
    ("attempts", {"max_attempts": 4}, {**FAILED, "attempts": 4}, {**FAILED, "attempts": 3}),
    ("wall_time", {"max_wall_s": 60}, {**PASSED, "seconds": 60.0}, {**PASSED, "seconds": 59.9}),
    ("device_time", {"max_device_s": 5}, {**FAILED, "device_seconds": 5.0}, {**FAILED, "device_seconds": 4.9}),
    (
        "device_time",
        {"max_device_s": 5},
        {**FAILED, "device_seconds": 3.0, "usage": Usage(device_seconds=2.0)},
        {**FAILED, "device_seconds": 3.0, "usage": Usage(device_seconds=1.9)},
    ),
    (
        "tokens",
        {"max_tokens": 10},
        {**PASSED, "usage": Usage(input_tokens=6, output_tokens=4)},
        {**PASSED, "usage": Usage(input_tokens=6, output_tokens=3)},
    ),
    ("calls", {"max_calls": 7}, {**FAILED, "usage": Usage(calls=7)}, {**FAILED, "usage": Usage(calls=6)}),
    (
        "builds",
        {"max_builds": 9},
        {**PASSED, "attempts": 4, "usage": Usage(builds=5)},
        {**PASSED, "attempts": 4, "usage": Usage(builds=4)},
    ),
    ("dollars", {"max_dollars": 0.5}, {**PASSED, "usage": Usage(dollars=0.5)}, {**PASSED, "usage": Usage(dollars=0.4)}),
    ("target_speedup", {"target_speedup": 1.9}, met(low=1.9), met(low=1.89)),
    ("target_speedup", {"target_speedup": 0.1}, PASSED, FAILED),
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
    # While a final kernel is mended, what ended the run stays the reason, or its absence.
    assert after_test(run(**at_the_limit, final_repair=True), Settings(**settings)) is None
    assert after_test(run(**at_the_limit, final_repair=True, stop_reason=stop), Settings()) == stop


SPENT: list[tuple[dict[str, Any], dict[str, Any], str]] = [
    ({"max_attempts": 4}, {"attempts": 4}, "4 kernels were tested, all that the settings allow."),
    ({"max_wall_s": 60}, {"seconds": 61.4}, "The run took 61 s; 60 s were allowed."),
    ({"max_device_s": 5}, {"device_seconds": 7.0}, "Kernels ran for 7 s; 5 s were allowed."),
    (
        {"max_tokens": 9},
        {"usage": Usage(input_tokens=6, output_tokens=4)},
        "The models used 10 tokens; 9 were allowed.",
    ),
    ({"max_dollars": 0.5}, {"usage": Usage(dollars=0.75)}, "The models cost $0.75; $0.50 were allowed."),
    ({"max_calls": 2}, {"usage": Usage(calls=3)}, "The models were asked 3 times, all that was allowed."),
    ({"max_builds": 2}, {"attempts": 1, "usage": Usage(builds=2)}, "3 kernels were compiled; 2 were allowed."),
]


@pytest.mark.parametrize(("settings", "spent", "said"), SPENT)
def test_a_spent_budget_says_what_was_used_and_ends_the_repair_of_a_final_kernel(
    settings: dict[str, Any], spent: dict[str, Any], said: str
) -> None:
    state = run(**FAILED, **spent)
    stop = after_test(state, Settings(**settings))
    assert stop is not None
    assert stop.message == said
    assert after_profile(run(best=best(), **spent), Settings(**settings)) == stop
    for final_repair in (False, True):
        mended = state.model_copy(update={"final_repair": final_repair})
        assert not may_mend(mended, Settings(**settings))
        assert may_mend(mended, Settings())
        assert broke_off(mended, Settings(**settings))
        assert not broke_off(mended, Settings())


def test_the_repairs_of_a_final_kernel_are_counted_from_its_first_finding() -> None:
    state = run(**FAILED, repairs=3)
    assert may_mend(state, Settings())
    assert not may_mend(state.model_copy(update={"final_repair": True}), Settings())
    assert broke_off(state, Settings())
    assert not may_mend(run(**FAILED), Settings(max_repairs=0))


def test_a_share_of_the_roof_ends_the_run_after_profiling() -> None:
    settings = Settings(roof_share=0.8)
    profiled = best().model_copy(update={"profile": profile(0.8)})
    stop = after_profile(run(best=profiled), settings)
    assert stop is not None
    assert stop.name == "roof_share"
    assert stop.message == "The best kernel reaches 80% of what the machine can do (memory); 80% were asked for."
    assert after_profile(run(best=profiled), Settings(roof_share=0.81)) is None
    assert after_profile(run(best=profiled), Settings()) is None
    assert after_profile(run(), settings) is None
    assert after_profile(run(best=best()), settings) is None
    busy = profile(0.8).model_copy(update={"share_of_roof": None})
    assert after_profile(run(best=best().model_copy(update={"profile": busy})), settings) is None


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
