"""`--set NAME=VALUE`, and `cutegen settings`, which lists what may be named there."""

from __future__ import annotations

import difflib
import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

from pydantic import BaseModel
from rich.console import Console
from rich.table import Table
from rich.text import Text

from graph.api import make_settings
from graph.cli.errors import IMPROVED, guarded
from harness.nouns.errors import UserError
from nodes.settings import Settings

_LISTED = "`cutegen settings` lists them."
_OWN = ("run_dir",)
"""What `--out` says, in a way of its own."""


def settings_with(options: Mapping[str, Any], more: Sequence[str]) -> Settings:
    """The command's own options, and beside them what `--set` names. Raises `UserError`."""
    return make_settings(_put_all(dict(options), options, more))


def more_with_resume(options: Mapping[str, Any], typed: Collection[str], more: Sequence[str]) -> dict[str, Any]:
    """What the command says of a resumed run's settings: the options that were `typed`, and what `--set` names."""
    return _put_all({name: value for name, value in options.items() if name in typed}, options, more)


def none_with_resume(more: Sequence[str]) -> None:
    """Raises `UserError` where a resumed run is given settings: it has its own."""
    if more:
        raise UserError("--set and --resume exclude each other.", "A resumed run has its settings; begin a new one.")


def same_with_resume(options: Mapping[str, Any], typed: Collection[str], has: Settings) -> None:
    """Raises `UserError` where the command's own options, as far as they were `typed`, differ from a resumed run's."""
    for name in [name for name in options if name in typed and options[name] != getattr(has, name)]:
        raise UserError(
            f"The run began with {name}={getattr(has, name)}, not {options[name]}.",
            "A resumed run has its settings: leave the option out, or begin a new one.",
        )


def run(*, as_json: bool) -> int:
    """Do the command; its exit code."""

    def work() -> int:
        if as_json:
            print(json.dumps(Settings.model_json_schema()))
        else:
            Console().print(_table())
        return IMPROVED

    return guarded(work, as_json=as_json)


def names(model: type[BaseModel] = Settings, prefix: str = "") -> Iterator[tuple[str, str, str]]:
    """Each setting as `--set` takes it: its name, its default and what it means."""
    for name, field in model.model_fields.items():
        if name in _OWN:
            continue
        if isinstance(field.default, BaseModel):
            yield from names(type(field.default), f"{prefix}{name}.")
        else:
            default = "" if field.default is None else json.dumps(field.default).strip('"')
            meaning = ". ".join(text for text in (field.title, field.description) if text)
            yield f"{prefix}{name}", default, meaning


def _put_all(given: dict[str, Any], options: Mapping[str, Any], more: Sequence[str]) -> dict[str, Any]:
    for item in more:
        name, equals, text = item.partition("=")
        if not equals:
            raise UserError(f"--set {item} gives no value.", "Write it as --set max_dollars=5.")
        if name in options:
            raise UserError(f"--set {name} has an option of its own.", "See --help.")
        _put(given, name, _value(text))
    return given


def _put(given: dict[str, Any], name: str, value: object) -> None:
    known = [known for known, _, _ in names()]
    if name not in known:
        near = difflib.get_close_matches(name, known, n=1)
        raise UserError(f"There is no setting {name}.", f"Did you mean {near[0]}? {_LISTED}" if near else _LISTED)
    *groups, last = name.split(".")
    for group in groups:
        given = given.setdefault(group, {})
    given[last] = value


def _value(text: str) -> object:
    """A number, true, false or null as JSON has it; anything else is the text itself."""
    try:
        return json.loads(text)
    except ValueError:  # no JSON, or a number of thousands of digits
        return text


def _table() -> Table:
    table = Table(box=None, pad_edge=False, header_style="dim")
    table.add_column("setting", no_wrap=True)
    table.add_column("default", no_wrap=True)
    table.add_column("what it means", overflow="fold")
    for name, default, meaning in names():
        table.add_row(Text(name), Text(default), Text(meaning))
    return table
