"""What three providers' protocols send, byte for byte, over a real connection; and what a request asks of each."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from chat_server import ChatEndpoint, chat_endpoint
from langchain_core.language_models.chat_models import BaseChatModel
from langchain_core.messages import AIMessage, HumanMessage, SystemMessage, ToolMessage
from langchain_core.tools import tool

from nodes.models.errors import ModelUnavailableError
from nodes.models.prompt_cache import STEADY
from nodes.models.select import ModelOptions, open_model
from nodes.settings import Settings
from nodes.turn.forms import FORMS, response_format
from nodes.turn.node import options_of
from nodes.usage import Bill, usage_of

DIALECTS = Path(__file__).parent / "dialects"
SAID = "MOVE: wider tiles - more reuse"
TASK, GUIDE = "The task.\n", "The guide.\n"
PROMPT = [
    SystemMessage("You write kernels."),
    HumanMessage(f"{TASK}{GUIDE}The question.", additional_kwargs={STEADY: (len(TASK), len(TASK + GUIDE))}),
]


@pytest.fixture(autouse=True)
def key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-nobody-sees-it")
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")


@tool
def look_up(query: str) -> str:
    """Look it up."""
    return query


def opened(endpoint: ChatEndpoint, **options: Any) -> BaseChatModel:
    return open_model("openai:m", ModelOptions(base_url=endpoint.base_url, max_retries=0, **options))


def recorded(name: str, **options: Any) -> tuple[AIMessage, dict[str, Any]]:
    """The message that a recorded answer becomes, and the request that asked for it."""
    with chat_endpoint("recorded") as endpoint:
        endpoint.raw = (DIALECTS / name).read_text(encoding="utf-8")
        message = opened(endpoint, **options).bind_tools([look_up]).invoke(PROMPT)
    assert isinstance(message, AIMessage)
    return message, endpoint.requests[0]


@pytest.mark.parametrize(
    ("name", "cached", "responses"),
    [("plain.sse", 3712, False), ("reasoning.sse", 3712, False), ("responses.sse", 3712, True)],
)
def test_the_text_and_the_tokens_of_each_dialect_are_read(name: str, cached: int, responses: bool) -> None:
    message, _ = recorded(name, responses=responses)
    used = usage_of(message)
    assert message.text == SAID, "thoughts are no part of an answer"
    assert (used.input_tokens, used.cached_tokens, used.output_tokens) == (5210, cached, 912)
    assert Bill.of(message).finish == "stop"


def test_an_endpoint_that_bills_its_answers_is_believed() -> None:
    message, _ = recorded("reasoning.sse")
    assert Bill.of(message).dollars == pytest.approx(0.00271)


def test_calls_come_whole_whatever_pieces_they_come_in() -> None:
    message, _ = recorded("tool_calls.sse")
    assert [(call["name"], call["args"]) for call in message.tool_calls] == [
        ("look_up", {"query": "swizzle"}), ("compile_kernel", {"source": "int x;"}),
    ]  # fmt: skip
    assert usage_of(message).cached_tokens == 0


@pytest.mark.parametrize(("name", "stream"), [("responses.sse", True), ("responses.json", False)])
def test_the_responses_api_says_the_same_in_pieces_and_whole(name: str, stream: bool) -> None:
    message, asked = recorded(name, responses=True, stream=stream, effort="low", max_output_tokens=99)
    assert message.text == SAID
    assert [(call["id"], call["name"], call["args"]) for call in message.tool_calls] == [
        ("call_7", "look_up", {"query": "swizzle"})
    ]
    assert usage_of(message).cached_tokens == 3712
    assert asked["path"] == "/v1/responses" and asked["store"] is False
    assert (asked["reasoning"], asked["max_output_tokens"]) == ({"effort": "low"}, 99)
    assert [each["name"] for each in asked["tools"]] == ["look_up"]


def test_a_tools_answer_goes_back_by_the_responses_api() -> None:
    call, _ = recorded("responses.sse", responses=True)
    with chat_endpoint("recorded") as endpoint:
        endpoint.raw = (DIALECTS / "responses.sse").read_text(encoding="utf-8")
        model = opened(endpoint, responses=True).bind_tools([look_up])
        model.invoke([*PROMPT, call, ToolMessage("xor", tool_call_id="call_7")])
    sent = [
        each for each in endpoint.requests[0]["input"] if each.get("type") in ("function_call", "function_call_output")
    ]
    assert [(each["type"], each["call_id"]) for each in sent] == [
        ("function_call", "call_7"), ("function_call_output", "call_7"),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("events", "why"),
    [
        ([{"type": "error", "code": "server_error", "message": "The engine fell over."}], "The engine fell over"),
        ([{"type": "response.failed", "response": {"error": {"message": "It broke."}}}], "It broke"),
        ([{"type": "response.created", "response": {}}], "no event"),
        ([{"type": "response.output_text.delta", "delta": 7}, {"type": "response.completed", "response": 3}], ""),
    ],
)
def test_responses_that_fail_or_are_none(events: list[dict[str, Any]], why: str) -> None:
    with chat_endpoint("recorded") as endpoint:
        endpoint.raw = "".join(f"data: {json.dumps(each)}\n\n" for each in events)
        model = opened(endpoint, responses=True)
        if why:
            with pytest.raises(ModelUnavailableError, match=why):
                model.invoke(PROMPT)
        else:
            assert model.invoke(PROMPT).text == ""


def test_an_answer_that_was_cut_off_is_told_as_such() -> None:
    end = {"status": "incomplete", "incomplete_details": {"reason": "max_output_tokens"}, "usage": {}}
    with chat_endpoint("recorded") as endpoint:
        endpoint.raw = f"data: {json.dumps({'type': 'response.incomplete', 'response': end})}\n\n"
        message = opened(endpoint, responses=True).invoke(PROMPT)
    assert Bill.of(message).finish == "length"


def test_a_prompts_beginning_is_marked_or_named_only_where_that_is_asked_for() -> None:
    with chat_endpoint() as endpoint:
        for caching in ("unasked", "key", "marks"):
            opened(endpoint, caching=caching).invoke(PROMPT)
        opened(endpoint, caching="key").invoke(
            [PROMPT[0], HumanMessage(f"{TASK}Else.", additional_kwargs={STEADY: (10,)})]
        )
    plain, keyed, marked, other = endpoint.requests
    assert "prompt_cache_key" not in plain and plain["messages"] == keyed["messages"]
    assert keyed["prompt_cache_key"] == other["prompt_cache_key"] and len(keyed["prompt_cache_key"]) <= 64
    parts = marked["messages"][1]["content"]
    assert "".join(part["text"] for part in parts) == plain["messages"][1]["content"]
    assert [(part["text"], "cache_control" in part) for part in parts] == [
        (TASK, True), (GUIDE, True), ("The question.", False),
    ]  # fmt: skip


def test_who_answers_with_an_object_can_send_its_schema() -> None:
    for role in FORMS:
        with chat_endpoint() as endpoint:
            opened(endpoint).bind(response_format=response_format(role)).invoke(PROMPT)
        asked = endpoint.requests[0]["response_format"]
        assert asked["json_schema"]["schema"]["required"] == [*FORMS[role].model_fields]
        assert asked["json_schema"]["schema"]["additionalProperties"] is False and asked["json_schema"]["strict"]
    assert response_format("repairer") is response_format("optimizer") is None, "they may decline"
    with chat_endpoint("recorded") as endpoint:
        endpoint.raw = (DIALECTS / "responses.sse").read_text(encoding="utf-8")
        opened(endpoint, responses=True).bind(response_format=response_format("diagnoser")).invoke(PROMPT)
    assert endpoint.requests[0]["text"]["format"]["name"] == "diagnoser"


def test_an_agent_may_think_harder_than_the_others() -> None:
    settings = Settings(reasoning_effort="low", reasoning_efforts={"optimizer": "high"})
    assert [options_of(settings, role).effort for role in ("diagnoser", "optimizer")] == ["low", "high"]
    assert options_of(settings).effort == "low"
