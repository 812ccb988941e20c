"""The sweeper's choice, and what it does where nothing is left of a budget."""

from __future__ import annotations

import re
from typing import Any

from run_samples import best, kernel, passed, run, wrong

from harness.nouns.candidate import Candidate
from harness.nouns.verdict import HeadToHead, Interval, Verdict
from nodes.agents.sweeper import Entry, _Contest, _told, _variant, entries_of, merits_of, ranked, sweeper
from nodes.history import say_tried, say_variant
from nodes.models.local import ScriptedModel
from nodes.settings import Settings
from nodes.state import require
from nodes.turn.node import ModelCache, NodeContext
from tools.sweep import read_sweep

SOURCE, SWEEP = read_sweep("int a = 1;  // sweep: 2, 3\n", 12)


def written(start: Candidate) -> Candidate:
    return kernel(SOURCE, parent=start)


def entry(name: str, speedup: float, over_best: float | None = None) -> Entry:
    made = kernel(name)
    verdict = passed(made, speedup)
    if over_best is not None:
        assert verdict.timing is not None
        head_to_head = HeadToHead(
            incumbent="x",
            incumbent_ms=1.0,
            speedup=over_best,
            interval=Interval(low=over_best, high=over_best),
            rounds=8,
        )
        verdict = verdict.model_copy(
            update={"timing": verdict.timing.model_copy(update={"head_to_head": head_to_head})}
        )
    return Entry({"a": name}, made, verdict)


def test_each_combination_is_a_kernel_of_the_optimizers() -> None:
    assert SWEEP is not None
    start = kernel("start\n")
    entries = entries_of(written(start), SWEEP)
    assert [each.candidate.source for each in entries] == ["int a = 1;\n", "int a = 2;\n", "int a = 3;\n"]
    assert {(each.candidate.author, each.candidate.parent) for each in entries} == {
        ("optimizer:scripted", start.digest)
    }


def test_the_kernel_that_the_move_starts_from_is_no_variant() -> None:
    assert SWEEP is not None
    start = kernel("int a = 2;\n")
    assert [each.values["a"] for each in entries_of(written(start), SWEEP)] == ["1", "3"]


def test_variants_are_ranked_against_the_best_kernel_where_all_met_it() -> None:
    entries = [entry("1", 3.0, 1.1), entry("2", 2.0, 1.4), entry("3", 1.0, 0.9)]
    assert ranked(entries) == [entries[1], entries[0], entries[2]]


def test_else_over_the_baseline() -> None:
    entries = [entry("1", 1.2), entry("2", 1.1, 1.4)]
    assert ranked(entries) == entries
    assert ranked(entries[::-1]) == entries


def test_the_printed_figures_are_those_that_decided() -> None:
    """Each variant was timed in rounds of its own: there the slowest of three can be the one that gains most."""
    slow, quick = noisy("1", 1.30, 0.2), noisy("2", 1.25, 0.2)
    assert slow.verdict is not None and slow.timing is not None
    late = slow.timing.model_copy(update={"candidate_ms": 1.048, "speedup": 0.5})
    slow = Entry(slow.values, slow.candidate, slow.verdict.model_copy(update={"timing": late}))
    winner, told = contest(0.9).winner([slow, quick])
    assert winner is slow and told is not None
    merits = merits_of([slow, quick])
    shown = [_variant(each, winner, told, merits) for each in (slow, quick)]
    assert [(each.gain, each.chosen) for each in shown] == [(1.30, True), (1.25, False)]
    assert [say_variant(each) for each in shown] == [
        "a = 1: 1.300x the kernel before the move (1.100 to 1.500); chosen, and judged in full",
        "a = 2: 1.250x the kernel before the move (1.050 to 1.450); 0.90x the first of them (0.90 to 0.90)",
    ]  # fmt: skip
    assert [say_tried(each) for each in shown] == [
        "chosen, and judged in full",
        "0.90x the first of them (0.90 to 0.90)",
    ]
    words = _told([slow, quick], winner, told, merits)
    assert words == "2 of 2 variants are right; the fastest: a = 1 (1.30x the best, 1.11x a = 2 when they met)"


def test_variants_that_met_no_kernel_are_told_with_the_interval_over_eager_and_others_with_their_measure() -> None:
    alone, met = entry("1", 3.0), noisy("2", 1.25, 0.2)
    assert re.fullmatch(r"a = 1: 3\.000x eager \(2\.97\d* to 3\.03\d*\)", _said(alone))
    assert met.verdict is not None and met.timing is not None and met.timing.head_to_head is not None
    by_cpu_time = met.timing.head_to_head.model_copy(update={"measure": "CPU time"})
    timing = met.timing.model_copy(update={"head_to_head": by_cpu_time})
    met = Entry(met.values, met.candidate, met.verdict.model_copy(update={"timing": timing}))
    assert _said(met) == "a = 2: 1.250x the kernel before the move (1.050 to 1.450), by CPU time"


def _said(entry: Entry) -> str:
    return say_variant(_variant(entry, None, None, merits_of([entry])))


