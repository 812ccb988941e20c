"""OpenAI and every server that speaks a protocol of it: asked again where that may help, its cost known where it is.

Imported on first use only (see `nodes.models.select`).
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable, Iterator
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import httpx2
from langchain_core.callbacks import CallbackManagerForLLMRun
from langchain_core.messages import AIMessage, BaseMessage, InvalidToolCall, ToolCall
from langchain_core.messages.ai import InputTokenDetails, UsageMetadata
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_core.rate_limiters import BaseRateLimiter
from langchain_core.runnables import run_in_executor
from langchain_openai import ChatOpenAI
from pydantic import PrivateAttr, SecretStr
from tenacity import Retrying, retry_if_exception, stop_after_attempt, stop_any, stop_before_delay

from harness.wire.stopping import pause
from nodes.address import NO_KEY, Address, Price, PromptCaching
from nodes.models.border import BorderClient, keyless
from nodes.models.endpoint_errors import NoUse, OutOfTimeError, may_pass, naming, pause_s, require_no_error, without
from nodes.models.errors import ModelUnavailableError, left_s
from nodes.models.prompt_cache import keeping
from nodes.models.responses import as_chat
from nodes.models.streaming import Counts, Piece, joined_pieces, new_id, noted, read, told
from nodes.models.watch import limiter_of, take_turn, watched
from nodes.prompt_words import joined
from nodes.state import FellBack, Usage
from nodes.usage import Bill

if TYPE_CHECKING:
    from nodes.models.select import ModelOptions

_CONNECT_S = 10.0
_LEAST_S = 0.01
_LATER_S = 1.0


def open_endpoint(
    address: Address, options: ModelOptions, *, price: Price | None, spare: Endpoint | None, spec: str
) -> Endpoint:
    """A chat model behind an address. Nothing is sent yet."""
    rate = options.requests_per_minute
    return Endpoint(
        model_name=address.model,
        openai_api_key=SecretStr(address.key),
        openai_api_base=address.base_url,
        http_client=BorderClient(),
        max_retries=0,
        max_tokens=options.max_output_tokens,
        reasoning_effort=options.effort,
        temperature=options.temperature,
        use_responses_api=options.responses,
        store=False if options.responses else None,
        caching=options.caching,
        disable_streaming=True,
        tries=1 + options.max_retries,
        answer_s=options.timeout_s,
        silence_s=options.silence_s,
        streamed=options.stream,
        price=price,
        pace=limiter_of(address.base_url, rate) if rate else None,
        spare=spare,
        spec=spec,
    )


class Endpoint(ChatOpenAI):
    """`ChatOpenAI` that asks `tries` times; failures are `ModelUnavailableError`, answers carry a `Bill`.

    Every caller goes one way, `_generate`, which itself streams where `streamed` (`disable_streaming` is about the
    callers): the tokens reach the callbacks as they come. `answer_s`, and what a run has left (see `deadline`),
    bound an answer as a whole, `silence_s` a streamed one's wait for the next token, whatever else arrives (see
    `watch`). Of LangChain's class only the request is used: what is sent back is read in `events` and `pieces`. Once
    this endpoint has failed for good, `spare` answers, and each of its answers says so. `spec` is the model's name in
    the settings, `pace` bounds the requests of all runs.
    """

    tries: int
    answer_s: float
    silence_s: float
    streamed: bool
    spec: str
    caching: PromptCaching = "unasked"
    price: Price | None = None
    pace: BaseRateLimiter | None = None
    spare: Endpoint | None = None
    _gone: str = PrivateAttr(default="")

    def _generate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: CallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> ChatResult:
        """One answer. Raises `ModelUnavailableError` where neither this endpoint nor its spare gives any."""
        lost = Usage()
        if not self._gone:
            try:
                return self._persist(messages, stop, run_manager, **kwargs)
            except ModelUnavailableError as error:
                if self.spare is None:
                    raise
                self._gone, lost = error.problem, error.lost
        assert self.spare is not None
        try:
            result = self.spare._generate(messages, stop, run_manager, **kwargs)
        except ModelUnavailableError as error:
            error.lost += lost
            raise
        because = FellBack(model=self.spec, answered_by=self.spare.spec, because=self._gone)
        return _billed(result, lost=lost, fell_back=because)

    async def _agenerate(
        self, messages: list[BaseMessage], stop: list[str] | None = None, run_manager: Any = None, **kwargs: Any
    ) -> ChatResult:
        return await run_in_executor(None, self._generate, messages, stop, **kwargs)

    def _persist(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None,
        run_manager: CallbackManagerForLLMRun | None,
        **kwargs: Any,
    ) -> ChatResult:
        """Ask until there is an answer, the tries are used up, or asking again is of no use."""
        again = Retrying(
            stop=stop_any(stop_after_attempt(self.tries), stop_before_delay(left_s()), NoUse()),
            wait=lambda state: pause_s(state.outcome.exception() if state.outcome else None, state.attempt_number),
            retry=retry_if_exception(may_pass),
            sleep=pause,
            before_sleep=run_manager.on_retry if run_manager else None,
            reraise=True,
        )
        lost: list[Usage] = []
        try:
            with naming(self.model_name, str(self.openai_api_base), min(self.answer_s, left_s()), self._key):
                result = again(self._once, lost, messages, stop, run_manager, **kwargs)
        except ModelUnavailableError as error:
            error.lost = sum(lost, Usage())
            raise
        return _billed(result, lost=sum(lost, Usage()))

    def _once(
        self,
        lost: list[Usage],
        messages: list[BaseMessage],
        stop: list[str] | None,
        run_manager: CallbackManagerForLLMRun | None,
        **kwargs: Any,
    ) -> ChatResult:
        if self.pace is not None and not take_turn(self.pace, left_s()):
            raise OutOfTimeError
        answer_s = max(_LEAST_S, min(self.answer_s, left_s()))
        # The watch is to be the first to find out, and to name it.
        kwargs["timeout"] = httpx2.Timeout(answer_s + _LATER_S, connect=min(answer_s, _CONNECT_S))
        if self.streamed:
            kwargs |= {"stream": True}
        if self.streamed and not self.use_responses_api:
            kwargs |= {"stream_options": {"include_usage": True}}
        request = keeping(self._get_request_payload(messages, stop=stop, **kwargs), messages, self.caching)
        pieces = watched(
            lambda: self._pieces(request),
            silence_s=self.silence_s if self.streamed else math.inf,
            answer_s=answer_s,
        )
        name = new_id()
        counted: list[Counts] = []
        heard = told(keyless(noted(pieces, counted), self._key), run_manager if self.streamed else None, name)
        try:
            message = message_of(joined_pieces(heard), self._key, self.price, name)
        except Exception:
            lost += [lost_cost(counts, self.price) for counts in counted[-1:]]
            raise
        return ChatResult(generations=[ChatGeneration(message=message)])

    def _pieces(self, request: dict[str, Any]) -> Iterator[Piece]:
        """Send the request and read what comes."""
        asked = self.root_client.responses if self.use_responses_api else self.client
        with asked.with_streaming_response.create(**request) as response:
            body = response.http_response.iter_raw()
            objects = events(body) if self.streamed else iter([read_object(b"".join(body))])
            if self.use_responses_api:
                objects = as_chat(objects, streamed=self.streamed)
            yield from read(map(require_no_error, objects), "delta" if self.streamed else "message")

    @property
    def _key(self) -> str:
        key = self.openai_api_key
        return key.get_secret_value() if isinstance(key, SecretStr) else NO_KEY


def _billed(result: ChatResult, *, lost: Usage, **more: Any) -> ChatResult:
    """The result with what went before it on its bill."""
    message = result.generations[0].message
    bill = Bill.of(message)
    bill.model_copy(update={"lost": bill.lost + lost, **more}).attach(message)
    return result


# -- The message that an endpoint's answer becomes: made anew of what is known to be sound ----------------------------


_FINISH = re.compile(r"[a-z_]{1,40}")
_DEEPEST = 16
_INTEGER_BITS = 63


def message_of(answer: Piece, key: str, price: Price | None, name: str) -> AIMessage:
    """The answer as a message under the id `name`, with its `Bill`, in whole characters and without the key.

    Arguments that are no JSON object, that broke off, or that nobody could write down make an invalid call.
    """
    text, refusal = _cleaned(key, [answer.text, answer.refusal])
    message = AIMessage(text, id=name, usage_metadata=_usage(answer.counts))
    for call in answer.calls:
        own, tool, args = _cleaned(key, [call.id or None, call.name, call.args])
        arguments = _arguments(args)
        if arguments is None:
            unread = InvalidToolCall(type="invalid_tool_call", id=own, name=tool, args=args, error=None)
            message.invalid_tool_calls.append(unread)
        else:
            # Escapes within the arguments' own JSON may spell the key, and half characters, too.
            found = ToolCall(type="tool_call", id=own, name=tool, args=_cleaned(key, arguments))
            message.tool_calls.append(found)
    Bill(dollars=_dollars(answer.counts, price), finish=_finish(key, answer.finish), refusal=refusal).attach(message)
    return message


def lost_cost(counts: Counts, price: Price | None) -> Usage:
    """What an answer cost that broke after its endpoint had counted it, as far as that is known."""
    tokens = _usage(counts)
    assert tokens is not None
    return Usage(
        input_tokens=tokens["input_tokens"],
        cached_tokens=(tokens.get("input_token_details") or {}).get("cache_read") or 0,
        output_tokens=tokens["output_tokens"],
        dollars=_dollars(counts, price) or 0.0,
    )


def _arguments(text: str) -> dict[str, Any] | None:
    """The JSON object that a call's arguments are, if they are one. Half a kernel is no kernel: none is completed."""
    with suppress(ValueError, RecursionError):
        found = json.loads(text or "{}")
        return found if isinstance(found, dict) and _storable(found) else None
    return None


