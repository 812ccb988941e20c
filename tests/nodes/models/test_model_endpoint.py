"""ChatOpenAI, opened as a run opens it, against a real server that behaves well or badly."""

from __future__ import annotations

import asyncio
import json
import socket
import time
import tracemalloc
from typing import Any

import pytest
from chat_server import USAGE, Behaviour, ChatEndpoint, Scripted, chat_endpoint
from langchain_core.callbacks import BaseCallbackHandler
from langchain_core.language_models.chat_models import BaseChatModel
from langchain_core.messages import AIMessage, HumanMessage, SystemMessage

from harness.nouns.errors import MachineError
from nodes.address import Price
from nodes.models.errors import ModelUnavailableError, within
from nodes.models.select import ModelOptions, open_model
from nodes.state import Usage
from nodes.usage import Bill, usage_of

KEY = "sk-a-key-that-nobody-may-see"
PROMPT = [SystemMessage("You write kernels."), HumanMessage("Write one.", additional_kwargs={"request": {"big": 1}})]


@pytest.fixture(autouse=True)
def key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")


def opened(endpoint: ChatEndpoint, *, retries: int = 0, **options: Any) -> BaseChatModel:
    return open_model("openai:m", ModelOptions(base_url=endpoint.base_url, max_retries=retries, **options))


def failure(behaviour: Behaviour, *, stream: bool = True, timeout_s: float = 20.0, silence_s: float = 20.0) -> str:
    """What a run is told when the server behaves like that; never with the key in it."""
    with chat_endpoint(behaviour) as endpoint, pytest.raises(ModelUnavailableError) as caught:
        opened(endpoint, timeout_s=timeout_s, silence_s=silence_s, stream=stream).invoke(PROMPT)
    assert isinstance(caught.value, MachineError)
    assert caught.value.remedy
    assert "127.0.0.1" in str(caught.value)
    assert KEY not in str(caught.value)
    assert "\n" not in str(caught.value)
    return str(caught.value)


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


@pytest.mark.parametrize("stream", [False, True])
def test_an_answer_streamed_or_whole_is_the_same(stream: bool) -> None:
    call = Scripted(text="I look.", tool="look_up", arguments='{"query": "tiles"}')
    with chat_endpoint(script=[call]) as endpoint:
        message = opened(endpoint, stream=stream).invoke(PROMPT)
    assert (message.text, message.tool_calls[0]["name"]) == ("I look.", "look_up")
    assert message.tool_calls[0]["args"] == {"query": "tiles"}
    assert usage_of(message) == Usage(calls=1, input_tokens=11, output_tokens=7, dollars=0.0025)
    assert endpoint.requests[0].get("stream", False) is stream


@pytest.mark.parametrize("arguments", ['{"source": "int x', "[1]", "tiles"])
def test_half_a_tool_call_is_none(arguments: str) -> None:
    with chat_endpoint(script=[Scripted(tool="compile_kernel", arguments=arguments)]) as endpoint:
        message = opened(endpoint).invoke(PROMPT)
    assert message.tool_calls == []
    assert [(call["name"], call["args"]) for call in message.invalid_tool_calls] == [("compile_kernel", arguments)]


@pytest.mark.parametrize("stream", [False, True])
def test_why_an_answer_ended_is_known(stream: bool) -> None:
    script = [Scripted("I may"), Scripted("half an", cut=True), Scripted(refusal="I will not.")]
    with chat_endpoint(script=script) as endpoint:
        bills = [Bill.of(opened(endpoint, stream=stream).invoke(PROMPT)) for _ in script]
    assert [(bill.finish, bill.refusal.strip()) for bill in bills] == [
        ("stop", ""), ("length", ""), ("stop", "I will not."),
    ]  # fmt: skip


def test_the_tokens_of_an_answer_are_told_as_they_come() -> None:
    heard: list[str] = []

    class Listener(BaseCallbackHandler):
        def on_llm_new_token(self, token: str, **_: Any) -> None:
            heard.append(token)

    with chat_endpoint(answer="one\ntwo\nthree") as endpoint:
        message = opened(endpoint).invoke(PROMPT, config={"callbacks": [Listener()]})
    assert [token for token in heard if token] == ["one\n", "two\n", "three"]
    assert message.text == "one\ntwo\nthree"


