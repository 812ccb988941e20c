"""A streamed answer: bounded in time and size, and whole only where its last piece is there."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import pytest
from langchain_core.messages import AIMessage, AIMessageChunk
from langchain_core.outputs import ChatGenerationChunk

from nodes.models.endpoint_errors import OutOfTimeError
from nodes.models.pieces import MAX_ANSWER_CHARS, in_time, take_calls, told, whole


def piece(text: str = "", *arguments: str | None, name: str | None = None) -> ChatGenerationChunk:
    """Text, and a part of each call's arguments; who names the tools begins the calls."""
    calls = [
        {"type": "tool_call_chunk", "index": index, "id": f"c{index}" if name else None, "name": name, "args": part}
        for index, part in enumerate(arguments)
    ]
    return ChatGenerationChunk(message=AIMessageChunk(text, tool_call_chunks=calls))


def text_of(length: int) -> str:
    """A text of this length that is JSON, too: LangChain looks at arguments as they come."""
    return f'"{"a" * (length - 2)}"' if length > 1 else "1" * length


HALF = MAX_ANSWER_CHARS // 2


@pytest.mark.parametrize(
    ("lengths", "fits"), [((HALF, HALF), True), ((HALF, HALF, 0, 1), False), ((MAX_ANSWER_CHARS + 1,), False)]
)
def test_text_and_arguments_count_until_they_are_too_many(lengths: tuple[int, ...], fits: bool) -> None:
    pieces = [text_of(length) for length in lengths]
    for stream in (map(piece, pieces), (piece("", None, each) for each in pieces)):
        if fits:
            assert len(list(in_time(stream, 60.0))) == len(pieces)
        else:
            with pytest.raises(ValueError, match="more than 1000000 characters"):
                list(in_time(stream, 60.0))


def test_a_stream_ends_with_its_time_and_has_to_say_something() -> None:
    came: list[ChatGenerationChunk] = []

    def endless() -> Iterator[ChatGenerationChunk]:
        while True:
            came.append(piece())
            yield came[-1]

    with pytest.raises(OutOfTimeError):
        list(in_time(endless(), 0.0))
    assert len(came) <= 2
    with pytest.raises(ValueError, match="no event"):
        list(in_time(iter(()), 60.0))
    assert len(list(in_time(iter([piece()]), 60.0))) == 1, "an empty piece is one, too"


def test_all_pieces_of_an_answer_have_one_id_and_another_answer_has_another() -> None:
    ids = [{each.message.id for each in told(map(piece, ("a", "b")), None)} for _ in range(2)]
    assert [len(each) for each in ids] == [1, 1]
    assert ids[0] != ids[1]


@pytest.mark.parametrize(
    ("arguments", "read"),
    [
        ('{"query": "tile"}', {"query": "tile"}),
        ("", {}),
        ('{"query": "ti', None),
        ('["query"]', None),
        ("3", None),
    ],
)
def test_a_call_whose_arguments_broke_off_is_no_call(arguments: str, read: dict[str, str] | None) -> None:
    pieces = [piece("", arguments[:5], name="t"), piece("", arguments[5:])]
    message = whole(iter([piece("So"), *pieces])).generations[0].message
    assert isinstance(message, AIMessage)
    assert message.text == "So"
    assert [call["args"] for call in message.tool_calls] == ([] if read is None else [read])
    assert [call["args"] for call in message.invalid_tool_calls] == ([arguments] if read is None else [])
    (call,) = (*message.tool_calls, *message.invalid_tool_calls)
    kind = "invalid_tool_call" if read is None else "tool_call"
    assert (call["type"], call["id"], call["name"]) == (kind, "c0", "t")


def part(index: int | None, arguments: str, *, name: str | None = None, own: str | None = None) -> dict[str, Any]:
    return {"index": index, "id": own, "function": {"name": name, "arguments": arguments}}


def streamed(*deltas: list[dict[str, Any]] | None) -> AIMessage:
    """What events with these parts of calls make."""
    pieces = []
    for calls in deltas:
        event = {"choices": [{"delta": {"content": "", "tool_calls": calls}}]}
        told_of = AIMessageChunk("")
        told_of.tool_call_chunks = take_calls(event)
        assert "tool_calls" not in event["choices"][0]["delta"], "nobody else parses them"
        pieces.append(ChatGenerationChunk(message=told_of))
    message = whole(iter(pieces)).generations[0].message
    assert isinstance(message, AIMessage)
    assert [len(piece.message.tool_call_chunks) for piece in pieces] == [len(calls or ()) for calls in deltas]  # type: ignore[attr-defined]
    return message


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
    pieces = [piece("", "", name="t")]
    following = piece("", "x" * 50)
    started = time.process_time()
    message = whole(iter(pieces + [following] * 10_000)).generations[0].message
    assert time.process_time() - started < 5.0  # half a second on an idle machine; as JSON that broke off, minutes
    assert isinstance(message, AIMessage)
    assert [len(call["args"] or "") for call in message.invalid_tool_calls] == [500_000]
