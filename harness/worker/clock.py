"""Who is faster: candidate, eager reference and an earlier kernel by turns, on the judge's own clock."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from statistics import median

import torch

from harness.statistics import median_ratio
from harness.verdict import Duel, Timing
from harness.worker.link import CandidateFailedError, RunnerLink
from harness.worker.memory import SharedMemory
from harness.worker.trials import Bench

MIN_ROUNDS, MAX_ROUNDS = 8, 120
GOAL = 0.01
"""Rounds go on until the interval's half width is this share of the speed-up, or the time is up."""


@dataclass(frozen=True)
class Kernel:
    """A runner and the memory that it works on."""

    link: RunnerLink
    memory: SharedMemory


@dataclass(frozen=True)
class Pace:
    """Calls in one burst of either side, and what an empty burst costs (seconds)."""

    calls: int
    overhead_s: float
    timeout_s: float


Burst = Callable[[int], float]
"""One side's turn in a round: seconds a call."""


@dataclass(frozen=True)
class Rival:
    """An earlier kernel, by its digest, that has passed before."""

    digest: str
    kernel: Kernel

    def burst(self, bench: Bench, pace: Pace, turn: int) -> float:
        """As a candidate's; whatever fails here is not the candidate's fault."""
        try:
            return _kernel_burst(bench, self.kernel, pace, turn)
        except CandidateFailedError as failure:
            raise RivalFailedError(str(failure)) from failure


class RivalFailedError(Exception):
    """The earlier kernel did not get through this time."""


def time_by_turns(bench: Bench, pace: Pace, limit_s: float, rival: Rival | None = None) -> Timing:
    """Interleaved rounds until the intervals are narrow, or the time is up. Raises `RivalFailedError`."""
    sides: list[Burst] = [
        lambda turn: _stirred_burst(bench, pace, turn),
        lambda turn: _eager_burst(bench, pace, turn),
    ]
    if rival:
        sides.append(lambda turn: rival.burst(bench, pace, turn))
    samples: list[list[float]] = [[] for _ in sides]
    deadline = time.monotonic() + limit_s * len(sides) / 2
    for turn in range(MAX_ROUNDS):
        for side in _order(len(sides), turn):
            samples[side].append(sides[side](turn))
        if turn + 1 >= MIN_ROUNDS and (_converged(samples) or time.monotonic() > deadline):
            break
    candidate, baseline = samples[:2]
    speedup, interval = median_ratio(baseline, candidate)
    return Timing(
        candidate_ms=median(candidate) * 1e3,
        baseline_ms=median(baseline) * 1e3,
        speedup=speedup,
        speedup_interval=interval,
        rounds=len(candidate),
        threads=torch.get_num_threads(),
        converged=_converged(samples),
        duel=_duel(rival.digest, samples[2], candidate) if rival else None,
    )


def _order(sides: int, turn: int) -> list[int]:
    """Who goes first changes every round: what one side leaves in the caches helps or harms each in turn."""
    return [(turn + i) % sides for i in range(sides)]


def _converged(samples: list[list[float]]) -> bool:
    candidate = samples[0]
    for other in samples[1:]:
        speedup, interval = median_ratio(other, candidate)
        if interval.high - interval.low > 2 * GOAL * speedup:
            return False
    return True


def _duel(digest: str, rival: list[float], candidate: list[float]) -> Duel:
    speedup, interval = median_ratio(rival, candidate)
    return Duel(rival=digest, rival_ms=median(rival) * 1e3, speedup=speedup, interval=interval)


def set_pace(bench: Bench, timeout_s: float) -> Pace:
    """Warm both sides up and see how many calls a burst needs."""
    kernel = Kernel(bench.link, bench.memory)
    slots = _rotation(bench.memory.slots, bench.memory.slots, 0)
    with kernel.link.running():
        kernel.link.call(slots, timeout_s * len(slots))
        kernel.link.call(slots[:1], timeout_s)
        overhead = min(_kernel_seconds(kernel, [], timeout_s) for _ in range(20))
        once = max(_kernel_seconds(kernel, slots[:1], timeout_s) - overhead, 1e-7)
    eager = _eager_seconds(bench, slots[:1])
    calls = math.ceil(bench.device.burst_s / max(min(once, eager), 1e-6))
    # No slot twice in a burst: its second call would find the result in its output.
    return Pace(calls=min(calls, bench.memory.slots), overhead_s=overhead, timeout_s=timeout_s)


def _rotation(slots: int, calls: int, turn: int) -> list[int]:
    """Slots in turn; each round starts where the last one stopped, so that nothing repeats."""
    return [(turn * calls + i) % slots for i in range(calls)]


def _stirred_burst(bench: Bench, pace: Pace, turn: int) -> float:
    """The candidate's turn, over inputs that it has not seen: a result kept from an earlier round is wrong now."""
    for slot in _rotation(bench.memory.slots, pace.calls, turn):
        bench.stir(slot)
    return _kernel_burst(bench, Kernel(bench.link, bench.memory), pace, turn)


def _kernel_burst(bench: Bench, kernel: Kernel, pace: Pace, turn: int) -> float:
    slots = _rotation(kernel.memory.slots, pace.calls, turn)
    for slot in set(slots):
        kernel.memory.poison(slot)
    bench.device.empty_caches()
    with kernel.link.running():
        time.sleep(bench.device.settle_s)
        spent = _kernel_seconds(kernel, slots, pace.timeout_s * len(slots)) - pace.overhead_s
    if spent <= 0:
        raise CandidateFailedError("refused", "clock", "The burst took no longer than an empty one.")
    return spent / len(slots)


def _kernel_seconds(kernel: Kernel, slots: list[int], timeout_s: float) -> float:
    """From the order until a sample of the outputs has been read: an answer before the work is done gains nothing."""
    before = time.perf_counter()
    kernel.link.call(slots, timeout_s)
    for slot in set(slots):
        kernel.memory.sample(slot)
    return time.perf_counter() - before


def _eager_burst(bench: Bench, pace: Pace, turn: int) -> float:
    slots = _rotation(bench.memory.slots, pace.calls, turn)
    bench.device.empty_caches()
    time.sleep(bench.device.settle_s)
    return _eager_seconds(bench, slots) / len(slots)


def _eager_seconds(bench: Bench, slots: list[int]) -> float:
    calls = [(bench.replicas[slot], bench.inputs(slot)) for slot in slots]
    with torch.no_grad():
        before = time.perf_counter()
        for model, inputs in calls:
            model(*inputs)
        bench.device.finish()
        return time.perf_counter() - before
