"""What goes wrong between here and a model's endpoint: which of it may pass, and what the rest is called."""

from __future__ import annotations

import random
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from email.utils import parsedate_to_datetime
from typing import Any
from urllib.parse import urlsplit

import httpx2
import openai
from tenacity import RetryCallState
from tenacity.stop import stop_base

from nodes.address import NO_KEY, OPENAI_KEY, key_variable
from nodes.models.errors import ModelUnavailableError

LONGEST_WAIT_S = 120.0

_FIRST_PAUSE_S = 1.0
_LONGEST_PAUSE_S = 30.0
_SILENCES = 2
_UNREADABLE_ANSWERS = 3
_REFUSALS = 5
"""Connections in a row that a machine refuses: with their pauses 11 to 15 s, in which a server may have restarted."""


class OutOfTimeError(Exception):
    """A stream, or the wait for one's turn, went on beyond the time that an answer may take. It would do so again."""


class SilentError(Exception):
    """No token came for so many `seconds`."""

    def __init__(self, seconds: float) -> None:
        super().__init__(f"no token for {seconds:g} s")
        self.seconds = seconds


class ReportedError(Exception):
    """The endpoint reports an error in the place of an answer, or in the middle of one."""


# What reading raises, unnamed, when a body is no JSON or JSON of another shape.
_UNREADABLE = (ValueError, TypeError, KeyError, IndexError, AttributeError, RecursionError, OverflowError)


def may_pass(error: BaseException) -> bool:
    """Whether the same request may succeed in a while."""
    match error:
        case openai.APIStatusError() if (_told_s(error) or 0.0) > LONGEST_WAIT_S:
            return False
        case openai.RateLimitError():
            return error.code != "insufficient_quota"
        case openai.APIStatusError():
            return error.status_code in (408, 409) or error.status_code >= 500
        case openai.APIError() | httpx2.TransportError():
            return True  # a connection that broke
        case ReportedError() | SilentError():
            return True  # not for ever: see `NoUse`
        case _:
            return isinstance(error, _UNREADABLE)


class NoUse(stop_base):
    """Whether asking again is of no use, though no time and no try is spent yet.

    Who lets a second request wait for nothing will do so with a third, and an answer that cannot be read is paid like
    any other: the pauses of an endpoint that is down for a minute are not for these. Nor are they for a machine on
    which nothing listens: what stands before a provider's servers does, whatever befalls these.
    """

    def __init__(self) -> None:
        self._refusals = 0

    def __call__(self, retry_state: RetryCallState) -> bool:
        error = retry_state.outcome.exception() if retry_state.outcome else None
        self._refusals = self._refusals + 1 if _nobody_listens(error) else 0
        if self._refusals >= _REFUSALS:
            return True
        if isinstance(error, SilentError):
            return retry_state.attempt_number >= _SILENCES
        return isinstance(error, _UNREADABLE) and retry_state.attempt_number >= _UNREADABLE_ANSWERS


def _nobody_listens(error: BaseException | None) -> bool:
    """Whether a connection was refused: the client's own error, and the one below it, hold the system's somewhere."""
    while error is not None and not isinstance(error, ConnectionRefusedError):
        error = error.__cause__ or error.__context__
    return error is not None


def require_no_error(told: dict[str, Any]) -> dict[str, Any]:
    """An endpoint's object that reports no error. Raises `ReportedError` for one that does."""
    error = told.get("error")
    if not error:
        return told
    message = error.get("message") if isinstance(error, dict) else error
    raise ReportedError(message if isinstance(message, str) else "an error without words")


def pause_s(error: BaseException | None, attempt: int) -> float:
    """Seconds before the next attempt: what the endpoint asked for, else doubling from a second, spread out.

    Ten of them, the default, make 136 to 181 s: a provider's bad minute is over by then.
    """
    told = _told_s(error) if isinstance(error, openai.APIStatusError) else None
    if told is not None:
        return told
    return min(_FIRST_PAUSE_S * 2.0 ** (attempt - 1), _LONGEST_PAUSE_S) * random.uniform(0.75, 1.0)


@contextmanager
def naming(model: str, base_url: str, timeout_s: float, key: str) -> Iterator[None]:
    """Turn what the client raises into `ModelUnavailableError`: the endpoint, what happened, and the remedy.

    Some endpoints repeat the headers that they object to: `key` is taken out of their words.
    """
    try:
        yield
    except (openai.OpenAIError, httpx2.HTTPError, OutOfTimeError, SilentError, ReportedError) as error:
        raise _named(error, model, base_url, timeout_s, key) from error
    except _UNREADABLE as error:
        raise ModelUnavailableError(
            f'The endpoint {base_url} answered model "{model}" with something else than a '
            f"chat completion: {_first_line(error, key)}.",
            "Check that the base URL is the server's OpenAI-compatible one (it mostly ends in /v1).",
        ) from error


