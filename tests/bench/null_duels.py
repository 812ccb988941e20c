"""How often a kernel is told from its twin beside neighbours, and how often intervals miss a known gain.

    PYTHONPATH=tests python -m bench.null_duels --duels 500

Two builds are made once: a kernel, and one that differs in a constant nobody reads, so that its machine code is another
one and its speed the same. Each duel is a contest of the two: timing alone. As many processes as there are cores compute
meanwhile (`--burners 0`: none). At most 5 % of the duels may exclude 1; the exit code says whether that held.
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

from harness.isolation.tiers import resolve_tier
from harness.judging.local import LocalJudge
from harness.judging.terms import Terms
from harness.nouns.candidate import Candidate
from harness.nouns.verdict import HeadToHead
from harness.targets.cpu import CpuTarget
from tools.judges import QUICK_S

MOST = 0.05
TASK = """
import torch

class Model(torch.nn.Module):
    def forward(self, x):
        return x / (1 + x.abs())

def get_inputs():
    return [torch.rand(512, 512)]
"""
KERNEL = """
#include <tvm/ffi/container/tensor.h>
#include <tvm/ffi/function.h>
#include <cmath>

const volatile int twin = {twin};

void run(tvm::ffi::TensorView x, tvm::ffi::TensorView y) {{
  const float* in = static_cast<const float*>(x.data_ptr());
  float* out = static_cast<float*>(y.data_ptr());
  #pragma omp parallel for num_threads({threads})
  for (int64_t i = 0; i < 512 * 512; ++i) out[i] = in[i] / (1.0f + std::fabs(in[i]));
}}

TVM_FFI_DLL_EXPORT_TYPED_FUNC(run, run);
"""


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


def duels(judge: LocalJudge, count: int, threads: int) -> Iterator[HeadToHead]:
    """The one kernel against the other, in turn the first and the last."""
    task = judge.describe(TASK, name="softsign")
    twins = [
        Candidate(source=KERNEL.format(twin=twin, threads=threads), target="cpu", author="bench") for twin in (1, 2)
    ]
    codes = {judge.build(task, each).machine_code for each in twins}
    if len(codes) != 2 or "" in codes:
        raise SystemExit("The twins are the same machine code: there is nothing to time.")
    for _ in range(count):
        contest = judge.contest(task, twins)
        if contest.failed:
            raise SystemExit(f"A kernel did not get through: {contest.message}")
        met = contest.standings[0].timing.head_to_head
        assert met is not None
        yield met
        twins.reverse()


def main() -> int:
    """Print what every 25 duels come to, and the sum."""
    parser = argparse.ArgumentParser(description=__doc__)
    cores = len(os.sched_getaffinity(0))
    parser.add_argument("--duels", type=int, default=500)
    parser.add_argument("--burners", type=int, default=cores)
    parser.add_argument("--threads", type=int, default=cores, help="of the kernel")
    parser.add_argument("--timing-s", type=float, default=QUICK_S, help="of a contest's rounds, for every two sides")
    asked = parser.parse_args()
    judge = LocalJudge(CpuTarget(), Terms(resolve_tier("auto"), timing_s=asked.timing_s))
    print(f"{platform.processor() or platform.machine()}, {cores} cores, load {os.getloadavg()[0]:.1f} before")
    began, found = time.monotonic(), Counter[str]()
    with burning(asked.burners):
        for number, met in enumerate(duels(judge, asked.duels, asked.threads), 1):
            found["excludes 1"] += not met.interval.low <= 1 <= met.interval.high
            found[met.outcome] += 1
            if number % 25 == 0 or number == asked.duels:
                print(f"{number}: {dict(found)}, {time.monotonic() - began:.0f} s", flush=True)
    share = found["excludes 1"] / asked.duels
    print(f"{share:.1%} of {asked.duels} null duels exclude 1; at most {MOST:.0%} may.")
    return int(share > MOST)


if __name__ == "__main__":
    sys.exit(main())
