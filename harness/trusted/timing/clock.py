"""Who is faster: candidate, eager reference and an earlier kernel by turns, on the judge's own clock."""

from __future__ import annotations

import math
import os
import random
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from functools import partial
from statistics import median
from typing import Protocol

import torch

from harness.nouns import events
from harness.nouns.samples import Samples
from harness.nouns.verdict import Clocks, Compiled, Conditions, HeadToHead, Interval, Timing
from harness.trusted.bench import Bench
from harness.trusted.link import CandidateFailedError, RunnerLink
from harness.trusted.timing.bursts import (
    FEW,
    Kernel,
    Pace,
    candidates_burst,
    kernel_burst,
    kernel_seconds,
    renumber,
    rotation,
    torch_burst,
    torch_seconds,
    touched_burst,
)
from harness.trusted.timing.compiled import CompiledReference
from harness.trusted.timing.duels import Taken, head_to_head, incomparable
from harness.trusted.timing.neighbours import Reading, how_busy, observe
from harness.trusted.timing.statistics import faster_half_ratio, median_ratio
from harness.trusted.timing.timed_outputs import TimedOutputs
from harness.wire.telling import EVERY_S, tell

CANDIDATE, EAGER, COMPILED, INCUMBENT = "candidate", "eager", "compiled", "incumbent"
MIN_ROUNDS, MAX_ROUNDS = 8, 120
DUEL_ROUNDS = 16
"""Rounds of a head-to-head, at least, of all but a hopeless kernel: a neighbour can stay with one side for eight."""
ALONE_ROUNDS, ALONE_LIMIT = 64, 4
"""Of kernels on one thread, at least, before they end undecided, and times their limit: with six programs a core, 64
tell a tenth, 120 a twentieth."""
ROUNDS_A_PLACE = 4  # on one processor, of kernels on one thread each
CROWDED_S = 1.0
"""Seconds that two kernels are held against each other, at least, where their threads share processors with others: the
system may leave one side's two threads on one processor, and does so for tenths of a second."""
HOPELESS = 20.0
"""Times as slow as eager: such a kernel gets no more than it takes to say so, unless a head-to-head asks for more."""
FAR = 4.0
"""Times as slow as the candidate: an incumbent's burst has one call then, where that lasts long enough."""
LITTLE_S, SURELY_S = 0.005, 0.5
"""A call below the one holds nobody up, however slow it is; one above the other is no message that waits for a core."""
SOME = 8
HOPELESS_ROUNDS, HOPELESS_S = 5, 4.0
"""Rounds of a hopeless kernel end after so many, or after so long, but not before the second."""
GOAL = 0.01
"""Rounds go on until the interval's half width is this share of the speed-up, or the time is up."""
HEAD_TO_HEAD_LIMIT = 12
"""Times the limit of all rounds: for so long two kernels go on by themselves while nobody can tell which is faster."""

Pair = tuple[str, Taken, Taken]
"""An incumbent's digest, its rounds, and those of the candidate."""
Burst = Callable[[int], float]
"""One side's turn in a round, from a slot on: seconds a call."""


@dataclass(frozen=True)
class Incumbent:
    """An earlier kernel, by its digest, that has passed before."""

    digest: str
    kernel: Kernel

    def burst(self, bench: Bench, pace: Pace, first: int) -> float:
        """As a candidate's."""
        with _blamed_on(INCUMBENT):
            return kernel_burst(bench, self.kernel, pace, first)


class IncumbentFailedError(Exception):
    """The earlier kernel did not get through this time."""


@contextmanager
def _blamed_on(name: str) -> Iterator[None]:
    """Whatever an incumbent fails in is not the candidate's fault."""
    try:
        yield
    except CandidateFailedError as failure:
        if name == INCUMBENT:
            raise IncumbentFailedError(str(failure)) from failure
        raise


