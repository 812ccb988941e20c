"""docs/cli.md lists the commands and options of today."""

from __future__ import annotations

import pytest
import typer

from bench.cli_page import MARK, PAGE, with_options
from graph.cli.main import app


def test_the_page_is_as_new_as_the_commands() -> None:
    page = PAGE.read_text(encoding="utf-8")
    assert page == with_options(page), "run: python -m bench.cli_page"


def test_every_option_of_every_command_is_listed() -> None:
    listed = with_options(f"About.\n{MARK}").split("### ")
    commands = typer.main.get_command(app)
    assert isinstance(commands, typer.core.TyperGroup)
    for name, command in commands.commands.items():
        (section,) = (each for each in listed if each.startswith((f"`cutegen {name} ", f"`cutegen {name}`")))
        for parameter in command.make_context(name, [], resilient_parsing=True).command.params:
            assert all(f"`{option}`" in section for option in parameter.opts if option.startswith("-")), name


def test_a_page_that_lost_its_mark_is_not_overwritten() -> None:
    with pytest.raises(ValueError, match="lost its line"):
        with_options("About.\n")
