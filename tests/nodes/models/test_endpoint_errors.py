"""Which failures may pass and how long to wait, for whatever a server says."""

from __future__ import annotations

import json
import math
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

import httpx2
import openai
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nodes.models.endpoint_errors import OutOfTimeError, ReportedError, SilentError, may_pass, naming, pause_s, without
from nodes.models.errors import ModelUnavailableError
from nodes.settings import Settings

REQUEST = httpx2.Request("POST", "http://127.0.0.1/v1/chat/completions")


def status(code: int, retry_after: str | None = None, error_code: str = "") -> openai.APIStatusError:
    headers = {} if retry_after is None else {"retry-after": retry_after}
    kind = openai.RateLimitError if code == 429 else openai.APIStatusError
    return kind("no", response=httpx2.Response(code, headers=headers, request=REQUEST), body={"code": error_code})


@pytest.mark.parametrize(
    ("error", "passes"),
    [
        (status(429), True),
        (status(429, "60"), True),
        (status(429, "121"), False),
        (status(429, error_code="insufficient_quota"), False),
        (status(408), True),
        (status(409), True),
        (status(410), False),
        (status(499), False),
        (status(500), True),
        (status(503, "120"), True),
        (status(503, "-1"), True),
        (status(503, "3600"), False),
        (status(400), False),
        (status(401), False),
        (status(404), False),
        (openai.APIConnectionError(request=REQUEST), True),
        (openai.APITimeoutError(REQUEST), True),
        (httpx2.ReadError("gone"), True),
        (json.JSONDecodeError("half", "{", 1), True),
        (OutOfTimeError(), False),
        (SilentError(5.0), True),
        (ReportedError("busy"), True),
        (RecursionError(), True),
        (MemoryError(), False),
        (KeyboardInterrupt(), False),
    ],
)
def test_what_may_pass_is_asked_again(error: BaseException, passes: bool) -> None:
    assert may_pass(error) is passes


def test_pauses_double_up_to_a_bound_and_are_spread_out() -> None:
    pauses = [[pause_s(status(500), attempt) for _ in range(20)] for attempt in (1, 2, 3, 50)]
    for bound, drawn in zip((1.0, 2.0, 4.0, 30.0), pauses, strict=True):
        assert all(0.75 * bound <= pause <= bound for pause in drawn)
        assert len(set(drawn)) > 1
    assert pause_s(status(429, "7"), 1) == 7.0


def test_the_default_retries_outlast_a_bad_minute() -> None:
    retries = Settings().model_retries
    waits = [sum(pause_s(status(503), attempt) for attempt in range(1, retries + 1)) for _ in range(50)]
    assert 120 <= min(waits) <= max(waits) <= 185


def test_a_redirect_is_named_and_not_asked_again() -> None:
    error = status(307)
    error.response.headers["location"] = f"https://elsewhere/{KEY}"
    assert not may_pass(error)
    assert "elsewhere (status 307), to https://elsewhere/[key]; no redirect is followed" in named(error).problem


@pytest.mark.parametrize(("milliseconds", "seconds"), [("1500", 1.5), ("0", 0.0), ("-1", 0.0), ("soon", 7.0)])
def test_milliseconds_come_before_seconds(milliseconds: str, seconds: float) -> None:
    error = status(429, "7")
    error.response.headers["retry-after-ms"] = milliseconds
    assert pause_s(error, 1) == seconds


def test_a_date_to_wait_for_is_understood() -> None:
    soon = datetime.now(UTC) + timedelta(seconds=30)
    assert 25 < pause_s(status(429, format_datetime(soon, usegmt=True)), 1) <= 30
    assert pause_s(status(429, format_datetime(soon - timedelta(days=9), usegmt=True)), 1) == 0.0


@given(st.text(st.characters(min_codepoint=32, max_codepoint=126), max_size=40) | st.floats().map(str))
def test_whatever_stands_there_is_a_pause_or_a_reason_to_give_up(told: str) -> None:
    error = status(429, told)
    pause = pause_s(error, 1)
    assert pause >= 0
    assert math.isfinite(pause) or not may_pass(error)


KEY = "sk-planted-key"
TO_RESUME = "Resume the run when it is back."


def named(error: Exception, base_url: str = "https://openrouter.ai/v1", key: str = KEY) -> ModelUnavailableError:
    with pytest.raises(ModelUnavailableError) as raised, naming("m", base_url, 5.0, key):
        raise error
    assert raised.value.__cause__ is error
    return raised.value


