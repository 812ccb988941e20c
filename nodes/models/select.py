"""From a model's name in the settings to the model."""

from __future__ import annotations

import os
from ipaddress import ip_address
from pathlib import Path
from urllib.parse import urlsplit

from langchain_core.language_models.chat_models import BaseChatModel
from pydantic import Field

from harness.errors import UserError
from harness.frozen import Frozen
from nodes.models.manual import ManualModel
from nodes.models.playbook import PlaybookModel
from nodes.models.replay import ReplayModel

CHOICES = "Choose playbook, openai:<model>, manual or replay:<conversation.jsonl>."


class ModelOptions(Frozen):
    """How a model is reached and how far one call may go.

    `base_url` falls back to OPENAI_BASE_URL, then to OpenAI itself. `timeout_s` bounds the wait for each byte
    of an answer and a streamed answer as a whole. `max_output_tokens` is left to the endpoint where absent.
    """

    base_url: str | None = None
    timeout_s: float = Field(default=600.0, gt=0)
    max_retries: int = Field(default=2, ge=0, le=10)
    max_output_tokens: int | None = Field(default=None, gt=0)


def open_model(spec: str, options: ModelOptions | None = None) -> BaseChatModel:
    """The model that `spec` names: `playbook`, `openai:<model>`, `manual` or `replay:<conversation.jsonl>`.

    Keep it for the whole run: a replay remembers what it has already answered. Raises `UserError` for an unknown
    name, a recording that cannot be read, and an endpoint without its key.
    """
    kind, _, name = spec.strip().partition(":")
    match kind, name:
        case "playbook", "":
            return PlaybookModel()
        case "manual", "":
            return ManualModel()
        case "openai", str() if name:
            return _openai(name, options or ModelOptions())
        case "replay", str() if name:
            return ReplayModel.load(Path(name))
        case (("openai" | "replay"), _):
            raise UserError(f'The model "{spec}" names nothing after the colon.', CHOICES)
        case _:
            raise UserError(f'There is no model "{spec}".', CHOICES)


def _openai(name: str, options: ModelOptions) -> BaseChatModel:
    base_url = options.base_url or os.environ.get("OPENAI_BASE_URL") or None
    key = _key(name, base_url)
    # Half a second of imports that only runs with a language model have to pay for.
    from nodes.models.openai_chat import open_endpoint

    return open_endpoint(
        name,
        key=key,
        base_url=base_url,
        timeout_s=options.timeout_s,
        max_retries=options.max_retries,
        max_output_tokens=options.max_output_tokens,
    )


def _key(name: str, base_url: str | None) -> str:
    host = _host(base_url) if base_url else "api.openai.com"
    key = os.environ.get("OPENAI_API_KEY", "").strip()
    if key:
        return key
    if _is_near(host):
        return "none"  # the client insists on some key; servers on one's own machine or network seldom do
    raise UserError(
        f'The model "openai:{name}" at {host} needs a key.',
        "Put it into the environment variable OPENAI_API_KEY, or name a server of your own with the base URL.",
    )


def _host(base_url: str) -> str:
    parts = urlsplit(base_url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise UserError(f'The base URL "{base_url}" is no web address.', "Give one like http://127.0.0.1:8000/v1.")
    if parts.password is not None:
        # Settings are written into the run's record; a key in them would be, too.
        raise UserError(
            f"The base URL of {parts.hostname} holds a password.", "Put the key into the variable OPENAI_API_KEY."
        )
    return parts.hostname


def _is_near(host: str) -> bool:
    """Whether the host is this machine, a private address, or a name without a domain (a container's neighbour)."""
    try:
        return ip_address(host).is_private
    except ValueError:
        return "." not in host or host.endswith(".local")