def test_asynchronous_callers_get_the_same() -> None:
    async def both(endpoint: ChatEndpoint) -> tuple[AIMessage, str]:
        model = opened(endpoint)
        return await model.ainvoke(PROMPT), "".join([chunk.text async for chunk in model.astream(PROMPT)])

    with chat_endpoint() as endpoint:
        plain, streamed = asyncio.run(both(endpoint))
    assert plain.text == streamed == endpoint.answer
    assert usage_of(plain).dollars == 0.0025


def test_asynchronous_failures_are_named_too() -> None:
    with chat_endpoint("broken") as endpoint, pytest.raises(ModelUnavailableError, match="fell over"):
        asyncio.run(opened(endpoint).ainvoke(PROMPT))


def test_an_endpoint_that_counts_no_tokens() -> None:
    with chat_endpoint("no_usage") as endpoint:
        assert usage_of(opened(endpoint).invoke(PROMPT)) == Usage(calls=1, unpriced_calls=1)


def test_nonsense_about_the_cost_is_no_cost() -> None:
    with chat_endpoint("odd_usage") as endpoint:
        used = usage_of(opened(endpoint).invoke(PROMPT))
    assert used == Usage(calls=1, output_tokens=7, unpriced_calls=1)


def test_without_a_reported_cost_the_price_counts_cached_tokens_too() -> None:
    price = Price(input=3.0, cached=1.0, output=10.0)
    cached = {"prompt_tokens": 1000, "completion_tokens": 100, "total_tokens": 1100}
    with chat_endpoint() as endpoint:
        endpoint.usage = {**cached, "prompt_tokens_details": {"cached_tokens": 600}}
        used = usage_of(opened(endpoint, prices=(("m", price),)).invoke(PROMPT))
    assert used.cached_tokens == 600
    assert used.unpriced_calls == 0
    assert used.dollars == pytest.approx((400 * 3 + 600 * 1 + 100 * 10) / 1e6)


def test_the_reasoning_effort_is_sent_only_where_there_is_one() -> None:
    with chat_endpoint() as endpoint:
        opened(endpoint).invoke(PROMPT)
        opened(endpoint, effort="high").invoke(PROMPT)
    assert [received.get("reasoning_effort") for received in endpoint.requests] == [None, "high"]


def test_runs_share_an_endpoints_rate() -> None:
    with chat_endpoint() as endpoint:
        for _ in range(2):
            opened(endpoint, requests_per_minute=240).invoke(PROMPT)
    first, second = endpoint.began
    assert second - first >= 0.24


def test_nobody_waits_for_his_turn_beyond_the_runs_time() -> None:
    with chat_endpoint() as endpoint, pytest.raises(ModelUnavailableError, match="did not answer"), within(0.1):
        opened(endpoint, requests_per_minute=0.5, retries=9).invoke(PROMPT)
    assert endpoint.requests == []


def test_a_wait_that_the_endpoint_asks_for_is_kept() -> None:
    with chat_endpoint("limited", "answer") as endpoint:
        endpoint.retry_after = "1"
        opened(endpoint, retries=1).invoke(PROMPT)
    first, second = endpoint.began
    assert second - first >= 1.0


def test_nobody_asks_again_when_the_time_is_over() -> None:
    started = time.monotonic()
    with chat_endpoint("broken") as endpoint, pytest.raises(ModelUnavailableError, match="fell over"), within(1.2):
        opened(endpoint, retries=9).invoke(PROMPT)
    assert time.monotonic() - started < 5.0  # nine more tries would take minutes
    assert len(endpoint.requests) <= 2


def test_a_wait_of_an_hour_is_not() -> None:
    with chat_endpoint("limited") as endpoint, pytest.raises(ModelUnavailableError, match="asks to wait 3600 s"):
        endpoint.retry_after = "3600"
        opened(endpoint, retries=9).invoke(PROMPT)
    assert len(endpoint.requests) == 1


