"""`python -m bench.honest`: does the judge refuse honest kernels, and how near does it come to it?

The trials of many verdicts, without cages and clocks: a few milliseconds each, where a verdict takes seconds.
"""

from __future__ import annotations

import math
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Annotated

import torch
import typer

from bench.honest_corpus import Honest, corpus
from harness.building.compilation import library_of
from harness.checks.errors import MULTIPLE, floor_of, own_error
from harness.isolation.tiers import resolve_tier
from harness.judging.local import LocalJudge
from harness.judging.terms import Terms
from harness.nouns.caller import CALLERS
from harness.nouns.candidate import Candidate
from harness.nouns.task import DType, Task
from harness.nouns.verdict import OutputError, Trial
from harness.processes.candidate_process import PROGRAMS, runtime_library
from harness.targets.cpu import CpuTarget
from harness.trusted import comparison
from harness.trusted.admission import choose_manner, choose_structure, choose_weights
from harness.trusted.bench import Bench
from harness.trusted.jobs.judging import prepare
from harness.trusted.link import RunnerLink
from harness.trusted.reference import TORCH_DTYPES
from harness.trusted.timing.late_trials import ROUGHER
from harness.trusted.trials import not_asked, plan_trials, run_trial
from harness.wire.job import JudgeJob

TIMEOUT_S = 60.0
SLOT_BYTES, MEMORY_BYTES = 1 << 20, 1 << 30


@dataclass
class Margins:
    """What the trials of one kernel said: those that were wrong by more than `most` times what is allowed, and each
    error over what is allowed."""

    kernel: str
    most: float = 1.0
    refused: str = ""
    wrong: list[str] = field(default_factory=list)
    near: int = 0
    ratios: list[float] = field(default_factory=list)

    def add(self, task: Task, trial: Trial) -> None:
        for error, spec in zip(trial.outputs, task.signature.outputs, strict=True):
            if error.bad_fraction and (self.most == 1 or not _times(error, spec.dtype) <= self.most):
                off = f"{error.bad_fraction:.2%} off by {_times(error, spec.dtype):.3g}, {error.pattern}"
                self.wrong.append(f"{trial.distribution} {trial.seed}: {off}")
            if TORCH_DTYPES[spec.dtype].is_floating_point:
                self.ratios.append(_times(error, spec.dtype))

    @property
    def line(self) -> str:
        """As a line of the table."""
        ratios = torch.tensor(self.ratios or [0.0], dtype=torch.float64)
        tail = " ".join(f"{float(ratios.quantile(share)):8.3f}" for share in (0.5, 0.99, 0.999, 1.0))
        said = self.refused or "; ".join(self.wrong[:3])
        return f"{self.kernel:44} {len(self.ratios):6} {len(self.wrong):5} {self.near:5} {tail}  {said}"


HEAD = f"{'kernel':44} {'errors':>6} {'wrong':>5} {'near':>5} {'median':>8} {'99 %':>8} {'99.9 %':>8} {'most':>8}"


def main(
    seeds: Annotated[int, typer.Option(min=1, help="Verdicts whose trials are made.")] = 20,
    first: Annotated[int, typer.Option(help="The first seed.")] = 1,
    only: Annotated[str, typer.Option(help="Kernels with this in their name.")] = "",
    verdicts: Annotated[int, typer.Option(min=0, help="Whole verdicts of each kernel as well.")] = 0,
    amid: Annotated[bool, typer.Option("--amid", help="Each family amid values as they are timed.")] = False,
) -> None:
    """Print a line a kernel; exit code 1 where an honest one was refused."""
    torch.set_num_threads(1)  # of tensors this small more are in each other's way
    judge = LocalJudge(CpuTarget(), Terms(resolve_tier("auto"), timing_s=0.2))
    print(HEAD)
    bad = 0
    for kernel in corpus():
        if only in kernel.name:
            margins = measured(judge, kernel, range(first, first + seeds), amid=amid)
            judged = [verdict_on(judge, kernel, first + k) for k in range(verdicts)]
            margins.wrong += filter(None, judged)
            bad += bool(margins.wrong or margins.refused)
            print(margins.line, flush=True)
    raise typer.Exit(1 if bad else 0)