def _storable(value: Any, deep: int = 0) -> bool:
    """Whether a checkpoint and a line of JSON can hold the value: no deep nesting, no huge and no infinite numbers."""
    match value:
        case dict() | list() if deep >= _DEEPEST:
            return False
        case dict():
            return all(_storable(part, deep + 1) for part in value.values())
        case list():
            return all(_storable(part, deep + 1) for part in value)
        case float():
            return math.isfinite(value)
        case int():
            return value.bit_length() <= _INTEGER_BITS
        case _:
            return True


def _finish(key: str, told: str) -> str:
    """Why the answer ended: a word of the protocol's kind, and of anything else that it was none."""
    told = without(key, told)
    return told if not told or _FINISH.fullmatch(told) else "other"


def _usage(counts: Counts | None) -> UsageMetadata | None:
    if counts is None:
        return None
    put, out = counts.input or 0, counts.output or 0
    details = InputTokenDetails(cache_read=min(counts.cached or 0, put))
    return UsageMetadata(input_tokens=put, output_tokens=out, total_tokens=put + out, input_token_details=details)


def _dollars(counts: Counts | None, price: Price | None) -> float | None:
    """Dollars as the endpoint reports them, else by the price; absent where nobody knows one or the other."""
    if counts is None or counts.dollars is not None:
        return counts.dollars if counts else None
    if price is None or counts.input is None or counts.output is None:
        return None
    cached = min(counts.cached or 0, counts.input)
    return price.dollars(input_tokens=counts.input, cached_tokens=cached, output_tokens=counts.output)


