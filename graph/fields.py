"""What is wrong with named fields, be they settings, an input, a state or a tool's arguments: in a sentence."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from difflib import get_close_matches
from itertools import chain
from typing import Any, get_args

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from harness.nouns.errors import UserError, at_fault
from harness.nouns.frozen import printable
from nodes.address import check_addresses
from nodes.settings import SHORT_NAMES, Budgets, Settings

LONGEST_SHOWN = 80
MOST_LISTED = 12
"""Names that are all told where none is near."""
_NO_FIELDS = ("model_type", "model_attributes_type", "dict_type")


def what_is_wrong(
    error: ValidationError, schema: type[BaseModel], whole: str, field: str, said: Callable[[str], str] = str
) -> str:
    """The field, what it takes, and the name that was meant where one is near.

    `whole` is what was given ("The input is"), `field` a part of it ("field of the input"); `said` tells how whoever
    gave it calls a field.
    """
    found = error.errors(include_url=False, include_input=False)
    # A field that is misspelt is also missing; the spelling is what is wrong.
    wrong = next((each for each in found if each["type"] == "extra_forbidden"), found[0])
    where = said(printable(".".join(map(str, wrong["loc"])))[:LONGEST_SHOWN])
    if not where:
        return f"{whole} not valid: {_no_object(wrong) or _taken(wrong)}."
    if wrong["type"] == "extra_forbidden":
        *above, name = wrong["loc"]
        return unknown(where, str(name), _fields_of(schema, above), field, said)
    return f"{where} is not valid: {_taken(wrong)}."


def unknown(where: str, name: str, known: Sequence[str], field: str, said: Callable[[str], str] = str) -> str:
    """For a name that there is not: the one that is near, or all where none is, and they are few."""
    near = get_close_matches(name, known, n=1)
    among = f"; there are {', '.join(map(said, known))}" if len(known) <= MOST_LISTED else ""
    return f"{where} is not valid: no {field} has that name{f'; {said(near[0])} is near' if near else among}."


def _no_object(wrong: ErrorDetails) -> str:
    return "what is given is no JSON object with named fields" if wrong["type"] in _NO_FIELDS else ""


def _taken(wrong: ErrorDetails) -> str:
    """What it takes, in pydantic's words, which speak of an input whatever it is."""
    if wrong["type"] == "missing":
        return "it is missing"
    words = _no_object(wrong) or wrong["msg"].removeprefix("Value error, ")
    return words.replace("Input should", "it should", 1)


def _fields_of(schema: type[BaseModel], path: Sequence[str | int]) -> list[str]:
    """The names that there are at a place within: of the model, or models, that its field may hold."""
    models = [schema]
    for part in path:
        held = [model.model_fields[part].annotation for model in models if part in model.model_fields]
        models = list(chain.from_iterable(map(_models_in, held))) if held else models  # a place in a list has no name
    return list(dict.fromkeys(name for model in models for name in model.model_fields))


def _models_in(annotation: Any) -> list[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return [annotation]
    return [model for part in get_args(annotation) for model in _models_in(part)]


# -- Settings as somebody gives them, by their names or short ones: validated, or refused by the name that was give ---


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