def without(key: str, text: str) -> str:
    """The text with the key taken out of it. What stands for a key where none is needed is a common word."""
    return text if key == NO_KEY else text.replace(key, "[key]")


def _told_s(error: openai.APIStatusError) -> float | None:
    """Retry-After in seconds, a number or a date as HTTP has it; absent where it is neither."""
    headers = error.response.headers
    with suppress(KeyError, ValueError):
        return max(0.0, float(headers["retry-after-ms"]) / 1000)
    with suppress(KeyError, ValueError):
        return max(0.0, float(headers["retry-after"]))
    with suppress(KeyError, ValueError, TypeError, OverflowError):
        return max(0.0, parsedate_to_datetime(headers["retry-after"]).timestamp() - time.time())
    return None


def _named(error: Exception, model: str, base_url: str, timeout_s: float, key: str) -> ModelUnavailableError:
    """The one place where the client's errors become ours."""
    what = f'Model "{model}" at {base_url}'
    match error:
        case openai.APITimeoutError() | httpx2.TimeoutException() | OutOfTimeError():
            return ModelUnavailableError(
                f"{what} did not answer within {timeout_s:g} s.",
                "Raise the model's time limit or name a faster model; the run can be resumed.",
            )
        case SilentError():
            return ModelUnavailableError(
                f"{what} sent no token for {error.seconds:g} s.",
                "Raise model_silence_s for a model that thinks longer, or name another; the run can be resumed.",
            )
        case openai.APIStatusError():
            return _refused(error, what, base_url, key)
        case openai.APIConnectionError() | httpx2.TransportError():
            return ModelUnavailableError(
                f"The connection to {what[0].lower()}{what[1:]} failed: {_first_line(_root(error), key)}.",
                "Start the server, or correct the base URL; the run can be resumed.",
            )
        case _:
            return ModelUnavailableError(
                f"{what} failed: {_first_line(error, key)}.", "Resume the run when it is mended."
            )


def _refused(error: openai.APIStatusError, what: str, base_url: str, key: str) -> ModelUnavailableError:
    """What a status other than success means."""
    match error.status_code:
        case status if status < 400:
            return ModelUnavailableError(
                f"{what} sends the request elsewhere (status {status}){_elsewhere(error, key)}; "
                "no redirect is followed.",
                "Give as base URL the address that answers itself, if it is one that may have the prompts.",
            )
        case 401 | 403:
            own = key_variable(urlsplit(base_url).hostname or "")
            return ModelUnavailableError(
                f"{what} refuses the key (status {error.status_code}).",
                f"Set {' or '.join(dict.fromkeys((own, OPENAI_KEY)))} to a key of that endpoint.",
            )
        case 404:
            return ModelUnavailableError(
                f"{what} does not exist (status 404): {_detail(error, key)}.",
                "Check the model's name and that the base URL ends where the server's API starts (mostly /v1).",
            )
        case 429:
            return ModelUnavailableError(
                f"{what} is over its rate or quota (status 429): {_detail(error, key)}{_asked_to_wait(error)}.",
                "Wait or raise the quota, then resume the run; requests_per_minute keeps below a rate.",
            )
        case status if status < 500:
            return ModelUnavailableError(
                f"{what} refuses the request (status {status}): {_detail(error, key)}.",
                "Name a model with a larger context, or change the setting that the endpoint objects to.",
            )
        case status:
            return ModelUnavailableError(
                f"{what} failed (status {status}): {_detail(error, key)}.", "Resume the run when it is back."
            )


def _elsewhere(error: openai.APIStatusError, key: str) -> str:
    told = error.response.headers.get("location", "")
    return f", to {_first_line(told, key)}" if told else ""


def _asked_to_wait(error: openai.APIStatusError) -> str:
    told = _told_s(error) or 0.0
    return f"; it asks to wait {told:.0f} s" if told > LONGEST_WAIT_S else ""


def _detail(error: openai.APIStatusError, key: str) -> str:
    body = error.body
    message = body.get("message") if isinstance(body, dict) else None
    return _first_line(message if isinstance(message, str) and message else error.message, key)


def _root(error: BaseException) -> BaseException:
    """The error at the bottom of the chain: the client's own says no more than "Connection error"."""
    while error.__cause__ is not None:
        error = error.__cause__
    return error


def _first_line(error: object, key: str) -> str:
    """The first line of a message, at most 200 characters, without its full stop and without the key."""
    # The key goes first: a cut within it would leave a part that nothing recognizes any more.
    lines = without(key, str(error)).strip().splitlines() or [type(error).__name__]
    return lines[0][:200].rstrip(". ")
