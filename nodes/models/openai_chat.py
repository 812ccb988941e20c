"""OpenAI and every server that speaks its chat protocol: asked again where that may help, its cost known where it is.

Imported on first use only (see `nodes.models.select`).
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import httpx2
from langchain_core.callbacks import CallbackManagerForLLMRun
from langchain_core.messages import AIMessage, AIMessageChunk, BaseMessage
from langchain_core.outputs import ChatGenerationChunk, ChatResult
from langchain_core.rate_limiters import BaseRateLimiter
from langchain_core.runnables import run_in_executor
from langchain_openai import ChatOpenAI
from pydantic import PrivateAttr, SecretStr
from tenacity import Retrying, retry_if_exception, stop_after_attempt, stop_before_delay

from nodes.characters import joined
from nodes.models.address import NO_KEY, Address
from nodes.models.border import BorderClient
from nodes.models.deadline import left_s
from nodes.models.endpoint_errors import OutOfTimeError, may_pass, naming, pause_s, without
from nodes.models.errors import ModelUnavailableError
from nodes.models.pace import limiter_of, take_turn
from nodes.models.pieces import in_time, take_calls, told, whole
from nodes.models.prices import Price
from nodes.models.usage import Bill
from nodes.state import FellBack

if TYPE_CHECKING:
    from nodes.models.select import ModelOptions

_CONNECT_S = 10.0
_LEAST_S = 0.01


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
        stream_usage=True,
        use_responses_api=False,
        disable_streaming=True,
        tries=1 + options.max_retries,
        answer_s=options.timeout_s,
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
    bound a streamed answer as a whole: a server that trickles would otherwise never time out. Once this endpoint has
    failed for good, `spare` answers, and each of its answers says so. `spec` is the model's name in the settings,
    `pace` bounds the requests of all runs.
    """

    tries: int
    answer_s: float
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
        if not self._gone:
            try:
                return self._persist(messages, stop, run_manager, **kwargs)
            except ModelUnavailableError as error:
                if self.spare is None:
                    raise
                self._gone = error.problem
        assert self.spare is not None
        result = self.spare._generate(messages, stop, run_manager, **kwargs)
        because = FellBack(model=self.spec, answered_by=self.spare.spec, because=self._gone)
        return _billed(result, Bill.of(result.generations[0].message).model_copy(update={"fell_back": because}))

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
            stop=stop_after_attempt(self.tries) | stop_before_delay(left_s()),
            wait=lambda state: pause_s(state.outcome.exception() if state.outcome else None, state.attempt_number),
            retry=retry_if_exception(may_pass),
            before_sleep=run_manager.on_retry if run_manager else None,
            reraise=True,
        )
        with naming(self.model_name, str(self.openai_api_base), min(self.answer_s, left_s()), self._key):
            return again(self._once, messages, stop, run_manager, **kwargs)

    def _once(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None,
        run_manager: CallbackManagerForLLMRun | None,
        **kwargs: Any,
    ) -> ChatResult:
        if self.pace is not None and not take_turn(self.pace, left_s()):
            raise OutOfTimeError
        answer_s = max(_LEAST_S, min(self.answer_s, left_s()))
        kwargs["timeout"] = httpx2.Timeout(answer_s, connect=min(answer_s, _CONNECT_S))
        if self.streamed:
            result = whole(told(in_time(self._stream(messages, stop, None, **kwargs), answer_s), run_manager))
        else:
            result = super()._generate(messages, stop, run_manager, **kwargs)
        _clean(self._key, result.generations[0].message)
        answer = result.generations[0]
        finish = str((answer.generation_info or {}).get("finish_reason") or "")
        refusal = _cleaned(self._key, str(answer.message.additional_kwargs.get("refusal") or ""))
        return _billed(result, Bill(dollars=self._cost(result), finish=finish, refusal=refusal))

    @property
    def _key(self) -> str:
        key = self.openai_api_key
        return key.get_secret_value() if isinstance(key, SecretStr) else NO_KEY

    def _convert_chunk_to_generation_chunk(
        self, chunk: dict[str, Any], default_chunk_class: type, base_generation_info: dict[str, Any] | None
    ) -> ChatGenerationChunk | None:
        calls = take_calls(chunk)
        converted = super()._convert_chunk_to_generation_chunk(chunk, default_chunk_class, base_generation_info)
        if converted is None or not isinstance(converted.message, AIMessageChunk):
            return converted
        converted.message.tool_call_chunks = calls
        cost = (chunk.get("usage") or {}).get("cost")
        if cost is not None:
            converted.message.response_metadata["token_usage"] = {"cost": cost}
        for choice in chunk.get("choices") or ():
            if refusal := (choice.get("delta") or {}).get("refusal"):
                converted.message.additional_kwargs["refusal"] = refusal
        return converted

    def _cost(self, result: ChatResult) -> float | None:
        """Dollars as the provider reports them, else by the price table; absent where neither knows."""
        message = result.generations[0].message
        # An answer in one piece has its usage beside the message, a streamed one within.
        place = result.llm_output or message.response_metadata
        reported = (place.get("token_usage") or {}).get("cost")
        if isinstance(reported, int | float) and 0 <= reported < float("inf"):
            return float(reported)
        tokens = message.usage_metadata if isinstance(message, AIMessage) else None
        if self.price is None or tokens is None:
            return None
        return self.price.dollars(
            input_tokens=tokens["input_tokens"],
            cached_tokens=(tokens.get("input_token_details") or {}).get("cache_read") or 0,
            output_tokens=tokens["output_tokens"],
        )


def _billed(result: ChatResult, bill: Bill) -> ChatResult:
    bill.attach(result.generations[0].message)
    return result


def _clean(key: str, message: BaseMessage) -> None:
    """Take out of an answer the key, where it is repeated, and half characters, which no file can hold."""
    message.content = _cleaned(key, message.content)
    if isinstance(message, AIMessage):
        message.tool_calls = _cleaned(key, message.tool_calls)
        message.invalid_tool_calls = _cleaned(key, message.invalid_tool_calls)


def _cleaned(key: str, told: Any) -> Any:
    return json.loads(without(key, json.dumps(joined(told), ensure_ascii=False)))
