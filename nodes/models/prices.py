"""What a model's tokens cost: the table beside this file, and what a user knows better."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable
from functools import cache
from pathlib import Path

from pydantic import Field

from harness.nouns.frozen import Frozen

TABLE = Path(__file__).with_name("prices.toml")

_SNAPSHOT = re.compile(r"-(?:\d{4}-\d{2}-\d{2}|latest)$")


class Price(Frozen):
    """Dollars per million tokens. `cached` is what input read from the provider's cache costs, `input` where absent."""

    input: float = Field(ge=0, allow_inf_nan=False)
    output: float = Field(ge=0, allow_inf_nan=False)
    cached: float | None = Field(default=None, ge=0, allow_inf_nan=False)

    def dollars(self, *, input_tokens: int, cached_tokens: int, output_tokens: int) -> float:
        """The cost of one answer; `cached_tokens` are part of `input_tokens`. Counts that cannot be cost nothing."""
        cached = self.input if self.cached is None else self.cached
        kept = max(0, cached_tokens)
        fresh = max(0, input_tokens - kept)
        return (fresh * self.input + kept * cached + max(0, output_tokens) * self.output) / 1e6


def price_of(model: str, host: str, own: Iterable[tuple[str, Price]] = ()) -> Price | None:
    """The price of a model behind a host; absent where nobody named one, which is not the same as 0.

    What the user says in `own`, by the model's name, comes before the table. A dated snapshot (gpt-5-2025-08-07) costs
    what its model costs.
    """
    plain = _SNAPSHOT.sub("", model)
    told = dict(own)
    table = _table().get(host, {})
    return told.get(model) or told.get(plain) or table.get(model) or table.get(plain)


@cache
def _table() -> dict[str, dict[str, Price]]:
    hosts = tomllib.loads(TABLE.read_text(encoding="utf-8"))
    return {
        host: {model: Price.model_validate(price) for model, price in models.items()} for host, models in hosts.items()
    }
