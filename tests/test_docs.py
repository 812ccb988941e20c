"""Every command that the pages show is one: its options, modules and make targets are looked up, none is run."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
import typer

from graph.cli.main import app
from graph.cli.settings import markdown

ROOT = Path(__file__).resolve().parents[1]
PAGES = (ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md")))
COMMANDS: Any = typer.main.get_command(app)
NOW = tuple(page for page in PAGES if page.stem != "suites")
"""That page tells what was run, by commits of then."""


def shown(page: Path) -> Iterator[str]:
    """The commands of a page: the lines of its shell blocks, and what stands between backticks."""
    text = page.read_text(encoding="utf-8")
    for block in re.findall(r"```(?:sh|bash|console)?\n(.*?)```", text, re.S):
        yield from block.replace("\\\n", " ").splitlines()
    yield from re.findall(r"`((?:cutegen|python -m|make) [^`\n]+)`", re.sub(r"```.*?```", "", text, flags=re.S))


def cutegens(page: Path) -> Iterator[list[str]]:
    """The arguments of each `cutegen` command; an ellipsis and what is optional are left out."""
    for line in shown(page):
        found = re.match(r"(?:\$ )?(?:[A-Z_]+=\S+ )*(?:echo .*\| )?(?:\S*/)?cutegen ([^#|>;]*)", line)
        if found and (
            given := [each for each in shlex.split(re.sub(r"[\[\]]|\.\.\.", "", found[1])) if each != "--help"]
        ):
            yield given


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_its_commands_take_what_they_are_given(page: Path) -> None:
    for name, *given in cutegens(page):
        if name.startswith("-") or name.isupper():
            continue
        assert name in COMMANDS.commands, f"{page.name}: there is no command {name}"
        try:
            COMMANDS.commands[name].make_context(name, given)
        except Exception as error:  # noqa: BLE001 (typer has its own copy of click, which has no public name)
            # Any other complaint is about a placeholder where a number or a file belongs.
            assert type(error).__name__ != "NoSuchOption", f"{page.name}: cutegen {name} {' '.join(given)}: {error}"


@pytest.mark.parametrize("page", NOW, ids=lambda page: page.stem)
def test_its_modules_and_targets_exist(page: Path) -> None:
    targets = re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.M)
    for line in shown(page):
        for module in re.findall(r"python3? -m ([\w.]+)", line):
            assert find_spec(module.split(".")[0]) is None or find_spec(module) is not None, f"{page.name}: {module}"
        for target in re.findall(r"^(?:\$ )?make ([a-z][\w-]*)", line):
            assert target in targets, f"{page.name}: make {target}"


def test_the_settings_page_is_the_schemas() -> None:
    """Renewed by `cutegen settings --markdown > docs/settings.md`."""
    assert (ROOT / "docs" / "settings.md").read_text(encoding="utf-8") == markdown()


def test_each_message_of_the_troubleshooting_page_is_one_that_is_told() -> None:
    page = (ROOT / "docs" / "troubleshooting.md").read_text(encoding="utf-8")
    messages = re.findall(r"^\| `([^`]+)` \|", page, re.M)
    packages = ("graph", "nodes", "tools", "harness", "knowledge")
    told = "".join(file.read_text(encoding="utf-8") for name in packages for file in (ROOT / name).rglob("*.py"))
    assert len(messages) > 15
    assert [message for message in messages if message not in told] == []
