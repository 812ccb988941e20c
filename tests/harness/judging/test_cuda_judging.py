"""Verdicts on a real GPU: right, wrong, and everything that can break a context."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from statistics import median

import pytest
import torch
import tvm_ffi
from cuda_kernels import BROKEN, COPY, CUTE, HANG, RIGHT, task_source

from harness.building.compilation import library_of
from harness.isolation.tiers import resolve_tier
from harness.judging.local import LocalJudge
from harness.judging.terms import Terms
from harness.machine.gpu import find_gpu
from harness.nouns.build import Build
from harness.nouns.candidate import Candidate
from harness.nouns.errors import MachineError
from harness.nouns.verdict import Verdict
from harness.processes.trusted_child import usable_threads
from harness.targets.cuda import CudaTarget
from harness.tasks.describing import describe_task

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(find_gpu() is None, reason="no NVIDIA GPU answers here"),
]


class GpuBench:
    """A judge without its screen: what is tested here must hold behind it."""

    def __init__(self) -> None:
        self.tier = resolve_tier("auto")
        self.judge = _Unscreened(CudaTarget(), Terms(self.tier))
        sources = [RIGHT, CUTE, COPY, HANG, *(source for source, *_ in BROKEN.values())]
        with ThreadPoolExecutor(usable_threads()) as pool:  # one after the other they would take minutes
            list(pool.map(lambda source: self.judge.target.compile(_candidate(source), tier=self.tier), sources))

    def verdict(self, source: str, rows: int = 1000, columns: int = 1001, task: str = "") -> Verdict:
        described = describe_task(task or task_source(rows, columns), name="softsign", tier=self.tier)
        return self.judge.evaluate(described, _candidate(source))


def _candidate(source: str) -> Candidate:
    return Candidate(source=source, target="cuda", author="test")


class _Unscreened(LocalJudge):
    def screen(self, task: object, candidate: object) -> None:
        return None

    def screen_build(self, build: Build) -> None:
        return None

    def screen_data(self, candidate: Candidate, build: Build) -> None:
        return None


@pytest.fixture(scope="module")
def gpu() -> GpuBench:
    return GpuBench()


@pytest.mark.parametrize("source", [RIGHT, CUTE], ids=["plain", "cute"])
def test_a_right_kernel_passes_and_is_timed_under_known_clocks(gpu, source):
    verdict = gpu.verdict(source, 4096, 8192)
    assert verdict.status == "passed", verdict.message
    timing = verdict.timing
    assert timing.speedup > 1.5  # eager makes three passes over memory where the kernel makes one
    assert timing.clocks is None or timing.clocks.lowest.sm_mhz > 0


def test_a_contest_times_kernels_and_eager_in_the_same_rounds(gpu):
    task = describe_task(task_source(1000, 1001), name="softsign", tier=gpu.tier)
    found = gpu.judge.contest(task, [_candidate(RIGHT), _candidate(CUTE)])
    assert found.failed == "", found.message
    assert len({(each.timing.baseline_ms, each.timing.rounds) for each in found.standings}) == 1
    trap = _candidate(BROKEN["trap"][0])
    for entered in ([trap, _candidate(RIGHT)], [_candidate(RIGHT), trap]):
        found = gpu.judge.contest(task, entered)
        assert (found.failed, found.standings) == (trap.digest, ())


@pytest.mark.parametrize("name", BROKEN)
def test_whatever_breaks_has_a_name(gpu, name):
    source, status, check, words = BROKEN[name]
    verdict = gpu.verdict(source)
    assert (verdict.status, verdict.check) == (status, check), verdict.message
    assert words in verdict.message


@pytest.mark.parametrize("name", ["illegal address", "trap"])
def test_a_broken_context_costs_one_verdict(gpu, name):
    gpu.verdict(BROKEN[name][0])
    verdict = gpu.verdict(RIGHT)
    assert verdict.status == "passed", verdict.message


def test_a_kernel_that_never_ends_is_ended(gpu):
    verdict = gpu.verdict(HANG)
    assert (verdict.status, verdict.check) == ("timed_out", "hang")
    assert gpu.verdict(RIGHT).status == "passed"


def test_the_clock_agrees_with_the_measured_copy_rate(gpu):
    """A plain copy of more than the cache holds moves what the probe's own copy moves, within what tiling explains."""
    task = task_source(8192, 8192).replace("x / (1 + torch.abs(x))", "x.clone()")
    verdict = gpu.verdict(COPY, task=task)
    moved_gb_s = 2 * 4 * 8192 * 8192 / verdict.timing.candidate_ms * 1e-6
    assert 0.6 < moved_gb_s / gpu.judge.target.facts().peak_gb_s < 1.1


def milliseconds_by_events(library: Path, rows: int, columns: int) -> float:
    """One call's time as an ordinary program takes it: over more memory than the cache holds, in one context."""
    calls = max(2, min(128, (3 << 30) // (rows * columns)))
    pairs = [
        (torch.rand(rows, columns, device="cuda"), torch.empty(rows, columns, device="cuda")) for _ in range(calls)
    ]
    run = tvm_ffi.load_module(str(library)).run
    taken = []
    for _ in range(12):
        began, ended = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        torch.cuda.synchronize()
        began.record()
        for pair in pairs:
            run(*pair)
        ended.record()
        torch.cuda.synchronize()
        taken.append(began.elapsed_time(ended) / calls)
    del pairs
    torch.cuda.empty_cache()
    return median(taken[2:])


@pytest.mark.alone
@pytest.mark.parametrize(("rows", "columns"), [(4096, 8192), (4096, 65536), (4096, 393216)])
def test_the_clock_agrees_with_cuda_events(gpu, rows, columns, record_property):
    """Two contexts, the messages and the samples cost nothing that the clock would count."""
    try:
        verdict = gpu.verdict(CUTE, rows, columns)
    except MachineError as error:
        pytest.skip(str(error))  # a GPU of 80 GB
    events_ms = milliseconds_by_events(library_of(verdict.build), rows, columns)
    record_property("judge_ms", verdict.timing.candidate_ms)
    record_property("events_ms", events_ms)
    assert verdict.timing.candidate_ms == pytest.approx(events_ms, rel=0.02)


def test_a_task_that_does_not_fit_says_how_much_it_needs(gpu):
    with pytest.raises(MachineError, match=r"for one set of its arguments; the GPU has .* GiB.*--scale"):
        gpu.verdict(RIGHT, 1 << 20, 1 << 15)
