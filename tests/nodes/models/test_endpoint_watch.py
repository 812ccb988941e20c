"""The clock over what is awaited, and events read from bytes."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nodes.models.endpoint_errors import OutOfTimeError, SilentError
from nodes.models.openai_chat import events
from nodes.models.watch import watched


def test_what_is_made_comes_in_order_and_its_errors_come_too() -> None:
    def some() -> Iterator[int]:
        yield from (1, 2)
        raise KeyError("three")

    got = []
    with pytest.raises(KeyError, match="three"):
        for item in watched(some, silence_s=60.0, answer_s=60.0):
            got.append(item)
    assert got == [1, 2]


@pytest.mark.parametrize(("silence_s", "answer_s", "error"), [(0.1, 60.0, SilentError), (60.0, 0.1, OutOfTimeError)])
def test_who_waits_is_let_go_and_the_reader_ends(silence_s: float, answer_s: float, error: type[Exception]) -> None:
    released, ended = threading.Event(), threading.Event()

    def stuck() -> Iterator[int]:
        try:
            yield 1
            released.wait(30)
            yield 2
        finally:
            ended.set()

    with pytest.raises(error):
        list(watched(stuck, silence_s=silence_s, answer_s=answer_s))
    released.set()
    assert ended.wait(30), "the connection is closed where nobody waits any more"


def test_an_answer_that_never_stops_to_come_is_out_of_time() -> None:
    stop = threading.Event()

    def endless() -> Iterator[int]:
        while not stop.wait(0.01):
            yield 1

    with pytest.raises(OutOfTimeError):
        list(watched(endless, silence_s=60.0, answer_s=0.1))
    stop.set()


@given(st.lists(st.integers(), max_size=4), st.integers(1, 9), st.sampled_from(["\n", "\r\n"]))
def test_events_are_found_however_the_bytes_are_cut(numbers: list[int], size: int, end: str) -> None:
    text = "".join(f": wait{end}{end}event: x{end}data: {json.dumps({'n': n})}{end}{end}" for n in numbers)
    body = f"{text}data: [DONE]{end}{end}data: no".encode()
    found = events(body[at : at + size] for at in range(0, len(body), size))
    assert [event["n"] for event in found] == numbers


def test_an_event_of_several_lines_and_one_without_its_end_are_read() -> None:
    assert list(events([b'data: {"n":\ndata: 1}\n\ndata:{"n": 2}'])) == [{"n": 1}, {"n": 2}]


@pytest.mark.parametrize("line", [b"x" * 1000, b"data: " + b"x" * 1000 + b"\n"])
def test_neither_a_line_nor_an_event_goes_on_for_ever(line: bytes) -> None:
    with pytest.raises(ValueError, match="more than 8 MiB"):
        list(events(line for _ in range(10_000)))