def time_by_turns(
    bench: Bench,
    pace: Pace,
    limit_s: float,
    outputs: TimedOutputs,
    late: Late | None = None,
    *,
    incumbent: Incumbent | None = None,
    compiled: CompiledReference | None = None,
) -> Timing:
    """Interleaved rounds until the intervals are narrow, or the time is up. Raises `IncumbentFailedError`.

    `outputs` are looked at after each of the candidate's bursts; `late` trials are made between them.
    """
    sides = _sides(bench, pace, outputs, incumbent, compiled)
    links = {CANDIDATE: bench.link} | ({INCUMBENT: incumbent.kernel.link} if incumbent else {})
    rounds = Rounds(bench, pace, sides, None if pace.hopeless else late, links, _blamed_on)
    touched_burst(bench, pace, 0, outputs)
    weather = play_until_narrow(rounds, limit_s * len(sides) / 2, MIN_ROUNDS, hopeless=pace.hopeless)
    samples = {name: [*taken] for name, taken in rounds.samples.items()}
    met = None
    if incumbent:
        untold = crowded(rounds) and not rounds.taken[CANDIDATE].told
        least = 0 if pace.hopeless else DUEL_ROUNDS
        least_s = CROWDED_S if untold else 0.0
        met = _fought_out(incumbent.digest, rounds, HEAD_TO_HEAD_LIMIT * limit_s, least=least, least_s=least_s)
    touched_burst(bench, pace, rounds.first, outputs, last=True)
    candidate, doubt_s = samples[CANDIDATE], doubt(bench, pace)
    timing = timing_of(samples[CANDIDATE], samples[EAGER], doubt_s, weather, rounds.others)
    found = {
        "converged": converged([*samples.values()]),
        "hopeless": _say_hopeless(timing.speedup, len(candidate)) if pace.hopeless else "",
        "head_to_head": met,
        "compiled": _compiled(samples[COMPILED], candidate, doubt_s) if COMPILED in samples else None,
        "compiled_failure": compiled.failure if compiled else "",
    }
    if pace.hopeless:  # which more calls have shown than its few rounds
        interval = timing.speedup_interval
        high = max(timing.speedup, min(interval.high, 1 / HOPELESS))
        found["speedup_interval"] = interval.model_copy(update={"high": high})
    return timing.model_copy(update=found)


def doubt(bench: Bench, pace: Pace) -> float:
    """Seconds that messages may have cost a call of the candidate's less than was taken off."""
    return (bench.message.usual_s - bench.message.least_s) / pace.calls


def timing_of(
    candidate: list[float], baseline: list[float], doubt_s: float, weather: list[Conditions], others: list[Reading]
) -> Timing:
    """Of a candidate's and eager's rounds, in seconds a call, and of what device and system said meanwhile."""
    speedup, interval = _over_torch(baseline, candidate, doubt_s)
    return Timing(
        candidate_ms=median(candidate) * 1e3,
        baseline_ms=median(baseline) * 1e3,
        speedup=speedup,
        speedup_interval=interval,
        rounds=len(candidate),
        threads=torch.get_num_threads(),
        converged=converged([candidate, baseline]),
        clocks=_clocks(weather),
        busy=how_busy(others, baseline, torch.get_num_threads()),
        samples=Samples(candidate_ms=_told(candidate), baseline_ms=_told(baseline)),
    )


def _told(seconds: list[float]) -> tuple[float, ...]:
    """A side's rounds in ms, to four digits."""
    return tuple(float(f"{each * 1e3:.4g}") for each in seconds)


def _sides(
    bench: Bench, pace: Pace, outputs: TimedOutputs, incumbent: Incumbent | None, compiled: CompiledReference | None
) -> dict[str, Burst]:
    sides: dict[str, Burst] = {
        CANDIDATE: lambda first: candidates_burst(bench, pace, first, outputs),
        EAGER: lambda first: torch_burst(bench, pace.of_eager, first, bench.arguments.replicas),
    }
    if compiled and compiled.replicas:
        sides[COMPILED] = lambda first: torch_burst(bench, pace.of_eager, first, compiled.replicas)
    if incumbent:
        incumbents = pace_beside(bench, incumbent.kernel.link, partial(incumbent.burst, bench), pace)
        sides[INCUMBENT] = lambda first: incumbent.burst(bench, incumbents, first)
    return sides


def _say_hopeless(speedup: float, rounds: int) -> str:
    return f"about {1 / speedup:.0f} times slower than eager PyTorch: timed in {rounds} rounds only"


class Late(Protocol):
    """What is tried between the rounds: see `LateTrials`."""

    def due(self) -> int:
        """How many bursts come next."""
        ...

    def burst(self, first: int) -> int:
        """One of them, from this slot on; how many slots it called."""
        ...


