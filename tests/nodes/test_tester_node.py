"""What a verdict changes in a run: the best kernel, those before it, the counts, and whether the run ends."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from run_samples import best, kernel, not_built, passed, profile, run, wrong
from scripted_judge import Scripted

from harness.nouns.candidate import Candidate
from harness.nouns.verdict import HeadToHead, Interval, Verdict
from nodes.agents.tester import apply_verdict
from nodes.agents.tester import tester as judge_kernel
from nodes.models.local import ScriptedModel
from nodes.settings import Settings
from nodes.state import Best, RunState, Step, Stop, require
from nodes.turn.node import ModelCache, NodeContext, validated

FIRST = best(speedup=2.0)
K = kernel("tiles\n", parent=FIRST.candidate)
TRYING: dict[str, Any] = {
    "candidate": K, "best": FIRST, "depth": 3, "attempts": 7, "repairs": 2, "move": "tiles", "profile": profile(),
    "device_seconds": 1.0, "earlier": (best(1.0, "older\n"),),
}  # fmt: skip


def faster(candidate: Candidate, than: Best, low: float) -> Verdict:
    """A right kernel that ran in the same rounds as another, and was faster by at least `low`."""
    return after_head_to_head(candidate, than, low, low + 0.04)


def after_head_to_head(candidate: Candidate, than: Best, low: float, high: float) -> Verdict:
    """A right kernel that was between `low` and `high` times as fast as another one in the same rounds."""
    verdict = passed(candidate, 2.0)
    assert verdict.timing is not None
    interval = Interval(low=low, high=high)
    head_to_head = HeadToHead(
        incumbent=than.candidate.digest, incumbent_ms=1.0, speedup=(low + high) / 2, interval=interval, rounds=8
    )
    return verdict.model_copy(update={"timing": verdict.timing.model_copy(update={"head_to_head": head_to_head})})


def after(state: RunState, verdict: Verdict, seconds: float = 0.5, **settings: Any) -> dict[str, Any]:
    """The update, as the graph would take it."""
    return validated(apply_verdict(state, verdict, seconds, Settings(**settings)), RunState, writer="tester")


def test_a_gain_takes_the_place_of_the_best_which_is_kept_for_the_ending() -> None:
    verdict = faster(K, FIRST, 1.2)
    update = after(run(**TRYING), verdict)
    assert update["best"] == Best(candidate=K, verdict=verdict), "without the profile of the kernel before it"
    assert update["earlier"] == (*TRYING["earlier"], FIRST)
    assert (update["depth"], update["attempts"], update["repairs"], update["profile"]) == (4, 8, 0, None)
    assert update["device_seconds"] == 0.5, "the clock adds up by itself"
    [step] = update["history"]
    assert (step.agent, step.move, step.depth, step.status) == ("tester", "tiles", 4, "passed")
    assert (step.candidate, step.parent) == (K.digest, FIRST.candidate.digest)
    assert (step.improved, step.candidate_speedup, step.speedup, step.message) == (True, 2.0, 2.0, "")
    assert update["stop_reason"] is None


def test_a_pass_without_a_gain_is_a_depth_and_no_more() -> None:
    verdict = faster(K, FIRST, 0.99)
    update = after(run(**TRYING), verdict)
    assert (update["best"], update["earlier"], update["verdict"]) == (FIRST, TRYING["earlier"], verdict)
    assert (update["depth"], update["attempts"], update["repairs"]) == (4, 8, 0)
    [step] = update["history"]
    assert (step.improved, step.undecided, step.head_to_head) == (
        False,
        False,
        require(verdict.timing, "timing").head_to_head,
    )


def test_what_noise_left_undecided_is_neither_kept_nor_counted_and_waits_for_the_final() -> None:
    verdict = after_head_to_head(K, FIRST, 0.63, 4.35)
    state = run(**TRYING, history=(Step(depth=3, agent="optimizer", move="tiles", candidate=K.digest),))
    update = after(state, verdict, patience=1)
    assert (update["best"], update["depth"], update["stop_reason"]) == (FIRST, 3, None)
    assert update["undecided"] == (Best(candidate=K, verdict=verdict),)
    [step] = update["history"]
    assert (step.improved, step.undecided, step.head_to_head) == (
        False,
        True,
        require(verdict.timing, "timing").head_to_head,
    )
    again = state.model_copy(update={"undecided": update["undecided"]})
    assert after(again, verdict)["undecided"] == update["undecided"], "once, however often it is tried"
    assert after(again, after_head_to_head(K, FIRST, 0.9, 1.0))["undecided"] == (), "it is decided"
    assert after(state, verdict, approve_best=True)["undecided"] == (), "nobody has approved of it"
    assert after(state, after_head_to_head(K, FIRST, 0.9, 1.0), patience=1)["stop_reason"].name == "patience"


def test_of_many_undecided_kernels_the_most_promising_wait() -> None:
    state = run(**TRYING)
    for number, ahead in enumerate((0.3, 0.1, 0.5, 0.2, 0.4, 0.05)):
        made = kernel(f"{number}\n", parent=FIRST.candidate)
        state = state.model_copy(update={"candidate": made})
        state = state.model_copy(
            update={"undecided": after(state, after_head_to_head(made, FIRST, 0.9, 1.1 + ahead))["undecided"]}
        )
    assert [each.candidate.source for each in state.undecided] == ["0\n", "2\n", "3\n", "4\n"]


@pytest.mark.parametrize("verdict", [wrong(K), not_built(K)])
def test_a_failure_changes_nothing_but_the_count_of_attempts(verdict: Verdict) -> None:
    update = after(run(**TRYING), verdict)
    assert (update["best"], update["earlier"], update["verdict"]) == (FIRST, TRYING["earlier"], verdict)
    assert (update["depth"], update["attempts"], update["repairs"]) == (3, 8, 2)
    assert update["diagnosis"] is None, "one of another kernel"
    [step] = update["history"]
    assert (step.candidate_speedup, step.speedup, step.improved) == (None, 2.0, False)
    assert step.message == f"{verdict.check}: {verdict.message}"


def test_the_first_kernel_that_passes_is_the_best_and_no_depth() -> None:
    state = run(candidate=K, repairs=1, attempts=2)
    update = after(state, passed(K, 0.5))
    assert (update["best"].candidate, update["earlier"]) == (K, ())
    assert (update["depth"], update["repairs"], update["history"][0].improved) == (0, 0, True)


def test_the_repair_of_a_final_kernel_is_no_depth_and_keeps_its_count_and_the_runs_reason() -> None:
    stop = Stop(name="depth", message="Deep enough.")
    state = run(**TRYING, final_repair=True, stop_reason=stop)
    for verdict, gained in ((faster(K, FIRST, 1.2), True), (faster(K, FIRST, 0.9), False), (wrong(K), False)):
        update = after(state, verdict, max_attempts=8)
        assert (update["depth"], update["repairs"], update["stop_reason"]) == (3, 2, stop)
        assert (update["best"].candidate == K) is gained


def test_the_device_is_charged_before_the_budget_is_looked_at() -> None:
    for used, name in ((8.9, None), (9.0, "device_time")):
        stop = after(run(**{**TRYING, "device_seconds": 1.0}), wrong(K), used - 1.0, max_device_s=9)["stop_reason"]
        assert (stop.name if stop else None) == name
    assert after(run(**TRYING), wrong(K), max_attempts=8)["stop_reason"].name == "attempts"
    assert after(run(**TRYING), wrong(K), max_attempts=9)["stop_reason"] is None


def test_a_long_message_is_one_line_of_the_history() -> None:
    verbose = wrong(K).model_copy(update={"message": "first\n  second\t" + "x" * 1000})
    [step] = after(run(**TRYING), verbose)["history"]
    assert step.message.startswith("accuracy: first second xxx")
    assert len(step.message) == 300


@dataclasses.dataclass
class Ledger:
    """What a run should have come to, kept by hand."""

    held: list[str]
    depth: int = 0
    tests: int = 0


@given(st.lists(st.sampled_from(["wrong", "slower", "level", "faster"]), max_size=12), st.integers(1, 12))
def test_whatever_the_tests_say_the_counts_and_the_kernels_kept_are_right(ends: list[str], most: int) -> None:
    state, ledger = run(), Ledger([])
    for number, end in enumerate(ends):
        candidate = kernel(f"kernel {number}\n", parent=state.best.candidate if state.best else None)
        state = state.model_copy(update={"candidate": candidate})
        low = {"slower": 0.5, "level": 1.0, "faster": 1.001}.get(end)
        incumbent = state.best or best()
        update = after(state, wrong(candidate) if low is None else faster(candidate, incumbent, low), max_attempts=most)
        ledger.tests += 1
        ledger.depth += low is not None and bool(ledger.held)
        if end == "faster" or (low is not None and not ledger.held):
            ledger.held.append(candidate.digest)
        state = state.model_copy(update={**update, "history": (*state.history, *update["history"])})
        kept = [*state.earlier, state.best] if state.best else []
        assert [each.candidate.digest for each in kept] == ledger.held
        assert all(each.verdict.candidate == each.candidate.digest for each in kept)
        assert (state.depth, state.attempts) == (ledger.depth, ledger.tests)
        assert (state.stop_reason is not None) is (ledger.tests >= most)
        if state.stop_reason:
            break


@pytest.mark.parametrize("word", ["passed 2x", "wrong", "refused it", "build_failed it"])
def test_the_judge_is_asked_once_whatever_it_says(word: str) -> None:
    """It screens and builds by itself, with the run's own seed."""
    judges = Scripted()
    shop = NodeContext(Settings(seed=7), ModelCache(lambda spec, options: ScriptedModel(answers=[])), judges)
    candidate = kernel(f"void run();  // judge: {word}\n")
    update = judge_kernel(run(candidate=candidate), shop)
    verdict = update["verdict"]
    assert (verdict.status, verdict.seed, update["attempts"]) == (word.split()[0], 7, 1)
    assert [method for method, _ in judges.asked].count("build") <= 1
