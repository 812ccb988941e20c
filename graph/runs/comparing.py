"""Two runs beside each other: the same task? the same settings? and which kernel is faster, as far as records tell."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any, Literal

from pydantic import ValidationError

from graph.runs.folder import RUNS, RunFolder
from graph.runs.record import RunRecord
from graph.runs.trust import require_own
from harness.judging.protocol import JudgeOrder, OpenJudge
from harness.nouns.errors import CutegenError, UserError
from harness.nouns.frozen import Frozen
from harness.nouns.reading import read_bounded
from harness.nouns.verdict import HeadToHead, Interval, Timing
from nodes.settings import Settings
from nodes.state import require
from tools.judges import open_judge

OWN = frozenset({"run_dir"})
"""Settings that differ between any two runs."""
Basis = Literal["same kernel", "same rounds", "baseline", "none"]
SAME_KERNEL = "Both found the same kernel; where its times differ, so do the machines, or what else ran on them."


class Ratio(Frozen):
    """How many times as fast the second run's kernel is as the first's, where the records tell, and how they do.

    "same rounds": one ran against the other by turns, and the interval is a 99.5 % one. "baseline": each ran against
    eager in rounds of its own, on a machine of the same kind; the interval takes both as independent.
    """

    basis: Basis
    speedup: float | None = None
    interval: Interval | None = None
    words: str


class Duel(Frozen):
    """How many times as fast the second run's kernel was as the first's in one judgement; a 99.5 % interval."""

    speedup: float
    interval: Interval

    def __str__(self) -> str:
        """As 1.31x (1.10 to 1.67)."""
        return f"{self.speedup:.2f}x ({self.interval.said()})"


class Difference(Frozen):
    """A setting, or a fact of the machine, with its value in either run."""

    name: str
    first: str
    second: str


class Comparison(Frozen):
    """Everything `cutegen compare` says of two runs. `task_differs` is empty where both are on one task."""

    first: RunRecord
    second: RunRecord
    task_differs: str
    settings: tuple[Difference, ...]
    machines: tuple[Difference, ...]
    ratio: Ratio


def folder_of(run: Path) -> RunFolder:
    """The folder of that path, or of that name under `runs/`."""
    return RunFolder(run if run.exists() else RUNS / run)


def read_run(run: Path) -> RunRecord:
    """The record in a run's folder, or of that name under `runs/`. Raises `UserError`."""
    file = folder_of(run).record
    try:
        return RunRecord.model_validate_json(read_bounded(file))
    except OSError as error:
        raise UserError(f"{run} holds no record of a run.", "Name the folder of a run that has ended.") from error
    except ValidationError as error:
        raise UserError(f"{file} is not a record of this version of cutegen.", "Run it again.") from error


def compare_runs(first: RunRecord, second: RunRecord) -> Comparison:
    """What differs, and how much faster the second is."""
    task_differs = _task_differs(first, second)
    machines = tuple(_differences(_machine(first), _machine(second)))
    return Comparison(
        first=first,
        second=second,
        task_differs=task_differs,
        settings=tuple(_differences(_plain(first.settings), _plain(second.settings))),
        machines=machines,
        ratio=_ratio(first, second, task_differs, same_machine=not machines),
    )


def duels_of(first: RunRecord, second: RunRecord) -> tuple[Duel | None, Duel | None]:
    """How both best kernels met in the first run, and in the second."""
    if first.best is None or second.best is None:
        return None, None
    kernel, other = second.best.candidate.digest, first.best.candidate.digest
    return _met(first, kernel, other), _met(second, kernel, other)


def _task_differs(first: RunRecord, second: RunRecord) -> str:
    one, other = first.task, second.task
    if one is None or other is None:
        return "A task was not described."
    if one.workloads != other.workloads:
        return "The tasks differ: other shapes, types or workloads."
    if one.digest != other.digest:
        return "The tasks differ: the same shapes, another source."
    return "" if one.direction == other.direction else "The tasks differ: forward and backward."


def _ratio(first: RunRecord, second: RunRecord, task_differs: str, *, same_machine: bool) -> Ratio:
    if first.best is None or second.best is None or first.timing is None or second.timing is None:
        return Ratio(basis="none", words="A run has no kernel that passed.")
    if task_differs:
        return Ratio(basis="none", words="Kernels of different tasks have no speed-up over each other.")
    if first.best.candidate.digest == second.best.candidate.digest:
        return Ratio(basis="same kernel", speedup=1.0, words=SAME_KERNEL)
    duels = duels_of(first, second)
    if (met := duels[1] or duels[0]) is not None:
        return Ratio(
            basis="same rounds",
            speedup=met.speedup,
            interval=met.interval,
            words=f"By turns, in the same rounds: {say_duels(duels)}.",
        )
    if not same_machine or first.best.verdict.precision != second.best.verdict.precision:
        return Ratio(
            basis="none",
            words="They did not run in the same rounds, nor under the same conditions: no speed-up can be told.",
        )
    return _over_baseline(first.timing, second.timing)


def _met(run: RunRecord, kernel: str, other: str) -> Duel | None:
    """How much faster `kernel` was than `other` in this run, whichever of them was judged against the other."""
    if (met := _judged_against(run, kernel, other)) is not None:
        return Duel(speedup=met.speedup, interval=met.interval)
    if (met := _judged_against(run, other, kernel)) is not None:
        return Duel(speedup=1 / met.speedup, interval=met.interval.inverse)
    return None


