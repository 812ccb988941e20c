"""`cutegen compare`: two runs beside each other, as a table and as a page."""

from __future__ import annotations

from rich.console import Console
from rich.text import Text

from graph.cli.errors import IMPROVED
from graph.cli.optimize import short
from graph.cli.options import Compare
from graph.pages.compare_page import facts, headline, render
from graph.pages.kernel_changes import hunks
from graph.runs.comparing import Comparison, compare_runs, folder_of, read_run, same_two, timed_again
from graph.runs.folder import replace_file
from graph.runs.progress import waiting
from graph.runs.tables import Sheet, drawn


def run(options: Compare) -> int:
    """Do the command; its exit code."""
    comparison = compare_runs(read_run(options.first), read_run(options.second))
    if same_two(comparison):
        with waiting("timing both kernels again"):
            comparison = timed_again(comparison, (folder_of(options.first), folder_of(options.second)))
    names = (short(options.first), short(options.second))
    if options.out is not None:
        replace_file(options.out, render(comparison, names))
    if options.json:
        print(comparison.model_dump_json(exclude={"first", "second"}))
    else:
        _show(comparison, names, Console())
    return IMPROVED


def _show(comparison: Comparison, names: tuple[str, str], console: Console) -> None:
    console.print(Text(headline(comparison), style="bold"), soft_wrap=True)
    console.print(Text(comparison.ratio.words), soft_wrap=True)
    if comparison.task_differs and comparison.ratio.basis != "none":
        console.print(Text(comparison.task_differs), soft_wrap=True)
    rows = tuple((name, *values) for name, values in facts(comparison))
    console.print()
    console.print(drawn(Sheet("", ("", *names), rows)))
    for title, found in (("Settings that differ", comparison.settings), ("Machines", comparison.machines)):
        if found:
            console.print()
            cells = tuple((each.name, each.first, each.second) for each in found)
            console.print(drawn(Sheet(title, ("", *names), cells)))
    console.print()
    console.print(Text(_changed(comparison)), soft_wrap=True)


def _changed(comparison: Comparison) -> str:
    """How far the kernels' texts are from each other."""
    first, second = comparison.first.best, comparison.second.best
    if first is None or second is None:
        return "There are no two kernels to hold beside each other."
    lines = [line for hunk in hunks(first.candidate.source, second.candidate.source) for line in hunk.lines]
    added, removed = (sum(line.kind == kind for line in lines) for kind in ("added", "removed"))
    return (
        f"Kernels: +{added} -{removed} lines; --out FILE.html shows them." if lines else "The kernels' texts are equal."
    )
