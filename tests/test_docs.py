"""Every command that the pages show is one: those to copy run up to their work, which other tests do."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
import typer
from typer.testing import CliRunner

from graph.cli.main import app
from graph.cli.settings import markdown

ROOT = Path(__file__).resolve().parents[1]
PAGES = (ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md")))
COMMANDS: Any = typer.main.get_command(app)
NOW = tuple(page for page in PAGES if page.parent.name != "lab")
"""Lab notes name what was run, by commits of then."""


def name(page: Path) -> str:
    """The page's path below the repository."""
    return page.relative_to(ROOT).as_posix()


def shown(page: Path) -> list[str]:
    """The commands of a page: the lines of its shell blocks, and what stands between backticks."""
    return [*in_blocks(page), *in_words(page)]


def in_blocks(page: Path) -> Iterator[str]:
    """Those that a reader copies."""
    for language, block in re.findall(r"^ *```(\w*)\n(.*?)^ *```", page.read_text(encoding="utf-8"), re.S | re.M):
        if language in ("", "sh", "bash", "console"):
            yield from block.replace("\\\n", " ").splitlines()


def in_words(page: Path) -> Iterator[str]:
    """Those that are spoken of, often in part."""
    text = re.sub(r"^ *```.*?^ *```", "", page.read_text(encoding="utf-8"), flags=re.S | re.M)
    yield from re.findall(r"`((?:cutegen|python -m|make) [^`\n]+)`", text)


def cutegens(lines: Iterable[str]) -> Iterator[list[str]]:
    """The arguments of each `cutegen` command; an ellipsis and what is optional are left out."""
    for line in lines:
        found = re.match(r"(?:\$ )?(?:[A-Z_]+=\S+ )*(?:echo .*\| )?(?:\S*/)?cutegen ([^#|>;]*)", line)
        if found and (
            given := [each for each in shlex.split(re.sub(r"[\[\]]|\.\.\.", "", found[1])) if each != "--help"]
        ):
            yield given


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_commands_that_are_spoken_of_exist_with_their_options(page: Path) -> None:
    for command, *given in cutegens(in_words(page)):
        if command.startswith("-") or command.isupper():
            continue
        assert command in COMMANDS.commands, f"{page.name}: there is no command {command}"
        try:
            COMMANDS.commands[command].make_context(command, given)
        except Exception as error:  # noqa: BLE001 (typer has its own copy of click, which has no public name)
            # Any other complaint is about a placeholder where a number or a file belongs.
            assert type(error).__name__ != "NoSuchOption", f"{page.name}: cutegen {command} {' '.join(given)}: {error}"


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_commands_to_copy_run_up_to_their_work(page: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each is typed as it stands: all its options are taken, and it begins what it was asked for."""
    begun: list[object] = []

    def begin(work: object, as_json: bool) -> int:
        begun.append(work)
        return 0

    monkeypatch.setattr("graph.cli.errors.guarded", begin)
    typed = list(cutegens(line for line in in_blocks(page) if not re.search(r"\[|\w\|\w|\bN\b", line)))
    for arguments in typed:
        done = CliRunner().invoke(app, arguments)
        assert done.exit_code == 0, f"{page.name}: cutegen {' '.join(arguments)}: {done.output}"
    assert len(begun) == len(typed)


@pytest.mark.parametrize("page", NOW, ids=name)
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
