"""Who is faster: candidate, eager reference and an earlier kernel by turns, on the judge's own clock."""

from __future__ import annotations

import math
import random
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from statistics import median

import torch

from harness.statistics import faster_half_ratio, median_ratio
from harness.verdict import Clocks, Compiled, Conditions, Duel, Interval, Timing
from harness.worker.compiled import CompiledReference, Model
from harness.worker.link import CandidateFailedError, RunnerLink
from harness.worker.memory import SharedMemory
from harness.worker.timed_outputs import TimedOutputs
from harness.worker.trials import Bench, MessageCost, digest, require_same_inputs

FEW = 32
"""Calls that give a first idea of one call's time, and warm a side up."""
LEAST_SHARE = 0.1
"""At least so much of a burst was the kernel's. On a busy machine an empty one can have looked longer than a tiny
kernel's; who answers early gains nothing, since the outputs are looked at when the answer comes."""
CANDIDATE, EAGER, COMPILED, RIVAL = "candidate", "eager", "compiled", "rival"
MESSAGES = {"cpu": 8, "cuda": 16}
MIN_ROUNDS, MAX_ROUNDS = 8, 120
HOPELESS = 20.0
"""Times as slow as eager: such a kernel gets no more than it takes to say so, unless a duel asks for more."""
FAR = 4.0
"""Times as slow as the candidate: a rival's burst has one call then, where that lasts long enough."""
LITTLE_S, SURELY_S = 0.005, 0.5
"""A call below the one holds nobody up, however slow it is; one above the other is no message that waits for a core."""
SOME = 8
HOPELESS_ROUNDS, HOPELESS_S = 5, 4.0
"""Rounds of a hopeless kernel end after so many, or after so long, but not before the second."""
GOAL = 0.01
"""Rounds go on until the interval's half width is this share of the speed-up, or the time is up."""
DUEL_LIMIT = 12
"""Times the limit of all rounds: for so long two kernels go on by themselves while nobody can tell which is faster."""


@dataclass(frozen=True)
class Kernel:
    """A runner and the memory that it works on."""

    link: RunnerLink
    memory: SharedMemory


@dataclass(frozen=True)
class Pace:
    """Calls in one burst of either side, and how long one call may take (seconds).

    A candidate that is hopelessly slow has bursts of `calls`, and eager of `eager_calls`; else both have the same.
    """

    calls: int
    timeout_s: float
    eager_calls: int | None = None

    @property
    def hopeless(self) -> bool:
        """Whether the candidate is too slow to be timed like a contender."""
        return self.eager_calls is not None

    @property
    def of_eager(self) -> Pace:
        """Eager's."""
        return self if self.eager_calls is None else Pace(self.eager_calls, self.timeout_s)


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


def time_by_turns(
    bench: Bench,
    pace: Pace,
    limit_s: float,
    outputs: TimedOutputs,
    *,
    rival: Rival | None = None,
    compiled: CompiledReference | None = None,
) -> Timing:
    """Interleaved rounds until the intervals are narrow, or the time is up. Raises `RivalFailedError`.

    `outputs` are looked at after each of the candidate's bursts.
    """
    sides: dict[str, Burst] = {
        CANDIDATE: lambda turn: _candidates_burst(bench, pace, turn, outputs),
        EAGER: lambda turn: _torch_burst(bench, pace.of_eager, turn, bench.replicas),
    }
    if compiled and compiled.replicas:
        sides[COMPILED] = lambda turn: _torch_burst(bench, pace.of_eager, turn, compiled.replicas)
    if rival:
        rivals = _rivals_pace(bench, rival, pace)
        sides[RIVAL] = lambda turn: rival.burst(bench, rivals, turn)
    rounds = Rounds(bench, pace, sides)
    _touched_burst(bench, pace, 0, outputs)
    weather = _play_until_narrow(rounds, limit_s * len(sides) / 2, hopeless=pace.hopeless)
    samples = {name: [*taken] for name, taken in rounds.samples.items()}
    duel = _fought_out(rival.digest, rounds, DUEL_LIMIT * limit_s) if rival else None
    _touched_burst(bench, pace, len(rounds.samples[CANDIDATE]) - 1, outputs)
    candidate, baseline = samples[CANDIDATE], samples[EAGER]
    doubt_s = (bench.message.usual_s - bench.message.least_s) / pace.calls
    speedup, interval = _over_torch(baseline, candidate, doubt_s)
    return Timing(
        candidate_ms=median(candidate) * 1e3,
        baseline_ms=median(baseline) * 1e3,
        speedup=speedup,
        speedup_interval=interval,
        rounds=len(candidate),
        threads=torch.get_num_threads(),
        converged=_converged([*samples.values()]),
        hopeless=_say_hopeless(speedup, len(candidate)) if pace.hopeless else "",
        duel=duel,
        compiled=_compiled(samples[COMPILED], candidate, doubt_s) if COMPILED in samples else None,
        compiled_failure=compiled.failure if compiled else "",
        clocks=_clocks(weather),
    )


