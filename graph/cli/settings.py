"""`--set NAME=VALUE`, and `cutegen settings`, which lists what may be named there."""

from __future__ import annotations

import difflib
import json
from collections.abc import Callable, Iterator
from typing import Any

from pydantic import BaseModel
from rich.console import Console
from rich.table import Table
from rich.text import Text

from graph.api import make_settings, raised
from graph.cli.command import spelt
from graph.cli.errors import IMPROVED
from graph.cli.options import Given, ListSettings
from harness.nouns.errors import UserError
from nodes.settings import Settings

_ABOUT = """What a run is asked and allowed. On the command line by options of their own (`cutegen optimize --help`) or
`--set NAME=VALUE`, in Python as keywords of `optimize`, on a server as a run's `context`, in Studio as a form.
Written by `cutegen settings --markdown`; a test holds it to the schema."""
_LISTED = "`cutegen settings` lists them."
_OWN = ("run_dir",)
"""What `--out` says, in a way of its own."""


def settings_of(given: Given) -> Settings:
    """The settings of a new run. Raises `UserError`."""
    return make_settings(dict(given.values) | _set(given), option_of(given))


def raised_by(given: Given, has: Settings) -> Settings:
    """A resumed run's settings with the budgets that the user raises. Raises `UserError`, as for any other change."""
    return raised(has, {name: given.values[name] for name in given.typed} | _set(given), option_of(given))


def none_with_resume(given: Given) -> None:
    """Raises `UserError` where a resumed run is given settings: it has its own."""
    if given.more:
        raise UserError("--set and --resume exclude each other.", "A resumed run has its settings; begin a new one.")


def require_same(given: Given, has: Settings) -> None:
    """Raises `UserError` where an option that the user typed differs from a resumed run's setting."""
    for name in sorted(given.typed):
        if given.values[name] != getattr(has, name):
            raise UserError(
                f"The run began with {spelt(name)}={getattr(has, name)}, not {given.values[name]}.",
                "A resumed run has its settings: leave the option out, or begin a new one.",
            )


def option_of(given: Given) -> Callable[[str], str]:
    """How the user says a setting."""
    return lambda name: spelt(name) if name in given.values else f"--set {name}"


def run(options: ListSettings) -> int:
    """Do the command; its exit code."""
    if options.json:
        print(json.dumps(Settings.model_json_schema()))
    elif options.markdown:
        print(markdown(), end="")
    else:
        Console().print(_table())
    return IMPROVED


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


def _set(given: Given) -> dict[str, Any]:
    """What `--set` says."""
    said: dict[str, Any] = {}
    for item in given.more:
        name, equals, text = item.partition("=")
        if not equals:
            raise UserError(f"--set {item} gives no value.", "Write it as --set max_dollars=5.")
        if name in given.values:
            raise UserError(f"--set {name} has an option of its own.", f"It is {spelt(name)}.")
        _put(said, name, _value(text))
    return said


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


def markdown() -> str:
    """The page of all settings: a table a group."""
    lines = ["# Settings", "", _ABOUT, ""]
    for group in Settings.groups():
        lines += [f"## {group.__name__}", "", group.__doc__ or "", ""]
        lines += ["| setting | default | what it means |", "|---|---|---|"]
        for name, default, meaning in names(group):
            lines.append(f"| `{name}` | {f'`{default}`' if default else ''} | {meaning.replace('|', chr(92) + '|')} |")
        lines.append("")
    return "\n".join(lines[:-1]) + "\n"


def _table() -> Table:
    table = Table(box=None, pad_edge=False, header_style="dim")
    table.add_column("setting", no_wrap=True)
    table.add_column("default", no_wrap=True)
    table.add_column("what it means", overflow="fold")
    for group in Settings.groups():
        table.add_row(Text(group.__name__, style="bold"), Text(), Text(group.__doc__ or "", style="bold"))
        for name, default, meaning in names(group):
            table.add_row(Text(name), Text(default), Text(meaning))
    return table
