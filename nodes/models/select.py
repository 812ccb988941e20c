"""From a model's name in the settings to the model."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from langchain_core.language_models.chat_models import BaseChatModel
from pydantic import Field

from harness.nouns.errors import UserError
from harness.nouns.frozen import Frozen
from nodes.address import Effort, Price, PromptCaching, find, price_of
from nodes.models.manual import ManualModel
from nodes.models.playbook import PlaybookModel
from nodes.models.replay import ReplayModel

if TYPE_CHECKING:
    from nodes.models.openai_chat import Endpoint

CHOICES = "Choose playbook, openai:<model>, manual or replay:<conversation.jsonl>."


class ModelOptions(Frozen):
    """How a model is reached and how far one call may go.

    `base_url` falls back to OPENAI_BASE_URL, then to OpenAI itself. `timeout_s` bounds an answer as a whole,
    `silence_s` the wait for each token of a streamed one. `max_output_tokens`, `effort` and `temperature` are left to
    the endpoint where absent. `prices` are the user's own, by model. `fallback` is the model that goes on where this
    one fails for good. `responses` asks by the Responses API, `caching` for the steady part of a prompt to be kept.
    """

    base_url: str | None = None
    timeout_s: float = Field(default=1800.0, gt=0)
    silence_s: float = Field(default=600.0, gt=0)
    max_retries: int = Field(default=2, ge=0, le=20)
    max_output_tokens: int | None = Field(default=None, gt=0)
    effort: Effort | None = None
    temperature: float | None = None
    requests_per_minute: float | None = Field(default=None, gt=0)
    stream: bool = True
    responses: bool = False
    caching: PromptCaching = "unasked"
    prices: tuple[tuple[str, Price], ...] = ()
    fallback: str | None = None


def open_model(spec: str, options: ModelOptions | None = None) -> BaseChatModel:
    """The model that `spec` names: playbook, openai:<model>, openai:<model>@<base URL>, manual or replay:<file>.

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
    spare = options.fallback if options.fallback not in (None, f"openai:{name}") else None
    return _endpoint(name, options, spare=_spare(spare, options) if spare else None)


def _spare(spec: str, options: ModelOptions) -> Endpoint:
    kind, _, name = spec.strip().partition(":")
    if kind != "openai" or not name:
        raise UserError(f'The model "{spec}" cannot go on for another.', "Name one as openai:<model>@<base URL>.")
    return _endpoint(name, options, spare=None)


def _endpoint(name: str, options: ModelOptions, *, spare: Endpoint | None) -> Endpoint:
    address = find(name, options.base_url)
    # Half a second of imports that only runs with a language model have to pay for.
    from nodes.models.openai_chat import open_endpoint

    return open_endpoint(
        address,
        options,
        price=price_of(address.model, address.host, options.prices),
        spare=spare,
        spec=f"openai:{name}",
    )