def test_a_spent_quota_is_not_asked_again() -> None:
    with chat_endpoint("quota") as endpoint, pytest.raises(ModelUnavailableError, match="current quota"):
        opened(endpoint, retries=9).invoke(PROMPT)
    assert len(endpoint.requests) == 1


@pytest.mark.parametrize("broken", ["bad_event", "error_event", "cut_stream", "truncated", "not_json", "other_json"])
def test_an_answer_that_breaks_is_asked_for_again(broken: Behaviour) -> None:
    with chat_endpoint(broken, "answer") as endpoint:
        message = opened(endpoint, retries=1).invoke(PROMPT)
    assert message.text == endpoint.answer


def test_an_answer_without_end_is_given_up() -> None:
    assert "more than 1000000 characters" in failure("endless")


def test_what_an_endpoint_repeats_of_the_key_is_taken_out() -> None:
    assert "Bad header: Bearer [key]" in failure("tells_the_key")
    with chat_endpoint("answers_the_key") as endpoint:
        assert opened(endpoint).invoke(PROMPT).text == "You sent Bearer [key]."


@pytest.mark.parametrize("stream", [True, False])
def test_half_a_character_is_replaced_and_two_halves_are_joined(stream: bool) -> None:
    with chat_endpoint(answer="both \ud83d\ude00, one \ud83d,\ntwo\u2028lines") as endpoint:
        answer = opened(endpoint, stream=stream).invoke(PROMPT)
    assert answer.text == "both \N{GRINNING FACE}, one \N{REPLACEMENT CHARACTER},\ntwo\u2028lines"


@pytest.mark.parametrize("stream", [True, False])
def test_calls_and_refusals_are_cleaned_too(stream: bool) -> None:
    call = Scripted(tool="look_up", arguments=json.dumps({"query": "\udead", "key": KEY}))
    broken = Scripted(tool="look_up", arguments=f'{{"query": "{KEY} \udead')
    script = [call, broken, Scripted(refusal=f"Not with {KEY}, \udead.")]
    with chat_endpoint(script=script) as endpoint:
        model = opened(endpoint, stream=stream)
        whole, half, refused = (model.invoke(PROMPT) for _ in script)
    assert whole.tool_calls[0]["args"] == {"query": "\N{REPLACEMENT CHARACTER}", "key": "[key]"}
    assert half.invalid_tool_calls[0]["args"] == '{"query": "[key] \N{REPLACEMENT CHARACTER}'
    assert Bill.of(refused).refusal.strip() == "Not with [key], \N{REPLACEMENT CHARACTER}."


def spare(endpoint: ChatEndpoint) -> str:
    return f"openai:small@{endpoint.base_url}"


@pytest.mark.parametrize("behaviour", ["unauthorized", "broken", "quota", "not_json", "too_long"])
def test_where_a_model_fails_for_good_another_goes_on_and_says_so(behaviour: Behaviour) -> None:
    with chat_endpoint(behaviour) as gone, chat_endpoint() as other:
        model = opened(gone, fallback=spare(other)).bind_tools([{"type": "function", "function": {"name": "look_up"}}])
        told = [usage_of(model.invoke(PROMPT)).fell_back for _ in range(2)]
    assert told[0] == told[1]
    assert (told[0][0].model, told[0][0].answered_by) == ("openai:m", spare(other))
    assert "127.0.0.1" in told[0][0].because
    assert len(gone.requests) == 1, "it is not asked any more"
    assert {request["model"] for request in other.requests} == {"small"}
    assert other.requests[0]["tools"][0]["function"]["name"] == "look_up"
    assert other.keys == ["Bearer none"] * 2, "one endpoint's key is not sent to another"


def test_where_both_fail_the_second_is_named() -> None:
    with (
        chat_endpoint("unauthorized") as gone,
        chat_endpoint("broken") as other,
        pytest.raises(ModelUnavailableError, match='"small"'),
    ):
        opened(gone, fallback=spare(other)).invoke(PROMPT)


