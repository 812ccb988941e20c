"""`python -m bench.duels`: how often is a kernel taken for faster, or slower, than itself while neighbours compute?

Two sources differ by a branch that no call takes, so that their machine code is not identical and they do meet; with
`--gain 1.3` one of them computes that many times as many elements, some of them again. Each duel is the judge's own, of
16 to 120 rounds; so many in a row have the same two processes, in cages as ever. 500 take about a quarter of an hour
where nothing but the neighbours runs. Stopped, it goes on where it was by the same command.
"""

from __future__ import annotations

import os
import secrets
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from typing import Annotated

import typer

from harness.building.compilation import library_of
from harness.isolation.tiers import resolve_tier
from harness.judging.local import LocalJudge
from harness.judging.terms import Terms
from harness.nouns.candidate import Candidate
from harness.nouns.errors import MachineError
from harness.nouns.task import Task
from harness.nouns.verdict import HeadToHead, Trial
from harness.processes.runner_process import start_runner
from harness.processes.trusted_child import SPINS
from harness.targets.cpu import CpuTarget
from harness.trusted.bench import Bench
from harness.trusted.jobs.judging import alone_for_timing, check, fill_for_timing, prepare, timed_allowances
from harness.trusted.link import RunnerLink
from harness.trusted.timing.bursts import Kernel, Pace
from harness.trusted.timing.clock import Incumbent, set_pace, time_by_turns
from harness.trusted.timing.timed_outputs import TimedOutputs

ALLOWED = 0.05
"""Of all null duels so many may have an interval without 1; a 99.5 % interval should do so in one of 200."""
TASK = """
import torch
from torch import nn


class Model(nn.Module):
    def forward(self, x):
        return x / (1 + torch.abs(x))


def get_inputs():
    return [torch.randn({elements})]


def get_init_inputs():
    return []
"""
KERNEL = """
#include <tvm/ffi/container/tensor.h>
#include <tvm/ffi/function.h>

#include <cmath>
#include <cstdint>

void run(tvm::ffi::TensorView x, tvm::ffi::TensorView output) {{
    {twin}
    const float* in = static_cast<const float*>(x.data_ptr());
    float* out = static_cast<float*>(output.data_ptr());
    const int64_t count = x.numel();
#pragma omp parallel for schedule(static)
    for (int64_t i = 0; i < count + count * {extra} / 1000; ++i) {{
        for (volatile int k = 0; k < 10; ++k) continue;
        const int64_t at = i % count;
        out[at] = in[at] / (1.0f + std::fabs(in[at]));
    }}
}}

TVM_FFI_DLL_EXPORT_TYPED_FUNC(run, run);
"""
IN_A_ROW = 5
TIMING_S = 1.0
"""As a verdict's."""
ROTATION_BYTES = 4 << 20
NEIGHBOUR = """
import os, sys, time
core, parent, busy_s, rest_s = int(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3]), float(sys.argv[4])
os.sched_setaffinity(0, {core})
print("busy", flush=True)
while os.getppid() == parent:
    until = time.monotonic() + busy_s
    while time.monotonic() < until:
        pass
    time.sleep(rest_s)
"""


def main(
    duels: Annotated[int, typer.Option(min=1)] = 500,
    gain: Annotated[float, typer.Option(min=1.0, help="How many times as long the incumbent takes.")] = 1.0,
    neighbours: Annotated[int, typer.Option(min=0, help="Processes that spin, each on a core of its own.")] = 2,
    busy_s: Annotated[float, typer.Option(help="So long a neighbour spins,")] = 1.0,
    rest_s: Annotated[float, typer.Option(help="and so long it sleeps then. 0: it never does.")] = 0.0,
    elements: Annotated[int, typer.Option(min=64)] = 1 << 15,
    out: Annotated[Path, typer.Option(help="Duels that it holds are not fought again.")] = Path("runs/duels.jsonl"),
) -> None:
    """Print the outcomes, and how many intervals exclude 1. Exit code 1: more than 5 % do of equal kernels."""
    judge, task, pair = prepared(elements, gain)
    out.parent.mkdir(parents=True, exist_ok=True)
    fought = [HeadToHead.model_validate_json(line) for line in (out.read_text().splitlines() if out.exists() else [])]
    began, before = time.monotonic(), len(fought)
    with spinning(neighbours, busy_s, rest_s), out.open("a", encoding="utf-8") as log:
        while len(fought) < duels:
            turned = gain == 1 and len(fought) // IN_A_ROW % 2 == 1
            for met in in_a_row(judge, task, pair[::-1] if turned else pair, min(IN_A_ROW, duels - len(fought))):
                fought.append(met)
                log.write(met.model_dump_json() + "\n")
                log.flush()
            print(f"{len(fought)}: {said(fought)}", flush=True)
    print(
        f"python -m bench.duels --duels {duels} --gain {gain:g} --neighbours {neighbours} --busy-s {busy_s:g} "
        f"--rest-s {rest_s:g} --elements {elements}: {said(fought)}; {len(fought) - before} fought now, in "
        f"{time.monotonic() - began:.0f} s"
    )
    raise typer.Exit(gain == 1 and wrong(fought) > ALLOWED * len(fought))


