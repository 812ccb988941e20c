"""An answer's pieces: read as data, bounded, and joined to calls and texts that are whole or none."""

from __future__ import annotations

import itertools
import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from langchain_core.callbacks import CallbackManagerForLLMRun
from langchain_core.messages import AIMessage

from nodes.models.border import keyless
from nodes.models.openai_chat import message_of
from nodes.models.streaming import MAX_ANSWER_CHARS, MAX_THOUGHT_CHARS, CallPart, Piece, joined_pieces, read, told

KEY = "sk-sk-ab"


def event(text: str = "", *arguments: str | None, name: str | None = None) -> dict[str, Any]:
    """Text, and a part of each call's arguments; who names the tools begins the calls."""
    calls = [
        {"index": index, "id": f"c{index}" if name else None, "function": {"name": name, "arguments": part}}
        for index, part in enumerate(arguments)
    ]
    return {"choices": [{"delta": {"content": text, "tool_calls": calls}}]}


def whole(*events: dict[str, Any]) -> AIMessage:
    return message_of(joined_pieces(read(events, "delta")), KEY, None, "answer")


HALF = MAX_ANSWER_CHARS // 2


@pytest.mark.parametrize(
    ("lengths", "fits"), [((HALF, HALF), True), ((HALF, HALF, 0, 1), False), ((MAX_ANSWER_CHARS + 1,), False)]
)
def test_text_and_arguments_count_until_they_are_too_many(lengths: tuple[int, ...], fits: bool) -> None:
    for stream in ([event("x" * each) for each in lengths], [event("", "", "x" * each) for each in lengths]):
        if fits:
            assert len(list(read(stream, "delta"))) == len(lengths)
        else:
            with pytest.raises(ValueError, match="more than 1000000 characters"):
                list(read(stream, "delta"))


def test_thoughts_are_counted_and_not_kept() -> None:
    thought = {"choices": [{"delta": {"reasoning": "x" * (MAX_THOUGHT_CHARS // 2)}}]}
    assert joined_pieces(read([thought, thought, event("So")], "delta")) == Piece(text="So")
    with pytest.raises(ValueError, match="more than"):
        list(read([thought] * 3, "delta"))


def test_pieces_that_say_nothing_have_an_end_too(monkeypatch: pytest.MonkeyPatch) -> None:
    """A reason for the end has no length that counts: a stream of nothing else would fill the memory."""
    monkeypatch.setattr("nodes.models.streaming.MAX_ANSWER_CHARS", 100)
    ends = {"choices": [{"finish_reason": "stop"}]}
    assert len(list(read([ends] * 100, "delta"))) == 100
    pieces = read(itertools.repeat(ends), "delta")
    with pytest.raises(ValueError, match="more than"):
        for _ in pieces:
            pass


def test_a_stream_has_to_hold_a_choice() -> None:
    with pytest.raises(ValueError, match="no event"):
        list(read([{"greeting": "hello"}], "delta"))
    assert list(read([event()], "delta")) == [], "an empty one is one, too"


def test_all_pieces_of_an_answer_are_told_under_one_id() -> None:
    heard: list[Any] = []

    class Ear(CallbackManagerForLLMRun):
        def on_llm_new_token(self, token: Any, *, chunk: Any = None, **_: Any) -> None:
            heard.append((token, chunk.message.id, [part["args"] for part in chunk.message.tool_call_chunks]))

    pieces = [Piece(text="a"), Piece(calls=(CallPart(index=0, args='{"q'),))]
    assert list(told(pieces, Ear.get_noop_manager(), "one")) == pieces
    assert heard == [("a", "one", []), ("", "one", ['{"q'])]


@given(
    st.lists(st.sampled_from([KEY, "sk-", "s", "ab", " "]), max_size=9).map("".join),
    st.lists(st.integers(0, 40), max_size=6),
)
def test_the_key_is_taken_out_however_it_is_cut(text: str, cuts: list[int]) -> None:
    ends = sorted(cuts)
    parts = [text[start:end] for start, end in zip([0, *ends], [*ends, len(text)], strict=True)]
    for kind in ("text", "args"):
        pieces = [Piece(text=part) if kind == "text" else Piece(calls=(CallPart(0, args=part),)) for part in parts]
        clean = list(keyless(pieces, KEY))
        said = "".join(piece.text + "".join(call.args for call in piece.calls) for piece in clean)
        assert KEY not in said
        assert said.replace("[key]", KEY) == text
    assert list(keyless(pieces, "none")) == pieces, "what stands for no key is a common word"


@pytest.mark.parametrize(
    ("arguments", "read_as"),
    [
        ('{"query": "tile"}', {"query": "tile"}),
        ("", {}),
        ('{"query": "ti', None),
        ('["query"]', None),
        ("3", None),
    ],
)
def test_a_call_whose_arguments_broke_off_is_no_call(arguments: str, read_as: dict[str, str] | None) -> None:
    message = whole(event("So"), event("", arguments[:5], name="t"), event("", arguments[5:]))
    assert message.text == "So"
    assert [call["args"] for call in message.tool_calls] == ([] if read_as is None else [read_as])
    assert [call["args"] for call in message.invalid_tool_calls] == ([arguments] if read_as is None else [])
    (call,) = (*message.tool_calls, *message.invalid_tool_calls)
    kind = "invalid_tool_call" if read_as is None else "tool_call"
    assert (call["type"], call["id"], call["name"]) == (kind, "c0", "t")


def part(index: int | None, arguments: str, *, name: str | None = None, own: str | None = None) -> dict[str, Any]:
    return {"index": index, "id": own, "function": {"name": name, "arguments": arguments}}


def streamed(*deltas: list[dict[str, Any]] | None) -> AIMessage:
    """What events with these parts of calls make."""
    return whole(*({"choices": [{"delta": {"content": "", "tool_calls": calls}}]} for calls in deltas))


def test_parts_go_on_with_the_call_of_their_index() -> None:
    message = streamed(
        [part(0, "", name="one", own="a"), part(1, '{"n"', name="two", own="b")],
        None,
        [part(1, ": 2}"), part(0, '{"n": 1}')],
    )
    assert [(call["id"], call["name"], call["args"]) for call in message.tool_calls] == [
        ("a", "one", {"n": 1}), ("b", "two", {"n": 2}),
    ]  # fmt: skip


def test_another_id_begins_another_call_and_the_same_id_does_not() -> None:
    """Some servers count every call as the first, and repeat the id with each part."""
    message = streamed(
        [part(0, "{", name="t", own="a")], [part(0, "}", own="a")], [part(0, '{"n": 2}', name="t", own="b")]
    )
    assert [(call["id"], call["args"]) for call in message.tool_calls] == [("a", {}), ("b", {"n": 2})]


def test_calls_without_an_index_are_each_their_own() -> None:
    message = streamed([part(None, "{}", name="t", own="a"), part(None, "{}", name="u")])
    assert [(call["id"], call["name"]) for call in message.tool_calls] == [("a", "t"), (None, "u")]


def test_many_parts_are_joined_in_time_that_grows_with_their_number() -> None:
    started = time.process_time()
    message = whole(event("", "", name="t"), *[event("", "x" * 50)] * 10_000)
    assert time.process_time() - started < 20.0  # half a second on an idle machine; as JSON that broke off, minutes
    assert [len(call["args"] or "") for call in message.invalid_tool_calls] == [500_000]
