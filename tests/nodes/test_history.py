"""What the history tells, and when a kernel becomes the best."""

from __future__ import annotations

import dataclasses

from hypothesis import given
from hypothesis import strategies as st
from run_samples import attempt, best, kernel, not_built, passed, wrong

from harness.nouns.batches import OTHER_BATCHES
from harness.nouns.verdict import HeadToHead, Interval, Verdict
from nodes.history import (
    failed_elsewhere,
    led_to,
    optimizations,
    outcome_against,
    say_decision,
    steps_without_gain,
    tried_from,
)
from nodes.state import Best, Step, Variant

FIRST = kernel("first\n")
THREADS = kernel("threads\n", parent=FIRST)
TILES = kernel("tiles\n", parent=THREADS)
PACKING = kernel("packing\n", parent=THREADS)
HISTORY = (
    Step(depth=0, agent="generator", move="first kernel", candidate=FIRST.digest),
    Step(depth=0, agent="tester", candidate=FIRST.digest, status="passed", improved=True),
    *attempt("threads", THREADS, passed(THREADS, 2.0), improved=True),
    *attempt("tiles", TILES, passed(TILES, 1.5)),
    *attempt("packing", PACKING, wrong(PACKING)),
)


def test_each_optimization_is_told_with_its_end() -> None:
    told = optimizations(HISTORY)
    assert [tried.move for tried in told] == ["threads", "tiles", "packing"]
    assert [tried.gained for tried in told] == [True, False, False]
    assert told[0].outcome == "kept"
    assert told[1].outcome == "not kept"
    assert told[2].outcome.startswith("failed (wrong): accuracy: 25 %")


def test_what_has_no_test_yet_has_neither_failed_nor_ended() -> None:
    begun = (*HISTORY, attempt("packing", PACKING, wrong(PACKING))[0])
    assert optimizations(begun)[-1].outcome == "not tested"
    assert steps_without_gain(begun) == 3
    assert [tried.outcome for tried in failed_elsewhere(begun, FIRST.digest)] == [optimizations(HISTORY)[2].outcome]
    diagnosed = (*HISTORY, Step(depth=1, agent="diagnoser", candidate=PACKING.digest, message="It is off by one."))
    assert optimizations(diagnosed) == optimizations(HISTORY)


def test_a_repair_that_passes_replaces_the_failure_before_it() -> None:
    repaired = kernel("packing, repaired\n", parent=PACKING)
    history = (
        *HISTORY,
        Step(depth=1, agent="diagnoser", candidate=PACKING.digest),
        Step(depth=1, agent="repairer", candidate=repaired.digest, parent=PACKING.digest),
        attempt("packing", repaired, passed(repaired, 3.0), improved=True)[1],
    )
    assert optimizations(history)[-1].outcome == "kept"
    assert optimizations(history)[-1].parent == THREADS.digest
    assert steps_without_gain(history) == 0


def test_a_sweep_is_told_variant_by_variant() -> None:
    variants = (
        Variant(
            values={"kTile": "64", "kStages": "2"},
            status="passed",
            latency_ms=1.23456,
            speedup=2.0,
            gain=1.25,
            chosen=True,
        ),
        Variant(values={"kTile": "64", "kStages": "3"}, status="wrong"),
        Variant(values={"kTile": "128", "kStages": "2"}),
    )
    move, test = attempt("tiles", TILES, passed(TILES, 2.0))
    told = optimizations((move, Step(depth=0, agent="sweeper", variants=variants), test))
    assert told[0].outcome == "not kept"
    assert told[0].variants == (
        "kTile = 64, kStages = 2: 1.250x the kernel before the move; chosen, and judged in full",
        "kTile = 64, kStages = 3: wrong",
        "kTile = 128, kStages = 2: not tried, a budget was spent",
    )


def test_a_move_whose_model_was_unusable_is_no_optimization() -> None:
    assert len(optimizations((*HISTORY, Step(depth=1, agent="optimizer", message="DONE")))) == 3


def test_only_what_started_from_the_kernel_at_hand_counts_as_tried() -> None:
    assert [tried.move for tried in tried_from(HISTORY, THREADS.digest)] == ["tiles", "packing"]
    assert [tried.move for tried in tried_from(HISTORY, FIRST.digest)] == ["threads"]
    assert tried_from(HISTORY, TILES.digest) == ()


def test_what_led_to_a_kernel_is_told_through_repairs() -> None:
    repaired = kernel("packing, repaired\n", parent=PACKING)
    unrolled = kernel("unrolled\n", parent=repaired)
    history = (
        *HISTORY,
        Step(depth=1, agent="repairer", candidate=repaired.digest, parent=PACKING.digest),
        attempt("packing", repaired, passed(repaired, 3.0), improved=True)[1],
        *attempt("unrolling", unrolled, passed(unrolled, 4.0), improved=True),
    )
    assert [tried.move for tried in led_to(history, unrolled.digest)] == ["threads", "packing", "unrolling"]
    assert led_to(history, FIRST.digest) == ()
    assert led_to((), "nobody's") == ()


