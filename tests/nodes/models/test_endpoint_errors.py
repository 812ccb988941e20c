"""Which failures may pass and how long to wait, for whatever a server says."""

from __future__ import annotations

import json
import math
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

import httpx
import openai
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nodes.models.endpoint_errors import EndlessStreamError, may_pass, naming, pause_s, without
from nodes.models.errors import ModelUnavailableError

REQUEST = httpx.Request("POST", "http://127.0.0.1/v1/chat/completions")


def status(code: int, retry_after: str | None = None, error_code: str = "") -> openai.APIStatusError:
    headers = {} if retry_after is None else {"retry-after": retry_after}
    kind = openai.RateLimitError if code == 429 else openai.APIStatusError
    return kind("no", response=httpx.Response(code, headers=headers, request=REQUEST), body={"code": error_code})


@pytest.mark.parametrize(
    ("error", "passes"),
    [
        (status(429), True),
        (status(429, "60"), True),
        (status(429, "121"), False),
        (status(429, error_code="insufficient_quota"), False),
        (status(408), True),
        (status(500), True),
        (status(503, "3600"), False),
        (status(400), False),
        (status(401), False),
        (status(404), False),
        (openai.APIConnectionError(request=REQUEST), True),
        (openai.APITimeoutError(REQUEST), True),
        (httpx.ReadError("gone"), True),
        (json.JSONDecodeError("half", "{", 1), True),
        (EndlessStreamError(), False),
        (MemoryError(), False),
        (KeyboardInterrupt(), False),
    ],
)
def test_what_may_pass_is_asked_again(error: BaseException, passes: bool) -> None:
    assert may_pass(error) is passes


def test_pauses_double_up_to_a_bound_and_are_spread_out() -> None:
    pauses = [[pause_s(status(500), attempt) for _ in range(20)] for attempt in (1, 2, 3, 50)]
    for bound, drawn in zip((0.5, 1.0, 2.0, 16.0), pauses, strict=True):
        assert all(0.75 * bound <= pause <= bound for pause in drawn)
        assert len(set(drawn)) > 1
    assert pause_s(status(429, "7"), 1) == 7.0


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


@pytest.mark.parametrize("code", [400, 401, 403, 404, 409, 413, 422, 429, 500, 503])
def test_every_status_becomes_one_sentence_with_a_remedy_and_no_key(code: int) -> None:
    error = status(code)
    error.body = {"message": "header Bearer sk-planted-key is bad\nsecond line"}
    with pytest.raises(ModelUnavailableError) as named, naming("m", "https://openrouter.ai/v1", 5.0, "sk-planted-key"):
        raise error
    assert f"status {code}" in named.value.problem
    assert "\n" not in named.value.problem
    assert "sk-planted-key" not in str(named.value)
    assert named.value.remedy


def test_other_failures_are_not_taken_for_the_endpoints() -> None:
    with pytest.raises(MemoryError), naming("m", "http://x/v1", 1.0, "k"):
        raise MemoryError


def test_the_word_for_no_key_is_left_in_texts() -> None:
    assert without("none", "none of it") == "none of it"
    assert without("sk-1", "a sk-1 b sk-1") == "a [key] b [key]"