def test_a_model_that_answers_needs_no_other() -> None:
    with chat_endpoint() as endpoint, chat_endpoint() as other:
        assert usage_of(opened(endpoint, fallback=spare(other)).invoke(PROMPT)).fell_back == ()
    assert other.requests == []


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


@pytest.mark.parametrize("arguments", ["x" * 500_000, '{"source": ' + "x" * 500_000])
@pytest.mark.parametrize("stream", [False, True])
def test_half_a_megabyte_of_arguments_that_are_no_json_is_read_at_once(stream: bool, arguments: str) -> None:
    with chat_endpoint(script=[Scripted(tool="compile_kernel", arguments=arguments)]) as endpoint:
        started = time.process_time()
        message = opened(endpoint, stream=stream).invoke(PROMPT)
        assert time.process_time() - started < 5.0  # 0.1 s on an idle machine, where a streamed one took 15 minutes
    assert not message.tool_calls
    [call] = message.invalid_tool_calls
    assert (call["name"], call["args"]) == ("compile_kernel", arguments)


@pytest.mark.parametrize("stream", [False, True])
def test_a_server_that_hangs(stream: bool) -> None:
    started = time.monotonic()
    assert "within 0.5 s" in failure("hang", stream=stream, timeout_s=0.5)
    assert time.monotonic() - started < 10


def test_a_stream_that_never_ends() -> None:
    started = time.monotonic()
    assert "within 0.5 s" in failure("trickle", timeout_s=0.5)
    assert time.monotonic() - started < 10


def test_a_body_that_breaks_off() -> None:
    assert "closed connection" in failure("truncated")


def test_a_stream_that_breaks_off() -> None:
    assert "closed connection" in failure("cut_stream")


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("behaviour", ["not_json", "other_json"])
def test_a_body_that_is_no_chat_completion(behaviour: Behaviour, stream: bool) -> None:
    assert "something else than a chat completion" in failure(behaviour, stream=stream)