def _say_hopeless(speedup: float, rounds: int) -> str:
    return f"about {1 / speedup:.0f} times slower than eager PyTorch: timed in {rounds} rounds only"


class Rounds:
    """The sides of a contest, by name, and what a call of each took, round by round."""

    def __init__(self, bench: Bench, pace: Pace, sides: dict[str, Burst]) -> None:
        self.samples: dict[str, list[float]] = {name: [] for name in sides}
        self.bench = bench
        self._pace, self._sides = pace, sides

    def play(self, names: Sequence[str]) -> None:
        """One round of these sides, the candidate among them, on new values."""
        turn = len(self.samples[CANDIDATE])
        for slot in _rotation(self.bench.memory.slots, self._pace.calls, turn):
            self.bench.stir(slot)
        for place in _order(len(names), turn):
            self.samples[names[place]].append(self._sides[names[place]](turn))


def _play_until_narrow(rounds: Rounds, limit_s: float, *, hopeless: bool) -> list[Conditions]:
    """Rounds of all sides until their intervals are narrow, or the time is up; what the device said meanwhile."""
    weather: list[Conditions] = []
    began, samples = time.monotonic(), [*rounds.samples.values()]
    while len(samples[0]) < MAX_ROUNDS:
        rounds.play([*rounds.samples])
        weather += filter(None, [rounds.bench.device.conditions()])
        played, spent_s = len(samples[0]), time.monotonic() - began
        if hopeless:
            enough = played >= HOPELESS_ROUNDS or (played > 1 and spent_s > HOPELESS_S)
        else:
            enough = played >= MIN_ROUNDS and (_converged(samples) or spent_s > limit_s)
        if enough:
            break
    return weather


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


def _clocks(weather: list[Conditions]) -> Clocks | None:
    if not weather:
        return None
    fields = [reading.model_dump().items() for reading in weather]
    columns = [(entries[0][0], [value for _, value in entries]) for entries in zip(*fields, strict=True)]
    return Clocks(
        lowest=Conditions(**{name: min(values) for name, values in columns}),
        highest=Conditions(**{name: max(values) for name, values in columns}),
    )


def _fought_out(rival: str, rounds: Rounds, limit_s: float) -> Duel:
    """The duel after as many rounds as it takes to decide it, or the time allows; further ones are the two kernels'.

    It is looked at each time there are twice as many: whoever looked at every round would sooner or later see a gain
    where there is none.
    """
    deadline, played = time.monotonic() + limit_s, rounds.samples[CANDIDATE]
    duel = _duel(rival, rounds)
    while duel.outcome == "undecided" and len(played) < MAX_ROUNDS and time.monotonic() < deadline:
        goal = min(2 * len(played), MAX_ROUNDS)
        while len(played) < goal and time.monotonic() < deadline:
            rounds.play([CANDIDATE, RIVAL])
        duel = _duel(rival, rounds)
    return duel


def _duel(rival: str, rounds: Rounds) -> Duel:
    theirs, ours = rounds.samples[RIVAL], rounds.samples[CANDIDATE]
    speedup, interval = faster_half_ratio(theirs, ours)
    return Duel(rival=rival, rival_ms=median(theirs) * 1e3, speedup=speedup, interval=interval, rounds=len(ours))


def _over_torch(baseline: list[float], candidate: list[float], doubt_s: float) -> tuple[float, Interval]:
    """The speed-up over a side that is sent no messages. Where the candidate's may have cost `doubt_s` a call less than
    was taken off, as on a host that is busy while they are measured, the interval reaches down to that."""
    speedup, interval = median_ratio(baseline, candidate)
    spent = median(candidate)
    return speedup, interval.model_copy(update={"low": interval.low * spent / (spent + doubt_s)})


