"""The scripted model, which every test of the graph leans on."""

from __future__ import annotations

import pytest
from langchain_core.messages import AIMessage, HumanMessage
from model_requests import candidate, prompt, request

from nodes.models.errors import ScriptExhaustedError
from nodes.models.local import ScriptedModel


def test_answers_in_order_whoever_asks() -> None:
    model = ScriptedModel(answers=["one", "two"])
    assert model.invoke(prompt(request("generator"))).text == "one"
    assert model.invoke(prompt(request("optimizer"))).text == "two"


def test_answers_by_role() -> None:
    model = ScriptedModel(answers={"generator": ["g0", "g1"], "optimizer": ["o0"]})
    said = [model.invoke(prompt(request(role))).text for role in ("generator", "optimizer", "generator")]
    assert said == ["g0", "o0", "g1"]


def test_an_answer_may_be_made_from_the_request() -> None:
    model = ScriptedModel(answers=[lambda asked: f"{asked.role} for {asked.task.name}"])
    assert model.invoke(prompt(request("repairer"))).text == "repairer for absolute"


def test_it_keeps_count_and_what_it_was_shown() -> None:
    model = ScriptedModel(answers=["x"] * 3)
    shown = candidate("int x;")
    model.invoke(prompt(request("diagnoser", candidate=shown)))
    model.invoke(prompt(request("generator")))
    assert (model.calls(), model.calls("diagnoser"), model.calls("optimizer")) == (2, 1, 0)
    assert model.requests[0].candidate == shown


def test_a_script_that_runs_out_says_whose() -> None:
    model = ScriptedModel(answers={"generator": ["only"]})
    model.invoke(prompt(request("generator")))
    with pytest.raises(ScriptExhaustedError, match=r"script for the generator has only 1 answers"):
        model.invoke(prompt(request("generator")))
    with pytest.raises(ScriptExhaustedError, match=r"optimizer .* has only 0 answers"):
        model.invoke(prompt(request("optimizer")))


def test_the_last_answer_may_go_on() -> None:
    model = ScriptedModel(answers=["first", "nonsense"], repeat_last=True)
    assert [model.invoke(prompt(request("generator"))).text for _ in range(4)] == ["first", *["nonsense"] * 3]


def test_a_repeated_question_still_carries_its_request() -> None:
    model = ScriptedModel(answers=["again"])
    asked_again = [*prompt(request("generator")), AIMessage("bad"), HumanMessage("Your answer cannot be used.")]
    assert model.invoke(asked_again).text == "again"


def test_a_prompt_without_a_request_is_a_mistake_of_the_caller() -> None:
    with pytest.raises(ValueError, match="request"):
        ScriptedModel(answers=["x"]).invoke("hello")
