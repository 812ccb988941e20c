"""`python -m bench.seeds FILE`: how often does a seed turn a verdict round, of each cheat and each honest kernel?

Builds and described tasks are kept. What the screen or the compiler decides is decided once: no seed has a part in it.
The others are judged again and again, one verdict of each in turn, without a clock first: where the trials decide,
timing does not. A cheat that passes them, and each `WHOLE`th time an honest kernel, is judged as a whole. A kernel is
done once its counts tell on which side of `WANTED` it lies. Each verdict is a line of the file, and the same command
goes on where it was; `--table` prints what the file says.
"""

from __future__ import annotations

import json
import math
import time
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Annotated, Any

import torch
import typer
from brief_terms import MANY_BYTES, brief
from cheats import cheat_catalogue
from lenient_judge import Lenient
from own_turns import own_turns

from bench.honest_corpus import corpus
from harness.building.compilation import library_of
from harness.isolation.tiers import resolve_tier
from harness.judging.evaluation import Evaluation
from harness.judging.foreign import ModuleJudge
from harness.judging.local import LocalJudge
from harness.judging.outcome import Case, Outcome
from harness.judging.terms import Terms
from harness.nouns.candidate import Candidate
from harness.nouns.task import Task
from harness.targets.cpu import CpuTarget
from harness.tasks.describing import describe_task
from harness.wire.job import JudgeAnswer

WANTED = 1 / 200
"""At most so many verdicts of a kernel may be other than all the others."""
SURE = 0.05
"""The bounds of a rate are those of a 95 % interval to one side."""
WHOLE = 4
ONCE = ("screen:", "build")


@dataclass(frozen=True)
class Subject:
    """A kernel and what is right to say of it."""

    name: str
    kind: str
    task: str
    source: str
    cheats: bool
    lenient: bool = False
    foreign: bool = False

    def is_other(self, status: str) -> bool:
        """Whether a verdict is the wrong one."""
        return (status == "passed") == self.cheats


class Unclocked(Evaluation):
    """Trials and what follows them, and no timing."""

    def _run(self, *args: Any, timed: bool, **named: Any) -> JudgeAnswer:
        return super()._run(*args, timed=False, **named)

    def unclocked(self, case: Case, library: Path) -> list[Outcome]:
        """Each workload's outcome; a failure is the last one."""
        return self._workloads(case, library, None, compile_baseline=False)


class Bench:
    """Judges subjects under any seed."""

    def __init__(self) -> None:
        tier, target = resolve_tier("auto"), CpuTarget()
        self.terms = brief(Terms(tier), MANY_BYTES)
        self.judges = {False: LocalJudge(target, self.terms), True: Lenient(target, self.terms)}
        self.modules = ModuleJudge(target, self.terms)
        self.unclocked = Unclocked(target, self.terms)
        self.task = cache(lambda source, name: describe_task(source, name=name, tier=tier))

    def said_of(self, subject: Subject, seed: int, *, whole: bool) -> tuple[str, str, str]:
        """Status, check and message, as `cutegen verify` gives them; without a clock where the trials decide."""
        task: Task = self.task(subject.task, "task")
        candidate = Candidate(source=subject.source, target="cpu", author="bench")
        judge = self.modules if subject.foreign else self.judges[subject.lenient]
        if not whole and not subject.foreign and (library := self._harmless(task, candidate, subject)):
            case = Case.of(task, candidate, self.terms, seed)
            last = self.unclocked.unclocked(case, library)[-1]
            if not subject.is_other(last.status):
                return last.status, last.check, last.message
        verdict = judge.evaluate(task, candidate, seed=seed)
        return verdict.status, verdict.check, verdict.message

    def _harmless(self, task: Task, candidate: Candidate, subject: Subject) -> Path | None:
        """The library of a kernel that may run."""
        judge = self.judges[subject.lenient]
        if judge.screen(task, candidate):
            return None
        build = judge.build(task, candidate)
        return None if judge.screen_build(build) or judge.screen_data(candidate, build) else library_of(build)


def subjects() -> Iterator[Subject]:
    """All that a machine without a GPU can judge."""
    for folder, kind in (("kernels", "cheat"), ("twins", "twin")):
        for entry in cheat_catalogue.entries(folder):
            if not entry.gpu:
                source = entry.path.read_text(encoding="utf-8")
                task = cheat_catalogue.task_source(entry.task)
                foreign = entry.path.suffix == ".py"
                yield Subject(entry.path.name, kind, task, source, kind == "cheat", entry.keeps, foreign)
    for kernel in corpus():
        yield Subject(kernel.name, "honest", kernel.task_source, kernel.source, cheats=False)


