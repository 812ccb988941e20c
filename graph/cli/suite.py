"""`cutegen suite`: many tasks through the graph, one table in the end."""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console
from rich.text import Text

from graph.cli.errors import DEFECT, IMPROVED, INTERRUPTED, MACHINE_ERROR, NOTHING_FASTER
from graph.cli.optimize import require_models, short
from graph.cli.options import Suite
from graph.cli.settings import none_with_resume, option_of, require_same, settings_of
from graph.runs.folder import claimed
from graph.runs.suite_record import SuiteRecord
from graph.runs.tables import drawn, figures_sheet, over_sheets, rows_sheet
from graph.suites.folder import SuiteFolder, SuiteManifest, create_suite, reopen_suite
from graph.suites.run import SuiteRun, SuiteTerminal
from graph.suites.tasks import each_workload, load_suite
from harness.judging.protocol import JudgeOrder, KernelJudge, OpenJudge
from harness.nouns.devices import on_gpu
from harness.nouns.errors import UserError
from nodes.settings import Settings
from tools.judges import choose_target, open_judge
from tools.pool import pool

MOST_JOBS = 8
TABLE_WIDTH = 400
"""Of what goes into a file or a pipe: nothing is cut or broken there, whatever tasks are called."""


def run(options: Suite) -> int:
    """Do the command; its exit code."""
    folder, manifest = _fresh(options) if options.resume is None else _again(options, options.resume)
    asked = manifest.settings
    judges = _judges(asked, pooled=options.pool)
    judge = judges[0](JudgeOrder(asked.target, asked.isolation, ordinal=asked.device, describe_s=asked.max_describe_s))
    jobs = options.jobs or default_jobs(judge.device.target, len(judges))
    console = Console(stderr=options.json)
    if not console.is_terminal:  # a file or a pipe has no width of its own
        console.width = TABLE_WIDTH
    console.print(
        Text(f"{manifest.name}: {len(manifest.tasks)} tasks on {_devices(judge, judges)} in {short(folder.path)}")
    )
    with claimed(folder.manifest_file):
        facts = judge.facts()
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
                    judges=judges,
                )
                record = suite.run()
        except KeyboardInterrupt as error:
            error.add_note(_way_on(folder))
            raise
    _finish(record, folder, console, as_json=options.json)
    if record.outcome != "finished":
        print(_way_on(folder), file=sys.stderr)
    return exit_code(record)


def default_jobs(target: str, devices: int = 1) -> int:
    """Runs side by side. On a GPU machine builds do not disturb the clock; on a processor they would."""
    cores = len(os.sched_getaffinity(0))
    return max(devices, min(MOST_JOBS * devices, cores // 2)) if on_gpu(target) else 1


def _judges(settings: Settings, *, pooled: bool) -> tuple[OpenJudge, ...]:
    if not pooled:
        return (open_judge,)
    if settings.device:
        raise UserError("--pool takes all GPUs.", "Leave --set device out.")
    if settings.target == "cpu":
        raise UserError("--pool is of GPUs; a machine's processors are one device.", "Leave --pool out.")
    return pool()


def _devices(judge: KernelJudge, judges: Sequence[OpenJudge]) -> str:
    return judge.device.target if len(judges) == 1 else f"{len(judges)} devices of {judge.device.target}"


def _fresh(options: Suite) -> tuple[SuiteFolder, SuiteManifest]:
    if options.name is None:
        raise UserError("No suite was given.", "Name a bundled one (level1) or a folder, or an earlier with --resume.")
    settings = settings_of(options.settings)
    require_models(settings, option_of(options.settings), unattended="A suite")
    choose_target(settings.target, settings.device)  # before there is a folder
    name, tasks = load_suite(options.name, ids=options.ids, scale=options.scale, direction=settings.direction)
    if options.each_workload:
        judge = open_judge(
            JudgeOrder(settings.target, settings.isolation, ordinal=settings.device, describe_s=settings.max_describe_s)
        )
        cores = len(os.sched_getaffinity(0))
        tasks = each_workload(tasks, lambda task: judge.describe(task.source, name=task.name), max(cores // 2, 1))
    return create_suite(options.out, name=name, tasks=tasks, scale=options.scale, settings=settings)


def _again(options: Suite, path: Path) -> tuple[SuiteFolder, SuiteManifest]:
    none_with_resume(options.settings)
    given = options.name is not None or options.out is not None or options.ids or options.scale != 1.0
    given = given or options.each_workload
    if given:
        raise UserError(
            "A resumed suite has its tasks and its folder already.",
            "Beside --resume give only --jobs, --pool, --minutes, --dollars, --compile-baseline.",
        )
    folder, manifest = reopen_suite(path)
    require_same(options.settings, manifest.settings)
    return folder, manifest


def _way_on(folder: SuiteFolder) -> str:
    return f"Go on with: cutegen suite --resume {shlex.quote(short(folder.path))}"


def _finish(record: SuiteRecord, folder: SuiteFolder, console: Console, *, as_json: bool) -> None:
    if as_json:
        print(record.model_dump_json())
    else:
        console.print()
        console.print(drawn(rows_sheet("", record.rows)))
        console.print()
        for over in over_sheets(record.rows):
            console.print(drawn(over))
            console.print()
        console.print(drawn(figures_sheet((("all", record.figures),))))
        console.print()
        for row in record.rows:
            if row.timing is None and row.reason:
                console.print(Text(f"{row.name}: {row.reason}"), soft_wrap=True)
        if record.scale == 1.0 and any(row.status == "machine_failed" for row in record.rows):
            console.print("Tasks that are too large for this machine shrink with --scale 0.5.")
        console.print(
            Text(f"In {short(folder.path)}: {folder.html.name} {folder.page.name} {folder.results.name}"),
            soft_wrap=True,
        )


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