class Rounds:
    """The sides of a contest, by name, and what a call of each took, round by round."""

    def __init__(
        self,
        bench: Bench,
        pace: Pace,
        sides: dict[str, Burst],
        late: Late | None = None,
        links: Mapping[str, RunnerLink] | None = None,
        through: Callable[[str], AbstractContextManager[object]] = nullcontext,
    ) -> None:
        """`links` are those of the sides that are kernels; an order to a side beside its bursts goes `through`."""
        self.taken = {name: Taken() for name in sides}
        self.samples = {name: taken.wall_s for name, taken in self.taken.items()}
        self.bench = bench
        self.first = 0
        """The first slot of the last round's bursts."""
        self._next = 0  # the slot whose turn it is; bursts of late trials lie between, in the same rotation
        self._pace, self._sides, self._late, self._links, self._through = pace, sides, late, links or {}, through
        self.others: list[Reading] = []  # what the system said before the rounds and after each
        self._told_s = time.monotonic()
        self._orders: list[list[str]] = []
        self._placed = 0  # rounds of kernels on one thread each
        self._message_s: float | None = None  # what an order of nothing computes; None while teams have all threads

    def play(self, names: Sequence[str]) -> None:
        """One round of these sides on new values."""
        self._late_trials()
        if self._message_s is not None:
            self._take_place()
        self.first, self._next = self._next, self._next + self._pace.calls
        slots = rotation(self.bench.memory.slots, self._pace.calls, self.first)
        renumber(self.bench, slots, [link for link in self._links.values() if link is not self.bench.link])
        for slot in slots:
            self.bench.arguments.stir(slot, numbered=True)
        for name in self._order_of(names):
            wall_s, taken = self._sides[name](self.first), self.taken[name]
            spent = self._links[name].spent if name in self._links else None
            if self._message_s is None:
                taken.note(wall_s, spent)
            else:
                taken.note_alone(spent, self._message_s)
        self._late_trials()
        if time.monotonic() - self._told_s >= EVERY_S:
            self._told_s = time.monotonic()
            self._tell(names[0], incumbent=EAGER not in names)

    def _order_of(self, names: Sequence[str]) -> list[str]:
        """Who comes after whom: what one side leaves behind, in caches or in the scheduler's eyes, helps or harms the
        next. Every second order is drawn, the one after it is its reverse."""
        if not self._orders or set(self._orders[0]) != set(names):
            drawn = random.sample([*names], len(names))
            self._orders = [drawn[::-1], drawn]
        return self._orders.pop()

    @contextmanager
    def alone(self) -> Iterator[None]:
        """Rounds inside the block are those of kernels on one thread each, and what they compute is what counts.

        No thread spins for another there: on a busy machine that can be most of what is computed. All are on the
        same processor: the system leaves a process where it was, and what else runs on that core, or on its other half,
        would make one side slower throughout. After some rounds it is the next one.
        """
        self._have_threads(1)
        self._placed = 0
        self._message_s = min(link.message_s for link in self._links.values())  # one could make its own longer
        yield
        self._message_s = None
        self._have_threads(0)

    def _take_place(self) -> None:
        """Of kernels on one thread each, once in a while: the next processor."""
        if self._placed % ROUNDS_A_PLACE == 0:
            every = sorted(os.sched_getaffinity(0))
            for name, link in self._links.items():
                with self._through(name):
                    link.run_alone_on(every[self._placed // ROUNDS_A_PLACE % len(every)])
        self._placed += 1

    def _have_threads(self, count: int) -> None:
        for name, link in self._links.items():
            with self._through(name):
                link.have_threads(count)

    def _late_trials(self) -> None:
        if late := self._late:
            for _ in range(late.due()):
                self._next += late.burst(self._next)

    def _tell(self, candidate: str, *, incumbent: bool) -> None:
        """How far the rounds are, without the doubt that the verdict's interval includes."""
        ratio, against = (faster_half_ratio, INCUMBENT) if incumbent else (median_ratio, EAGER)
        if against in self.samples:
            speedup, interval = ratio(self.samples[against], self.samples[candidate])
            played, busy = len(self.samples[candidate]), EAGER in self.samples and crowded(self)
            told = partial(events.Timing, incumbent=incumbent, at=self.bench.reference.variant.at, busy=busy)
            tell(told(rounds=played, speedup=speedup, interval=interval))


def play_until_narrow(rounds: Rounds, limit_s: float, least: int, *, hopeless: bool) -> list[Conditions]:
    """Rounds of all sides, so many at least, until their intervals are narrow, or the time is up; and what the device
    said."""
    weather: list[Conditions] = []
    rounds.others += filter(None, [observe(rounds.bench.device)])
    began, samples = time.monotonic(), [*rounds.samples.values()]
    while len(samples[0]) < MAX_ROUNDS:
        rounds.play([*rounds.samples])
        weather += filter(None, [rounds.bench.device.conditions()])
        rounds.others += filter(None, [observe(rounds.bench.device)])
        played, spent_s = len(samples[0]), time.monotonic() - began
        if hopeless:
            enough = played >= HOPELESS_ROUNDS or (played > 1 and spent_s > HOPELESS_S)
        else:
            settled = converged(samples) and (spent_s > CROWDED_S or not crowded(rounds))
            enough = played >= least and (settled or spent_s > limit_s)
        if enough:
            break
    return weather


def crowded(rounds: Rounds) -> bool:
    """Whether others wanted the processors that the rounds' threads ran on."""
    busy = how_busy(rounds.others, rounds.samples[EAGER], torch.get_num_threads())
    return busy is not None and busy.crowded


def converged(samples: list[list[float]]) -> bool:
    """Whether the intervals of all other sides over the first are narrow."""
    candidate = samples[0]
    for other in samples[1:]:
        speedup, interval = median_ratio(other, candidate)
        if interval.high - interval.low > 2 * GOAL * speedup:
            return False
    return True


def _clocks(weather: list[Conditions]) -> Clocks | None:
    if not weather:
        return None
    fields = [reading.model_dump().items() for reading in weather]
    columns = [(entries[0][0], [value for _, value in entries]) for entries in zip(*fields, strict=True)]
    return Clocks(
        lowest=Conditions(**{name: min(values) for name, values in columns}),
        highest=Conditions(**{name: max(values) for name, values in columns}),
    )


def _fought_out(
    incumbent: str, rounds: Rounds, limit_s: float, *, least: int = DUEL_ROUNDS, least_s: float = 0.0
) -> HeadToHead:
    """The head-to-head after as many rounds as it takes to decide it, or the time allows; further ones are the two
    kernels'. There are so many at the `least`, whatever they take, and others for `least_s`.

    It is looked at each time there are twice as many: whoever looked at every round would sooner or later see a gain
    where there is none. Rounds on one thread come last, or at once where others keep threads waiting.
    """
    began, played = time.monotonic(), rounds.samples[CANDIDATE]
    theirs, ours = rounds.taken[INCUMBENT], rounds.taken[CANDIDATE]
    deadline = began + max(limit_s, least_s)

    def alone() -> HeadToHead:
        return fought_alone(rounds, [CANDIDATE, INCUMBENT], {INCUMBENT: (incumbent, theirs, ours)}, limit_s)[INCUMBENT]

    def play_to(goal: int) -> HeadToHead:
        while len(played) < least or (len(played) < goal and time.monotonic() < deadline):
            rounds.play([CANDIDATE, INCUMBENT])
        return head_to_head(incumbent, theirs, ours)

    if least and (theirs.hindered or ours.hindered) and (met := alone()).outcome != "undecided":
        return met
    while len(played) < MAX_ROUNDS and time.monotonic() < began + least_s:
        rounds.play([CANDIDATE, INCUMBENT])
    met = play_to(DUEL_ROUNDS)
    while met.outcome == "undecided" and len(played) < MAX_ROUNDS and time.monotonic() < deadline:
        if theirs.hindered or ours.hindered:
            break
        met = play_to(min(2 * len(played), MAX_ROUNDS))
    return alone() if least and not ours.alone_s else met


def fought_alone(
    rounds: Rounds, names: Sequence[str], pairs: Mapping[str, Pair], limit_s: float
) -> dict[str, HeadToHead]:
    """The head-to-heads of these pairs after rounds of kernels on one thread, where some can be decided by those.

    They are looked at as `_fought_out` does; `ALONE_ROUNDS` says when they end.
    """
    deadline, played, goal = time.monotonic() + ALONE_LIMIT * limit_s, 0, DUEL_ROUNDS

    def met() -> dict[str, HeadToHead]:
        return {name: head_to_head(*pair) for name, pair in pairs.items()}

    def is_open(found: Mapping[str, HeadToHead]) -> bool:
        return any(found[name].outcome == "undecided" and not incomparable(*pair[1:]) for name, pair in pairs.items())

    if not is_open(found := met()):
        return found
    with rounds.alone():
        while is_open(found) and played < MAX_ROUNDS and (played < ALONE_ROUNDS or time.monotonic() < deadline):
            while played < goal and (played < ALONE_ROUNDS or time.monotonic() < deadline):
                rounds.play(names)
                played += 1
            found, goal = met(), min(2 * goal, MAX_ROUNDS)
    return found


def _over_torch(baseline: list[float], candidate: list[float], doubt_s: float) -> tuple[float, Interval]:
    """The speed-up over a side that is sent no messages. Where the candidate's may have cost `doubt_s` a call less than
    was taken off, as on a host that is busy while they are measured, the interval reaches down to that."""
    speedup, interval = median_ratio(baseline, candidate)
    spent = median(candidate)
    return speedup, interval.model_copy(update={"low": interval.low * spent / (spent + doubt_s)})


def _compiled(baseline: list[float], candidate: list[float], doubt_s: float) -> Compiled:
    speedup, interval = _over_torch(baseline, candidate, doubt_s)
    return Compiled(ms=median(baseline) * 1e3, speedup=speedup, interval=interval)


def set_pace(bench: Bench, timeout_s: float) -> Pace:
    """Warm both sides up and see how many calls a burst needs; few calls where the candidate is hopelessly slow."""
    kernel = Kernel(bench.link, bench.memory)
    some = list(range(min(bench.memory.slots, FEW)))

    def candidate(slots: list[int]) -> float:
        wall_s = kernel_seconds(kernel, slots, timeout_s)
        spent = kernel.link.spent  # on a busy machine most of a call can be waiting for a processor
        return (min(wall_s, spent.cpu_s) if spent else wall_s) - bench.message.usual_s

    def eager(slots: list[int]) -> float:
        return torch_seconds(bench, slots, bench.arguments.replicas)

    eager(some)
    until = time.monotonic() + bench.device.warm_s
    while time.monotonic() < until:
        eager(some)
    calls = _calls_in_a_burst(bench, eager)
    if _hopeless(candidate, lambda: eager(some) / len(some), len(some)):
        return Pace(_calls_in_a_burst(bench, candidate), timeout_s, eager_calls=calls)
    candidate(some)
    return Pace(calls=max(_calls_in_a_burst(bench, candidate), calls), timeout_s=timeout_s)


def _hopeless(seconds: Callable[[list[int]], float], usual: Callable[[], float], slots: int) -> bool:
    """Whether a call takes far longer than a `usual` one takes, and long enough to hold the device up.

    A single call of a small kernel can look long where the message waits for a core: a burst tells then. On a busy
    machine the usual one can look short by luck: before anything is called hopeless the longest of some more counts.
    """
    limit_s = max(HOPELESS * usual(), LITTLE_S)
    single_s = min(seconds([0]) for _ in range(3))
    if limit_s < single_s < SURELY_S:
        single_s = _in_bursts(seconds, [*range(min(slots, SOME))], limit_s)
    return single_s > limit_s and single_s > HOPELESS * max(usual() for _ in range(SOME))


def _in_bursts(seconds: Callable[[list[int]], float], slots: list[int], limit_s: float) -> float:
    """Seconds a call in the shortest of two bursts; of up to `SOME` while a busy machine may make them long."""
    shortest_s = math.inf
    for tried in range(SOME):
        if tried > 1 and not limit_s < shortest_s < FAR * limit_s:
            break
        shortest_s = min(shortest_s, seconds(slots) / len(slots))
    return shortest_s


def pace_beside(bench: Bench, link: RunnerLink, burst: Callable[[Pace, int], float], pace: Pace) -> Pace:
    """Another kernel's, by its bursts: the candidate's own, or a call a burst where it would hold everybody up.

    Where the system tells, by what it computes: a side that waits for a processor is not slow, and would look slower
    still by bursts of one call.
    """
    if pace.calls == 1:
        return pace
    one = Pace(1, pace.timeout_s)

    def least_s(link: RunnerLink, burst: Callable[[Pace, int], float]) -> float:
        walls = [(burst(one, first), link.spent) for first in range(2)]
        return min(spent.cpu_s if spent else wall_s for wall_s, spent in walls)

    ours = least_s(bench.link, partial(kernel_burst, bench, Kernel(bench.link, bench.memory)))
    return one if least_s(link, burst) > max(FAR * ours, LITTLE_S) else pace


def _calls_in_a_burst(bench: Bench, seconds: Callable[[list[int]], float]) -> int:
    """How many calls last a burst, as far as there are slots.

    No slot twice: its second call would find the result in its output. On a busy machine a single call can look long:
    what it suggests is tried out.
    """
    goal, most = bench.device.burst_s, bench.memory.slots
    calls = min(math.ceil(goal / max(seconds([0]), goal / FEW)), most)
    while calls < most and (spent := seconds(list(range(calls)))) < goal / 2:
        calls = min(math.ceil(calls * min(goal / max(spent, 1e-6), 8)), most)
    return calls