def _compiled(baseline: list[float], candidate: list[float], doubt_s: float) -> Compiled:
    speedup, interval = _over_torch(baseline, candidate, doubt_s)
    return Compiled(ms=median(baseline) * 1e3, speedup=speedup, interval=interval)


def message_cost(link: RunnerLink, memory: SharedMemory) -> MessageCost:
    """What an order costs beside the work that it asks for: the message, switching contexts, reading the sample.

    Measured as bursts are, after outputs were filled and caches emptied, with a runner that was stopped; and before it
    loads its library, so that no candidate has a say in it. Where filling leaves nothing for the device to do, once is
    enough: the pages must be there. On a GPU the runner does a known piece of work, and what the device itself counts
    for it is taken off: who has waited for milliseconds goes on more slowly. Of the costs the device's kind says which
    one bursts pay: too low a one makes kernels look slow, too high a one fast.
    """
    slots, device = range(min(memory.slots, FEW)), memory.device
    costs = []
    for turn in range(MESSAGES[device.kind]):
        for slot in slots if device.queues or turn == 0 else ():
            memory.poison(slot)
        device.empty_caches()
        watch = _clocked(Kernel(link, memory), slots, lambda: link.work(0), partial(link.work, device.known_work))
        costs.append(watch.seconds - _counted(link))
    return MessageCost(usual_s=sorted(costs)[int(device.usual_cost * len(costs))], least_s=min(costs))


def _counted(link: RunnerLink) -> float:
    with link.running():
        return link.counted()


class Watch:
    """A clock that stops when an answer has come and a sample of the outputs has been read."""

    def __init__(self, memory: SharedMemory, slots: Sequence[int]) -> None:
        self._memory = memory
        self.sample = memory.sample(slots)
        self.before = memory.read(self.sample)
        """What the sample held while the runner was stopped."""

    def start(self) -> None:
        """The order comes next. What the sample holds is read again: see `require_patience`."""
        self._ordered = self._memory.read(self.sample)
        self._memory.device.finish()
        self._began = time.perf_counter()

    def stop(self) -> None:
        """Nothing is read any more after the sample."""
        self.answered = self._memory.read(self.sample)
        self.seconds = time.perf_counter() - self._began

    def require_punctuality(self) -> None:
        """Raise `CandidateFailedError` where somebody worked before the order, or after the answer.

        To be asked when the runner has been stopped again. An answer before the work is done gains nothing.
        """
        if not torch.equal(self.before, self._ordered):
            raise CandidateFailedError("refused", "clock", "Outputs were written before the call that writes them.")
        if count := int((self.answered != self._memory.read(self.sample)).any(1).sum()):
            raise CandidateFailedError(
                "refused", "clock", f"{count} elements were still written when the call was said to be done."
            )


def _clocked(
    kernel: Kernel, slots: Sequence[int], ping: Callable[[], object], order: Callable[[Callable[[], None]], object]
) -> Watch:
    """The watch over an order, which calls its argument when it is answered; `ping` is an order of nothing."""
    watch, device = Watch(kernel.memory, slots), kernel.memory.device
    time.sleep(device.settle_s)  # while the runner is stopped: time that no clock counts is time to work ahead
    with kernel.link.running():
        for _ in range(device.pings):
            ping()
        watch.start()
        order(watch.stop)
    watch.require_punctuality()
    return watch


def set_pace(bench: Bench, timeout_s: float) -> Pace:
    """Warm both sides up and see how many calls a burst needs; few calls where the candidate is hopelessly slow."""
    kernel = Kernel(bench.link, bench.memory)
    some = list(range(min(bench.memory.slots, FEW)))

    def candidate(slots: list[int]) -> float:
        return _kernel_seconds(kernel, slots, timeout_s) - bench.message.usual_s

    def eager(slots: list[int]) -> float:
        return _torch_seconds(bench, slots, bench.replicas)

    eager(some)
    until = time.monotonic() + bench.device.warm_s
    while time.monotonic() < until:
        eager(some)
    calls = _calls_in_a_burst(bench, eager)
    if _hopeless(candidate, eager(some) / len(some), len(some)):
        return Pace(_calls_in_a_burst(bench, candidate), timeout_s, eager_calls=calls)
    candidate(some)
    return Pace(calls=max(_calls_in_a_burst(bench, candidate), calls), timeout_s=timeout_s)


