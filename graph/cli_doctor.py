"""`cutegen doctor`: what is here, what is missing, and the remedy."""

from __future__ import annotations

from pydantic import TypeAdapter
from rich.console import Console
from rich.table import Table
from rich.text import Text

from graph.cli_errors import IMPROVED, MACHINE_ERROR, guarded
from harness.prerequisites import Prerequisite, check_prerequisites

OPTIONAL = frozenset({"OpenMP", "nvcc", "GPU", "ncu", "model endpoint"})
"""What a run on this machine's processor with the playbook does without."""

STYLES = {"found": "green", "limited": "yellow", "missing": "red"}


def run(base_url: str, *, as_json: bool) -> int:
    """Do the command; its exit code."""

    def work() -> int:
        checked = check_prerequisites(base_url or None)
        if as_json:
            print(TypeAdapter(dict[str, tuple[Prerequisite, ...]]).dump_json({"prerequisites": checked}).decode())
        else:
            Console().print(_table(checked))
        return MACHINE_ERROR if blocking(checked) else IMPROVED

    return guarded(work, as_json=as_json)


def blocking(checked: tuple[Prerequisite, ...]) -> tuple[Prerequisite, ...]:
    """What is missing and needed by every run."""
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
