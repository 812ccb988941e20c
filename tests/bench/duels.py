"""`python -m bench.duels`: how often is a kernel taken for faster, or slower, than itself while neighbours compute?

Two sources differ by a branch that no call takes, so that their machine code is not identical and they do meet; with
`--gain 1.3` one of them takes about so many times as long. Both are built once. Each duel is a judgement of its own,
in new processes, with one trial.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from typing import Annotated

import typer

from harness.isolation.tiers import resolve_tier
from harness.judging.local import LocalJudge
from harness.judging.protocol import Judge
from harness.judging.terms import Terms
from harness.nouns.candidate import Candidate
from harness.nouns.errors import MachineError
from harness.nouns.task import Task
from harness.nouns.verdict import HeadToHead
from harness.targets.cpu import CpuTarget

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
    for (int64_t i = 0; i < count; ++i) {{
        for (volatile int k = 0; k < {steps}; ++k) continue;
        out[i] = in[i] / (1.0f + std::fabs(in[i]));
    }}
}}

TVM_FFI_DLL_EXPORT_TYPED_FUNC(run, run);
"""
STEPS = 40
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
    elements: Annotated[int, typer.Option(min=64)] = 1 << 14,
    out: Annotated[Path, typer.Option(help="Duels that it holds are not fought again.")] = Path("runs/duels.jsonl"),
) -> None:
    """Print the outcomes, and how many intervals exclude 1. Exit code 1: more than 5 % do of equal kernels."""
    judge = LocalJudge(CpuTarget(), Terms(tier=resolve_tier("auto"), trials=1))
    task = judge.describe(TASK.format(elements=elements), name="softsign")
    one, other = (
        Candidate(source=KERNEL.format(twin=twin, steps=steps), target="cpu", author="bench:duels")
        for twin, steps in (("", STEPS), ("if (x.ndim() == 7) return;", round(STEPS * gain)))
    )
    out.parent.mkdir(parents=True, exist_ok=True)
    fought = [HeadToHead.model_validate_json(line) for line in (out.read_text().splitlines() if out.exists() else [])]
    with spinning(neighbours, busy_s, rest_s), out.open("a", encoding="utf-8") as log:
        while len(fought) < duels:
            pair = (other, one) if gain == 1 and len(fought) % 2 else (one, other)
            fought.append(duel(judge, task, *pair))
            log.write(fought[-1].model_dump_json() + "\n")
            log.flush()
            print(f"{len(fought)}: {said(fought)}", flush=True)
    raise typer.Exit(gain == 1 and wrong(fought) > ALLOWED * len(fought))


def duel(judge: Judge, task: Task, candidate: Candidate, incumbent: Candidate) -> HeadToHead:
    """One. Raises `MachineError` where there was none: the bench's own kernels are right."""
    verdict = judge.evaluate(task, candidate, incumbent=incumbent)
    met = verdict.timing.head_to_head if verdict.timing else None
    if met is None or met.rounds == 0:
        raise MachineError(f"There was no duel: {verdict.status}. {verdict.message}")
    return met


def wrong(fought: list[HeadToHead]) -> int:
    """How many intervals exclude 1."""
    return sum(met.interval.low > 1 or met.interval.high < 1 for met in fought)


def said(fought: list[HeadToHead]) -> str:
    """What they come to, in a line."""
    width = median(met.interval.high / met.interval.low for met in fought)
    share = 100 * wrong(fought) / len(fought)
    rounds = median(met.rounds for met in fought)
    outcomes = dict(Counter(met.outcome for met in fought))
    return f"{wrong(fought)} exclude 1 ({share:.1f} %), {outcomes}; median width {width:.3f}x, median rounds {rounds:g}"


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
    typer.run(main)