def test_a_history_that_bites_its_tail_ends() -> None:
    again = kernel("first\n", parent=THREADS)
    assert again.digest == FIRST.digest
    assert len(led_to((*HISTORY, *attempt("back", again, passed(again, 1.0))), THREADS.digest)) == 2


def test_failures_are_told_to_those_who_start_elsewhere() -> None:
    assert [tried.move for tried in failed_elsewhere(HISTORY, FIRST.digest)] == ["packing"]
    assert failed_elsewhere(HISTORY, THREADS.digest) == ()


def test_barren_counts_from_the_last_gain() -> None:
    assert steps_without_gain(()) == 0
    assert steps_without_gain(HISTORY) == 2
    assert steps_without_gain(HISTORY[:4]) == 0


def gains(verdict: Verdict, now: Best | None) -> bool:
    return outcome_against(verdict, now) == "faster"


def test_the_first_pass_is_the_best_however_slow() -> None:
    assert gains(passed(FIRST, 0.01), None)
    assert not gains(wrong(FIRST), None)
    assert not gains(not_built(FIRST), None)


def test_a_later_kernel_has_to_be_faster_beyond_the_noise() -> None:
    now = best(speedup=2.0)
    assert gains(passed(TILES, 2.2, low=2.01, high=2.4), now)
    assert not gains(passed(TILES, 2.2, low=2.0, high=2.4), now)
    assert not gains(passed(TILES, 3.0, low=1.9, high=9.0), now)
    assert not gains(wrong(TILES), now)


def met(incumbent: str, low: float, speedup: float = 2.0) -> Verdict:
    """A right kernel that ran in the same rounds as another one, and was faster than it by at least `low`."""
    verdict = passed(TILES, speedup, low=speedup - 0.1, high=speedup + 0.1)
    assert verdict.timing is not None
    head_to_head = HeadToHead(
        incumbent=incumbent, incumbent_ms=1.0, speedup=low + 0.1, interval=Interval(low=low, high=low + 0.2), rounds=8
    )
    return verdict.model_copy(update={"timing": verdict.timing.model_copy(update={"head_to_head": head_to_head})})


def test_where_two_kernels_met_their_duel_decides_and_nothing_else() -> None:
    now = best(speedup=2.0)
    incumbent = now.candidate.digest
    assert gains(met(incumbent, 1.001), now), "the machine was slower in these rounds, for both of them"
    assert gains(met(incumbent, 1.001, speedup=1.0), now)
    assert not gains(met(incumbent, 1.0), now)
    assert not gains(met(incumbent, 0.99, speedup=3.0), now), "the machine was faster in these rounds, for both of them"


def test_a_kernel_that_may_be_faster_by_a_gain_that_matters_is_undecided() -> None:
    now = best(speedup=2.0)
    incumbent = now.candidate.digest
    head_to_heads = {
        (0.63, 4.35): "undecided",
        (0.97, 1.04): "not faster",
        (1.0, 1.06): "undecided",
        (0.5, 0.9): "not faster",
    }
    for (low, high), outcome in head_to_heads.items():
        verdict = passed(TILES, 2.0)
        head_to_head = HeadToHead(
            incumbent=incumbent, incumbent_ms=1.0, speedup=low, interval=Interval(low=low, high=high), rounds=8
        )
        assert verdict.timing is not None
        timing = verdict.timing.model_copy(update={"head_to_head": head_to_head})
        assert outcome_against(verdict.model_copy(update={"timing": timing}), now) == outcome
    assert outcome_against(passed(TILES, 2.0, low=1.5, high=2.2), now) == "undecided", "they did not meet"
    assert outcome_against(passed(TILES, 2.0, low=1.5, high=2.1), now) == "not faster"
    assert outcome_against(wrong(TILES), now) is None


def test_what_is_undecided_is_told_with_its_interval_and_ends_nothing() -> None:
    head_to_head = HeadToHead(
        incumbent=THREADS.digest, incumbent_ms=9.7, speedup=1.2, interval=Interval(low=0.63, high=4.35), rounds=120
    )
    move, test = attempt("tiles", TILES, passed(TILES, 2.0))
    open_still = test.model_copy(update={"undecided": True, "head_to_head": head_to_head})
    history = (*HISTORY[:4], move, open_still)
    assert steps_without_gain(history) == 0
    assert steps_without_gain((*HISTORY, move, open_still)) == 2
    (told,) = tried_from(history, THREADS.digest)
    assert (told.gained, told.failed, told.undecided) == (False, False, True)
    assert told.outcome.startswith("undecided, 1.20x the best before it (0.63 to 4.35): the machine was")
    unmet = optimizations((move, test.model_copy(update={"undecided": True})))[0]
    assert unmet.outcome.startswith("undecided: the machine was")


def test_a_duel_with_another_kernel_decides_nothing() -> None:
    now = best(speedup=2.0)
    assert not gains(met("another", 1.5), now)
    assert gains(met("another", 0.5, speedup=3.0), now)
    assert gains(met("another", 0.5), None)


@dataclasses.dataclass(frozen=True)
class Move:
    """One optimization as it was made up: from which kernel, through how many failed tests, and to what end."""

    move: str
    parent: str
    kernel: str
    end: str
    chain: tuple[str, ...]