@pytest.mark.parametrize(
    ("code", "said", "remedy"),
    [
        (400, " refuses the request (status 400): {}", "Name a model with a larger context"),
        (401, " refuses the key (status 401)", "Set OPENROUTER_API_KEY or OPENAI_API_KEY to a key of that endpoint."),
        (403, " refuses the key (status 403)", "Set OPENROUTER_API_KEY or OPENAI_API_KEY to a key of that endpoint."),
        (404, " does not exist (status 404): {}", "Check the model's name"),
        (409, " refuses the request (status 409): {}", "Name a model with a larger context"),
        (413, " refuses the request (status 413): {}", "Name a model with a larger context"),
        (422, " refuses the request (status 422): {}", "Name a model with a larger context"),
        (429, " is over its rate or quota (status 429): {}", "Wait or raise the quota"),
        (499, " refuses the request (status 499): {}", "Name a model with a larger context"),
        (500, " failed (status 500): {}", TO_RESUME),
        (503, " failed (status 503): {}", TO_RESUME),
    ],
)
def test_every_status_becomes_one_sentence_with_a_remedy_and_no_key(code: int, said: str, remedy: str) -> None:
    error = status(code)
    error.body = {"message": f"header Bearer {KEY} is bad. \nsecond line"}
    found = named(error)
    told = said.format("header Bearer [key] is bad")
    assert found.problem == f'Model "m" at https://openrouter.ai/v1{told}.'
    assert found.remedy.startswith(remedy)


def test_the_key_of_openais_own_endpoint_has_one_name() -> None:
    found = named(status(401), base_url="https://api.openai.com/v1")
    assert found.remedy == "Set OPENAI_API_KEY to a key of that endpoint."


@pytest.mark.parametrize(("asked", "told"), [("120", ""), ("121", "; it asks to wait 121 s")])
def test_a_wait_that_is_too_long_is_told(asked: str, told: str) -> None:
    assert named(status(429, asked)).problem.endswith(f"(status 429): no{told}.")


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (openai.APITimeoutError(REQUEST), 'Model "m" at http://x/v1 did not answer within 5 s.'),
        (httpx2.ReadTimeout("slow"), 'Model "m" at http://x/v1 did not answer within 5 s.'),
        (OutOfTimeError(), 'Model "m" at http://x/v1 did not answer within 5 s.'),
        (SilentError(7.0), 'Model "m" at http://x/v1 sent no token for 7 s.'),
        (ReportedError(f"no {KEY}"), 'Model "m" at http://x/v1 failed: no [key].'),
        (httpx2.ReadError(""), 'The connection to model "m" at http://x/v1 failed: ReadError.'),
        (openai.APIError("broke", REQUEST, body=None), 'Model "m" at http://x/v1 failed: broke.'),
        (
            KeyError("choices"),
            "The endpoint http://x/v1 answered model \"m\" with something else than a chat completion: 'choices'.",
        ),
    ],
)
def test_other_failures_of_an_endpoint_become_one_sentence_too(error: Exception, said: str) -> None:
    found = named(error, base_url="http://x/v1")
    assert found.problem == said
    assert found.remedy


def test_the_cause_of_a_broken_connection_is_the_one_at_the_bottom() -> None:
    middle, error = OSError("middle"), openai.APIConnectionError(request=REQUEST)
    middle.__cause__ = ConnectionRefusedError("refused")
    error.__cause__ = middle
    with pytest.raises(ModelUnavailableError, match="failed: refused"), naming("m", "http://x/v1", 5.0, KEY):
        raise error from middle


@pytest.mark.parametrize("message", [None, "", 7, [[["x"]]], {"text": "x"}])
def test_words_of_another_type_are_none(message: object) -> None:
    error = status(500)
    error.body = {"message": message}
    assert named(error).problem.endswith("failed (status 500): no.")


@pytest.mark.parametrize("before", [0, 150, 190, 199, 200])
def test_no_part_of_the_key_is_left_where_a_long_message_is_cut(before: int) -> None:
    error = status(500)
    error.body = {"message": "x" * before + KEY * 3}
    shown = named(error).problem.partition("500): ")[2].rstrip(".")
    assert shown == ("x" * before + "[key]" * 3)[:200]


def test_other_failures_are_not_taken_for_the_endpoints() -> None:
    with pytest.raises(MemoryError), naming("m", "http://x/v1", 1.0, "k"):
        raise MemoryError


def test_the_word_for_no_key_is_left_in_texts() -> None:
    assert without("none", "none of it") == "none of it"
    assert without("sk-1", "a sk-1 b sk-1") == "a [key] b [key]"