@dataclass
class Count:
    """What the file says of one subject."""

    kind: str = ""
    verdicts: int = 0
    other: int = 0
    seedless: bool = False
    said: str = ""

    @property
    def done(self) -> bool:
        """Whether more verdicts would say nothing new."""
        rare = at_most(self.other, self.verdicts) <= WANTED
        return self.seedless or rare or (self.other > 1 and at_least(self.other, self.verdicts) > WANTED)


def read(file: Path) -> dict[str, Count]:
    """Counts by kernel."""
    counts: dict[str, Count] = defaultdict(Count)
    for line in file.read_text(encoding="utf-8").splitlines() if file.exists() else ():
        said = json.loads(line)
        count = counts[said["kernel"]]
        count.kind, count.verdicts = said["kind"], count.verdicts + 1
        count.seedless |= said["check"].startswith(ONCE) and not said["other"]
        if said["other"]:
            count.other += 1
            count.said = f"{said['status']} {said['check']} (seed {said['seed']}): {said['message']}"
    return counts


def at_most(other: int, verdicts: int) -> float:
    """The largest rate that makes so few others no rarer than `SURE`."""
    return _rate(lambda rate: _at_most_so_many(other, verdicts, rate) >= SURE)


def at_least(other: int, verdicts: int) -> float:
    """The least rate that makes so many others no rarer than `SURE`."""
    if not other:
        return 0.0
    return _rate(lambda rate: 1 - _at_most_so_many(other - 1, verdicts, rate) < SURE)


def table(counts: dict[str, Count]) -> str:
    """A row a kind and, below, a line for each kernel with another verdict."""
    rows = ["| kernels | how many | seeds each | verdicts | other | at most (95 %) |", "|---|---|---|---|---|---|"]
    groups: dict[str, list[Count]] = defaultdict(list)
    for count in counts.values():
        groups[f"{count.kind}, decided before a seed" if count.seedless else count.kind].append(count)
    for kind, group in sorted(groups.items()):
        seeds = sorted(count.verdicts for count in group)
        verdicts, other = sum(seeds), sum(count.other for count in group)
        bound = "-" if group[0].seedless else f"1 in {1 / at_most(other, verdicts):.0f}"
        rows.append(f"| {kind} | {len(group)} | {seeds[0]} to {seeds[-1]} | {verdicts} | {other} | {bound} |")
    wrong = [f"{name}: {each.other} of {each.verdicts}, {each.said}" for name, each in counts.items() if each.other]
    return "\n".join([*rows, "", *sorted(wrong)])


def main(
    file: Annotated[Path, typer.Argument(help="Where verdicts are kept, a JSON object a line.")],
    minutes: Annotated[float, typer.Option(help="For how long.")] = 60.0,
    only: Annotated[str, typer.Option(help="Kernels with one of these, separated by commas, in their name.")] = "",
    tabled: Annotated[bool, typer.Option("--table", help="Print what the file says.")] = False,
) -> None:
    """Judge, or tell what was judged."""
    if not tabled:
        torch.set_num_threads(1)
        found = [subject for subject in subjects() if any(word in subject.name for word in only.split(","))]
        _judge(file, found, time.monotonic() + 60 * minutes)
    typer.echo(table(read(file)))


def _judge(file: Path, found: list[Subject], until: float) -> None:
    bench, counts = Bench(), read(file)
    while left := [subject for subject in found if not counts[subject.name].done]:
        least = min(counts[subject.name].verdicts for subject in left)
        for subject in (each for each in left if counts[each.name].verdicts == least):
            if time.monotonic() > until:
                return
            seed = counts[subject.name].verdicts + 1
            with own_turns():
                status, check, message = bench.said_of(subject, seed, whole=seed % WHOLE == 0 and not subject.cheats)
            line = {"kernel": subject.name, "kind": subject.kind, "seed": seed, "status": status, "check": check}
            line |= {"message": message, "other": subject.is_other(status)}
            with file.open("a", encoding="utf-8") as kept:
                kept.write(json.dumps(line) + "\n")
        counts = read(file)


def _at_most_so_many(other: int, verdicts: int, rate: float) -> float:
    """The chance of at most so many others at this rate."""
    return sum(math.comb(verdicts, k) * rate**k * (1 - rate) ** (verdicts - k) for k in range(other + 1))


def _rate(holds: Any) -> float:
    """The largest rate for which something holds that holds below it."""
    low, high = 0.0, 1.0
    for _ in range(40):
        middle = (low + high) / 2
        low, high = (middle, high) if holds(middle) else (low, middle)
    return high


if __name__ == "__main__":
    typer.run(main)
