"""Lessons of other runs in the whole graph, and what they change for a player who answers as before."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from scripted_judge import Scripted
from softsign_script import FASTER, RIGHT, SLOWER, SOURCE, diagnosed, edited, written

from graph.workflow import build_graph
from nodes.agents.learning import MOST_TOKENS
from nodes.models.local import ScriptedModel
from nodes.models.replay import ReplayModel
from nodes.request import Request
from nodes.settings import Settings
from nodes.state import RunState
from nodes.turn.prompt_size import estimated_tokens
from nodes.turn.prompts import parts_of

MOVES = (written(SLOWER, "more work"), written(FASTER, "vectors"))


def played(model: Any, thread: str, archive: Path, folder: Path, **settings: Any) -> RunState:
    graph = build_graph(lambda spec, _: model, Scripted()).compile()
    given: Any = {"source": SOURCE, "name": "softsign"}
    folder.mkdir()
    chosen = Settings(
        model="author", archive=str(archive), max_tool_calls=0, max_depth=2, run_dir=str(folder), **settings
    )
    config: Any = {"configurable": {"thread_id": thread}}
    return RunState.model_validate(graph.invoke(given, config, context=chosen))


def script() -> ScriptedModel:
    return ScriptedModel(answers={"generator": [written(RIGHT)], "optimizer": [*MOVES, "DONE: enough"]})


def questions(model: ScriptedModel) -> list[Request]:
    return [each for each in model.requests if each.role == "optimizer"]


def steps(state: RunState) -> list[tuple[str, str, str | None]]:
    return [(step.agent, step.move, step.status) for step in state.history]


def test_the_next_run_is_told_what_the_first_ones_moves_were_worth(tmp_path: Path) -> None:
    archive = tmp_path / "archive.sqlite"
    first, second, without = script(), script(), script()
    played(first, "one", archive, tmp_path / "one", lessons=3)
    assert all(not request.lessons for request in questions(first)), "its own moves are its history"
    played(second, "two", archive, tmp_path / "two", lessons=3)
    told = parts_of(questions(second)[0]).question.partition("## Lessons from other runs")[2]
    assert "- more work: 0." in told, told
    assert "- vectors: " in told and "#pragma omp simd" in told, told
    played(without, "three", archive, tmp_path / "three")
    assert not questions(without)[0].lessons
    plain, taught = (estimated_tokens(parts_of(questions(each)[0]).text) for each in (without, second))
    assert 0 < taught - plain <= MOST_TOKENS


def test_what_was_repaired_is_told_by_what_it_was_worth(tmp_path: Path) -> None:
    archive = tmp_path / "archive.sqlite"
    broken = FASTER.replace("judge: passed 3x", "judge: wrong")
    answers: dict[str, list[Any]] = {
        "generator": [written(RIGHT)],
        "optimizer": [written(broken, "vectors"), "DONE: enough"],
        "diagnoser": [diagnosed("the marker")],
        "repairer": [edited(broken, "judge: wrong", "#pragma omp simd  // judge: passed 3x")],
    }
    repaired, second = ScriptedModel(answers=answers), script()
    state = played(repaired, "one", archive, tmp_path / "one", lessons=3)
    assert ("tester", "vectors", "passed") in steps(state)
    played(second, "two", archive, tmp_path / "two", lessons=3)
    [lesson] = questions(second)[0].lessons
    assert lesson.said.startswith("vectors: ") and "failed" not in lesson.said and "x (" in lesson.said
    assert "#pragma omp simd" in lesson.diff


def test_ablated_by_a_replayed_player_lessons_change_the_prompt_and_nothing_else(tmp_path: Path) -> None:
    archive = tmp_path / "archive.sqlite"
    bare = played(script(), "one", archive, tmp_path / "one", lessons=3)
    again = ReplayModel.load(tmp_path / "one" / "conversation.jsonl")
    taught = played(again, "two", archive, tmp_path / "two", lessons=3)
    assert steps(taught) == steps(bare)
    asked = {
        name: [said.prompt[-1].content for said in ReplayModel.load(tmp_path / name / "conversation.jsonl").exchanges]
        for name in ("one", "two")
    }
    shown = ["## Lessons from other runs" in prompt for prompt in asked["two"]]
    assert not any("## Lessons" in prompt for prompt in asked["one"]) and shown == [False, True, True]


@pytest.mark.parametrize("lines", [3, 400])
def test_lessons_take_no_more_than_their_tokens(lines: int, tmp_path: Path) -> None:
    archive = tmp_path / "archive.sqlite"
    for number in range(6):
        long = FASTER + "".join(f"// LINE {n} {number}\nint unused{n}_{number} = {n};\n" for n in range(lines))
        answers = {"generator": [written(RIGHT)], "optimizer": [written(long, f"move {number}"), "DONE: enough"]}
        played(ScriptedModel(answers=answers), f"run {number}", archive, tmp_path / str(number), lessons=8)
    last = script()
    played(last, "last", archive, tmp_path / "last", lessons=8)
    question = parts_of(questions(last)[0]).question
    section = question.partition("## Lessons from other runs")[2].partition("\n## ")[0]
    assert 0 < estimated_tokens(section) <= MOST_TOKENS
