"""A chat endpoint on loopback for tests: it speaks /v1/chat/completions well, or badly in a chosen way."""

from __future__ import annotations

import gzip
import json
import re
import threading
import time
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Literal

Behaviour = Literal[
    "answer", "unauthorized", "limited", "broken", "hang", "trickle", "truncated", "cut_stream", "not_json",
    "other_json", "too_long", "unknown_model", "no_usage", "script", "quota", "bad_event", "error_event", "odd_usage",
    "tells_the_key", "answers_the_key", "endless", "looks_up",
    "redirect", "squeezed", "squeezed_bomb", "squeezed_error", "comments", "blank_tokens", "slow_headers",
    "endless_line", "raw", "key_everywhere", "thinks", "hung_up_on",
    "recorded",
]  # fmt: skip

USAGE = {"prompt_tokens": 11, "completion_tokens": 7, "total_tokens": 18, "cost": 0.0025}


@dataclass(frozen=True)
class Scripted:
    """One answer of a script: its text, or a tool call by name and arguments; `cut` says that the limit cut it off."""

    text: str = ""
    tool: str = ""
    arguments: str = ""
    cut: bool = False
    refusal: str = ""
    tokens: int = 18

    def completion(self, number: int) -> dict[str, Any]:
        call = {
            "id": f"call-{number}",
            "type": "function",
            "function": {"name": self.tool, "arguments": self.arguments},
        }
        message: dict[str, Any] = {"role": "assistant", "content": self.text}
        message |= {"tool_calls": [call]} if self.tool else {}
        message |= {"refusal": self.refusal, "content": None} if self.refusal else {}
        finish = "tool_calls" if self.tool else "length" if self.cut else "stop"
        usage = {"prompt_tokens": self.tokens - 7, "completion_tokens": 7, "total_tokens": self.tokens, "cost": 0.0025}
        body = _completion(self.text, usage)
        return body | {"choices": [{"index": 0, "finish_reason": finish, "message": message}]}