@st.composite
def runs(draw: st.DrawFn) -> tuple[list[Step], list[Move]]:
    """A history as the graph writes it, from the best or from any kernel that passed, and what it is made of."""
    history, made = list(HISTORY[:2]), list[Move]()
    passing = {FIRST.digest: tuple[str, ...]()}
    for number in range(draw(st.integers(0, 8))):
        parent = draw(st.sampled_from(sorted(passing)))
        now, move = f"kernel {number}", draw(st.sampled_from(["tiles", "threads", "packing"]))
        history.append(Step(depth=0, agent="optimizer", move=move, candidate=now, parent=parent))
        if draw(st.booleans()):
            variants = (Variant(values={"k": "1"}, status="wrong"), Variant(values={"k": "2"}))
            now += " swept"
            history.append(Step(depth=0, agent="sweeper", candidate=now, parent=parent, variants=variants))
        for repair in range(draw(st.integers(0, 2))):
            history.append(Step(depth=0, agent="tester", candidate=now, status="wrong", message="accuracy: off"))
            history.append(Step(depth=0, agent="diagnoser", candidate=now))
            now, before = f"{now}+{repair}", now
            history.append(Step(depth=0, agent="repairer", candidate=now, parent=before))
        end = draw(st.sampled_from(["kept", "not kept", "failed"]))
        history.append(
            Step(
                depth=0, agent="tester", candidate=now, status="wrong" if end == "failed" else "passed",
                candidate_speedup=None if end == "failed" else 1.5, improved=end == "kept", parent=parent,
            )
        )  # fmt: skip
        chain = (*passing[parent], move)
        made.append(Move(move, parent, now, end, chain))
        if end != "failed":
            passing[now] = chain
    return history, made


@given(runs())
def test_whatever_a_run_tried_is_told_once_with_its_end_and_where_it_began(told: tuple[list[Step], list[Move]]) -> None:
    history, made = told
    found = optimizations(history)
    assert [(each.move, each.parent, each.kernel) for each in found] == [(it.move, it.parent, it.kernel) for it in made]
    assert [each.gained for each in found] == [it.end == "kept" for it in made]
    assert [each.failed for each in found] == [it.end == "failed" for it in made]
    assert all(each.outcome.startswith(it.end) for each, it in zip(found, made, strict=True))
    for it in made:
        assert tuple(each.move for each in led_to(history, it.kernel)) == it.chain
    for digest in {FIRST.digest, *(it.kernel for it in made)}:
        own, others = tried_from(history, digest), failed_elsewhere(history, digest)
        assert [each.kernel for each in own] == [it.kernel for it in made if it.parent == digest]
        assert [each.kernel for each in others] == [
            it.kernel for it in made if it.parent != digest and it.end == "failed"
        ]
    gains_at = [number for number, it in enumerate(made) if it.end == "kept"]
    assert steps_without_gain(history) == len(made) - (gains_at[-1] + 1 if gains_at else 0)


@given(
    head_to_heads=st.lists(st.tuples(st.floats(0.5, 2.0), st.floats(0.5, 2.0)), max_size=8),
    noise=st.floats(0.0, 0.5),
)
def test_the_best_kernel_only_ever_becomes_faster_than_the_best_before_it(
    head_to_heads: list[tuple[float, float]], noise: float
) -> None:
    """Whatever the clock says against PyTorch in the rounds of each: their own ratio decides."""
    held = best(speedup=1.0)
    for number, (ratio, against_pytorch) in enumerate(head_to_heads):
        candidate = kernel(f"kernel {number}\n", parent=held.candidate)
        verdict = passed(candidate, against_pytorch)
        assert verdict.timing is not None
        span = Interval(low=ratio - noise, high=ratio + noise)
        head_to_head = HeadToHead(
            incumbent=held.candidate.digest, incumbent_ms=1.0, speedup=ratio, interval=span, rounds=8
        )
        verdict = verdict.model_copy(
            update={"timing": verdict.timing.model_copy(update={"head_to_head": head_to_head})}
        )
        assert gains(verdict, held) is (ratio - noise > 1)
        if gains(verdict, held):
            held = held.model_copy(update={"candidate": candidate, "verdict": verdict})


def test_a_decision_is_told_by_the_duel_that_made_it() -> None:
    head_to_head = HeadToHead(
        incumbent="r", incumbent_ms=1.0, speedup=1.25, interval=Interval(low=1.2, high=1.3), rounds=8
    )
    test = Step(depth=1, agent="tester", status="passed", candidate_speedup=2.0, head_to_head=head_to_head)
    assert say_decision(test) == "not kept, 1.25x the best before it (1.20 to 1.30)"
    assert say_decision(test.model_copy(update={"improved": True})).startswith("kept, 1.25x")
    assert say_decision(test.model_copy(update={"improved": True, "head_to_head": None})) == "kept"
    wider = test.model_copy(update={"move": OTHER_BATCHES})
    assert say_decision(wider).startswith("kept, 1.25x"), "what serves other batches is the result at the same speed"
    assert say_decision(Step(depth=1, agent="tester", status="wrong")) == ""
