"""`cutegen suite`: many tasks through the graph, one table in the end."""

from __future__ import annotations

import os
import shlex
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.text import Text

from graph.cli.errors import DEFECT, IMPROVED, INTERRUPTED, MACHINE_ERROR, NOTHING_FASTER, guarded_with_hints
from graph.cli.optimize import require_models, short
from graph.cli.settings import none_with_resume, same_with_resume, settings_with
from graph.pages.sheet import drawn
from graph.runs.folder import claimed
from graph.suites.folder import SuiteFolder, SuiteManifest, create_suite, reopen_suite
from graph.suites.progress import SuiteTerminal
from graph.suites.record import SuiteRecord
from graph.suites.run import SuiteRun
from graph.suites.table import figures_sheet, rows_sheet
from graph.suites.tasks import load_suite
from harness.isolation.tiers import resolve_tier
from harness.nouns.errors import UserError
from tools.judges import choose_target

MOST_JOBS = 8
TABLE_WIDTH = 152


@dataclass(frozen=True)
class Options:
    """The command's options. `settings` are those that the command line can set, `typed` those that it did."""

    suite: str | None
    ids: str
    scale: float
    resume: Path | None
    out: Path | None
    jobs: int | None
    minutes: float | None
    dollars: float | None
    compile_baseline: bool
    as_json: bool
    settings: dict[str, Any]
    more: tuple[str, ...] = ()
    typed: frozenset[str] = frozenset()


def run(options: Options) -> int:
    """Do the command; its exit code."""
    return guarded_with_hints(lambda hints: _run(options, hints), as_json=options.as_json)


def _run(options: Options, hints: list[str]) -> int:
    folder, manifest = _again(options) if options.resume is not None else _fresh(options)
    target = choose_target(manifest.settings.target)
    resolve_tier(manifest.settings.isolation)
    jobs = options.jobs or default_jobs(target.name)
    console = Console(stderr=options.as_json)
    if not console.is_terminal:  # a file or a pipe has no width of its own
        console.width = TABLE_WIDTH
    console.print(Text(f"{manifest.name}: {len(manifest.tasks)} tasks on {target.name} in {short(folder.path)}"))
    with claimed(folder.manifest_file):
        facts = target.facts()
        ended = sum(folder.row(task, facts) is not None for task in manifest.tasks)
        if ended:
            console.print(f"{ended} had ended before. What is told of them is what their folders hold.")
        try:
            with SuiteTerminal(console, len(manifest.tasks), ended) as terminal:
                suite = SuiteRun(
                    folder,
                    manifest,
                    facts,
                    terminal,
                    jobs=jobs,
                    minutes=options.minutes,
                    dollars=options.dollars,
                    compile_baseline=options.compile_baseline,
                )
                record = suite.run()
        except KeyboardInterrupt:
            hints.append(_way_on(folder))
            raise
    if record.outcome != "finished":
        hints.append(_way_on(folder))
    return _finish(record, folder, console, as_json=options.as_json)


def default_jobs(target: str) -> int:
    """Runs side by side. On a GPU machine builds do not disturb the clock; on a processor they would."""
    return max(1, min(MOST_JOBS, len(os.sched_getaffinity(0)) // 2)) if target == "cuda" else 1


def _fresh(options: Options) -> tuple[SuiteFolder, SuiteManifest]:
    if options.suite is None:
        raise UserError("No suite was given.", "Name a bundled one (level1) or a folder, or an earlier with --resume.")
    settings = settings_with(options.settings, options.more)
    require_models(settings, unattended="A suite")
    choose_target(settings.target)  # before there is a folder
    name, tasks = load_suite(options.suite, ids=options.ids, scale=options.scale)
    return create_suite(options.out, name=name, tasks=tasks, scale=options.scale, settings=settings)


def _again(options: Options) -> tuple[SuiteFolder, SuiteManifest]:
    assert options.resume is not None
    none_with_resume(options.more)
    given = options.suite is not None or options.out is not None or options.ids or options.scale != 1.0
    if given:
        raise UserError(
            "A resumed suite has its tasks and its folder already.",
            "Beside --resume give only --jobs, --minutes, --dollars, --compile-baseline.",
        )
    folder, manifest = reopen_suite(options.resume)
    same_with_resume(options.settings, options.typed, manifest.settings)
    return folder, manifest


def _way_on(folder: SuiteFolder) -> str:
    return f"Go on with: cutegen suite --resume {shlex.quote(short(folder.path))}"


def _finish(record: SuiteRecord, folder: SuiteFolder, console: Console, *, as_json: bool) -> int:
    if as_json:
        print(record.model_dump_json())
    else:
        console.print()
        console.print(drawn(rows_sheet("", record.rows)))
        console.print()
        console.print(drawn(figures_sheet((("all", record.figures),))))
        console.print()
        for row in record.rows:
            if row.timing is None and row.reason:
                console.print(Text(f"{row.name}: {row.reason}"), soft_wrap=True)
        if record.scale == 1.0 and any(row.status == "machine_failed" for row in record.rows):
            console.print("Tasks that are too large for this machine shrink with --scale 0.5.")
        console.print(Text(f"In {short(folder.path)}: {folder.page.name} {folder.results.name}"), soft_wrap=True)
    return exit_code(record)


def exit_code(record: SuiteRecord) -> int:
    """0 where some kernel is faster, 1 where none is; 3 where the machine failed every task, 130 where some wait.

    70 where a defect of ours ended a task.
    """
    if any(row.status == "defect" for row in record.rows):
        return DEFECT
    if record.outcome != "finished":
        return INTERRUPTED
    if all(row.status == "machine_failed" for row in record.rows):
        return MACHINE_ERROR
    return IMPROVED if record.figures.faster else NOTHING_FASTER
