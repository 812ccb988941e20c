"""`cutegen doctor`: what is here, what is missing, and the remedy."""

from __future__ import annotations

from pydantic import TypeAdapter
from rich.console import Console
from rich.table import Table
from rich.text import Text

from graph.cli.doctor_models import ENDPOINT, check_models
from graph.cli.errors import IMPROVED, MACHINE_ERROR
from graph.cli.options import Doctor
from graph.cli.settings import settings_of
from harness.targets.prerequisites import Prerequisite, check_prerequisites

OPTIONAL = frozenset({"OpenMP", "objdump", "nvcc", "GPU", "ncu", ENDPOINT})
"""What a run on this machine's processor with the playbook does without."""

STYLES = {"found": "green", "limited": "yellow", "missing": "red"}


def run(options: Doctor) -> int:
    """Do the command for a run with these options; its exit code."""
    checked = (*check_prerequisites(), *check_models(settings_of(options.settings)))
    if options.json:
        print(TypeAdapter(dict[str, tuple[Prerequisite, ...]]).dump_json({"prerequisites": checked}).decode())
    else:
        Console().print(_table(checked))
    return MACHINE_ERROR if blocking(checked) else IMPROVED


def blocking(checked: tuple[Prerequisite, ...]) -> tuple[Prerequisite, ...]:
    """What is missing and needed: by every run, or by a model that was named."""
    return tuple(each for each in checked if each.status == "missing" and each.name not in OPTIONAL)


def _table(checked: tuple[Prerequisite, ...]) -> Table:
    table = Table(box=None, pad_edge=False, header_style="dim")
    table.add_column("what", no_wrap=True)
    table.add_column("", no_wrap=True)
    table.add_column("found, or what to do", overflow="fold")
    for each in checked:
        remedy = f"\n{each.remedy} (needed for {each.needed_for})" if each.remedy else ""
        table.add_row(each.name, Text(each.status, style=STYLES[each.status]), Text(each.detail + remedy))
    return table
