"""Servers that answer below the level of messages, on a bare socket: each call ends within its limits all the same."""

from __future__ import annotations

import json
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress

import pytest
from langchain_core.messages import HumanMessage

from nodes.models.errors import ModelUnavailableError
from nodes.models.select import ModelOptions, open_model

LIMIT_S = 0.6
PATIENCE_S = 30.0
"""A call that ignores its limits goes on until then; one that holds them is over long before, on any machine."""

Hostile = Callable[[], Iterator[bytes]]
STREAM = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"


def event(text: str) -> bytes:
    """One chunk that holds one token."""
    body = f"data: {json.dumps({'choices': [{'index': 0, 'delta': {'content': text}}]})}\n\n".encode()
    return b"%x\r\n%s\r\n" % (len(body), body)


def interim() -> Iterator[bytes]:
    """The answer is always about to come: informational responses, each of them whole."""
    while True:
        yield b"HTTP/1.1 103 Early Hints\r\nLink: </v1>; rel=preload\r\n\r\n"


def chunk_extensions() -> Iterator[bytes]:
    """A chunk whose size is followed by extensions, for ever: bytes arrive, and no body."""
    yield STREAM + b"10"
    while True:
        yield b";x=y"


def invisible_tokens() -> Iterator[bytes]:
    """A true stream of true tokens, none of which can be seen: no silence, and no end."""
    yield STREAM
    while True:
        yield event("\u200b")


def trailers() -> Iterator[bytes]:
    """A whole answer, and behind its last chunk fields of a trailer that never ends."""
    end = b"data: [DONE]\n\n"
    yield STREAM + event("done") + b"%x\r\n%s\r\n0\r\n" % (len(end), end)
    while True:
        yield b"X-More: yes\r\n"


@contextmanager
def serving(answer: Iterator[bytes]) -> Iterator[str]:
    """The address of a server that gives its first caller these pieces, a few in each hundredth of a second."""
    over = threading.Event()
    with closing(socket.create_server(("127.0.0.1", 0))) as listening:
        listening.settimeout(PATIENCE_S)

        def serve() -> None:
            with suppress(OSError), closing(listening.accept()[0]) as caller:
                caller.recv(1 << 16)
                end = time.monotonic() + PATIENCE_S
                while time.monotonic() < end and not over.wait(0.01):
                    caller.sendall(next(answer))

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        try:
            yield f"http://127.0.0.1:{listening.getsockname()[1]}/v1"
        finally:
            over.set()
            thread.join(PATIENCE_S)
    assert not thread.is_alive()


@pytest.fixture(autouse=True)
def key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-a-key-that-nobody-may-see")
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")


@pytest.mark.parametrize("hostile", [interim, chunk_extensions, invisible_tokens])
def test_it_ends_within_the_limit_of_a_whole_answer(hostile: Hostile) -> None:
    started = time.monotonic()
    with serving(hostile()) as address:
        model = open_model("openai:m", ModelOptions(base_url=address, max_retries=0, timeout_s=LIMIT_S))
        with pytest.raises(ModelUnavailableError, match=r"did not answer within 0\.6 s"):
            model.invoke([HumanMessage("Write one.")])
    assert time.monotonic() - started < PATIENCE_S


@pytest.mark.parametrize("hostile", [interim, chunk_extensions])
def test_what_brings_no_token_is_silence(hostile: Hostile) -> None:
    with serving(hostile()) as address:
        model = open_model("openai:m", ModelOptions(base_url=address, max_retries=0, silence_s=LIMIT_S))
        with pytest.raises(ModelUnavailableError, match=r"sent no token for 0\.6 s"):
            model.invoke([HumanMessage("Write one.")])


def test_an_answer_that_is_whole_is_taken_whatever_comes_behind_it() -> None:
    with serving(trailers()) as address:
        model = open_model("openai:m", ModelOptions(base_url=address, max_retries=0, timeout_s=PATIENCE_S / 2))
        assert model.invoke([HumanMessage("Write one.")]).text == "done"