def _cleaned(key: str, told: Any) -> Any:
    return json.loads(without(key, json.dumps(joined(told), ensure_ascii=False)))


# -- From the bytes of an answer to its JSON objects: a stream's events, or the one object of an answer in one piec ---


MAX_EVENT_BYTES = 8 << 20
"""An answer of a million characters in one event, all of them spelt as escapes."""


def events(chunks: Iterable[bytes]) -> Iterator[dict[str, Any]]:
    """The objects of a stream of server-sent events, up to its mark of the end.

    Raises `ValueError` or `RecursionError` for an event that is too long, no JSON or no object.
    """
    data: list[bytes] = []
    length = 0
    for line in _lines(chunks):
        if line.startswith(b"data:"):
            data.append(line[5:].removeprefix(b" "))
            length += len(line)
            _require_short(length)
        elif not line and data:
            if data[0].startswith(b"[DONE]"):
                return
            yield read_object(b"\n".join(data))
            data, length = [], 0
    if data and not data[0].startswith(b"[DONE]"):
        yield read_object(b"\n".join(data))


def read_object(body: bytes) -> dict[str, Any]:
    """The JSON object that a body is. Raises `ValueError`, and `RecursionError` for brackets within brackets."""
    found = json.loads(body)
    if not isinstance(found, dict):
        raise ValueError("JSON that is no object")
    return found


def _lines(chunks: Iterable[bytes]) -> Iterator[bytes]:
    """Lines without their ends, each joined once, however many chunks it comes in."""
    begun: list[bytes] = []
    length = 0
    for chunk in chunks:
        *ended, rest = chunk.split(b"\n")
        for end in ended:
            yield b"".join([*begun, end]).removesuffix(b"\r")
            begun, length = [], 0
        begun.append(rest)
        length += len(rest)
        _require_short(length)
    if last := b"".join(begun).removesuffix(b"\r"):
        yield last


def _require_short(length: int) -> None:
    if length > MAX_EVENT_BYTES:
        raise ValueError(f"an event of more than {MAX_EVENT_BYTES >> 20} MiB")
