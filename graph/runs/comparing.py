"""Two runs beside each other: the same task? the same settings? and which kernel is faster, as far as records tell."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any, Literal

from pydantic import ValidationError

from graph.runs.folder import RUNS, RunFolder
from graph.runs.record import RunRecord
from harness.judging.protocol import JudgeOrder, OpenJudge
from harness.nouns.contest import Contest
from harness.nouns.errors import CutegenError, UserError
from harness.nouns.frozen import Frozen
from harness.nouns.reading import read_bounded
from harness.nouns.verdict import HeadToHead, Interval, Timing
from nodes.state import require
from tools.judges import open_judge

OWN = frozenset({"run_dir"})
"""Settings that differ between any two runs."""
Basis = Literal["same kernel", "now", "same rounds", "baseline", "none"]
SAME_KERNEL = "Both found the same kernel; where its times differ, so do the machines, or what else ran on them."


class Ratio(Frozen):
    """How many times as fast the second run's kernel is as the first's, where the records tell, and how they do.

    "same rounds": one ran against the other by turns, and the interval is a 99.5 % one; "now": they did so just now,
    because each run holds both kernels, and times of then may disagree. "baseline": each ran against
    eager in rounds of its own, on a machine of the same kind; the interval takes both as independent.
    """

    basis: Basis
    speedup: float | None = None
    interval: Interval | None = None
    words: str


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


def read_run(run: Path) -> RunRecord:
    """The record in a run's folder, or of that name under `runs/`. Raises `UserError`."""
    path = run if run.exists() else RUNS / run
    file = RunFolder(path).record
    try:
        return RunRecord.model_validate_json(read_bounded(file))
    except OSError as error:
        raise UserError(f"{run} holds no record of a run.", "Name the folder of a run that has ended.") from error
    except ValidationError as error:
        raise UserError(f"{file} is not a record of this version of cutegen.", "Run it again.") from error


def compare_runs(first: RunRecord, second: RunRecord, open_judge: OpenJudge = open_judge) -> Comparison:
    """What differs, and how much faster the second is. Two kernels that each run holds are timed again, now."""
    task_differs = _task_differs(first, second)
    machines = tuple(_differences(_machine(first), _machine(second)))
    return Comparison(
        first=first,
        second=second,
        task_differs=task_differs,
        settings=tuple(_differences(_plain(first.settings), _plain(second.settings))),
        machines=machines,
        ratio=_ratio(first, second, task_differs, open_judge, same_machine=not machines),
    )


def _task_differs(first: RunRecord, second: RunRecord) -> str:
    one, other = first.task, second.task
    if one is None or other is None:
        return "A task was not described."
    if one.workloads != other.workloads:
        return "The tasks differ: other shapes, types or workloads."
    if one.digest != other.digest:
        return "The tasks differ: the same shapes, another source."
    return "" if one.direction == other.direction else "The tasks differ: forward and backward."


def _ratio(
    first: RunRecord, second: RunRecord, task_differs: str, open_judge: OpenJudge, *, same_machine: bool
) -> Ratio:
    if first.best is None or second.best is None or first.timing is None or second.timing is None:
        return Ratio(basis="none", words="A run has no kernel that passed.")
    if task_differs:
        return Ratio(basis="none", words="Kernels of different tasks have no speed-up over each other.")
    if first.best.candidate.digest == second.best.candidate.digest:
        return Ratio(basis="same kernel", speedup=1.0, words=SAME_KERNEL)
    if all(
        each.best.candidate.digest in run.candidates for each in (first, second) for run in (first, second) if each.best
    ):
        now, note = _timed_now(first, second, open_judge)
        if now is not None:
            return now
        then = _as_recorded(first, second, same_machine=same_machine)
        return then.model_copy(update={"words": f"{then.words} {note}"})
    return _as_recorded(first, second, same_machine=same_machine)


def _as_recorded(first: RunRecord, second: RunRecord, *, same_machine: bool) -> Ratio:
    """What the records tell of two kernels."""
    one, other = require(first.best, "best"), require(second.best, "best")
    if duels := _duels(first, second):
        return _in_rounds(duels[0])
    if not same_machine or one.verdict.precision != other.verdict.precision:
        return Ratio(
            basis="none",
            words="They did not run in the same rounds, nor under the same conditions: no speed-up can be told.",
        )
    return _over_baseline(require(first.timing, "timing"), require(second.timing, "timing"))


Gain = tuple[float, Interval]


def _duels(first: RunRecord, second: RunRecord) -> list[Gain]:
    """How many times as fast the second's kernel was as the first's, in each run in which they met."""
    one, other = require(first.best, "best"), require(second.best, "best")
    found = list[Gain]()
    for run in (second, first):
        for kernel, incumbent in ((other, one), (one, other)):
            met = _met(run, kernel.candidate.digest, incumbent.candidate.digest)
            if met is not None:
                found.append((met.speedup, met.interval) if kernel is other else _inverted(met))
    return found


def _met(run: RunRecord, kernel: str, incumbent: str) -> HeadToHead | None:
    """A run's head-to-head of a kernel with an incumbent."""
    best = run.best.verdict if run.best and run.best.candidate.digest == kernel else None
    verdict = best or run.verdicts.get(kernel)
    met = verdict.timing.head_to_head if verdict and verdict.timing else None
    return met if met and met.incumbent == incumbent else None


def _inverted(met: HeadToHead) -> Gain:
    return 1 / met.speedup, Interval(low=1 / met.interval.high, high=1 / met.interval.low)


def _timed_now(first: RunRecord, second: RunRecord, open_judge: OpenJudge) -> tuple[Ratio | None, str]:
    """Both kernels in the same rounds on this machine, or why that cannot be had, beside what the runs' own say."""
    one, other, task = require(first.best, "best"), require(second.best, "best"), require(first.task, "task")
    before = " and ".join(f"{gain:.2f}x ({said.low:.2f} to {said.high:.2f})" for gain, said in _duels(first, second))
    before = f" When they met before: {before}." if before else ""
    order = JudgeOrder(one.candidate.target, precision=one.verdict.precision, tolerance=one.verdict.tolerance)
    try:
        judge = open_judge(order)
        codes = {judge.build(task, each.candidate).machine_code for each in (one, other)}
        if len(codes) == 1 and "" not in codes:
            words = f"Both kernels are the same machine code.{before}"
            return Ratio(basis="same kernel", speedup=1.0, words=words), ""
        contest = judge.contest(task, [one.candidate, other.candidate])
        why = f"{contest.failed}: {contest.message}"
    except CutegenError as error:
        contest, why = Contest(), error.problem
    if not contest.standings:
        return None, f"Each run holds both kernels, but they were not timed again here: {why.rstrip('.')}.{before}"
    met = require(contest.standings[0].timing.head_to_head, "head-to-head")
    speedup, interval = _inverted(met)
    words = f"Each run holds both kernels: timed again by turns, now, on this machine, in {met.rounds} rounds.{before}"
    return Ratio(basis="now", speedup=speedup, interval=interval, words=words), ""


def _in_rounds(gain: Gain) -> Ratio:
    words = "By turns, in the same rounds."
    return Ratio(basis="same rounds", speedup=gain[0], interval=gain[1], words=words)


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
