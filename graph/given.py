"""Settings as somebody gives them, by their names or short ones: validated, or refused by the name that was given."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from pydantic import ValidationError

from graph.fields import what_is_wrong
from harness.nouns.errors import UserError, at_fault
from nodes.models.address import check_addresses
from nodes.settings import SHORT_NAMES, Budgets, Settings


def make_settings(given: Mapping[str, Any], said: Callable[[str], str] | None = None) -> Settings:
    """Validate settings. Raises `UserError` for the first that is wrong, and for a key in an address.

    `said` tells how a setting was named where not by a name in `given`.
    """
    said = said or _said_in(given)
    try:
        settings = Settings.model_validate(_named(given))
    except ValidationError as error:
        wrong = what_is_wrong(error, Settings, "The settings are", "setting", said)
        raise UserError(wrong, "`cutegen settings` lists them.") from error
    for setting, named in settings.addresses().items():
        with at_fault(said(setting)):
            check_addresses(named)
    return settings


def raised(settings: Settings, more: Mapping[str, Any], said: Callable[[str], str] | None = None) -> Settings:
    """Settings with larger budgets. Raises `UserError` for what is no budget, or would be less than before."""
    said, more, budgets = said or _said_in(more), _named(more), Budgets.model_fields
    for name, value in more.items():
        if name not in budgets and getattr(settings, name, None) != value:
            raise UserError(
                f"The run began with {said(name)}={getattr(settings, name, None)}, not {value}.",
                f"A resumed run has its settings; only budgets can be raised: {', '.join(map(said, budgets))}.",
            )
    wanted = make_settings(settings.model_dump() | more, said)
    for name in budgets.keys() & more.keys():
        before, now = getattr(settings, name), getattr(wanted, name)
        if now is not None and (before is None or now < before):
            raise UserError(f"{said(name)} can only be raised: the run had {before}.", "Begin a new run for less.")
    return wanted


def _said_in(given: Mapping[str, Any]) -> Callable[[str], str]:
    """How a caller from Python names a setting."""
    return lambda name: SHORT_NAMES[name] if SHORT_NAMES.get(name) in given else name


def _named(given: Mapping[str, Any]) -> dict[str, Any]:
    full = {short: name for name, short in SHORT_NAMES.items()}
    return {full.get(name, name): value for name, value in given.items()}
