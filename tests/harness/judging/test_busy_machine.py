"""Right kernels pass on a machine that is busy with other things: what that does to the times is said, not refused."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest
from kernel_frame import HEAD, TAIL

from harness.judging.local import LocalJudge
from harness.judging.terms import Terms
from harness.nouns.candidate import Candidate
from harness.targets.cpu import CpuTarget

pytestmark = pytest.mark.alone  # nothing else could be measured meanwhile

NEIGHBOUR = """
print("busy", flush=True)
block = bytearray(64 << 20)
while True:
    other = bytes(block)  # memory traffic
    sum(range(200_000))  # and arithmetic
"""
BODY = """
void run(TensorView x, TensorView y) {
  #pragma omp parallel for simd
  for (int64_t i = 0; i < x.numel(); ++i) out(y)[i] = in(x)[i] / (1 + std::fabs(in(x)[i]));
}
"""
SOFTSIGN = Candidate(source=HEAD + BODY + TAIL, target="cpu", author="test")
TASK = """
import torch

class Model(torch.nn.Module):
    def forward(self, x):
        return x / (1 + x.abs())

def get_inputs():
    return [torch.rand({shape})]
"""


@pytest.fixture
def neighbours():
    """One more busy process than there are threads."""
    started = [
        subprocess.Popen([sys.executable, "-I", "-S", "-c", NEIGHBOUR], stdout=subprocess.PIPE)
        for _ in range(len(os.sched_getaffinity(0)) + 1)
    ]
    for each in started:
        each.stdout.readline()
    yield
    for each in started:
        each.kill()
        each.communicate()


@pytest.mark.parametrize("shape", ["16", "2048, 1024"])
def test_a_right_kernel_passes_beside_busy_neighbours(bench, neighbours, shape):
    judge = LocalJudge(CpuTarget(), Terms(bench.tier, timing_s=0.2))
    task = bench.task(TASK.format(shape=shape))
    verdict = judge.evaluate(task, SOFTSIGN, seed=1)
    assert verdict.status == "passed", verdict.message
    timing = verdict.timing
    assert timing.converged or timing.hopeless or "interval" in timing.noise
    assert "other threads wanted its" in timing.noise


def test_ceilings_that_busy_neighbours_lowered_refuse_nobody(bench, neighbours):
    """The bandwidth as it was measured beside them at its worst, for a kernel that is timed later, in peace."""
    target = CpuTarget()
    busy = target.facts().model_copy(update={"peak_gb_s": target.facts().peak_gb_s / 20})

    class Lowered(CpuTarget):
        def facts(self, *, again=False):
            return super().facts(again=True) if again else busy

    judge = LocalJudge(Lowered(), Terms(bench.tier, timing_s=0.2))
    verdict = judge.evaluate(bench.task(TASK.format(shape="4096, 4096")), SOFTSIGN, seed=1)
    assert verdict.status == "passed", verdict.message
