"""The HTTP client at the border: it follows no redirect, and a body is bounded while it is read, compressed or not."""

from __future__ import annotations

import contextlib
import socket
import time
import zlib
from collections.abc import Iterable, Iterator
from dataclasses import replace
from functools import partial
from typing import Any, cast

import httpx2
import openai

from harness.wire.stopping import Stop, present
from nodes.address import NO_KEY
from nodes.models.endpoint_errors import without
from nodes.models.streaming import CallPart, Piece

MAX_BODY_BYTES = 16 << 20
MAX_STREAM_BYTES = 256 << 20
"""An answer of a million characters, an event of 250 bytes for each token of four."""

_STEP_BYTES = 1 << 16
_ZLIB_OR_GZIP = 32 + zlib.MAX_WBITS


class BorderClient(openai.DefaultHttpxClient):
    """What the OpenAI client sends its requests with.

    A redirect is an answer like any other: followed, it would hand the prompt to a host that nobody named. Bodies are
    asked for uncompressed; one that is compressed anyway is inflated here in small steps, for the library would inflate
    all that it has received at once. A body takes at most the request's own limit for a read, however it trickles.
    Each request has a connection of its own, which is cut where its context's work is given up, be it before a header
    has come: most endpoints go on with an answer, and with its bill, until their client has gone.
    """

    def __init__(self) -> None:
        super().__init__(follow_redirects=False, limits=httpx2.Limits(max_keepalive_connections=0))

    def send(self, request: httpx2.Request, *, stream: bool = False, **kwargs: Any) -> httpx2.Response:
        request.headers["Accept-Encoding"] = "identity"
        if stop := present():
            request.extensions["trace"] = partial(_cut_by, stop)
        response = super().send(request, stream=True, **kwargs | {"follow_redirects": False})
        response.stream = _Body(response, request)
        if not stream:
            response.read()
        return response


def _cut_by(stop: Stop, event: str, told: dict[str, Any]) -> None:
    """Have `stop` cut a connection that has just been made. Wrapped in TLS, its socket is another one."""
    if event in ("connection.connect_tcp.complete", "connection.start_tls.complete"):
        stop.add(partial(_shut, told["return_value"].get_extra_info("socket")))


def _shut(connected: socket.socket) -> None:
    with contextlib.suppress(OSError):
        connected.shutdown(socket.SHUT_RDWR)


class _Body(httpx2.SyncByteStream):
    """A response's own stream, inflated. Raises `ValueError` for one that is too long or cannot be inflated."""

    def __init__(self, response: httpx2.Response, request: httpx2.Request) -> None:
        self._stream = cast("httpx2.SyncByteStream", response.stream)
        self._encoding = response.headers.pop("content-encoding", "")
        told = response.headers.get("content-type", "").lower().startswith("text/event-stream")
        self._limit = MAX_STREAM_BYTES if told and response.is_success else MAX_BODY_BYTES
        self._request = request

    def __iter__(self) -> Iterator[bytes]:
        allowed_s = (self._request.extensions.get("timeout") or {}).get("read")
        until = time.monotonic() + allowed_s if allowed_s is not None else None
        length = 0
        for chunk in inflated(self._stream, self._encoding):
            length += len(chunk)
            if length > self._limit:
                raise ValueError(f"a body of more than {self._limit >> 20} MiB")
            if until is not None and time.monotonic() > until:
                raise httpx2.ReadTimeout("the body does not end", request=self._request)
            yield chunk

    def close(self) -> None:
        self._stream.close()


def inflated(chunks: Iterable[bytes], encoding: str) -> Iterator[bytes]:
    """The body behind a Content-Encoding, at most 64 KiB of it at a time. Raises `ValueError` where there is none."""
    match encoding.strip().lower():
        case "" | "identity":
            yield from chunks
        case "gzip" | "x-gzip" | "deflate":
            yield from _unzipped(chunks)
        case _:
            raise ValueError("a body in an encoding that was not asked for")


def _unzipped(chunks: Iterable[bytes]) -> Iterator[bytes]:
    unzip = zlib.decompressobj(_ZLIB_OR_GZIP)
    try:
        for chunk in chunks:
            yield unzip.decompress(chunk, _STEP_BYTES)
            while unzip.unconsumed_tail:
                yield unzip.decompress(unzip.unconsumed_tail, _STEP_BYTES)
    except zlib.error as error:
        raise ValueError("a body that cannot be decompressed") from error


# -- The key, which some endpoints repeat, out of an answer's pieces before anybody sees them -------------------------


class _Text:
    """A text in parts, of which each is given on without the key. What may be a key's beginning waits for the rest."""

    def __init__(self, key: str) -> None:
        self._key = key
        self._kept = ""

    def take(self, part: str) -> str:
        text = without(self._key, self._kept + part)
        end = self._begins(text)
        self._kept = text[end:]
        return text[:end]

    def rest(self) -> str:
        return self._kept

    def _begins(self, text: str) -> int:
        """Where an unfinished key at the end of the text begins; the text's end where none does."""
        at = text.find(self._key[0], max(0, len(text) - len(self._key) + 1))
        while at >= 0 and not self._key.startswith(text[at:]):
            at = text.find(self._key[0], at + 1)
        return at if at >= 0 else len(text)


def keyless(pieces: Iterable[Piece], key: str) -> Iterator[Piece]:
    """The pieces without the key, also where it is cut between them. Names and ids are cleaned whole, later."""
    if key == NO_KEY:
        yield from pieces
        return
    text, refusal = _Text(key), _Text(key)
    arguments: dict[int, _Text] = {}
    for piece in pieces:
        yield replace(
            piece,
            text=text.take(piece.text),
            refusal=refusal.take(piece.refusal),
            calls=tuple(_call(call, arguments, key) for call in piece.calls),
        )
    rests = (CallPart(index=index, args=held.rest()) for index, held in arguments.items())
    last = Piece(text=text.rest(), refusal=refusal.rest(), calls=tuple(part for part in rests if part.args))
    if last != Piece():
        yield last


def _call(call: CallPart, arguments: dict[int, _Text], key: str) -> CallPart:
    held = _Text(key) if call.index is None else arguments.setdefault(call.index, _Text(key))
    told = held.take(call.args)
    return replace(
        call,
        id=without(key, call.id),
        name=without(key, call.name),
        args=told + (held.rest() if call.index is None else ""),
    )