def _judged_against(run: RunRecord, kernel: str, incumbent: str) -> HeadToHead | None:
    best = run.best.verdict if run.best else None
    verdict = best if best and best.candidate == kernel else run.verdicts.get(kernel)
    met = verdict.timing.head_to_head if verdict and verdict.timing else None
    return met if met and met.incumbent == incumbent else None


def say_duels(duels: tuple[Duel | None, Duel | None]) -> str:
    """What the runs measured themselves; empty where the kernels never met."""
    said = [f"{duel} in the {name} run" for name, duel in zip(("first", "second"), duels, strict=True) if duel]
    return " and ".join(said)


def _over_baseline(first: Timing, second: Timing) -> Ratio:
    """The quotient of both gains by the judge's clock; in logarithms the half widths add up like independent errors."""
    speedup = second.speedup / first.speedup
    one, other = first.speedup_interval, second.speedup_interval
    below = math.hypot(math.log(second.speedup / other.low), math.log(one.high / first.speedup))
    above = math.hypot(math.log(other.high / second.speedup), math.log(first.speedup / one.low))
    return Ratio(
        basis="baseline",
        speedup=speedup,
        interval=Interval(low=speedup * math.exp(-below), high=speedup * math.exp(above)),
        words=f"Not in the same rounds: each over {second.baseline}, in rounds of its own.",
    )


def _machine(record: RunRecord) -> dict[str, str]:
    """What a time depends on."""
    machine = record.machine
    target = record.best.candidate.target if record.best else ""
    device = next((profile.device for profile in reversed(record.profiles.values())), "")
    facts = {"processor": f"{machine.cpu}, {machine.cores} cores", "target": target, "device": device}
    told = facts | {"torch": machine.versions.get("torch", "")}
    return {name: value for name, value in told.items() if value}


def _plain(settings: dict[str, Any], prefix: str = "") -> dict[str, str]:
    found: dict[str, str] = {}
    for name, value in settings.items():
        if isinstance(value, dict) and value:
            found |= _plain(value, f"{prefix}{name}.")
        elif name not in OWN:
            found[f"{prefix}{name}"] = value if isinstance(value, str) else json.dumps(value)
    return found


def _differences(first: dict[str, str], second: dict[str, str]) -> list[Difference]:
    """What is not the same, of what both sides tell."""
    names = [name for name in first if name in second and first[name] != second[name]]
    return [Difference(name=name, first=first[name], second=second[name]) for name in names]


# -- Two runs that hold the same two kernels, and may disagree about them: both kernels run again, by turns, now ------


RISK = "its task would run here"
REMEDY = "Begin the run here."


def same_two(comparison: Comparison) -> bool:
    """Whether each run holds both of the kernels that they ended with, for one task and one target."""
    first, second = comparison.first.best, comparison.second.best
    if first is None or second is None or comparison.task_differs or comparison.ratio.basis == "same kernel":
        return False
    pair = {first.candidate.digest, second.candidate.digest}
    held = all(pair <= run.candidates.keys() for run in (comparison.first, comparison.second))
    return held and first.candidate.target == second.candidate.target


def timed_again(
    comparison: Comparison, folders: tuple[RunFolder, RunFolder], open_judge: OpenJudge = open_judge
) -> Comparison:
    """With the ratio that is measured now; with the old one, and why, where nothing can be measured.

    A task runs here only if this user began both runs on this machine. The isolation is that of the second.
    """
    try:
        _, settings = [_own_settings(*each) for each in zip(folders, _records(comparison), strict=True)]
        met = _meet(comparison, settings, open_judge)
    except CutegenError as error:
        words = f"{comparison.ratio.words} The kernels were not timed again. {error}"
        return comparison.model_copy(update={"ratio": comparison.ratio.model_copy(update={"words": words})})
    earlier = say_duels(duels_of(*_records(comparison)))
    now = Duel(speedup=met.speedup, interval=met.interval)
    words = f"Timed again now, by turns, in the same rounds: {now}."
    ratio = Ratio(
        basis="same rounds", speedup=met.speedup, interval=met.interval,
        words=f"{words} Before: {earlier}." if earlier else words,
    )  # fmt: skip
    return comparison.model_copy(update={"ratio": ratio})


def _records(comparison: Comparison) -> tuple[RunRecord, RunRecord]:
    return comparison.first, comparison.second


def _own_settings(folder: RunFolder, record: RunRecord) -> Settings:
    """Those that this user began the run with. Raises `UserError` where it was begun by somebody else."""
    manifest, written = folder.read_manifest()
    require_own(written, folder.manifest_file, RISK, REMEDY)
    if require(record.task, "task").source != manifest.source:
        raise UserError(f"The task in {folder.record} is not that of {folder.manifest_file.name}.", REMEDY)
    return manifest.settings


def _meet(comparison: Comparison, settings: Settings, open_judge: OpenJudge) -> HeadToHead:
    """The second kernel against the first. Raises `UserError` and `MachineError`."""
    old, new = require(comparison.first.best, "best"), require(comparison.second.best, "best")
    if old.verdict.precision != new.verdict.precision:
        raise UserError("They were judged at different precisions.", "Give both runs the same --precision.")
    tolerance = max(old.verdict.tolerance, new.verdict.tolerance)
    asked = new.candidate.target, settings.isolation, new.verdict.precision, tolerance
    judge = open_judge(JudgeOrder(*asked, ordinal=settings.device))
    verdict = judge.evaluate(require(comparison.second.task, "task"), new.candidate, incumbent=old.candidate)
    met = verdict.timing.head_to_head if verdict.timing else None
    if met is None:
        raise UserError(f"The judge says: {verdict.status}. {verdict.message}".strip(), "Look at both verdicts.")
    return met
