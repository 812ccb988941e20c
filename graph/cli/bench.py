"""`cutegen bench kernelbench`: a suite of KernelBench's tasks, scored with KernelBench's own evaluator."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Sequence
from contextlib import nullcontext, redirect_stdout
from dataclasses import replace
from pathlib import Path

from rich.console import Console
from rich.text import Text

from graph.cli.errors import IMPROVED, INTERRUPTED, NOTHING_FASTER
from graph.cli.optimize import short
from graph.cli.options import Bench, Suite
from graph.cli.suite import run as run_suite
from graph.offers import Given
from graph.runs.tables import Sheet, drawn
from graph.runs.trust import require_own
from graph.suites.folder import SuiteFolder, look_at
from graph.suites.kernelbench import KernelBenchRecord, Scored, Scores, Scoring, chosen_ids, find_checkout
from harness.nouns.errors import MachineError, UserError
from harness.nouns.reading import read_bounded
from nodes.settings import Settings
from tools.judges import choose_target

HEAD = ("id", "task", "judge", "as called", "KernelBench", "correct", "ratio", "note")
WIDTH = 160
_SUITES = 0.45
"""A share of the minutes."""


def run(options: Bench) -> int:
    """Do the command; its exit code: 1 where an export is not accepted, 130 where tasks are left."""
    began = time.monotonic()
    checkout = find_checkout(options.kernelbench)
    _require_gpu(options)
    path = _earlier(options, options.suite) if options.suite else _ran(options, checkout)
    folder, manifest = look_at(path)
    console = Console(stderr=options.json)
    if not console.is_terminal:
        console.width = WIDTH
    scoring = Scoring(folder, manifest.tasks, checkout, backend=options.backend, device=manifest.settings.device)

    def told(row: Scored) -> None:
        console.print(Text(" | ".join(_cells(row))), soft_wrap=True)

    console.print(Text(" | ".join(HEAD)), soft_wrap=True)
    record = scoring.run(
        told,
        jobs=options.evaluators,
        over=lambda: options.minutes is not None and time.monotonic() - began > 60 * options.minutes,
    )
    _show(record, folder, console, as_json=options.json)
    if not record.complete:
        print(f"Go on with: cutegen bench kernelbench --suite {short(path)}", file=sys.stderr)
        return INTERRUPTED
    return NOTHING_FASTER if any(row.exported and not row.correct for row in record.rows) else IMPROVED


def _require_gpu(options: Bench) -> None:
    """Its evaluator has no other device. Raises `UserError` and `MachineError`."""
    judged = "cutegen suite judges its tasks on every machine."
    if options.settings.values["target"] == "cpu":
        raise UserError("KernelBench's evaluator runs on GPUs alone.", f"Leave --target cpu out; {judged}")
    try:
        choose_target("cuda", 0)
    except MachineError as error:
        raise MachineError(error.problem, f"KernelBench's evaluator runs on GPUs alone; {judged}") from error


def _earlier(options: Bench, path: Path) -> Path:
    """A suite's folder, whose kernels run without isolation in the evaluator: this user has to have begun it."""
    given = options.settings.more or options.settings.typed or options.ids
    if given or any(each is not None for each in (options.tasks, options.out, options.jobs)):
        raise UserError(
            "A suite that was run has its tasks, its settings and its folder already.",
            "Beside --suite give only --kernelbench, --backend, --evaluators, --minutes and --json.",
        )
    folder, _ = look_at(path)
    written = read_bounded(folder.manifest_file)
    require_own(written, folder.manifest_file, "its kernels would run without isolation", "Run the suite here.")
    return path


def _ran(options: Bench, checkout: Path) -> Path:
    """The folder of a suite that was run for this."""
    level = checkout / "KernelBench" / f"level{options.level}"
    if options.ids and options.tasks is not None:
        raise UserError("--ids names the tasks, --tasks draws them.", "Give one of the two.")
    ids = options.ids or chosen_ids(checkout, options.level, options.tasks, options.draw)
    out = options.out or Path("runs", f"kernelbench-level{options.level}-{time.strftime('%Y%m%d-%H%M%S')}")
    minutes = options.minutes * _SUITES if options.minutes is not None else None
    suite = Suite(name=str(level), ids=ids, settings=_suites(options), jobs=options.jobs, minutes=minutes, out=out)
    with redirect_stdout(sys.stderr) if options.json else nullcontext():
        run_suite(suite)
    return out


def _suites(options: Bench) -> Given:
    """A suite has a direction, too. The evaluator calls a kernel at its task's sizes: other batches are left out."""
    values = {**options.settings.values, "direction": Settings.model_fields["direction"].default}
    return replace(options.settings, values=values, more=("serve_batches=false", *options.settings.more))


def _show(record: KernelBenchRecord, folder: SuiteFolder, console: Console, *, as_json: bool) -> None:
    if as_json:
        print(record.model_dump_json())
        return
    console.print()
    console.print(drawn(Sheet("", HEAD, tuple(_cells(row) for row in record.rows))))
    if record.scored and record.judged:
        rows = (("KernelBench", record.scored), ("the judge", record.judged))
        head = ("by", "fast_0", "fast_1", "fast_1.5", "fast_2", "geomean")
        console.print(drawn(Sheet(f"{len(record.rows)} of {record.tasks} tasks", head, _figures(rows))))
    exported = [row for row in record.rows if row.exported]
    near, known = record.near
    console.print(
        f"{sum(row.correct for row in exported)} of {len(exported)} exports are correct for KernelBench; of {near} of "
        f"{known} its speed-up is within 10 % of ours as called."
    )
    console.print(Text(f"In {short(folder.path)}{os.sep}kernelbench.json"), soft_wrap=True)


def _figures(rows: Sequence[tuple[str, Scores]]) -> tuple[tuple[str, ...], ...]:
    return tuple(
        (name, *(f"{each:.0%}" for each in (of.fast_0, of.fast_1, of.fast_15, of.fast_2)), f"{of.geomean:.2f}x")
        for name, of in rows
    )


def _cells(row: Scored) -> tuple[str, ...]:
    shown = [f"{each:.2f}x" if each is not None else "" for each in (row.judge, row.as_called, row.speedup)]
    correct = ("yes" if row.correct else "no") if row.exported else "no export"
    ratio = f"{row.ratio:.2f}" if row.ratio is not None else ""
    return (str(row.id), row.name, *shown, correct, ratio, row.refused or row.note)
