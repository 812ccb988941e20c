"""OpenAI and every server that speaks its chat protocol: asked again where that may help, its cost known where it is.

Imported on first use only (see `nodes.models.select`).
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import httpx2
from langchain_core.callbacks import CallbackManagerForLLMRun
from langchain_core.messages import BaseMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_core.rate_limiters import BaseRateLimiter
from langchain_core.runnables import run_in_executor
from langchain_openai import ChatOpenAI
from pydantic import PrivateAttr, SecretStr
from tenacity import Retrying, retry_if_exception, stop_after_attempt, stop_any, stop_before_delay

from harness.wire.stopping import pause
from nodes.models.address import NO_KEY, Address
from nodes.models.answered import lost_cost, message_of
from nodes.models.border import BorderClient
from nodes.models.deadline import left_s
from nodes.models.endpoint_errors import NoUse, OutOfTimeError, may_pass, naming, pause_s, require_no_error
from nodes.models.errors import ModelUnavailableError
from nodes.models.events import events, read_object
from nodes.models.keyless import keyless
from nodes.models.pace import limiter_of, take_turn
from nodes.models.prices import Price
from nodes.models.streaming import Counts, Piece, joined_pieces, new_id, noted, read, told
from nodes.models.usage import Bill
from nodes.models.watch import watched
from nodes.state import FellBack, Usage

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
        use_responses_api=False,
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
            kwargs |= {"stream": True, "stream_options": {"include_usage": True}}
        request = self._get_request_payload(messages, stop=stop, **kwargs)
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
        with self.client.with_streaming_response.create(**request) as response:
            body = response.http_response.iter_raw()
            objects = events(body) if self.streamed else iter([read_object(b"".join(body))])
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
