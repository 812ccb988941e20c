"""Which kernels an evolution goes on with, in which way, and what of a task its proposers are not told."""

from __future__ import annotations

import pytest
from evolution_script import kernel
from run_samples import passed, task, wrong
from scripted_judge import softsign_task

from harness.nouns.candidate import Candidate
from harness.nouns.task import Variant
from harness.nouns.verdict import Verdict, WorkloadResult
from nodes.evolution.proposer import hidden_workloads, shown_task, shown_verdict
from nodes.evolution.selection import distance, elites, features_of, orders_of
from nodes.evolution.state import EvolutionState, Order, Proposal
from nodes.settings import Operator, Proposer, Settings

TILED = kernel("tiled", "passed 2x").replace(
    "// judge", "constexpr int kTile = 64; __shared__ float s[kTile]; // judge"
)


def proposal(number: int, source: str, speedup: float | None, **order: object) -> Proposal:
    """A proposal that was judged: right where it has a speed-up."""
    candidate = Candidate(source=source, target="cpu", author="proposer:one")
    verdict = passed(candidate, speedup) if speedup else wrong(candidate)
    asked = Order.model_validate({"number": number, "generation": 0, "operator": "mutation", "model": "one", **order})
    return Proposal(order=asked, candidate=candidate, verdict=verdict)


def state(*pool: Proposal) -> EvolutionState:
    verdict = next(each.verdict for each in pool if each.verdict)
    described = task().model_copy(update={"source": "x"})
    fitting = [each.model_copy(update={"verdict": _on(each.verdict, described.digest)}) for each in pool]
    assert verdict is not None
    return EvolutionState(source="x", task=described, pool=tuple(fitting))


def _on(verdict: Verdict | None, digest: str) -> Verdict | None:
    return verdict.model_copy(update={"task": digest}) if verdict else None


def test_kernels_are_apart_by_structure_constants_and_words() -> None:
    plain, named = features_of(kernel("a", "wrong")), features_of(kernel("b", "wrong"))
    assert distance(plain, plain) == 0.0
    assert 0.0 < distance(plain, named) < distance(plain, features_of(TILED)) < 1.0
    assert features_of("an 'unclosed text") == features_of('another "one'), "what is no C++ has no features"


def test_parents_are_fast_and_unlike_each_other() -> None:
    pool = [
        proposal(0, kernel("a", "wrong"), 3.0),
        proposal(1, kernel("b", "wrong"), 2.9),
        proposal(2, TILED, 2.0),
        proposal(3, kernel("d", "wrong"), None),
    ]
    assert [each.order.number for each in elites(pool, 2)] == [0, 2], "the second fastest is built like the fastest"
    assert [each.order.number for each in elites(pool, 9)] == [0, 2, 1], "those that failed are no parents"


@pytest.mark.parametrize(
    ("operators", "model", "expected"),
    [
        (("mutation",), "one", ["mutation"] * 4),
        (("mutation", "crossover"), "one", ["mutation", "mutation", "crossover", "mutation"]),
        (("mutation", "refinement"), "one", ["refinement", "mutation", "mutation", "mutation"]),
        (("mutation", "refinement"), "playbook", ["mutation"] * 4),
        ((), "one", ["translation"] * 4),
    ],
)
def test_operators_take_turns(operators: tuple[Operator, ...], model: str, expected: list[str]) -> None:
    known = state(
        proposal(0, kernel("a", "wrong"), 3.0), proposal(1, TILED, 2.0), proposal(2, kernel("c", "wrong"), None)
    )
    orders = orders_of(known, Settings(model=model, operators=operators), generation=1)
    assert [order.operator for order in orders] == expected
    assert [order.number for order in orders] == [3, 4, 5, 6]
    assert len({(order.operator, order.parents, order.turn) for order in orders}) == 4, "no two are the same"


def test_a_kernel_is_mended_only_so_many_times_in_a_row() -> None:
    first = proposal(0, kernel("a", "wrong"), None)
    again = proposal(1, kernel("b", "wrong"), None, generation=1, operator="refinement", parents=(first.digest,))
    asked = [
        [order.operator for order in orders_of(state(first, again), Settings(model="one", max_repairs=most), 2)]
        for most in (1, 2)
    ]
    assert asked == [["translation"] * 4, ["refinement", "translation", "translation", "translation"]]


def test_islands_keep_to_themselves_until_they_migrate() -> None:
    left, right = proposal(0, kernel("a", "wrong"), 3.0, island=0), proposal(1, TILED, 2.0, island=1)
    settings = Settings(model="one", operators=("mutation",), islands=2, migration=2, proposals=4)

    def parents(generation: int) -> list[tuple[int, str]]:
        orders = orders_of(state(left, right), settings, generation)
        return [(order.island, order.parents[0]) for order in orders]

    assert parents(1) == [(0, left.digest), (1, right.digest)] * 2
    assert parents(2) == [(0, left.digest), (1, left.digest), (0, right.digest), (1, right.digest)]


def test_proposers_take_turns_each_with_its_temperature() -> None:
    ensemble = (Proposer(model="one", temperature=0.5), Proposer(model="two"))
    orders = orders_of(EvolutionState(source="x"), Settings(proposers=ensemble, proposals=3), 0)
    assert [(order.model, order.temperature) for order in orders] == [("one", 0.5), ("two", None), ("one", 0.5)]


def test_hidden_workloads_are_told_neither_by_the_task_nor_by_a_verdict() -> None:
    source = 'WORKLOADS = [\n    {"rows": 64},\n    {"rows": 8191},\n]\n\n\nclass Model: ...\n'
    plain = softsign_task(source, "many")
    works = tuple(
        plain.workloads[0].model_copy(update={"name": name, "variant": Variant(name=name)}) for name in ("a", "b")
    )
    many = plain.model_copy(update={"workloads": works})
    assert hidden_workloads(many, 0.25) == frozenset(), "a quarter of two is none"
    hidden = hidden_workloads(many, 0.5)
    shown = shown_task(many, hidden)
    assert [work.name for work in shown.workloads] == ["a"] and "8191" not in shown.source
    assert "class Model" in shown.source and many.source == source
    judged = wrong(Candidate(source="k", target="cpu", author="a"))
    failing = judged.model_copy(update={"workloads": (WorkloadResult(name="a"), WorkloadResult(name="b"))})
    told = shown_verdict(failing, hidden)
    assert "not shown" in told.message and told.correctness is not None and not told.correctness.trials
    assert (
        shown_verdict(failing.model_copy(update={"workloads": failing.workloads[:1]}), hidden).message == judged.message
    )
