"""Kernels that have passed, and eager, in the same rounds: which of them is how fast, by one weather for all."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from copy import copy
from functools import partial

import torch

from harness.nouns.contest import PATIENCE, Contest, Standing
from harness.nouns.verdict import Trial
from harness.trusted.bench import Bench
from harness.trusted.jobs.judging import (
    alone_for_timing,
    as_the_reference_takes_it,
    check,
    fill_for_timing,
    late_within,
    no_room,
    prepare,
    timed_allowances,
)
from harness.trusted.link import CandidateFailedError, RunnerLink
from harness.trusted.timing.bursts import Kernel, Pace, candidates_burst, kernel_burst, rotation, torch_burst
from harness.trusted.timing.clock import (
    DUEL_ROUNDS,
    EAGER,
    Burst,
    Rounds,
    converged,
    doubt,
    fought_alone,
    pace_beside,
    play_until_narrow,
    set_pace,
    timing_of,
)
from harness.trusted.timing.late_trials import LateTrials
from harness.trusted.timing.timed_outputs import TimedOutputs
from harness.wire.job import ContestJob, IncumbentRunner


class LostError(Exception):
    """A kernel did not get through: its digest, and why."""

    def __init__(self, digest: str, message: str) -> None:
        super().__init__(message)
        self.digest = digest


def contest(job: ContestJob, *descriptors: int) -> Contest:
    """The first descriptor is the last kernel's, against which the others stand; theirs are behind the gauge's."""
    try:
        return _held(job, descriptors)
    except LostError as lost:
        return Contest(failed=lost.digest, message=str(lost))
    except torch.OutOfMemoryError as full:
        raise no_room(job, full) from full


@contextmanager
def _through(digest: str) -> Iterator[None]:
    """Raises `LostError` where the kernel of this digest fails meanwhile."""
    try:
        yield
    except CandidateFailedError as failure:
        raise LostError(digest, str(failure)) from failure


def _held(job: ContestJob, descriptors: Sequence[int]) -> Contest:
    first, gauge, *beside = descriptors
    trials: list[Trial] = []
    with _through(job.digest):
        link = RunnerLink(first, job.runner_pid, load_within_s=job.load_within_s)
        bench = prepare(job, link, kernels=1 + len(beside))
        timeout_s = check(bench, job, trials)
    bench.oracle.forget()
    alone_for_timing(bench, RunnerLink(gauge, job.gauge_pid, load_within_s=job.load_within_s))
    views = {other.digest: _view(bench, other, link) for other, link in zip(job.others, beside, strict=True)}
    return as_the_reference_takes_it(bench, partial(_timed, bench, views, job, timeout_s, trials))


def _view(bench: Bench, other: IncumbentRunner, descriptor: int) -> Bench:
    """The same bench with another kernel, and outputs of its own."""
    view = copy(bench)
    view.link, view.memory = RunnerLink(descriptor, other.pid), bench.memory.beside()
    with _through(other.digest):
        view.link.share(view.memory, bench.arguments.numbers)
        view.link.load(other.library)
    return view


def _timed(
    bench: Bench, views: dict[str, Bench], job: ContestJob, timeout_s: float, trials: Sequence[Trial]
) -> Contest:
    """All sides by turns; then all that their calls left behind is compared."""
    fill_for_timing(bench)
    with _through(job.digest):
        pace = set_pace(bench, timeout_s)
    every = {digest: _Side(view, _pace(bench, digest, view, pace), trials) for digest, view in views.items()}
    every[job.digest] = _Side(bench, pace, trials)
    sides: dict[str, Burst] = {digest: partial(_burst, digest, every[digest], pace) for digest in (job.digest, *views)}
    sides[EAGER] = lambda first: torch_burst(bench, pace.of_eager, first, bench.arguments.replicas)
    late = _LateTrials(every, timeout_s)
    links = {digest: side.view.link for digest, side in every.items()}
    rounds = Rounds(bench, pace, sides, None if pace.hopeless else late, links, _through)
    limit_s = PATIENCE * job.timing_s * len(sides) / 2
    weather = play_until_narrow(rounds, limit_s, DUEL_ROUNDS, hopeless=pace.hopeless)
    pairs = {digest: (job.digest, rounds.taken[job.digest], rounds.taken[digest]) for digest in views}
    met = fought_alone(rounds, [job.digest, *views], pairs, limit_s)
    bench.results.clear()
    for digest, side in every.items():
        with _through(digest):
            side.outputs.at_the_end(bench.device.verified_slots)
    narrow = converged([*rounds.samples.values()])
    standings = []
    for digest, side in every.items():
        doubt_s = doubt(bench, side.pace)
        timing = timing_of(rounds.samples[digest], rounds.samples[EAGER], doubt_s, weather, rounds.others)
        found = {"head_to_head": met.get(digest), "converged": narrow}
        standings.append(Standing(candidate=digest, timing=timing.model_copy(update=found)))
    return Contest(standings=tuple(standings))


class _Side:
    """A kernel in the rounds: its view of the bench, its pace, and what is known of its outputs."""

    def __init__(self, view: Bench, pace: Pace, trials: Sequence[Trial]) -> None:
        self.view, self.pace, self.trials = view, pace, trials
        self.outputs = TimedOutputs(view, timed_allowances(trials))

    def forget(self, pace: Pace, first: int) -> None:
        """Its results in the slots of a burst whose inputs are new, which it may not call itself."""
        self.outputs.called.difference_update(rotation(self.view.memory.slots, pace.calls, first))


class _LateTrials:
    """Those of all kernels, each among others' rounds: whoever is careless where nobody tries it is lost."""

    def __init__(self, every: Mapping[str, _Side], timeout_s: float) -> None:
        within = late_within(timeout_s)
        self._each = {
            digest: LateTrials(side.view, side.outputs, side.trials, side.pace, within=within)
            for digest, side in every.items()
        }
        self._every, self._next = every, list[str]()

    def due(self) -> int:
        """How many bursts come next."""
        self._next = [digest for digest, late in self._each.items() for _ in range(late.due())]
        random.shuffle(self._next)
        return len(self._next)

    def burst(self, first: int) -> int:
        """Of the kernel whose turn it is; how many slots it called. Raises `LostError`."""
        digest = self._next.pop()
        with _through(digest):
            called = self._each[digest].burst(first)
        for other, side in self._every.items():
            if other != digest:
                side.forget(self._every[digest].pace, first)
        return called


def _burst(digest: str, side: _Side, rounds: Pace, first: int) -> float:
    """One kernel's turn on the round's new values."""
    side.forget(rounds, first)
    with _through(digest):
        return candidates_burst(side.view, side.pace, first, side.outputs)


def _pace(bench: Bench, digest: str, view: Bench, pace: Pace) -> Pace:
    with _through(digest):
        return pace_beside(bench, view.link, partial(kernel_burst, view, Kernel(view.link, view.memory)), pace)
