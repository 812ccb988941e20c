"""OpenAI and every server that speaks its chat protocol, with failures that name the endpoint and the remedy.

Imported on first use only (see `nodes.models.select`).
"""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from typing import Any

import httpx
import openai
from langchain_core.messages import AIMessageChunk
from langchain_core.outputs import ChatGenerationChunk, ChatResult
from langchain_openai import ChatOpenAI
from pydantic import SecretStr

from nodes.models.errors import ModelUnavailableError

_CONNECT_S = 10.0


def open_endpoint(
    name: str,
    *,
    key: str,
    base_url: str | None,
    timeout_s: float,
    max_retries: int,
    max_output_tokens: int | None,
) -> ChatOpenAI:
    """A chat model behind `base_url` (OpenAI itself where None). Nothing is sent yet."""
    return Endpoint(
        model_name=name,
        openai_api_key=SecretStr(key),
        openai_api_base=base_url or "https://api.openai.com/v1",
        request_timeout=httpx.Timeout(timeout_s, connect=min(timeout_s, _CONNECT_S)),
        max_retries=max_retries,
        max_tokens=max_output_tokens,
        stream_usage=True,
        use_responses_api=False,
        answer_s=timeout_s,
    )


class Endpoint(ChatOpenAI):
    """`ChatOpenAI` whose failures are `ModelUnavailableError`, whose streams end in time and keep the reported cost.

    `answer_s` bounds a streamed answer as a whole: a server that trickles would otherwise never time out.
    """

    answer_s: float

    def _generate(self, *args: Any, **kwargs: Any) -> ChatResult:
        with self._naming_failures():
            return super()._generate(*args, **kwargs)

    async def _agenerate(self, *args: Any, **kwargs: Any) -> ChatResult:
        with self._naming_failures():
            return await super()._agenerate(*args, **kwargs)

    def _stream(self, *args: Any, **kwargs: Any) -> Iterator[ChatGenerationChunk]:
        deadline = time.monotonic() + self.answer_s
        empty = True
        with self._naming_failures():
            for chunk in super()._stream(*args, **kwargs):
                self._check(deadline)
                empty = False
                yield chunk
            if empty:
                raise ValueError("no event of the stream was one of a chat completion")

    async def _astream(self, *args: Any, **kwargs: Any) -> AsyncIterator[ChatGenerationChunk]:
        deadline = time.monotonic() + self.answer_s
        empty = True
        with self._naming_failures():
            async for chunk in super()._astream(*args, **kwargs):
                self._check(deadline)
                empty = False
                yield chunk
            if empty:
                raise ValueError("no event of the stream was one of a chat completion")

    def _convert_chunk_to_generation_chunk(
        self, chunk: dict[str, Any], default_chunk_class: type, base_generation_info: dict[str, Any] | None
    ) -> ChatGenerationChunk | None:
        converted = super()._convert_chunk_to_generation_chunk(chunk, default_chunk_class, base_generation_info)
        cost = (chunk.get("usage") or {}).get("cost")
        if converted is not None and cost and isinstance(converted.message, AIMessageChunk):
            converted.message.response_metadata["token_usage"] = {"cost": cost}
        return converted

    def _check(self, deadline: float) -> None:
        if time.monotonic() > deadline:
            raise httpx.ReadTimeout("the stream went on")

    @contextmanager
    def _naming_failures(self) -> Iterator[None]:
        try:
            yield
        except (openai.OpenAIError, httpx.HTTPError) as error:
            raise _named(error, self.model_name, str(self.openai_api_base), self.answer_s) from error
        except (ValueError, TypeError, KeyError, IndexError, AttributeError) as error:
            # What the client raises, unnamed, when a body is no JSON or JSON of another shape.
            raise ModelUnavailableError(
                f'The endpoint {self.openai_api_base} answered model "{self.model_name}" with something else than a '
                f"chat completion: {_first_line(error)}.",
                "Check that the base URL is the server's OpenAI-compatible one (it mostly ends in /v1).",
            ) from error


def _named(error: Exception, model: str, base_url: str, timeout_s: float) -> ModelUnavailableError:
    """The one place where the client's errors become ours."""
    what = f'Model "{model}" at {base_url}'
    match error:
        case openai.APITimeoutError() | httpx.TimeoutException():
            return ModelUnavailableError(
                f"{what} did not answer within {timeout_s:g} s.",
                "Raise the model's time limit or name a faster model; the run can be resumed.",
            )
        case openai.AuthenticationError() | openai.PermissionDeniedError():
            return ModelUnavailableError(
                f"{what} refuses the key (status {error.status_code}).",
                "Set OPENAI_API_KEY to a key of that endpoint.",
            )
        case openai.NotFoundError():
            return ModelUnavailableError(
                f"{what} does not exist (status 404): {_detail(error)}.",
                "Check the model's name and that the base URL ends where the server's API starts (mostly /v1).",
            )
        case openai.RateLimitError():
            return ModelUnavailableError(
                f"{what} is over its rate or quota (status 429): {_detail(error)}.",
                "Wait or raise the quota, then resume the run.",
            )
        case openai.APIStatusError() if error.status_code < 500:
            return ModelUnavailableError(
                f"{what} refuses the request (status {error.status_code}): {_detail(error)}.",
                "Name a model with a larger context, or change the setting that the endpoint objects to.",
            )
        case openai.APIStatusError():
            return ModelUnavailableError(
                f"{what} failed (status {error.status_code}): {_detail(error)}.", "Resume the run when it is back."
            )
        case openai.APIConnectionError() | httpx.TransportError():
            return ModelUnavailableError(
                f"The connection to {what[0].lower()}{what[1:]} failed: {_first_line(_root(error))}.",
                "Start the server, or correct the base URL; the run can be resumed.",
            )
        case _:
            return ModelUnavailableError(f"{what} failed: {_first_line(error)}.", "Resume the run when it is mended.")


def _detail(error: openai.APIStatusError) -> str:
    body = error.body
    message = body.get("message") if isinstance(body, dict) else None
    return _first_line(str(message or error.message))


def _root(error: BaseException) -> BaseException:
    """The error at the bottom of the chain: the client's own says no more than "Connection error"."""
    while error.__cause__ is not None:
        error = error.__cause__
    return error


def _first_line(error: object) -> str:
    """The first line of a message, at most 200 characters, without its full stop."""
    lines = str(error).strip().splitlines() or [type(error).__name__]
    return lines[0][:200].rstrip(". ")
