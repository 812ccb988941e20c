"""`cutegen ablate`: the same task with the profiler's gate at several depths, and one figure of what came of it."""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.text import Text

from graph.cli.errors import IMPROVED, INTERRUPTED, NOTHING_FASTER, guarded_with_hints
from graph.cli.optimize import require_models, short
from graph.cli.settings import none_with_resume, same_with_resume, settings_with
from graph.pages.ablation_page import ablation_of, write
from graph.pages.sheet import Sheet, drawn
from graph.runs.folder import Manifest, RunFolder
from graph.runs.loop import execute
from graph.runs.progress import Terminal
from graph.suites.ablation import Ablation, begin_ablation, reopen_ablation
from graph.suites.tasks import find_task
from harness.nouns.errors import UserError
from tools.judges import choose_target


@dataclass(frozen=True)
class Options:
    """The command's options. `settings` are those that the command line can set, `typed` those that it did."""

    task: str | None
    profile_from: str
    scale: float
    out: Path | None
    resume: Path | None
    as_json: bool
    settings: dict[str, Any]
    more: tuple[str, ...] = ()
    typed: frozenset[str] = frozenset()


def run(options: Options) -> int:
    """Do the command; its exit code."""
    return guarded_with_hints(lambda hints: _run(options, hints), as_json=options.as_json)


def _run(options: Options, hints: list[str]) -> int:
    path, runs = _again(options) if options.resume is not None else _fresh(options)
    terminal = Terminal(Console(stderr=options.as_json))
    records = []
    try:
        for folder, manifest in runs:
            terminal.console.print(Text(f"\n{manifest.name}, {folder.path.name}", style="bold"), soft_wrap=True)
            records.append(execute(folder, manifest, terminal))
            terminal.stop()
    except BaseException:
        terminal.stop()
        hints.append(f"Go on with: cutegen ablate --resume {shlex.quote(short(path))}")
        raise
    ablation = ablation_of(records)
    write(path, ablation)
    _show(ablation, path, terminal.console, as_json=options.as_json)
    if any(record.outcome not in ("improved", "nothing_faster") for record in records):
        return INTERRUPTED
    return IMPROVED if any(record.outcome == "improved" for record in records) else NOTHING_FASTER


def gates(text: str) -> tuple[int, ...]:
    """The depths of "1,11", each once. Raises `UserError`."""
    parts = [part.strip() for part in text.split(",")]
    depths = tuple(int(part) for part in parts if part.isdecimal())
    if len(set(depths)) < len(parts):
        raise UserError(f"{text!r} names no depths.", "Write them as 1,11, each once.")
    return depths


def _fresh(options: Options) -> tuple[Path, list[tuple[RunFolder, Manifest]]]:
    if options.task is None:
        raise UserError("No task was given.", "Name a task file, one of a suite as level1:8, or a folder by --resume.")
    settings = settings_with(options.settings, options.more)
    require_models(settings, unattended="An ablation")
    choose_target(settings.target)  # before there is a folder
    return begin_ablation(find_task(options.task, options.scale), settings, gates(options.profile_from), options.out)


def _again(options: Options) -> tuple[Path, list[tuple[RunFolder, Manifest]]]:
    assert options.resume is not None
    none_with_resume(options.more)
    runs = reopen_ablation(options.resume)
    same_with_resume(options.settings, options.typed, runs[0][1].settings)
    return options.resume.absolute(), runs


def _show(ablation: Ablation, path: Path, console: Console, *, as_json: bool) -> None:
    if as_json:
        print(ablation.model_dump_json())
        return
    lines = []
    for schedule in ablation.schedules:
        best = schedule.best
        speedup = f"{best.speedup:.2f}x ({best.low:.2f} to {best.high:.2f})" if best else "no kernel"
        judged, profiles = str(len(schedule.points)), str(schedule.profiles)
        lines.append((str(schedule.profile_from), speedup, str(schedule.depth), judged, profiles))
    head = ("profile from depth", "best", "depth", "judged", "profiles")
    console.print()
    console.print(drawn(Sheet("", head, tuple(lines))))
    console.print(Text(f"In {short(path)}: ablation.html ablation.svg ablation.json"), soft_wrap=True)
