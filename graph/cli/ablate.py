"""`cutegen ablate`: a task with the profiler's gate at several depths, or several numbers of lessons, in one figure."""

from __future__ import annotations

import shlex
from pathlib import Path

from rich.console import Console
from rich.text import Text

from graph.cli.errors import IMPROVED, INTERRUPTED, NOTHING_FASTER, note_way_on
from graph.cli.optimize import require_models, short
from graph.cli.options import Ablate
from graph.cli.settings import none_with_resume, option_of, require_same, settings_of
from graph.driving.loop import drive
from graph.pages.ablation_page import ablation_of, write
from graph.runs.ablation import Ablation, Varied, begin_ablation, reopen_ablation
from graph.runs.folder import Manifest, RunFolder
from graph.runs.progress import Terminal
from graph.runs.tables import Sheet, drawn
from graph.suites.tasks import find_task
from harness.nouns.errors import UserError
from tools.judges import choose_target


def run(options: Ablate) -> int:
    """Do the command; its exit code."""
    path, runs = _fresh(options) if options.resume is None else _again(options, options.resume)
    terminal = Terminal(Console(stderr=options.json))
    records = []
    try:
        for folder, manifest in runs:
            terminal.console.print(Text(f"\n{manifest.name}, {folder.path.name}", style="bold"), soft_wrap=True)
            records.append(drive(folder, manifest, terminal))
            terminal.stop()
    except BaseException as error:
        terminal.stop()
        note_way_on(error, f"Go on with: cutegen ablate --resume {shlex.quote(short(path))}")
        raise
    ablation = ablation_of(records, [folder for folder, _ in runs])
    write(path, ablation)
    _show(ablation, path, terminal.console, as_json=options.json)
    if any(record.outcome not in ("improved", "nothing_faster") for record in records):
        return INTERRUPTED
    return IMPROVED if any(record.outcome == "improved" for record in records) else NOTHING_FASTER


def gates(text: str, option: str = "--profile-from", what: str = "depths") -> tuple[int, ...]:
    """The numbers of "1,11", each once. Raises `UserError`."""
    parts = [part.strip() for part in text.split(",")]
    numbers = tuple(int(part) for part in parts if part.isdecimal())
    if len(set(numbers)) < len(parts):
        raise UserError(f"{option} {text!r} names no {what}.", "Write them as 1,11, each once.")
    return numbers


def _fresh(options: Ablate) -> tuple[Path, list[tuple[RunFolder, Manifest]]]:
    if options.task is None:
        raise UserError("No task was given.", "Name a task file, one of a suite as level1:8, or a folder by --resume.")
    settings = settings_of(options.settings)
    require_models(settings, option_of(options.settings), unattended="An ablation")
    choose_target(settings.target, settings.device)  # before there is a folder
    by_lessons = options.by_lessons
    values = gates(by_lessons, "--by-lessons", "numbers") if by_lessons is not None else gates(options.profile_from)
    varied: Varied = "profile_from" if by_lessons is None else "lessons"
    return begin_ablation(find_task(options.task, options.scale), settings, values, options.out, varied)


def _again(options: Ablate, path: Path) -> tuple[Path, list[tuple[RunFolder, Manifest]]]:
    none_with_resume(options.settings)
    runs = reopen_ablation(path)
    require_same(options.settings, runs[0][1].settings)
    return path.absolute(), runs


def _show(ablation: Ablation, path: Path, console: Console, *, as_json: bool) -> None:
    if as_json:
        print(ablation.model_dump_json())
        return
    lines = []
    for schedule in ablation.schedules:
        best = schedule.best
        speedup = f"{best.speedup:.2f}x ({best.told})" if best else "no kernel"
        judged, profiles = str(len(schedule.points)), str(schedule.profiles)
        asked = str(schedule.asked_tokens or "")
        lines.append((str(schedule.value), speedup, str(schedule.depth), judged, profiles, asked))
    head = (ablation.column, "best", "depth", "judged", "profiles", "tokens asked")
    console.print()
    console.print(drawn(Sheet("", head, tuple(lines))))
    if ablation.noise:
        console.print(Text(ablation.noise))
    console.print(Text(f"In {short(path)}: ablation.html ablation.svg ablation.json"), soft_wrap=True)
