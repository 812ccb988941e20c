"""Verifiers before the judge and a summarizer behind it, by scripted models before a scripted judge."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from evolution_script import Cut, Evolved, answer, kernel, name_of
from langchain_core.messages import AIMessage

from harness.nouns.errors import MachineError, UserError
from nodes.request import Request

ASPECTS = ("compile", "memory", "numerics")


def assessed(right: float, *faults: str) -> str:
    return json.dumps({"checked": ["line 3: the last element"], "faults": faults, "right": right})


def advised(*told: str) -> str:
    return json.dumps({"recommendations": told})


def speaking(*judged: str, says: dict[str, float] | None = None) -> object:
    """Proposers whose turn n writes a kernel that is judged so; verifiers who doubt a kernel by what stands in it."""

    def said(request: Request) -> str | AIMessage:
        if request.role == "verifier":
            assert request.candidate is not None
            doubt = next((right for name, right in (says or {}).items() if name in request.candidate.source), 0.9)
            return assessed(doubt, *(["line 2: it reads too far"] if doubt < 0.5 else []))
        if request.role == "summarizer":
            return advised("wider vectors", "fewer passes", "larger tiles")
        assert request.search is not None
        return answer(name_of(request), judged[request.search.turn])

    return said


def evolved(folder: Path, author: object, **settings: object) -> Evolved:
    return Evolved(folder, author, **{"generations": 1, "proposals": 3, **settings})  # type: ignore[arg-type]


def test_three_models_look_twice_and_the_kernel_they_doubt_is_judged_last(tmp_path: Path) -> None:
    run = evolved(tmp_path, speaking("passed 1x", "passed 2x", "passed 3x", says={"_0 ": 0.2}), verifiers=ASPECTS)
    end = run.go()
    assert [each.order.turn for each in end.pool if each.verdict] == [0, 1, 2], "none is dropped at 0.2"
    assert run.judged() == [end.pool[1].digest, end.pool[2].digest, end.pool[0].digest]
    asked = [each for each in run.models["one"].requests if each.role == "verifier"]
    assert len(asked) == 3 * 3 * 2, "kernels, aspects, rounds"
    of_one = [each.review for each in asked if each.candidate == end.pool[0].candidate]
    assert [(each.aspect, bool(each.before)) for each in of_one if each] == [
        (aspect, again) for aspect in ASPECTS for again in (False, True)
    ]
    [told] = [step for step in end.history if step.agent == "verifier" and step.candidate == end.pool[0].digest]
    assert told.message.startswith("0.20 that it is right.") and "memory: line 2: it reads too far" in told.message
    assert told.usage.calls == 6 and end.usage.calls == 3 + 18


def test_only_what_is_below_the_threshold_is_dropped(tmp_path: Path) -> None:
    author = speaking("passed 1x", "passed 2x", "passed 3x", says={"_0 ": 0.04, "_1 ": 0.05})
    end = evolved(tmp_path, author, verifiers=("memory",), drop_below=0.05).go()
    assert [bool(each.dropped) for each in end.pool] == [True, False, False]
    assert end.pool[0].dropped == "Not judged: the verifiers give it 0.04. memory: line 2: it reads too far"
    (tmp_path / "never").mkdir()
    end = evolved(tmp_path / "never", author, verifiers=("memory",), drop_below=0.0).go()
    assert all(each.verdict for each in end.pool)


def test_a_sanitizers_finding_drops_a_kernel_and_a_build_error_is_judged(tmp_path: Path) -> None:
    author = speaking("finding heap-buffer-overflow: line 3", "build_failed no such name", "passed 2x")
    run = evolved(tmp_path, author, verifiers=("static", "sanitizers", "memory"))
    end = run.go()
    assert "sanitizers: heap-buffer-overflow" in end.pool[0].dropped and end.pool[0].verdict is None
    assert end.pool[1].verdict is not None and end.pool[1].verdict.status == "build_failed", "it tells what to mend"
    assert run.judged() == [end.pool[2].digest]
    looked_at = {each.candidate for each in run.models["one"].requests if each.role == "verifier"}
    assert end.pool[1].candidate not in looked_at, "no model is asked about what does not compile"


def test_a_verifier_without_an_answer_has_no_opinion(tmp_path: Path) -> None:
    def mute(request: Request) -> str | AIMessage:
        return "I cannot say." if request.role == "verifier" else answer("k", "passed 2x")

    end = evolved(tmp_path, mute, proposals=1, verifiers=("memory",)).go()
    assert end.pool[0].opinions == () and end.pool[0].verdict is not None


def test_the_playbook_is_no_verifier(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="verifies no kernels, and memory are to"):
        evolved(tmp_path, speaking("passed 1x"), model="playbook", verifiers=("static", "memory")).go()


@pytest.mark.parametrize("after", [4, 6])
def test_a_run_that_dies_among_its_verifiers_asks_none_twice(after: int, tmp_path: Path) -> None:
    run = evolved(tmp_path, speaking("passed 1x", "passed 2x", "passed 3x"), verifiers=("memory", "numerics"))
    with pytest.raises(MachineError):
        run.go(Cut(after))
    end = run.go()
    assert [len(each.opinions) for each in end.pool] == [2, 2, 2] and all(each.verdict for each in end.pool)
    assert run.models["one"].calls("verifier") == 3 * 2 * 2


def test_proposers_follow_recommendations_from_the_best_kernels_profile(tmp_path: Path) -> None:
    author = speaking("passed 1.5x", "passed 2x", "passed 3x")
    run = evolved(tmp_path, author, generations=3, recommendations=True)
    end = run.go()
    requests = run.models["one"].requests
    [advice] = [each for each in requests if each.role == "summarizer"]
    assert advice.profile is not None and advice.candidate == end.pool[2].candidate, "once for each best kernel"
    told = [each.search.recommendations for each in requests if each.role == "proposer" and each.search]
    assert told == [()] * 3 + [("wider vectors", "fewer passes", "larger tiles")] * 6
    assert end.best is not None and end.best.profile == advice.profile


def test_advice_that_is_none_leaves_the_run_as_it_is(tmp_path: Path) -> None:
    def poor(request: Request) -> str | AIMessage:
        return advised("only one") if request.role == "summarizer" else answer(name_of(request), "passed 2x")

    run = evolved(tmp_path, poor, generations=2, proposals=1, recommendations=True, max_reasks=1)
    end = run.go()
    assert len(end.pool) == 2 and end.recommendations == ()
    assert [step.usage.calls for step in end.history if step.agent == "summarizer"] == [2], "asked again once"


def test_a_move_that_is_not_in_the_machine_code_waits_for_the_others() -> None:
    from harness.nouns.candidate import Candidate
    from nodes.evolution.state import Order, Proposal
    from tools.opinions import Opinion

    def proposal(number: int, *unmet: str) -> Proposal:
        candidate = Candidate(source=kernel(f"k{number}", "passed 1x"), target="cpu", author="one")
        order = Order(number=number, generation=0, operator="mutation", model="one")
        opinion = Opinion(verifier="static", right=0.7, unmet=unmet)
        return Proposal(order=order, candidate=candidate, opinions=(opinion,))

    waiting = [proposal(0, "no loop computes with vectors"), proposal(1)]
    assert max(waiting, key=lambda each: each.promise).order.number == 1