def _hopeless(seconds: Callable[[list[int]], float], usual_s: float, slots: int) -> bool:
    """Whether a call takes far longer than one that takes `usual_s`, and long enough to hold the device up.

    A single call of a small kernel can look long where the message waits for a core: a burst tells then.
    """
    limit_s = max(HOPELESS * usual_s, LITTLE_S)
    single_s = min(seconds([0]) for _ in range(3))
    if limit_s < single_s < SURELY_S:
        some = range(min(slots, SOME))
        single_s = min(seconds([*some]) for _ in range(2)) / len(some)
    return single_s > limit_s


def _rivals_pace(bench: Bench, rival: Rival, pace: Pace) -> Pace:
    """The candidate's own, or a call a burst where the rival is so slow that it would hold everybody up."""
    if pace.calls == 1:
        return pace
    one = Pace(1, pace.timeout_s)
    ours = min(_kernel_burst(bench, Kernel(bench.link, bench.memory), one, turn) for turn in range(2))
    theirs = min(rival.burst(bench, one, turn) for turn in range(2))
    return one if theirs > max(FAR * ours, LITTLE_S) else pace


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


def _rotation(slots: int, calls: int, turn: int) -> list[int]:
    """Slots in turn; each round starts where the last one stopped, so that nothing repeats."""
    return [(turn * calls + i) % slots for i in range(calls)]


def _candidates_burst(bench: Bench, pace: Pace, turn: int, outputs: TimedOutputs) -> float:
    """The candidate's turn, over inputs that it has not seen: what it kept from an earlier round is of no use."""
    slots = _rotation(bench.memory.slots, pace.calls, turn)
    watched = random.choice(slots)
    before = digest(bench, watched)
    spent = _kernel_burst(bench, Kernel(bench.link, bench.memory), pace, turn)
    require_same_inputs(bench, watched, before)
    outputs.after_burst(slots)
    return spent


def _touched_burst(bench: Bench, pace: Pace, turn: int, outputs: TimedOutputs) -> None:
    """A burst that counts for no time, before the first and after the last: inputs of calls before, slightly changed.

    Who takes what looks the same for the same is wrong here. In counted bursts such inputs would be a gift:
    a result of the ones before can be mended in the few places that they touch. Before the first burst `set_pace` has
    called `FEW` of the slots.
    """
    slots = _rotation(bench.memory.slots, pace.calls, turn)
    for slot in slots:
        bench.touch(slot)
    _kernel_burst(bench, Kernel(bench.link, bench.memory), pace, turn)
    outputs.after_burst(slots[:FEW], FEW)


def _kernel_burst(bench: Bench, kernel: Kernel, pace: Pace, turn: int) -> float:
    slots = _rotation(kernel.memory.slots, pace.calls, turn)
    for slot in slots:
        kernel.memory.poison(slot)
    bench.device.empty_caches()
    spent = _kernel_seconds(kernel, slots, pace.timeout_s)
    return max(spent - bench.message.usual_s, LEAST_SHARE * spent) / len(slots)


def _kernel_seconds(kernel: Kernel, slots: list[int], timeout_s: float) -> float:
    """One order's time; `timeout_s` is for each call."""
    link = kernel.link
    order = partial(link.call, slots, timeout_s * len(slots))
    return _clocked(kernel, slots, lambda: link.call([], timeout_s), order).seconds


def _torch_burst(bench: Bench, pace: Pace, turn: int, models: Sequence[Model]) -> float:
    slots = _rotation(bench.memory.slots, pace.calls, turn)
    if bench.device.pings:  # nothing is awake here either after another's turn
        _torch_seconds(bench, slots[-1:], models)
    bench.device.empty_caches()
    time.sleep(bench.device.settle_s)
    return _torch_seconds(bench, slots, models) / len(slots)


def _torch_seconds(bench: Bench, slots: list[int], models: Sequence[Model]) -> float:
    calls = [(slot, models[slot], *bench.reference.arranged(bench.inputs(slot))) for slot in slots]
    bench.device.finish()

    def call() -> float:
        before = time.perf_counter()
        for slot, model, given, named in calls:
            result = model(*given, **named)
            if bench.device.keeps_results:
                bench.results[slot] = result
        bench.device.finish()
        return time.perf_counter() - before

    with torch.no_grad():
        return float(bench.reference.guarded("forward", call))
