"""Where a model is: its name, its endpoint's address, and the environment variable that holds the key."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from ipaddress import ip_address
from urllib.parse import urlsplit

from harness.nouns.errors import UserError

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
