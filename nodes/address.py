"""Where a model is: its name, its endpoint's address, and the environment variable that holds the key."""

from __future__ import annotations

import os
import re
import tomllib
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cache
from ipaddress import ip_address
from pathlib import Path
from typing import Literal
from urllib.parse import urlsplit

from pydantic import Field

from harness.nouns.errors import UserError
from harness.nouns.frozen import Frozen

OPENAI = "https://api.openai.com/v1"
OPENAI_KEY = "OPENAI_API_KEY"
NO_KEY = "none"

# A model's own name may hold an @ (dated versions do): only one before a web address ends the name.
_OWN_ADDRESS = re.compile(r"@(?=[a-z][a-z0-9+.-]*://)")


@dataclass(frozen=True)
class Address:
    """A model behind an OpenAI-compatible endpoint. `variable` names where its key was found; empty for `NO_KEY`."""

    model: str
    base_url: str
    host: str
    key: str = field(repr=False)
    variable: str


def find(name: str, base_url: str | None) -> Address:
    """The endpoint of `name`: a model's name, or `<model>@<base URL>`, which is independent of `base_url`.

    `base_url` falls back to OPENAI_BASE_URL, then to OpenAI itself. Raises `UserError` for an address that is none,
    for one that holds more than the address, and for a key that is missing.
    """
    model, *own = _OWN_ADDRESS.split(name, maxsplit=1)
    url = own[0] if own else base_url or os.environ.get("OPENAI_BASE_URL") or OPENAI
    host = _host(url)
    variable, key = _key(model, host, shared=not own)
    return Address(model=model, base_url=url, host=host, key=key, variable=variable)


def check_addresses(addresses: Iterable[str]) -> None:
    """Raises `UserError` as `find` does, for each address that settings name: they are written down, used or not."""
    for url in filter(None, addresses):
        _host(url)


def own_addresses(model: str) -> list[str]:
    """The address that stands in a model's name, if any."""
    return _OWN_ADDRESS.split(model, maxsplit=1)[1:]


def key_variable(host: str) -> str:
    """The environment variable of a host's own key: OPENROUTER_API_KEY for openrouter.ai, LOCAL_API_KEY for numbers."""
    try:
        ip_address(host)
    except ValueError:
        labels = host.split(".")
        return f"{re.sub(r'[^A-Za-z0-9]', '_', labels[-2] if len(labels) > 1 else labels[0]).upper()}_API_KEY"
    return "LOCAL_API_KEY"


def _key(model: str, host: str, *, shared: bool) -> tuple[str, str]:
    """The host's own key and its variable; else OPENAI_API_KEY, unless the address stands in the model's name.

    One endpoint's key is not another's: what was meant for OpenAI does not go to wherever the second model lives.
    """
    names = dict.fromkeys([key_variable(host), *([OPENAI_KEY] if shared else [])])
    for name in names:
        key = os.environ.get(name, "").strip()
        if key:
            return name, key
    if _is_near(host):
        return "", NO_KEY  # the client insists on some key; servers on one's own machine or network seldom do
    raise UserError(
        f'The model "openai:{model}" at {host} needs a key.',
        f"Put it into the environment variable {' or '.join(names)}, or name a server of your own with the base URL.",
    )


def _host(base_url: str) -> str:
    try:
        parts = urlsplit(base_url)
        sound = parts.scheme in ("http", "https") and parts.port != 0 and base_url.isprintable()
    except ValueError:  # brackets without an address between them, a port that is no number
        sound = False
    if not sound or not parts.hostname:
        shown = base_url.rpartition("@")[2]
        raise UserError(f'The base URL "{shown}" is no web address.', "Give one like http://127.0.0.1:8000/v1.")
    if "@" in parts.netloc or parts.query or parts.fragment:
        # Settings are written into the run's record; a key in them would be, too.
        raise UserError(
            f"The base URL of {parts.hostname} holds a user, a password or a query.",
            f"Put the key into the variable {key_variable(parts.hostname)} or {OPENAI_KEY}.",
        )
    return parts.hostname


def _is_near(host: str) -> bool:
    """Whether the host is this machine, a private address, or a name without a domain (a container's neighbour)."""
    try:
        return ip_address(host).is_private
    except ValueError:
        return "." not in host or host.endswith(".local")


# -- What a model's tokens cost: the table beside this file, and what a user knows better -----------------------------


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


# -- How hard a model is asked to think -------------------------------------------------------------------------------


Effort = Literal["none", "minimal", "low", "medium", "high", "xhigh"]

PromptCaching = Literal["unasked", "key", "marks"]
"""How an endpoint is asked to keep a prompt's steady beginning."""