@dataclass
class ChatEndpoint:
    """`behaviours` are used one a request, the last one from then on; `requests` keeps what came in.

    `script` is what the behaviour "script" answers, one a request. `usage` is what the others report, `retry_after`
    what "limited" asks for. Each request takes `delay_s`; `at_once` is the most that were under way together, `began`
    when each came in (time.monotonic), `reached` that one has. "hung_up_on"
    sets `left` when its client has. "redirect" sends `elsewhere`, "raw" answers `raw`, as one event or as the body,
    "recorded" as it is, in small pieces.
    """

    behaviours: list[Behaviour]
    answer: str = "an answer of some words"
    requests: list[dict[str, Any]] = field(default_factory=list)
    keys: list[str] = field(default_factory=list)
    base_url: str = ""
    script: list[Scripted] = field(default_factory=list)
    released: threading.Event = field(default_factory=threading.Event)
    usage: dict[str, Any] = field(default_factory=lambda: dict(USAGE))
    retry_after: str = "0"
    elsewhere: str = ""
    raw: str = ""
    delay_s: float = 0.0
    reached: threading.Event = field(default_factory=threading.Event)
    left: threading.Event = field(default_factory=threading.Event)
    lookups: int = 0
    at_once: int = 0
    began: list[float] = field(default_factory=list)
    _under_way: int = 0
    _lock: threading.Lock = field(default_factory=threading.Lock)

    @contextmanager
    def serving(self, request: dict[str, Any], key: str) -> Iterator[Behaviour]:
        """Keep one request, and count it among those under way until it is answered."""
        with self._lock:
            self.requests.append(request)
            self.keys.append(key)
            self.began.append(time.monotonic())
            self._under_way += 1
            self.reached.set()
            self.at_once = max(self.at_once, self._under_way)
            behaviour = self.next_behaviour()
        try:
            self.released.wait(self.delay_s)
            yield behaviour
        finally:
            with self._lock:
                self._under_way -= 1

    def next_behaviour(self) -> Behaviour:
        return self.behaviours[min(len(self.requests), len(self.behaviours)) - 1]


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: _Server

    def handle(self) -> None:
        with suppress(ConnectionResetError):  # a client that ended its last connection in a hurry
            super().handle()

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
        """Keep the test's output clean."""

    def do_POST(self) -> None:
        endpoint = self.server.endpoint
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        key = self.headers.get("Authorization", "")
        with endpoint.serving(body | {"path": self.path}, key) as behaviour:
            # A client that gave up closes its end; that is what some of the tests are about.
            try:
                getattr(self, f"_{behaviour}")(endpoint, body)
            except (BrokenPipeError, ConnectionResetError):
                self.close_connection = True

    def _answer(self, endpoint: ChatEndpoint, body: dict[str, Any]) -> None:
        self._complete(_completion(endpoint.answer, endpoint.usage), body)

    def _script(self, endpoint: ChatEndpoint, body: dict[str, Any]) -> None:
        number = len(endpoint.requests)
        self._complete(endpoint.script[number - 1].completion(number), body)

    def _no_usage(self, endpoint: ChatEndpoint, body: dict[str, Any]) -> None:
        self._complete(_completion(endpoint.answer, None), body)

    def _unauthorized(self, endpoint: ChatEndpoint, body: dict[str, Any]) -> None:
        self._send(401, _error("Incorrect API key provided: sk-****.", "invalid_api_key"))

    def _unknown_model(self, endpoint: ChatEndpoint, body: dict[str, Any]) -> None:
        self._send(404, _error(f"The model {body['model']} is not served here.", "model_not_found"))

    def _too_long(self, endpoint: ChatEndpoint, body: dict[str, Any]) -> None:
        self._send(400, _error("This model's maximum context length is 4096 tokens.", "context_length_exceeded"))

    def _limited(self, endpoint: ChatEndpoint, body: dict[str, Any]) -> None:
        self._send(429, _error("Rate limit reached.", "rate_limit_exceeded"), {"Retry-After": endpoint.retry_after})

    def _quota(self, endpoint: ChatEndpoint, body: dict[str, Any]) -> None:
        self._send(429, _error("You exceeded your current quota.", "insufficient_quota"))

    def _tells_the_key(self, endpoint: ChatEndpoint, body: dict[str, Any]) -> None:
        self._send(400, _error(f"Bad header: {self.headers.get('Authorization')}.", "bad_header"))

    def _answers_the_key(self, endpoint: ChatEndpoint, body: dict[str, Any]) -> None:
        self._complete(_completion(f"You sent {self.headers.get('Authorization')}.", endpoint.usage), body)

    def _looks_up(self, endpoint: ChatEndpoint, body: dict[str, Any]) -> None:
        """One conversation among several: it calls a tool `lookups` times, then gives the answer."""
        served = sum(message["role"] == "tool" for message in body["messages"])
        call = Scripted(tool="look_up", arguments='{"query": "tile"}').completion(served)
        self._complete(call if served < endpoint.lookups else _completion(endpoint.answer, endpoint.usage), body)

    def _odd_usage(self, endpoint: ChatEndpoint, body: dict[str, Any]) -> None:
        usage = {"prompt_tokens": -3, "completion_tokens": 7, "total_tokens": 4, "cost": "free"}
        self._complete(_completion(endpoint.answer, usage), body)

    def _bad_event(self, endpoint: ChatEndpoint, body: dict[str, Any]) -> None:
        self._start_events()
        self._event(_chunk({"role": "assistant", "content": "half an"}))
        self._piece(b'data: {"choices": [{"delta": \n\n')
        self._piece(b"")

    def _error_event(self, endpoint: ChatEndpoint, body: dict[str, Any]) -> None:
        self._start_events()
        self._event(_chunk({"role": "assistant", "content": "half an"}))
        self._event(_error("The engine fell over in the middle.", "internal"))
        self._piece(b"")

    def _endless(self, endpoint: ChatEndpoint, body: dict[str, Any]) -> None:
        self._start_events()
        for _ in range(100):
            self._event(_chunk({"content": "x" * 100_000}))
        self._piece(b"")

    def _broken(self, endpoint: ChatEndpoint, body: dict[str, Any]) -> None:
        self._send(500, _error("The engine fell over.", "internal"))

    def _redirect(self, endpoint: ChatEndpoint, body: dict[str, Any]) -> None:
        self._send(307, {}, {"Location": endpoint.elsewhere})

    def _squeezed(self, endpoint: ChatEndpoint, body: dict[str, Any]) -> None:
        text = json.dumps(_completion(endpoint.answer, endpoint.usage)).encode()
        self._body(gzip.compress(text), 200, {"Content-Encoding": "gzip"})

    def _squeezed_bomb(self, endpoint: ChatEndpoint, body: dict[str, Any]) -> None:
        self._body(_bomb(), 200, {"Content-Encoding": "gzip"})

    def _squeezed_error(self, endpoint: ChatEndpoint, body: dict[str, Any]) -> None:
        self._body(_bomb(), 400, {"Content-Encoding": "gzip"})

    def _hang(self, endpoint: ChatEndpoint, body: dict[str, Any]) -> None:
        endpoint.released.wait(30)
        self.close_connection = True

    def _hung_up_on(self, endpoint: ChatEndpoint, body: dict[str, Any]) -> None:
        """No byte is sent. Until the client has gone."""
        if self.connection.recv(1) == b"":
            endpoint.left.set()
        self.close_connection = True

    def _comments(self, endpoint: ChatEndpoint, body: dict[str, Any]) -> None:
        self._repeat(endpoint, b": PROCESSING\n\n")

    def _blank_tokens(self, endpoint: ChatEndpoint, body: dict[str, Any]) -> None:
        self._repeat(endpoint, b"data: " + json.dumps(_chunk({"role": "assistant", "content": ""})).encode() + b"\n\n")

    def _repeat(self, endpoint: ChatEndpoint, data: bytes) -> None:
        """The same until somebody has enough of it."""
        self._start_events()
        while not endpoint.released.wait(0.05):
            self._piece(data)
        self.close_connection = True

    def _slow_headers(self, endpoint: ChatEndpoint, body: dict[str, Any]) -> None:
        self.wfile.write(b"HTTP/1.1 200 OK\r\nX-Slow: ")
        while not endpoint.released.wait(0.05):
            self.wfile.write(b"x")
        self.close_connection = True

    def _endless_line(self, endpoint: ChatEndpoint, body: dict[str, Any]) -> None:
        self._start_events()
        self._piece(b'data: {"choices": ')
        for _ in range(20):
            self._piece(b"[" * (1 << 20))
        self._piece(b"")

    def _raw(self, endpoint: ChatEndpoint, body: dict[str, Any]) -> None:
        if body.get("stream"):
            self._start_events()
            self._piece(f"data: {endpoint.raw}\n\ndata: [DONE]\n\n".encode())
            self._piece(b"")
        else:
            self._body(endpoint.raw.encode())

    def _recorded(self, endpoint: ChatEndpoint, body: dict[str, Any]) -> None:
        data = endpoint.raw.encode()
        if not body.get("stream"):
            self._body(data)
            return
        self._start_events()
        for begin in range(0, len(data), 37):
            self._piece(data[begin : begin + 37])
        self._piece(b"")

    def _key_everywhere(self, endpoint: ChatEndpoint, body: dict[str, Any]) -> None:
        """In every field of the protocol, in some that are not of it, and cut between two pieces."""
        key = self.headers.get("Authorization", "").removeprefix("Bearer ")
        call = {"id": key, "type": "function", "function": {"name": f"say_{key}", "arguments": _spelt(key)}}
        message = {"role": key, "content": f"It is {key}.", "refusal": key, "tool_calls": [call], "reasoning": key}
        choice = {"index": 0, "finish_reason": key, "message": message}
        named = dict.fromkeys(("id", "model", "system_fingerprint", "service_tier", "object", key), key)
        completion = _completion("", {**endpoint.usage, key: key}) | named | {"choices": [choice]}
        if not body.get("stream"):
            self._send(200, completion)
            return
        delta = {**message, "content": f"It is {key[:9]}", "tool_calls": [{**call, "index": 0}]}
        rest = {"delta": {"content": f"{key[9:]}."}, "finish_reason": key}
        choices = ([{"index": 0, "delta": delta}], [{"index": 0, **rest}])
        self._events(completion | {"choices": each} for each in choices)

    def _thinks(self, endpoint: ChatEndpoint, body: dict[str, Any]) -> None:
        """It thinks for a while before it answers, and says no word of the answer meanwhile."""
        self._start_events()
        for _ in range(10):
            endpoint.released.wait(0.1)
            self._event(_chunk({"reasoning_content": "hm "}))
        self._event(_chunk({"content": endpoint.answer}, finish="stop"))
        self._piece(b"")

    def _trickle(self, endpoint: ChatEndpoint, body: dict[str, Any]) -> None:
        self._start_events()
        for _ in range(300):
            if endpoint.released.wait(0.05):
                break
            self._event(_chunk({"content": "and "}))
        self.close_connection = True

    def _truncated(self, endpoint: ChatEndpoint, body: dict[str, Any]) -> None:
        text = json.dumps(_completion(endpoint.answer, USAGE)).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text[: len(text) // 2])
        self.close_connection = True

    def _cut_stream(self, endpoint: ChatEndpoint, body: dict[str, Any]) -> None:
        self._start_events()
        self._event(_chunk({"role": "assistant", "content": "half an"}))
        self.close_connection = True

    def _not_json(self, endpoint: ChatEndpoint, body: dict[str, Any]) -> None:
        self._body(b'{"choices": [{"message": {"role": "assistant", ')

    def _other_json(self, endpoint: ChatEndpoint, body: dict[str, Any]) -> None:
        self._body(b'{"greeting": "hello"}')

    def _complete(self, completion: dict[str, Any], body: dict[str, Any]) -> None:
        """Answer in the way that was asked for: in one piece, or as events."""
        if body.get("stream"):
            self._events(_chunks_of(completion, body))
        else:
            self._send(200, completion)

    def _events(self, chunks: Iterator[dict[str, Any]]) -> None:
        self._start_events()
        for chunk in chunks:
            self._event(chunk)
        self._piece(b"data: [DONE]\n\n")
        self._piece(b"")

    def _start_events(self) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()

    def _event(self, chunk: dict[str, Any]) -> None:
        self._piece(b"data: " + json.dumps(chunk).encode() + b"\n\n")

    def _piece(self, data: bytes) -> None:
        self.wfile.write(b"%x\r\n%s\r\n" % (len(data), data))
        self.wfile.flush()

    def _send(self, status: int, payload: dict[str, Any], headers: dict[str, str] | None = None) -> None:
        self._body(json.dumps(payload).encode(), status, headers)

    def _body(self, data: bytes, status: int = 200, headers: dict[str, str] | None = None) -> None:
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        for name, value in (headers or {}).items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(data)


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    endpoint: ChatEndpoint


def _spelt(key: str) -> str:
    """Arguments that spell the key as it is, and in escapes."""
    escaped = "".join(f"\\u{ord(letter):04x}" for letter in key)
    return f'{{"query": "{key}", "again": "{escaped}"}}'


def _bomb() -> bytes:
    """100 MiB of zeros as gzip, made without ever holding them."""
    squeeze = zlib.compressobj(1, wbits=16 + zlib.MAX_WBITS)
    return b"".join(squeeze.compress(bytes(1 << 20)) for _ in range(100)) + squeeze.flush()


def _completion(text: str, usage: dict[str, Any] | None) -> dict[str, Any]:
    choice = {"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": text}}
    body = {"id": "c1", "object": "chat.completion", "created": 1, "model": "m", "choices": [choice]}
    return body | ({"usage": usage} if usage else {})