def prepared(elements: int, gain: float) -> tuple[LocalJudge, Task, list[Candidate]]:
    """A judge, its task, and two kernels, of which the second takes so many times as long."""
    terms = Terms(resolve_tier("auto"), timing_s=TIMING_S, trials=1, rotation_bytes=ROTATION_BYTES)
    judge = LocalJudge(CpuTarget(), terms)
    pair = [
        Candidate(source=KERNEL.format(twin=twin, extra=extra), target="cpu", author="bench:duels")
        for twin, extra in (("", 0), ("if (x.ndim() == 7) return;", round(1000 * (gain - 1))))
    ]
    return judge, judge.describe(TASK.format(elements=elements), name="softsign"), pair


def in_a_row(judge: LocalJudge, task: Task, pair: list[Candidate], count: int) -> Iterator[HeadToHead]:
    """So many duels of the first with the second kernel, by processes that are started for them."""
    with opponents(judge, task, pair) as (bench, incumbent, pace, outputs):
        for _ in range(count):
            met = time_by_turns(bench, pace, TIMING_S, outputs, incumbent=incumbent).head_to_head
            assert met is not None
            yield met


@contextmanager
def opponents(
    judge: LocalJudge, task: Task, pair: list[Candidate]
) -> Iterator[tuple[Bench, Incumbent, Pace, TimedOutputs]]:
    """The first kernel on the judge's bench, tried, and the second beside it."""
    other = pair[1]
    mine, theirs = (library_of(judge.build(task, each)) for each in pair)
    if mine is None or theirs is None:
        raise MachineError("The bench's kernels do not build here.", "Run `cutegen doctor`.")
    trials = list[Trial]()
    evaluation = judge._evaluation
    with evaluation._stage(task, mine, secrets.randbits(31), timed=True) as stage:
        runner, line = start_runner(stage.held, theirs, stage.around, stage.scratch / "incumbent")
        kernels, gauge = (link.detach() for link in stage.links)
        bench = prepare(stage.job, RunnerLink(kernels, stage.runner.pid))
        timeout_s = check(bench, stage.job, trials)
        stage.alone()
        alone_for_timing(bench, RunnerLink(gauge, stage.job.gauge_pid))
        memory, link = bench.memory.beside(), RunnerLink(line.detach(), runner.pid)
        link.share(memory, bench.arguments.numbers)
        link.load(str(theirs))
        incumbent = Incumbent(other.digest, Kernel(link, memory))
        fill_for_timing(bench)
        yield bench, incumbent, set_pace(bench, timeout_s), TimedOutputs(bench, timed_allowances(trials))


def wrong(fought: list[HeadToHead]) -> int:
    """How many intervals exclude 1."""
    return sum(met.interval.low > 1 or met.interval.high < 1 for met in fought)


def said(fought: list[HeadToHead]) -> str:
    """What they come to, in a line. Duels of one pair of processes are no independent ones."""
    width = median(met.interval.high / met.interval.low for met in fought)
    share = 100 * wrong(fought) / len(fought)
    pairs = [wrong(fought[at : at + IN_A_ROW]) for at in range(0, len(fought), IN_A_ROW)]
    rounds = median(met.rounds for met in fought)
    outcomes = dict(Counter(f"{met.outcome}{met.by}" for met in fought))
    return (
        f"{wrong(fought)} exclude 1 ({share:.1f} %), of {sum(map(bool, pairs))} of {len(pairs)} pairs of processes, "
        f"{outcomes}; median width {width:.3f}x, median rounds {rounds:g}"
    )


@contextmanager
def spinning(neighbours: int, busy_s: float, rest_s: float) -> Iterator[list[int]]:
    """Meanwhile so many processes are busy; their ids. None outlives this one."""
    cores = sorted(os.sched_getaffinity(0))
    told = (str(os.getpid()), str(busy_s), str(rest_s))
    started = [
        subprocess.Popen(
            [sys.executable, "-c", NEIGHBOUR, str(cores[at % len(cores)]), *told], stdout=subprocess.PIPE, text=True
        )
        for at in range(neighbours)
    ]
    try:
        for each in started:
            assert each.stdout is not None and each.stdout.readline() == "busy\n"
        yield [each.pid for each in started]
    finally:
        for each in started:
            each.kill()
            each.communicate()


if __name__ == "__main__":
    if not os.environ.items() >= SPINS.items():  # OpenMP reads it when it is loaded, and this process is the judge
        os.execve(sys.executable, [sys.executable, "-m", "bench.duels", *sys.argv[1:]], os.environ | SPINS)
    typer.run(main)