def test_what_is_wrong_or_was_not_run_is_not_ranked() -> None:
    bad = kernel("bad")
    assert ranked([Entry({}, bad, wrong(bad)), Entry({}, bad)]) == []
    assert contest(None).winner([Entry({}, bad)]) == (None, None)


class Met(_Contest):
    """A contest whose second round is made up: the speed-up of the second over the first, None where it fails."""

    def __init__(self, over_first: float | None, **settings: Any) -> None:
        shop = NodeContext(
            settings=Settings(**settings), shelf=ModelCache(lambda spec, options: ScriptedModel(answers=[]))
        )
        super().__init__(run(seconds=11.0), shop)
        self.over_first = over_first
        self.second_rounds = list[str]()

    def _run(self, tools: Any, each: Entry) -> Verdict:
        self.second_rounds.append(each.values["a"])
        if self.over_first is None:
            return wrong(each.candidate)
        return require(entry(each.values["a"], 1.0, self.over_first).verdict, "verdict")


def contest(over_first: Any, **settings: Any) -> Met:
    return Met(over_first, **settings)


def test_the_best_two_meet_where_noise_may_have_ranked_them() -> None:
    first, second, third = noisy("1", 1.3, 0.2), noisy("2", 1.25, 0.2), noisy("3", 1.0, 0.2)
    for over_first, chosen in ((1.05, second), (0.97, first), (None, first)):
        met = contest(over_first)
        winner, told = met.winner([third, first, second])
        assert winner is chosen
        assert met.second_rounds == ["2"]
        assert (told and (told.first, told.second, told.head_to_head.speedup)) == (
            over_first and (first, second, over_first)
        )


def test_no_second_round_where_it_is_plain_or_a_budget_is_spent() -> None:
    for entries, settings in (
        ([noisy("1", 2.0, 0.1), noisy("2", 1.0, 0.1)], {}),
        ([noisy("1", 1.0, 0.1)], {}),
        ([noisy("1", 1.3, 0.2), noisy("2", 1.25, 0.2)], {"max_wall_s": 10.0}),
    ):
        met = contest(1.5, **settings)
        assert met.winner(entries) == (entries[0], None)
        assert met.second_rounds == []


def noisy(name: str, over_best: float, half: float) -> Entry:
    """A variant whose head-to-head with the best kernel left this much open to either side."""
    made = entry(name, 1.0, over_best)
    timing = require(made.timing, "timing")
    head_to_head = require(timing.head_to_head, "head_to_head").model_copy(
        update={"interval": Interval(low=over_best - half, high=over_best + half)}
    )
    verdict = require(made.verdict, "verdict").model_copy(
        update={"timing": timing.model_copy(update={"head_to_head": head_to_head})}
    )
    return Entry(made.values, made.candidate, verdict)


def test_with_a_budget_spent_nothing_is_built_and_the_run_ends() -> None:
    start = best()
    state = run(candidate=written(start.candidate), sweep=SWEEP, best=start, seconds=11.0, move="values", attempts=4)
    update = sweep_under(state, max_wall_s=10.0)
    assert update["stop_reason"].name == "wall_time"
    assert update["attempts"] == 4
    assert update["device_seconds"] == 0
    [step] = update["history"]
    assert [each.status for each in step.variants] == [None, None, None]
    assert step.message == "0 of 3 variants are right"
    assert (step.move, step.speedup) == ("values", 2.0)
    assert (step.candidate, step.parent) == (update["candidate"].digest, start.candidate.digest)
    assert [each.chosen for each in step.variants] == [False, False, False]
    assert update["candidate"].source == SOURCE


def test_no_more_is_built_than_the_budget_of_builds_allows() -> None:
    """Four attempts were builds, and one build is left over for the test of the variant that is chosen."""
    source, sweep = read_sweep("int a = 1;  // sweep: 2, 3\nstatic_assert(a > 5);", 12)
    start = best()
    state = run(candidate=kernel(source, parent=start.candidate), sweep=sweep, best=start, attempts=4)
    update = sweep_under(state, max_builds=7)
    [step] = update["history"]
    assert [each.status for each in step.variants] == ["build_failed", "build_failed", None]
    assert (update["usage"].builds, update["attempts"]) == (2, 4)
    assert step.usage == update["usage"]
    assert update["stop_reason"] is None


def sweep_under(state: Any, **settings: Any) -> Any:
    shop = NodeContext(settings=Settings(**settings), shelf=ModelCache(lambda spec, options: ScriptedModel(answers=[])))
    return sweeper(state, shop)


def test_what_the_screen_refuses_is_not_built() -> None:
    source, sweep = read_sweep("#include <thread>\nint a = 1;  // sweep: 2\n", 12)
    start = best()
    state = run(candidate=kernel(source, parent=start.candidate), sweep=sweep, best=start)
    update = sweep_under(state)
    [step] = update["history"]
    assert [each.status for each in step.variants] == ["refused", "refused"]
    assert update["attempts"] == 0
    assert update["stop_reason"] is None, "the first one goes to the tester, whose verdict says why"