def test_nobody_listens(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        port = closed.getsockname()[1]
    waits: list[int] = []
    monkeypatch.setattr("nodes.models.openai_chat.pause_s", lambda error, attempt: waits.append(attempt) or 0.0)
    model = open_model("openai:m", ModelOptions(base_url=f"http://127.0.0.1:{port}/v1", max_retries=10))
    with pytest.raises(ModelUnavailableError, match=rf"127\.0\.0\.1:{port}.*refused.*Start the server"):
        model.invoke(PROMPT)
    # The pauses between the five are at most 1, 2, 4 and 8 s; the fifth is not waited for.
    assert waits == [1, 2, 3, 4, 5], "who comes back from a restart is waited for, and not for minutes"


def test_a_provider_that_is_there_is_waited_for_longer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("nodes.models.endpoint_errors._FIRST_PAUSE_S", 0.01)
    with chat_endpoint(*["broken"] * 7, "answer") as endpoint:
        assert opened(endpoint, retries=9).invoke(PROMPT).text == endpoint.answer


def billed_and_broken(place: str = "delta") -> str:
    """An answer with far too many calls, which its endpoint has billed."""
    call = {"function": {"name": "look_up", "arguments": "{}"}}
    return json.dumps({"choices": [{place: {"tool_calls": [call] * 1000}}], "usage": USAGE})


@pytest.mark.parametrize("stream", [False, True])
def test_what_a_broken_answer_cost_is_on_the_next_one_s_bill(stream: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("nodes.models.endpoint_errors._FIRST_PAUSE_S", 0.01)
    with chat_endpoint("raw", "cut_stream", "answer") as endpoint:
        endpoint.raw = billed_and_broken("delta" if stream else "message")
        message = opened(endpoint, stream=stream, retries=2).invoke(PROMPT)
    assert usage_of(message) == Usage(calls=1, input_tokens=22, output_tokens=14, dollars=0.005)


def test_what_the_answers_of_a_model_cost_that_failed_is_known_and_goes_over_to_the_next_model() -> None:
    once = Usage(input_tokens=11, output_tokens=7, dollars=0.0025)
    with chat_endpoint("raw") as gone, chat_endpoint() as other, chat_endpoint("raw") as gone_too:
        gone.raw = gone_too.raw = billed_and_broken()
        with pytest.raises(ModelUnavailableError) as failed:
            opened(gone).invoke(PROMPT)
        assert failed.value.lost == once
        with pytest.raises(ModelUnavailableError) as both:
            opened(gone, fallback=spare(gone_too)).invoke(PROMPT)
        assert both.value.lost == once + once
        spent = usage_of(opened(gone, fallback=spare(other)).invoke(PROMPT))
    assert (spent.calls, spent.input_tokens, spent.dollars) == (1, 22, 0.005)


def test_a_redirect_is_not_followed() -> None:
    with chat_endpoint() as other, chat_endpoint("redirect") as endpoint:
        endpoint.elsewhere = f"{other.base_url}/chat/completions"
        with pytest.raises(ModelUnavailableError, match=r"elsewhere \(status 307\), to http"):
            opened(endpoint, retries=9).invoke(PROMPT)
    assert (len(endpoint.requests), other.requests) == (1, [])


def test_a_compressed_body_is_read() -> None:
    with chat_endpoint("squeezed") as endpoint:
        assert opened(endpoint, stream=False).invoke(PROMPT).text == endpoint.answer


@pytest.mark.parametrize("behaviour", ["squeezed_bomb", "squeezed_error"])
def test_a_compressed_body_is_bounded_while_it_is_read(behaviour: Behaviour) -> None:
    tracemalloc.start()
    try:
        assert "more than 16 MiB" in failure(behaviour, stream=False)
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert most < 60 << 20


@pytest.mark.parametrize("behaviour", ["hang", "comments", "blank_tokens", "slow_headers"])
def test_silence_ends_a_call_whatever_arrives(behaviour: Behaviour) -> None:
    started = time.monotonic()
    assert "sent no token for 0.3 s" in failure(behaviour, silence_s=0.3)
    assert time.monotonic() - started < 10


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("behaviour", ["comments", "blank_tokens", "slow_headers"])
def test_an_answers_time_ends_whatever_arrives(behaviour: Behaviour, stream: bool) -> None:
    started = time.monotonic()
    assert "did not answer within 0.3 s" in failure(behaviour, stream=stream, timeout_s=0.3)
    assert time.monotonic() - started < 10


def test_thoughts_are_no_silence_and_no_answer() -> None:
    with chat_endpoint("thinks") as endpoint:
        assert opened(endpoint, silence_s=0.8).invoke(PROMPT).text == endpoint.answer


@pytest.mark.parametrize(("behaviour", "times"), [("hang", 2), ("not_json", 3)])
def test_a_silence_and_nonsense_are_not_asked_for_ten_times(
    behaviour: Behaviour, times: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("nodes.models.endpoint_errors._FIRST_PAUSE_S", 0.01)
    with chat_endpoint(behaviour) as endpoint, pytest.raises(ModelUnavailableError):
        opened(endpoint, retries=9, silence_s=0.5).invoke(PROMPT)
    assert len(endpoint.requests) == times


def test_a_line_without_end_is_given_up() -> None:
    assert "an event of more than 8 MiB" in failure("endless_line")


BRACKETS = "[" * 200_000


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize(
    "raw",
    [
        BRACKETS,
        f'{{"choices": {BRACKETS}',
        f'{{"choices": [], "created": {"9" * 5000}}}',
        "[1]", "null", '{"choices": 7}', '{"choices": [[]]}',
    ],
    ids=lambda raw: raw[:24],
)  # fmt: skip
def test_json_of_another_kind_is_named(raw: str, stream: bool) -> None:
    with chat_endpoint("raw", "answer") as endpoint, pytest.raises(ModelUnavailableError, match="else than a chat"):
        endpoint.raw = raw
        opened(endpoint, stream=stream).invoke(PROMPT)


ODD_FIELDS = (
    {"content": 7}, {"content": {"text": "x"}}, {"content": [7, {"text": 8}]}, {"refusal": ["no"]},
    {"tool_calls": "call"}, {"tool_calls": ["call"]}, {"tool_calls": {"index": 0}}, {"reasoning": 3}, {"role": None},
)  # fmt: skip


@pytest.mark.parametrize("place", ["delta", "message"])
@pytest.mark.parametrize("odd", ODD_FIELDS, ids=str)
def test_a_field_of_another_type_says_nothing(odd: dict[str, Any], place: str) -> None:
    with chat_endpoint("raw") as endpoint:
        usage = {**endpoint.usage, "prompt_tokens_details": "none"}
        endpoint.raw = json.dumps({"choices": [{place: odd, "finish_reason": 3}], "usage": usage})
        message = opened(endpoint, stream=place == "delta").invoke(PROMPT)
    assert (message.text, message.tool_calls, message.invalid_tool_calls) == ("", [], [])
    assert Bill.of(message) == Bill(dollars=0.0025)
    assert usage_of(message).input_tokens == 11


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("count", [10**30, 1e30, 1.5, -1, "11", True, None, [11], float("nan")], ids=str)
def test_a_count_that_is_none_leaves_the_paid_answer_counted(count: Any, stream: bool) -> None:
    with chat_endpoint() as endpoint:
        endpoint.usage = {"prompt_tokens": count, "completion_tokens": 7.0, "cost": 0.5}
        message = opened(endpoint, stream=stream, prices=(("m", Price(input=1.0, output=1.0)),)).invoke(PROMPT)
        endpoint.usage |= {"cost": count if count != 1.5 else 1e30}
        unpriced = opened(endpoint, stream=stream, prices=(("m", Price(input=1.0, output=1.0)),)).invoke(PROMPT)
    assert usage_of(message) == Usage(calls=1, output_tokens=7, dollars=0.5)
    assert usage_of(unpriced) == Usage(calls=1, output_tokens=7, unpriced_calls=1)


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize(
    "arguments",
    [BRACKETS, f'{{"q": {"[" * 20}{"]" * 20}}}', "[1,2]", "7", f'{{"q": {2**80}}}', f'{{"q": {"9" * 5000}}}',
     '{"q": NaN}', '{"q": 1e999}'],
    ids=lambda text: text[:16],
)  # fmt: skip
def test_arguments_that_nobody_can_keep_make_an_invalid_call(arguments: str, stream: bool) -> None:
    with chat_endpoint(script=[Scripted(tool="look_up", arguments=arguments)]) as endpoint:
        message = opened(endpoint, stream=stream).invoke(PROMPT)
    [call] = message.invalid_tool_calls
    assert (message.tool_calls, call["name"], call["args"]) == ([], "look_up", arguments)
    assert usage_of(message).dollars == 0.0025


@pytest.mark.parametrize("place", ["delta", "message"])
def test_a_thousand_calls_are_too_many(place: str) -> None:
    call = {"function": {"name": "look_up", "arguments": "{}"}}
    with chat_endpoint("raw") as endpoint, pytest.raises(ModelUnavailableError, match="more than 100 tool calls"):
        endpoint.raw = json.dumps({"choices": [{place: {"tool_calls": [call] * 1000}}]})
        opened(endpoint, stream=place == "delta").invoke(PROMPT)


@pytest.mark.parametrize("stream", [False, True])
def test_the_key_comes_back_in_no_field(stream: bool) -> None:
    heard: list[Any] = []

    class Listener(BaseCallbackHandler):
        def on_llm_new_token(self, token: str, **told: Any) -> None:
            heard.append((token, told["chunk"].model_dump_json()))

        def on_llm_end(self, response: Any, **_: Any) -> None:
            heard.append(response.model_dump_json())

    with chat_endpoint("key_everywhere") as endpoint:
        message = opened(endpoint, stream=stream).invoke(PROMPT, config={"callbacks": [Listener()]})
    assert KEY not in message.model_dump_json()
    assert KEY not in str(heard)
    assert message.text == "It is [key]."
    [call] = message.tool_calls
    assert (call["name"], call["args"]) == ("say_[key]", {"query": "[key]", "again": "[key]"})
    assert (Bill.of(message).finish, Bill.of(message).refusal) == ("other", "[key]")
