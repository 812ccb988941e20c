"""ChatOpenAI, opened as a run opens it, against a real server that behaves well or badly."""

from __future__ import annotations

import asyncio
import socket
import time

import pytest
from chat_server import Behaviour, ChatEndpoint, chat_endpoint
from langchain_core.language_models.chat_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessageChunk, HumanMessage, SystemMessage

from harness.errors import MachineError
from nodes.models.errors import ModelUnavailableError
from nodes.models.select import ModelOptions, open_model
from nodes.models.usage import usage_of
from nodes.state import Usage

KEY = "sk-a-key-that-nobody-may-see"
PROMPT = [SystemMessage("You write kernels."), HumanMessage("Write one.", additional_kwargs={"request": {"big": 1}})]


@pytest.fixture(autouse=True)
def key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")


def opened(endpoint: ChatEndpoint, *, timeout_s: float = 20.0, retries: int = 0) -> BaseChatModel:
    return open_model("openai:m", ModelOptions(base_url=endpoint.base_url, timeout_s=timeout_s, max_retries=retries))


def failure(behaviour: Behaviour, *, stream: bool = False, timeout_s: float = 20.0) -> str:
    """What a run is told when the server behaves like that; never with the key in it."""
    with chat_endpoint(behaviour) as endpoint, pytest.raises(ModelUnavailableError) as caught:
        model = opened(endpoint, timeout_s=timeout_s)
        if stream:
            list(model.stream(PROMPT))
        else:
            model.invoke(PROMPT)
    assert isinstance(caught.value, MachineError)
    assert caught.value.remedy
    assert "127.0.0.1" in str(caught.value)
    assert KEY not in str(caught.value)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def whole(chunks: list[BaseMessageChunk]) -> AIMessage:
    total = chunks[0]
    for chunk in chunks[1:]:
        total += chunk  # type: ignore[assignment]
    assert isinstance(total, AIMessage)
    return total


def test_a_plain_answer_with_its_cost() -> None:
    with chat_endpoint() as endpoint:
        message = opened(endpoint).invoke(PROMPT)
    assert message.text == endpoint.answer
    assert usage_of(message, 1.5) == Usage(calls=1, input_tokens=11, output_tokens=7, dollars=0.0025, seconds=1.5)


def test_the_request_attached_to_the_prompt_stays_here() -> None:
    with chat_endpoint() as endpoint:
        opened(endpoint).invoke(PROMPT)
    (received,) = endpoint.requests
    assert received["path"] == "/v1/chat/completions"
    assert received["messages"] == [
        {"content": "You write kernels.", "role": "system"},
        {"content": "Write one.", "role": "user"},
    ]
    assert endpoint.keys == [f"Bearer {KEY}"]


def test_the_token_limit_is_sent_only_where_there_is_one() -> None:
    with chat_endpoint() as endpoint:
        opened(endpoint).invoke(PROMPT)
        open_model("openai:m", ModelOptions(base_url=endpoint.base_url, max_output_tokens=77)).invoke(PROMPT)
    limits = [received.get("max_completion_tokens") for received in endpoint.requests]
    assert limits == [None, 77]


def test_a_streamed_answer_keeps_tokens_and_cost() -> None:
    with chat_endpoint() as endpoint:
        message = whole(list(opened(endpoint).stream(PROMPT)))
    assert message.text.strip() == endpoint.answer
    assert usage_of(message) == Usage(calls=1, input_tokens=11, output_tokens=7, dollars=0.0025)


def test_asynchronous_callers_get_the_same() -> None:
    async def both(endpoint: ChatEndpoint) -> tuple[AIMessage, AIMessage]:
        model = opened(endpoint)
        return await model.ainvoke(PROMPT), whole([chunk async for chunk in model.astream(PROMPT)])

    with chat_endpoint() as endpoint:
        plain, streamed = asyncio.run(both(endpoint))
    assert plain.text == streamed.text.strip() == endpoint.answer
    assert usage_of(plain) == usage_of(streamed)


def test_asynchronous_failures_are_named_too() -> None:
    with chat_endpoint("broken") as endpoint, pytest.raises(ModelUnavailableError, match="fell over"):
        asyncio.run(opened(endpoint).ainvoke(PROMPT))


def test_an_endpoint_that_counts_no_tokens() -> None:
    with chat_endpoint("no_usage") as endpoint:
        assert usage_of(opened(endpoint).invoke(PROMPT)) == Usage(calls=1)


def test_a_failed_request_is_sent_again() -> None:
    with chat_endpoint("limited", "broken", "answer") as endpoint:
        message = opened(endpoint, retries=2).invoke(PROMPT)
    assert message.text == endpoint.answer
    assert len(endpoint.requests) == 3


def test_retries_are_bounded() -> None:
    with chat_endpoint("limited") as endpoint, pytest.raises(ModelUnavailableError, match="Rate limit reached"):
        opened(endpoint, retries=1).invoke(PROMPT)
    assert len(endpoint.requests) == 2


def test_a_wrong_key_names_the_variable() -> None:
    assert "OPENAI_API_KEY" in failure("unauthorized")


def test_an_unknown_model() -> None:
    assert "The model m is not served here" in failure("unknown_model")


def test_a_prompt_that_is_too_long() -> None:
    assert "maximum context length" in failure("too_long")


@pytest.mark.parametrize("stream", [False, True])
def test_a_server_that_hangs(stream: bool) -> None:
    started = time.monotonic()
    assert "within 0.5 s" in failure("hang", stream=stream, timeout_s=0.5)
    assert time.monotonic() - started < 10


def test_a_stream_that_never_ends() -> None:
    started = time.monotonic()
    assert "within 0.5 s" in failure("trickle", stream=True, timeout_s=0.5)
    assert time.monotonic() - started < 10


def test_a_body_that_breaks_off() -> None:
    assert "closed connection" in failure("truncated")


def test_a_stream_that_breaks_off() -> None:
    assert "closed connection" in failure("cut_stream", stream=True)


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("behaviour", ["not_json", "other_json"])
def test_a_body_that_is_no_chat_completion(behaviour: Behaviour, stream: bool) -> None:
    assert "something else than a chat completion" in failure(behaviour, stream=stream)


def test_nobody_listens() -> None:
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        port = closed.getsockname()[1]
    model = open_model("openai:m", ModelOptions(base_url=f"http://127.0.0.1:{port}/v1", max_retries=0))
    with pytest.raises(ModelUnavailableError, match=rf"127\.0\.0\.1:{port}.*refused.*Start the server"):
        model.invoke(PROMPT)
