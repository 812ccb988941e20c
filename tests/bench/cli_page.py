"""The end of docs/cli.md: every command with its options, from the command line itself.

`python -m bench.cli_page` writes it; a test fails where the page is older than the commands.
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import typer

from graph.cli.main import app
from nodes.settings import SHORT_NAMES, Settings

PAGE = Path(__file__).parents[2] / "docs" / "cli.md"
MARK = "<!-- Below this line the page is written by `python -m bench.cli_page`. -->\n"
JSON = "--json"

_LONG_NAMES = {short: name for name, short in SHORT_NAMES.items()}


def with_options(page: str) -> str:
    """The page with everything below its mark written anew. Raises ValueError for a page without the mark."""
    own, mark, _ = page.partition(MARK)
    if not mark:
        raise ValueError(f"the page has lost its line {MARK.strip()}")
    return own + MARK + "".join(f"\n{block}\n" for block in _blocks())


def _blocks() -> Iterator[str]:
    commands: Any = typer.main.get_command(app)
    for name, late in commands.commands.items():
        command = late.make_context(name, [], resilient_parsing=True).command
        yield f"### `cutegen {' '.join((name, *_arguments(command)))}`"
        yield textwrap.fill(" ".join((_plain(command.help), *_with_json(command))), 120)
        settings = [parameter for parameter in _options(command) if _setting(parameter)]
        if settings:
            named = ", ".join(f"`{parameter.opts[0]}`" for parameter in settings)
            yield textwrap.fill(f"Settings: {named}.", 120, break_on_hyphens=False, break_long_words=False)
        if entries := [_entry(each) for each in _options(command) if not _setting(each) and each.opts[0] != JSON]:
            yield "\n".join(entries)


def _with_json(command: Any) -> Iterator[str]:
    return (f"Takes `{JSON}`." for parameter in _options(command) if parameter.opts[0] == JSON)


def _options(command: Any) -> Iterator[Any]:
    return (parameter for parameter in command.params if parameter.opts[0].startswith("-"))


def _arguments(command: Any) -> Iterator[str]:
    for parameter in command.params:
        if not parameter.opts[0].startswith("-"):
            name = (parameter.metavar or parameter.name).upper()
            yield name if parameter.required else f"[{name}]"


def _setting(parameter: Any) -> bool:
    return parameter.opts[0] == "--set" or _LONG_NAMES.get(parameter.name, parameter.name) in Settings.model_fields


def _entry(parameter: Any) -> str:
    spelling = ", ".join(f"`{option}`" for option in (*parameter.opts, *parameter.secondary_opts))
    default = f" ({shown})" if (shown := _default(parameter)) else ""
    entry = f"- {spelling}{default}: {_plain(parameter.help)}"
    return textwrap.fill(entry, 120, subsequent_indent="  ", break_on_hyphens=False, break_long_words=False)


def _default(parameter: Any) -> str:
    if isinstance(parameter.show_default, str):
        return f"`{parameter.show_default}`" if "<" in parameter.show_default else parameter.show_default
    if parameter.default is True:
        return "on"
    return "" if not parameter.show_default or parameter.default in (None, False, "") else str(parameter.default)


def _plain(help_text: str) -> str:
    return " ".join(help_text.split()).replace("\\[", "[")


def main() -> None:
    """Write docs/cli.md."""
    PAGE.write_text(with_options(PAGE.read_text(encoding="utf-8")), encoding="utf-8")


if __name__ == "__main__":
    main()
