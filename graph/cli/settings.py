"""`--set NAME=VALUE`, and `cutegen settings`, which lists what may be named there."""

from __future__ import annotations

import difflib
import json
import re
import textwrap
from collections.abc import Callable, Iterator
from typing import Any, Literal, get_args, get_origin

from pydantic import BaseModel
from pydantic.fields import FieldInfo
from rich.console import Console
from rich.text import Text

from graph.cli.command import bound_of
from graph.cli.errors import IMPROVED
from graph.cli.options import ListSettings
from graph.fields import make_settings, raised
from graph.offers import Given, RunSettings, offer_of, spelt
from harness.nouns.errors import UserError
from nodes.settings import SHORT_NAMES, Settings

_ABOUT = """What a run is asked and allowed. On the command line by options of their own (`cutegen optimize --help`) or
`--set NAME=VALUE`, in Python as keywords of `optimize`, on a server as a run's `context`, in Studio as a form.
Written by `cutegen settings --markdown`; a test holds it to the schema."""
_LISTED = "`cutegen settings` lists them, and with --search WORD those that say it."
NAME_WIDTH, DEFAULT_WIDTH = 30, 14
_KINDS = {bool: "true or false", int: "a whole number", float: "a number", str: "a text"}
_BOUNDS = {"ge": "at least", "gt": "more than", "le": "at most", "lt": "less than"}
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
    """List the settings, or show one in full; the exit code. Raises `UserError` for a name that is none."""
    if options.json:
        print(json.dumps(Settings.model_json_schema()))
    elif options.markdown:
        print(markdown(), end="")
    elif options.name is not None:
        print(in_full(options.name))
    else:
        show_lines(listed(options.search), Console())
    return IMPROVED


def names(model: type[BaseModel] = Settings) -> Iterator[tuple[str, str, str]]:
    """Each setting as `--set` takes it: its name, its default and what it means."""
    return ((name, _default(field), _meaning(field)) for name, field in fields(model))


def fields(model: type[BaseModel], prefix: str = "") -> Iterator[tuple[str, FieldInfo]]:
    """Each field of a group, those of a group within it by `group.name`."""
    for name, field in model.model_fields.items():
        if name in _OWN:
            continue
        if isinstance(field.default, BaseModel):
            yield from fields(type(field.default), f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", field


def _default(field: FieldInfo) -> str:
    return "" if field.default is None else json.dumps(field.default).strip('"')


def _meaning(field: FieldInfo) -> str:
    return ". ".join(text for text in (field.title, field.description) if text)


def _beside(name: str, field: FieldInfo) -> str:
    """What a field means, beside its name: without a title that says no more than the name."""
    title = re.sub(r"'s?\b", "", field.title or "").lower()
    repeats = set(re.findall(r"\w+", title)) <= {*name.split("_"), f"{name.split('_')[0]}s"}
    return field.description if field.description and repeats else _meaning(field)


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
    _require_setting(name)
    *groups, last = name.split(".")
    for group in groups:
        given = given.setdefault(group, {})
    given[last] = value


def _require_setting(name: str) -> None:
    known = [known for known, _, _ in names()]
    if name not in known:
        near = difflib.get_close_matches(name, known, n=1)
        raise UserError(f"There is no setting {name}.", f"Did you mean {near[0]}? {_LISTED}" if near else _LISTED)


def _value(text: str) -> object:
    """A number, true, false or null as JSON has it; anything else is the text itself."""
    try:
        return json.loads(text)
    except ValueError:  # no JSON, or a number of thousands of digits
        return text


def markdown() -> str:
    """The page of all settings: a list a group."""
    lines = ["# Settings", "", _ABOUT, ""]
    for group in Settings.groups():
        lines += [f"## {group.__name__}", "", *_wrapped(group.__doc__ or ""), ""]
        for name, field in fields(group):
            default = _default(field)
            lines += _wrapped(f"- `{name}`{f' (`{default}`)' if default else ''}: {_beside(name, field)}")
        lines.append("")
    return "\n".join(lines[:-1]) + "\n"


def _wrapped(entry: str) -> list[str]:
    indent = "  " if entry.startswith("- ") else ""
    return textwrap.wrap(entry, 120, subsequent_indent=indent, break_on_hyphens=False, break_long_words=False)


def show_lines(lines: Iterator[Text], console: Console) -> None:
    """A line each: cut at a terminal's edge, and whole for whatever reads a pipe."""
    for line in lines:
        if console.is_terminal:
            console.print(line, no_wrap=True, overflow="ellipsis")
        else:
            print(line.plain)


def listed(word: str = "") -> Iterator[Text]:
    """A line a setting, below its group's: of those that have the word in their name or what they mean.

    Raises `UserError` where none has it.
    """
    found = False
    for group in Settings.groups():
        wanted = [(name, field) for name, field in fields(group) if word.lower() in f"{name} {_meaning(field)}".lower()]
        if wanted:
            found = True
            yield Text(f"{group.__name__}: {group.__doc__}", style="bold")
        for name, field in wanted:
            yield Text(f"  {name:<{NAME_WIDTH}} {_default(field):<{DEFAULT_WIDTH}} {_meaning(field)}")
    if not found:
        raise UserError(f"No setting says {word!r}.", "`cutegen settings` lists all of them.")


def in_full(name: str) -> str:
    """All about one setting. Raises `UserError` where there is none of that name."""
    _require_setting(name)
    group, field = next((group, field) for group in Settings.groups() for each, field in fields(group) if each == name)
    default, of_optimize = _default(field), offer_of(RunSettings).names
    lines = (
        f"{name}, of {group.__name__}",
        _meaning(field),
        f"Takes:           {_takes(field)}",
        f"Default:         {default}" if default else "Default:         empty",
        f"Command line:    {spelt(name)} VALUE" if name in of_optimize else f"Command line:    --set {name}=VALUE",
        f"Python, server:  {SHORT_NAMES.get(name, name)}" if "." not in name else "",
    )
    return "\n".join(filter(None, lines))


def _takes(field: FieldInfo) -> str:
    """The choices, or the kind of value and its bounds."""
    kinds = (field.annotation, *get_args(field.annotation))
    choices = [str(choice) for kind in kinds if get_origin(kind) is Literal for choice in get_args(kind)]
    if choices:
        return ", ".join(choices)
    named = [name for kind, name in _KINDS.items() if kind in kinds]
    found = ((said, bound_of(field.metadata, name)) for name, said in _BOUNDS.items())
    bounds = [f"{said} {bound}" for said, bound in found if bound is not None]
    return ", ".join([*named[:1], *bounds]) or "JSON"
