"""What an ablation's folder holds beside its runs: the data, the picture and the page."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

from graph.pages.ablation_chart import figure
from graph.pages.report import filled_in
from graph.runs.folder import replace_file
from graph.runs.record import RunRecord
from graph.suites.ablation import FOLDER, Ablation, schedule_of
from graph.suites.record import shapes_of
from harness.judging.roofline_bound import floor_ms
from harness.nouns.device_facts import DeviceFacts
from tools.judges import choose_target


def ablation_of(records: list[RunRecord]) -> Ablation:
    """The runs of one task as one value."""
    first = records[0]
    timing = next((record.timing for record in records if record.timing), None)
    target = first.candidates and next(iter(first.candidates.values())).target
    facts = choose_target(target or "auto").facts()
    return Ablation(
        task=first.name,
        shapes=shapes_of(first.task),
        created=datetime.now(UTC),
        device=facts.device,
        baseline=timing.baseline if timing else "eager",
        at_best=next(filter(None, (_at_best(record, facts) for record in records)), None),
        schedules=tuple(schedule_of(record) for record in records),
    )


def _at_best(record: RunRecord, facts: DeviceFacts) -> float | None:
    if record.task is None or record.best is None or record.timing is None:
        return None
    return record.timing.baseline_ms / floor_ms(record.task, facts, record.best.verdict)


def write(path: Path, ablation: Ablation) -> None:
    """Put the data, the picture and the page into the folder. Raises `MachineError`."""
    replace_file(path / "ablation.json", ablation.model_dump_json(indent=1) + "\n")
    replace_file(path / "ablation.svg", f"{figure(ablation)}\n")
    replace_file(path / "ablation.html", render(ablation))


def render(ablation: Ablation) -> str:
    """The page: the figure and what stands behind it."""
    speedups = [schedule.best.speedup or 1.0 for schedule in ablation.schedules if schedule.best]
    longest = ablation.at_best or max([1.0, *speedups])
    values = {"ablation": ablation, "figure": figure(ablation), "longest": longest, "folder": FOLDER}
    return filled_in("ablation.html.j2", values)
