"""The kept kernels, timed together at the end of a run, and which of them is the result."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar

import pytest
from evolution_script import Evolved, answer
from langgraph.checkpoint.memory import InMemorySaver
from scripted_judge import Scripted, ScriptedJudge
from softsign_script import FASTER, RIGHT, SOURCE, written

from graph.workflow import build_graph
from harness.judging.protocol import JudgeOrder
from harness.nouns.candidate import Candidate
from harness.nouns.contest import Contest
from harness.nouns.errors import MachineError
from harness.nouns.task import Task
from nodes.agents.final import MOST, NOT_TIMED, held
from nodes.models.local import ScriptedModel
from nodes.request import Request
from nodes.settings import Settings
from nodes.state import Final, RunState
from nodes.turn.node import ModelCache, NodeContext

THIRD = FASTER.replace("passed 3x", "passed 4x").replace("static_cast<float*>", "(float*)")


def digest(source: str) -> str:
    return Candidate(source=source, target="cpu", author="test").digest


def opened(judges: Scripted, kind: type[ScriptedJudge], order: JudgeOrder) -> ScriptedJudge:
    return judges.judges.setdefault(order, kind(order))


def ended(
    first: str, *moves: str, judge: type[ScriptedJudge] = ScriptedJudge, **settings: Any
) -> tuple[RunState, Scripted]:
    """A run whose kernels are these, each of which wins its duel."""
    model = ScriptedModel(answers={
        "generator": [written(first)],
        "optimizer": [*(written(source, f"move {number}") for number, source in enumerate(moves, 1)), "DONE: enough"],
    })  # fmt: skip
    judges = Scripted()
    graph = build_graph(lambda spec, options: model, lambda order: opened(judges, judge, order)).compile()
    task: Any = {"source": SOURCE, "name": "softsign"}
    return RunState.model_validate(graph.invoke(task, context=Settings(**settings))), judges


def contests(judges: Scripted) -> list[str]:
    return [asked for method, asked in judges.asked if method == "contest"]


def found(state: RunState) -> str:
    assert state.result is not None
    assert state.result.best is not None
    assert state.result.best == state.best
    return state.result.best.candidate.source


def test_the_times_of_the_kept_kernels_come_from_rounds_that_all_of_them_shared() -> None:
    first, second, third = (
        source.replace(f"passed {own}", f"passed {own}\n// judge: finally {together}")
        for source, own, together in ((RIGHT, "1x", "2x"), (FASTER, "3x", "2.5x"), (THIRD, "4x", "2.6x"))
    )
    state, judges = ended(first, second, third)
    assert contests(judges) == [digest(first), digest(second), digest(third)]
    assert found(state) == third
    final = state.result.final
    assert [(each.candidate, each.timing.speedup) for each in final.standings] == [
        (digest(first), 2.0), (digest(second), 2.5), (digest(third), 2.6),
    ]  # fmt: skip
    assert final.note == ""
    assert state.best.verdict.timing.speedup == 2.6, "the headline's"
    assert state.best.verdict.timing.head_to_head.incumbent == digest(second), "by which it was kept"
    assert [held.verdict.timing.speedup for held in state.earlier] == [2.0, 2.5]


def test_an_earlier_kernel_that_is_surely_faster_then_is_the_result() -> None:
    second = FASTER.replace("passed 3x", "passed 3x\n// judge: finally 5x")
    state, judges = ended(RIGHT, second, THIRD)
    assert found(state) == second
    assert [held.candidate.source for held in state.earlier] == [RIGHT]
    assert digest(second) in state.result.final.note
    assert "1.25x as fast (1.24 to 1.26)" in state.result.final.note
    assert len(state.result.final.standings) == 3, "the last one's times are kept"
    watched = [asked for method, asked in judges.asked if method == "sanitize"]
    assert watched == [digest(THIRD), digest(second)], "nobody is the result that no sanitizer has seen"


def test_an_earlier_kernel_in_which_a_sanitizer_finds_something_is_not_the_result() -> None:
    second = FASTER.replace("passed 3x", "passed 3x\n// judge: finally 5x\n// judge: finding heap-buffer-overflow")
    state, _ = ended(RIGHT, second, THIRD)
    assert found(state) == THIRD
    final = state.result.final
    assert final.withdrawn == (digest(second),)
    assert f"The kernel {digest(second)} was withdrawn: heap-buffer-overflow" in final.note
    assert [held.candidate.source for held in state.earlier] == [RIGHT]


def test_what_nobody_can_tell_apart_leaves_the_last_one_the_result() -> None:
    second = FASTER.replace("passed 3x", "passed 3x 20%\n// judge: finally 4.1x")
    state, _ = ended(RIGHT, second, THIRD)
    assert found(state) == THIRD
    assert state.result.final.note == ""


@pytest.mark.parametrize("loses", ["the last", "an earlier one"])
def test_a_kernel_that_fails_there_is_withdrawn(loses: str) -> None:
    second, third = FASTER, THIRD
    if loses == "the last":
        third = THIRD.replace("passed 4x", "passed 4x\n// judge: lost y came out wrong while timed")
    else:
        second = FASTER.replace("passed 3x", "passed 3x\n// judge: lost y came out wrong while timed")
    state, _ = ended(RIGHT, second, third)
    gone, left = (third, second) if loses == "the last" else (second, third)
    assert found(state) == left
    assert f"{digest(gone)} was withdrawn" in state.result.final.note
    assert "came out wrong" in state.result.final.note
    assert state.result.final.withdrawn == (digest(gone),)
    assert [held.candidate.source for held in state.earlier] == [
        each for each in (RIGHT, second) if each not in (gone, left)
    ]
    assert [each.candidate for each in state.result.final.standings] == [digest(RIGHT), digest(left)]


def test_a_move_that_stayed_undecided_is_decided_by_the_final_without_a_further_question() -> None:
    """It may be the result, from wherever in the run; what the models were asked is what they would have been."""
    open_still = FASTER.replace("passed 3x", "passed 1.02x 20%\n// judge: finally 5x")
    state, judges = ended(RIGHT, open_still, THIRD)
    assert [step.undecided for step in state.history if step.agent == "tester"] == [False, True, False]
    assert state.depth == 1, "what is undecided costs none"
    assert contests(judges) == [digest(open_still), digest(RIGHT), digest(THIRD)]
    assert found(state) == open_still
    assert f"The kernel {digest(open_still)} takes the place of {digest(THIRD)}" in state.result.final.note
    assert [held.candidate.source for held in state.earlier] == [RIGHT, THIRD]
    assert state.undecided == ()


def test_a_move_that_the_final_does_not_tell_from_the_best_is_not_kept() -> None:
    open_still = FASTER.replace("passed 3x", "passed 1.02x 20%")
    state, judges = ended(RIGHT, open_still)
    assert contests(judges) == [digest(open_still), digest(RIGHT)]
    assert found(state) == RIGHT
    assert (state.earlier, state.undecided) == ((), ())


def test_an_undecided_move_has_its_place_however_many_kernels_were_kept() -> None:
    open_still = FASTER.replace("passed 3x", "passed 1.02x 20%\n// judge: finally 50x")
    kept = [RIGHT.replace("passed 1x", f"passed {2 + number}x") for number in range(10)]
    state, judges = ended(RIGHT, open_still, *kept)
    assert contests(judges) == [digest(open_still), *map(digest, kept[-MOST + 1 :])]
    assert found(state) == open_still
    assert [held.candidate.source for held in state.earlier] == [RIGHT, *kept]


class Away(ScriptedJudge):
    """A judge whose contests end as they are told to."""

    ending: ClassVar[list[BaseException]] = []

    def contest(self, task: Task, candidates: Sequence[Candidate]) -> Contest:
        standings = super().contest(task, candidates)
        if self.ending:
            raise self.ending.pop()
        return standings


def test_a_machine_that_cannot_time_them_together_leaves_them_as_they_are() -> None:
    Away.ending = [MachineError("Judging softsign does not fit this GPU's memory.", "Choose smaller shapes.")]
    state, _ = ended(RIGHT, FASTER, judge=Away)
    assert found(state) == FASTER
    assert state.result.final == Final(note=f"{NOT_TIMED}: Judging softsign does not fit this GPU's memory.")
    assert [held.candidate.source for held in state.earlier] == [RIGHT]


def test_a_run_that_was_killed_in_the_final_goes_on_with_it() -> None:
    Away.ending, judges, saver = [KeyboardInterrupt()], Scripted(), InMemorySaver()
    model = ScriptedModel(answers={
        "generator": [written(RIGHT)], "optimizer": [written(FASTER, "a move"), "DONE: enough"],
    })  # fmt: skip
    graph = build_graph(lambda spec, options: model, lambda order: opened(judges, Away, order)).compile(saver)
    thread: Any = {"configurable": {"thread_id": "one"}}
    task: Any = {"source": SOURCE, "name": "softsign"}
    with pytest.raises(KeyboardInterrupt):
        graph.invoke(task, thread, context=Settings())
    assert graph.get_state(thread).next == ("reporter",)
    judged = [call for call in judges.asked if call[0] == "evaluate"]
    state = RunState.model_validate(graph.invoke(None, thread, context=Settings()))
    assert found(state) == FASTER
    assert len(state.result.final.standings) == 2
    assert [call for call in judges.asked if call[0] == "evaluate"] == judged, "nothing is judged anew"


def test_the_best_kernels_of_an_evolution_are_timed_together(tmp_path: Path) -> None:
    def rising(request: Request) -> str:
        assert request.left is not None
        at = request.left.depth
        said = {1: "passed 1x", 2: "passed 3x\n// judge: finally 5x", 3: "passed 4x"}[at]
        return answer(f"generation_{at}", said)

    evolved = Evolved(tmp_path, rising, generations=3, proposals=1, parents=1)
    end = evolved.go()
    first, second, third = (each.digest for each in end.pool)
    assert contests(evolved.judges) == [first, second, third]
    assert end.best and end.result and end.best == end.result.best
    assert end.best.candidate.digest == second
    assert f"The kernel {second} takes the place of {third}" in end.result.final.note
    assert end.withdrawn == ()


def test_a_kernel_of_an_evolution_that_fails_there_is_withdrawn(tmp_path: Path) -> None:
    def rising(request: Request) -> str:
        assert request.left is not None
        at = request.left.depth
        return answer(f"generation_{at}", f"passed {at}x{' ' if at < 2 else chr(10) + '// judge: lost it drifted'}")

    evolved = Evolved(tmp_path, rising, generations=2, proposals=1, parents=1)
    end = evolved.go()
    first, second = (each.digest for each in end.pool)
    assert end.best and end.best.candidate.digest == first
    assert end.withdrawn == (second,)
    assert end.result and "it drifted" in end.result.final.note


def test_a_kernel_of_an_evolution_that_nobody_could_tell_from_the_best_is_timed_again(tmp_path: Path) -> None:
    def rising(request: Request) -> str:
        assert request.left is not None
        at = request.left.depth
        return answer(f"generation_{at}", "passed 1x" if at == 1 else "passed 1.02x 20%\n// judge: finally 2x")

    evolved = Evolved(tmp_path, rising, generations=2, proposals=1, parents=1)
    end = evolved.go()
    first, second = (each.digest for each in end.pool)
    assert contests(evolved.judges) == [second, first]
    assert end.best and end.best.candidate.digest == second


def test_one_kept_kernel_is_not_timed_again() -> None:
    state, judges = ended(RIGHT)
    assert contests(judges) == []
    assert (state.result.final.standings, state.result.final.note) == ((), "")


@pytest.mark.parametrize(
    ("spent", "says"),
    [
        ({"seconds": 100.0}, "The run took 100 s; 100 s were allowed."),
        ({"seconds": 95.0}, "that takes about 27 s, and 5 s were left."),
        ({"device_seconds": 57.0}, "that takes about 27 s, and 3 s were left."),
    ],
)
def test_a_budget_that_is_spent_leaves_it_out_and_says_so(spent: dict[str, float], says: str) -> None:
    state, judges = ended(RIGHT, FASTER)
    verdict = state.best.verdict.model_copy(update={"seconds": {"build": 50.0, "load": 1.0, "check": 2.0, "time": 4.0}})
    best = state.best.model_copy(update={"verdict": verdict})
    asked = len(contests(judges))
    settings = Settings(max_wall_s=100, max_device_s=60)
    context = NodeContext(settings, ModelCache(lambda spec, options: ScriptedModel()), judges)
    kept, final = held((*state.earlier, best), (), state.model_copy(update={"best": best, **spent}), context)
    assert kept == (*state.earlier, best)
    assert final.note == f"The kept kernels were not timed together at the end: {says}"
    assert len(contests(judges)) == asked
