"""Who is faster: candidate and eager reference by turns, on the judge's own clock."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass

import torch

from harness.statistics import median_ratio
from harness.verdict import Timing
from harness.worker.link import CandidateFailedError
from harness.worker.trials import Bench

BURST_S = 0.004
"""A burst of calls lasts at least this long, so that the message to the runner (about 0.05 ms) is noise."""
SETTLE_S = 0.002
"""OpenMP threads spin for about a millisecond after a parallel region; the next side must not pay for it."""
MIN_ROUNDS, MAX_ROUNDS = 8, 120
GOAL = 0.01
"""Rounds go on until the interval's half width is this share of the speed-up, or the time is up."""
SAMPLES = 64


@dataclass(frozen=True)
class Pace:
    """Calls in one burst of either side, and what an empty burst costs (seconds)."""

    calls: int
    overhead_s: float
    timeout_s: float


def time_both(bench: Bench, pace: Pace, limit_s: float, verify: Callable[[int], None]) -> Timing:
    """Interleaved rounds until the interval is narrow; then `verify(slot)` checks, or refuses, what was timed."""
    candidate: list[float] = []
    baseline: list[float] = []
    deadline = time.monotonic() + limit_s
    while True:
        turns = [(candidate, _candidate_burst), (baseline, _eager_burst)]
        for samples, burst in turns if len(candidate) % 2 else reversed(turns):
            samples.append(burst(bench, pace, len(samples)))
        if len(candidate) < MIN_ROUNDS:
            continue
        speedup, interval = median_ratio(baseline, candidate)
        converged = interval.high - interval.low <= 2 * GOAL * speedup
        if converged or len(candidate) >= MAX_ROUNDS or time.monotonic() > deadline:
            break
    for slot in range(bench.memory.slots):
        verify(slot)
    return Timing(
        candidate_ms=_median(candidate) * 1e3,
        baseline_ms=_median(baseline) * 1e3,
        speedup=speedup,
        speedup_interval=interval,
        rounds=len(candidate),
        threads=torch.get_num_threads(),
        converged=converged,
    )


def set_pace(bench: Bench, timeout_s: float) -> Pace:
    """Warm both sides up and see how many calls a burst needs."""
    slots = _rotation(bench, bench.memory.slots, 0)
    bench.link.resume()
    bench.link.call(slots, timeout_s * len(slots))
    bench.link.call(slots[:1], timeout_s)
    overhead = min(_candidate_seconds(bench, [], timeout_s) for _ in range(20))
    once = max(_candidate_seconds(bench, slots[:1], timeout_s) - overhead, 1e-7)
    eager = _eager_seconds(bench, slots[:1])
    calls = math.ceil(BURST_S / max(min(once, eager), 1e-6))
    return Pace(calls=min(calls, 2000), overhead_s=overhead, timeout_s=timeout_s)


def _rotation(bench: Bench, calls: int, round_number: int) -> list[int]:
    """Slots in turn; each round starts where the last one stopped, so that nothing repeats."""
    start = round_number * calls
    return [(start + i) % bench.memory.slots for i in range(calls)]


def _candidate_burst(bench: Bench, pace: Pace, round_number: int) -> float:
    slots = _rotation(bench, pace.calls, round_number)
    bench.link.pause()
    for slot in set(slots):
        bench.memory.poison(slot)
    bench.link.resume()
    time.sleep(SETTLE_S)
    spent = _candidate_seconds(bench, slots, pace.timeout_s * len(slots)) - pace.overhead_s
    if spent <= 0:
        raise CandidateFailedError("refused", "clock", "The burst took no longer than an empty one.")
    return spent / len(slots)


def _candidate_seconds(bench: Bench, slots: list[int], timeout_s: float) -> float:
    """From the order until a sample of the outputs has been read: an answer before the work is done gains nothing."""
    before = time.perf_counter()
    bench.link.call(slots, timeout_s)
    for slot in set(slots[-bench.memory.slots :]):
        for output in bench.memory.outputs(slot):
            output.flatten()[:: max(1, output.numel() // SAMPLES)].clone()
    return time.perf_counter() - before


def _eager_burst(bench: Bench, pace: Pace, round_number: int) -> float:
    bench.link.pause()
    slots = _rotation(bench, pace.calls, round_number)
    time.sleep(SETTLE_S)
    spent = _eager_seconds(bench, slots)
    bench.link.resume()
    return spent / len(slots)


def _eager_seconds(bench: Bench, slots: list[int]) -> float:
    calls = [(bench.replicas[slot], bench.inputs(slot)) for slot in slots]
    with torch.no_grad():
        before = time.perf_counter()
        for model, inputs in calls:
            model(*inputs)
        return time.perf_counter() - before


def _median(samples: list[float]) -> float:
    ordered = sorted(samples)
    middle = len(ordered) // 2
    return ordered[middle] if len(ordered) % 2 else (ordered[middle - 1] + ordered[middle]) / 2