def measured(judge: LocalJudge, kernel: Honest, seeds: range, *, amid: bool = False) -> Margins:
    """The trials of so many verdicts on one kernel."""
    margins = Margins(kernel.name, most=ROUGHER if amid else 1.0)
    task = judge.describe(kernel.task_source, name=kernel.task.replace(" ", "_"))
    candidate = Candidate(source=kernel.source, target="cpu", author="corpus")
    build = judge.build(task, candidate)
    refusal = judge.screen(task, candidate)
    if refusal is None and build.succeeded:
        refusal = judge.screen_build(build) or judge.screen_data(candidate, build)
    library = library_of(build)
    if refusal or library is None:
        margins.refused = refusal.message if refusal else build.diagnostics[0].message
        return margins
    with _near_misses() as near, _bench(task, library, seeds[0]) as bench:
        bench.arguments.settle(seeds[0])
        choose_weights(bench, seeds[0])
        choose_structure(bench, seeds[0])
        choose_manner(bench, seeds[0])
        bench.arguments.fill = partial(bench.arguments.fill, amid=amid)  # type: ignore[method-assign]
        for seed in seeds:
            plan = plan_trials(seed, bench.facts.op_class, multiplies=bench.facts.multiplies, without=not_asked(bench))
            for position, (distribution, trial_seed) in enumerate(plan):
                caller = CALLERS[position % len(CALLERS)]
                if trial := run_trial(bench, position % 2, distribution, trial_seed, TIMEOUT_S, caller):
                    margins.add(task, trial)
    margins.near = len(near)
    return margins


def verdict_on(judge: LocalJudge, kernel: Honest, seed: int) -> str:
    """Why a whole verdict refused it; empty where it passed."""
    task = judge.describe(kernel.task_source, name=kernel.task.replace(" ", "_"))
    verdict = judge.evaluate(task, Candidate(source=kernel.source, target="cpu", author="corpus"), seed=seed)
    return "" if verdict.status == "passed" else f"verdict {seed}: {verdict.check}: {verdict.message}"


@contextmanager
def _bench(task: Task, library: Path, seed: int) -> Iterator[Bench]:
    ours, theirs = socket.socketpair()
    told = (str(PROGRAMS / "runner.py"), str(theirs.fileno()), str(runtime_library()), "")
    with theirs, subprocess.Popen([sys.executable, "-I", "-S", *told], pass_fds=[theirs.fileno()]) as process:
        theirs.close()
        try:
            yield prepare(_job(task, library, seed, process.pid), RunnerLink(ours.detach(), process.pid))
        finally:
            process.send_signal(signal.SIGCONT)
            process.kill()


def _job(task: Task, library: Path, seed: int, pid: int) -> JudgeJob:
    return JudgeJob(
        source=task.source, name=task.name, variant=task.workloads[0].variant, signature=task.signature,
        facts=task.facts, library=str(library), seed=seed, runner_pid=pid, gauge_pid=0, device="cpu", precision="ieee",
        tolerance=1.0,
        slot_target_bytes=SLOT_BYTES, memory_bytes=MEMORY_BYTES, timing_s=0.0, trials=None, load_within_s=TIMEOUT_S,
    )  # fmt: skip


@contextmanager
def _near_misses() -> Iterator[list[str]]:
    """Which trials asked for PyTorch's error nearby; each of them for that on all inputs, so that margins are whole."""
    asked: list[str] = []
    usual = comparison.likely_nearby

    def all_at_once(bench: Bench, slot: int, distribution: str) -> Iterator[list[float]]:
        asked.append(distribution)
        yield [max(each) for each in zip(*usual(bench, slot, distribution), strict=True)]

    comparison.likely_nearby = all_at_once
    try:
        yield asked
    finally:
        comparison.likely_nearby = usual


def _times(error: OutputError, dtype: DType) -> float:
    """An error over what PyTorch's own allows."""
    most = MULTIPLE * own_error(error) + floor_of(TORCH_DTYPES[dtype])
    return error.max_scaled / most if most else math.inf * error.max_scaled if error.max_scaled else 0.0


if __name__ == "__main__":
    typer.run(main)
