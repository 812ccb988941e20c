"""Approval of each new best: what may be answered, what becomes of a kernel by it, and who is told."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import Command, Interrupt
from scripted_judge import Scripted
from softsign_script import FASTER, RIGHT, SOURCE, WRONG, written
from typer.testing import CliRunner

from graph.api.calls import answer, load_task, optimize
from graph.cli.main import app
from graph.workflow import build_graph
from nodes.approval import Approval, Decision, decided
from nodes.models.local import ScriptedModel
from nodes.settings import Settings
from nodes.state import RunState
from nodes.turn.prompts import parts_of

THREAD: RunnableConfig = {"configurable": {"thread_id": "one"}}
FASTEST = FASTER.replace("passed 3x", "passed 9x")


class Driven:
    """A run whose bests are approved of, on a thread of its own."""

    def __init__(self, *moves: str, generator: tuple[str, ...] = (RIGHT,), **settings: Any) -> None:
        answers = {"generator": list(map(written, generator)), "optimizer": [written(each, "simd") for each in moves]}
        self.model, self.judges = ScriptedModel(answers=answers), Scripted()
        self._settings = Settings(
            approve_best=True, target="cpu", sanitize=False, **{"max_depth": len(moves)} | settings
        )
        graph = build_graph(lambda spec, options: self.model, self.judges)
        self.graph = graph.compile(checkpointer=InMemorySaver())

    def go(self, given: Any = None) -> Interrupt | RunState:
        begun: Any = {"source": SOURCE, "name": "softsign"}
        told = self.graph.invoke(begun if given is None else Command(resume=given), THREAD, context=self._settings)
        [waiting] = told.pop("__interrupt__", [None])
        return waiting or RunState.model_validate(told)

    def asked(self, given: Any = None) -> Interrupt:
        waiting = self.go(given)
        assert isinstance(waiting, Interrupt)
        return waiting

    def ended(self, given: Any = None) -> RunState:
        end = self.go(given)
        assert isinstance(end, RunState)
        return end

    @property
    def state(self) -> RunState:
        return RunState.model_validate(self.graph.get_state(THREAD).values)


@pytest.mark.parametrize(
    ("sent", "decision"),
    [
        ("accept", Decision(kept=True)),
        (" Accept: but fewer\n registers", Decision(kept=True, remark="but fewer registers")),
        ("reject", Decision(kept=False)),
        ("reject too clever", Decision(kept=False, remark="too clever")),
        ([{"type": "accept", "args": None}], Decision(kept=True)),
        ([{"type": "ignore", "args": None}], Decision(kept=False)),
        ({"type": "response", "args": "too clever"}, Decision(kept=False, remark="too clever")),
        ([{"type": "response", "args": "accept, well"}], Decision(kept=True, remark="well")),
        ({"decisions": [{"type": "approve"}]}, Decision(kept=True)),
        ({"decisions": [{"type": "reject"}]}, Decision(kept=False)),
        ({"decisions": [{"type": "reject", "message": "too clever"}]}, Decision(kept=False, remark="too clever")),
        *[(unclear, None) for unclear in ("", "acceptable", "yes", 7, None, [], {"decisions": []})],
    ],
)
def test_a_decision_is_read_from_either_family_of_interfaces_and_from_words(sent: Any, decision: Any) -> None:
    assert decided(sent) == decision


def test_nothing_is_kept_before_it_is_approved_of_and_no_kernel_is_judged_twice() -> None:
    driven = Driven(FASTER)
    waiting = driven.asked()
    question = Approval.read(waiting.value)
    assert (question.kernel.source, question.best, question.speedup) == (RIGHT, None, 1.0)
    assert waiting.value["description"] == question.text() == waiting.value["action_requests"][0]["description"]
    assert RIGHT in question.text()
    assert (driven.state.best, driven.state.attempts, driven.state.history[1:]) == (None, 0, ())
    second = Approval.read(driven.asked("accept").value)
    assert second.best == question.kernel and second.head_to_head is not None
    assert "3.00x the best so far" in second.text() and "```diff" in second.text()
    kept = driven.state.best
    assert kept is not None and kept.candidate.source == RIGHT
    end = driven.ended({"decisions": [{"type": "approve"}]})
    assert end.best is not None and end.best.candidate.source == FASTER
    assert [step.improved for step in end.history if step.agent == "tester"] == [True, True]
    assert (end.depth, end.attempts) == (1, 2)
    assert [method for method, _ in driven.judges.asked].count("evaluate") == 2


def test_what_is_no_decision_is_asked_again() -> None:
    driven = Driven()
    first = driven.asked()
    again = driven.asked("why not")
    assert again.value["kernel"] == first.value["kernel"]
    assert again.value["description"].startswith("That was no decision.")
    assert driven.ended("accept").best is not None


@pytest.mark.parametrize("advance", ["best", "latest"])
def test_the_optimizer_goes_on_from_the_best_and_is_told_what_was_said(advance: str) -> None:
    driven = Driven(FASTER, FASTEST, advance=advance)
    driven.asked()
    driven.asked("accept: mind the cache")
    assert driven.asked("reject: it hides the loop").value["kernel"]["source"] == FASTEST
    prompt = parts_of(driven.model.requests[-1]).text
    assert "simd: turned down by the user: it hides the loop" in prompt
    assert "first kernel: kept by the user: mind the cache" in prompt
    assert "turned down by the user" in prompt.partition("Tried from this kernel already")[2]
    end = driven.ended("reject")
    assert end.best is not None and end.best.candidate.source == RIGHT
    assert [step.improved for step in end.history if step.agent == "tester"] == [True, False, False]
    assert end.depth == 2, "a right kernel is a depth, wanted or not"


def test_first_kernels_that_are_turned_down_are_written_anew_a_bounded_number_of_times() -> None:
    driven = Driven(generator=(RIGHT, FASTER), max_regenerations=1)
    driven.asked()
    assert driven.asked("reject: no loop, please").value["kernel"]["source"] == FASTER
    prompt = parts_of(driven.model.requests[-1]).text
    assert "An earlier start that the user turned down" in prompt and "no loop, please" in prompt
    end = driven.ended("reject")
    assert end.best is None and end.stop_reason is not None
    assert end.stop_reason.message == "Each of the 2 first kernels was turned down."


def test_nobody_is_asked_about_what_is_no_gain() -> None:
    driven = Driven(RIGHT.replace("20", "21"), WRONG, max_repairs=0, max_attempts=3, max_depth=5)
    driven.asked()
    end = driven.ended("accept")
    assert [step.status for step in end.history if step.agent == "tester"] == ["passed", "passed", "wrong"]


@pytest.mark.usefixtures("scripted")
def test_from_python_and_the_command_line(tmp_path: Path) -> None:
    task, run = tmp_path / "softsign.py", tmp_path / "run"
    task.write_text(SOURCE, encoding="utf-8")
    begun = optimize(load_task(task), out=run, target="cpu", max_depth=0, approve_best=True)
    assert begun.record.outcome == "waiting" and begun.question is not None
    assert "Is this kernel kept?" in begun.question and not (run / "kernel.cu").exists()
    shell = CliRunner()
    shown = shell.invoke(app, ["answer", str(run)])
    assert shown.exit_code == 0 and "Answer `accept` or `reject`" in shown.output
    ended = shell.invoke(app, ["answer", str(run), "-"], input="accept: fine\n")
    assert ended.exit_code == 0, ended.output
    assert (run / "kernel.cu").exists() and not (run / "question.md").exists()
    with pytest.raises(Exception, match="No question waits"):
        answer(run, "reject")


@pytest.mark.parametrize("command", ["suite", "evolve"])
def test_who_does_not_stop_for_answers_refuses_the_setting(command: str, tmp_path: Path) -> None:
    task = tmp_path / "softsign.py"
    task.write_text(SOURCE, encoding="utf-8")
    given = str(task) if command == "evolve" else "level1"
    refused = CliRunner().invoke(app, [command, given, "--set", "approve_best=true", "--out", str(tmp_path / "run")])
    assert refused.exit_code == 2 and "does not stop for answers" in refused.output
