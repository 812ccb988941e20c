"""How many head-to-heads come out right while other programs burn every core: a figure to measure by hand, minutes
long.

    python tests/harness/judging/head_to_heads_beside_neighbours.py --head-to-heads 20

A kernel that takes 1.3 times as long as another, and one that takes as long, each against the same candidate, with
as many busy processes as there are threads. docs/judge.md keeps the last figure.
"""

from __future__ import annotations

import argparse
import os
import platform
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

if __name__ == "__main__":
    sys.path[:0] = [str(Path(__file__).resolve().parents[3])]

from kernel_frame import HEAD, TAIL

from harness.isolation.tiers import resolve_tier
from harness.judging.local import LocalJudge
from harness.judging.protocol import Judge
from harness.judging.terms import Terms
from harness.nouns.candidate import Candidate
from harness.nouns.verdict import HeadToHead, Verdict
from harness.targets.cpu import CpuTarget
from harness.tasks.describing import describe_task

TASK = """
import torch

class Model(torch.nn.Module):
    def forward(self, x):
        return x / (1 + x.abs())

def get_inputs():
    return [torch.rand({shape})]
"""
BODY = """
void run(TensorView x, TensorView y) {{
  #pragma omp parallel for num_threads({threads})
  for (int64_t i = 0; i < x.numel(); ++i) {{
    for (volatile int k = 0; k < {steps}; ++k) continue;
    out(y)[i] = in(x)[i] / (1 + std::fabs(in(x)[i]));
  }}
}}
"""
STEPS = 40
CASES = {"64, 256": 1, "512, 512": 2}
"""Shapes of the task, and the kernel's threads: a call of about a millisecond, and one of about ten."""


def kernel(gain: float, threads: int) -> Candidate:
    """A right kernel whose calls take `gain` times as long as one with gain 1."""
    body = BODY.format(threads=threads, steps=round(STEPS * gain))
    return Candidate(source=f"{HEAD}{body}{TAIL}// {gain}\n", target="cpu", author="test")


@contextmanager
def burning(count: int) -> Iterator[None]:
    """So many processes that do nothing but compute."""
    started = [subprocess.Popen([sys.executable, "-I", "-S", "-c", "while True: pass"]) for _ in range(count)]
    try:
        yield
    finally:
        for each in started:
            each.kill()
            each.wait()


def passed(verdict: Verdict) -> Verdict:
    """The verdict itself, where it passed."""
    assert verdict.timing is not None, verdict.message
    return verdict


def head_to_heads(
    judge: Judge, shape: str, threads: int, gain: float, count: int
) -> Iterator[tuple[HeadToHead, float]]:
    """Each a verdict of its own, against an incumbent that takes `gain` times as long, with the seconds that it
    took."""
    task = describe_task(TASK.format(shape=shape), name="softsign", tier=judge.tier)
    candidate = kernel(1.0, threads)
    incumbent = kernel(gain if gain != 1.0 else 1.0001, threads)
    passed(judge.evaluate(task, incumbent))
    for _ in range(count):
        began = time.monotonic()
        timing = passed(judge.evaluate(task, candidate, incumbent=incumbent)).timing
        assert timing is not None and timing.head_to_head is not None
        yield timing.head_to_head, time.monotonic() - began


def main() -> None:
    """Measure, and print a line a head-to-head and a sum for each case."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--head-to-heads", type=int, default=20)
    parser.add_argument("--burners", type=int, default=len(os.sched_getaffinity(0)))
    asked = parser.parse_args()
    judge = LocalJudge(CpuTarget(), Terms(resolve_tier("auto")))
    print(
        f"{platform.processor() or platform.machine()}, {len(os.sched_getaffinity(0))} threads, load {os.getloadavg()}"
    )
    with burning(asked.burners):
        for shape, threads in CASES.items():
            for gain in (1.3, 1.0):
                found = Counter[str]()
                for met, seconds in head_to_heads(judge, shape, threads, gain, asked.head_to_heads):
                    found[met.outcome] += 1
                    span = f"{met.interval.low:.2f} to {met.interval.high:.2f}"
                    print(
                        f"  {met.outcome}: {met.speedup:.2f}x, {span}, {met.rounds} rounds, {seconds:.1f} s",
                        flush=True,
                    )
                print(
                    f"{shape} on {threads}, {gain} times as long: {dict(found)}, load {os.getloadavg()[0]:.1f}",
                    flush=True,
                )


if __name__ == "__main__":
    main()
