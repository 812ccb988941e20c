"""What tokens cost: by the table, by the user's own prices, or not known."""

from __future__ import annotations

import tomllib

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from nodes.address import TABLE, Price, price_of
from nodes.state import FellBack, Usage

OPENAI = "api.openai.com"


def test_fresh_cached_and_written_tokens_have_their_own_prices() -> None:
    price = Price(input=2.0, cached=0.5, output=8.0)
    assert price.dollars(input_tokens=1_000_000, cached_tokens=400_000, output_tokens=100_000) == pytest.approx(2.2)


def test_without_a_price_of_their_own_cached_tokens_cost_what_fresh_ones_do() -> None:
    price = Price(input=2.0, output=8.0)
    assert price.dollars(input_tokens=1000, cached_tokens=999, output_tokens=0) == pytest.approx(0.002)


def test_a_provider_that_counts_more_cached_than_read_is_not_owed_a_refund() -> None:
    assert Price(input=2.0, cached=0.0, output=8.0).dollars(input_tokens=5, cached_tokens=9, output_tokens=0) == 0


counts = st.integers(-9, 9)


@given(counts, counts, counts)
def test_no_count_of_tokens_earns_money(read: int, kept: int, written: int) -> None:
    price = Price(input=2.0, cached=1.0, output=8.0)
    dollars = price.dollars(input_tokens=read, cached_tokens=kept, output_tokens=written)
    assert dollars >= price.dollars(input_tokens=0, cached_tokens=0, output_tokens=written) >= 0


def test_the_table_is_one_of_prices_and_names_its_source_and_day() -> None:
    text = TABLE.read_text(encoding="utf-8")
    assert "Source:" in text
    assert "as of 20" in text
    for host, models in tomllib.loads(text).items():
        for model in models:
            price = price_of(model, host)
            assert price is not None
            assert price.cached is not None
            assert price.cached < price.input < price.output, model


def test_a_snapshot_costs_what_its_model_costs() -> None:
    assert price_of("gpt-5-2025-08-07", OPENAI) == price_of("gpt-5", OPENAI) is not None


@pytest.mark.parametrize(("model", "host"), [("gpt-5", "127.0.0.1"), ("gpt-6000", OPENAI), ("", "")])
def test_what_nobody_named_has_no_price(model: str, host: str) -> None:
    assert price_of(model, host) is None


def test_the_users_price_comes_first_and_holds_for_any_host() -> None:
    own = (("gpt-5", Price(input=1, output=1)), ("mine", Price(input=0, output=0)))
    assert price_of("gpt-5", OPENAI, own) == own[0][1]
    assert price_of("mine", "vllm", own) == own[1][1]


@pytest.mark.parametrize("wrong", [{"input": -1, "output": 1}, {"input": 1}, {"input": "inf", "output": 1}])
def test_a_price_that_is_none_is_refused(wrong: dict[str, object]) -> None:
    with pytest.raises(ValidationError):
        Price.model_validate(wrong)


@pytest.mark.parametrize(
    ("usage", "words"),
    [
        (Usage(), "$0.00"),
        (Usage(calls=2, dollars=1.5), "$1.50"),
        (Usage(calls=1, dollars=0.0025), "$0.0025"),
        (Usage(calls=1, dollars=0.1), "$0.10"),
        (Usage(calls=3, unpriced_calls=3), "unknown price"),
        (Usage(calls=3, unpriced_calls=1, dollars=0.5), "$0.50 and 1 of 3 calls of unknown price"),
    ],
)
def test_an_unknown_price_is_said_and_not_called_free(usage: Usage, words: str) -> None:
    assert usage.cost == words


def test_costs_add_up_and_a_model_that_failed_is_named_once() -> None:
    fell_back = FellBack(model="openai:a", answered_by="openai:b", because="it is down.")
    one = Usage(calls=1, input_tokens=5, cached_tokens=3, dollars=0.25, fell_back=(fell_back,))
    both = one + Usage(calls=1, unpriced_calls=1, builds=2) + one
    assert both == Usage(
        calls=3, input_tokens=10, cached_tokens=6, dollars=0.5, unpriced_calls=1, builds=2, fell_back=(fell_back,)
    )