def _chunk(delta: dict[str, Any], finish: str | None = None) -> dict[str, Any]:
    choice = {"index": 0, "delta": delta, "finish_reason": finish}
    return {"id": "c1", "object": "chat.completion.chunk", "created": 1, "model": "m", "choices": [choice]}


def _chunks_of(completion: dict[str, Any], body: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """A completion in pieces: text by lines and half characters, tool calls name first, the usage last if asked for."""
    (choice,) = completion["choices"]
    message = choice["message"]
    yield _chunk({"role": "assistant", "content": ""})
    for piece in filter(None, re.split("(?<=[\n\ud800-\udbff])", message["content"] or "")):
        yield _chunk({"content": piece})
    for piece in (message.get("refusal") or "").split(" ") if message.get("refusal") else ():
        yield _chunk({"refusal": piece + " "})
    for index, call in enumerate(message.get("tool_calls", [])):
        function = call["function"]
        yield _chunk({"tool_calls": [{**call, "index": index, "function": {**function, "arguments": ""}}]})
        yield _chunk({"tool_calls": [{"index": index, "function": {"arguments": function["arguments"]}}]})
    yield _chunk({}, finish=choice["finish_reason"])
    if (body.get("stream_options") or {}).get("include_usage") and completion.get("usage"):
        yield _chunk({}) | {"choices": [], "usage": completion["usage"]}


def _error(message: str, code: str) -> dict[str, Any]:
    return {"error": {"message": message, "type": "error", "code": code}}


@contextmanager
def chat_endpoint(
    *behaviours: Behaviour, answer: str = "an answer of some words", script: Sequence[Scripted] = ()
) -> Iterator[ChatEndpoint]:
    """Serve on a free loopback port until the block ends; hanging requests are let go then."""
    endpoint = ChatEndpoint(list(behaviours or (("script",) if script else ("answer",))), answer, script=list(script))
    server = _Server(("127.0.0.1", 0), _Handler)
    server.endpoint = endpoint
    endpoint.base_url = f"http://127.0.0.1:{server.server_address[1]}/v1"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    try:
        yield endpoint
    finally:
        endpoint.released.set()
        server.shutdown()
        server.server_close()
        thread.join()
