"""The judge's clock on one burst: calls of a kernel or of a model, ordered and watched from this process."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial

import torch

from harness.checks.stirring import PLANTED_BESIDE
from harness.nouns.caller import USUAL, Caller
from harness.trusted.bench import Bench, MessageCost
from harness.trusted.link import CandidateFailedError, RunnerLink
from harness.trusted.memory import FILLINGS, SharedMemory
from harness.trusted.timing.compiled import Model
from harness.trusted.timing.timed_outputs import TimedOutputs
from harness.trusted.trials import digest, require_same_inputs

FEW = 32
"""Calls that give a first idea of one call's time, and warm a side up."""
LOOKED_AT = 4
"""Slots of a counted burst whose outputs are looked at, where that is little beside the burst itself; else fewer: who
leaves one call in sixteen out gets past one look in each of eight rounds more often than not."""
TOUCHED = 8
"""Calls of a burst that counts for no time, at least: on a busy machine a counted one can have two, and every second
call shows by chance alone who takes what looks the same for the same."""
LEAST_SHARE = 0.1
"""At least so much of a burst was the kernel's. On a busy machine an empty one can have looked longer than a tiny
kernel's; who answers early gains nothing, since the outputs are looked at when the answer comes."""


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


def message_cost(link: RunnerLink, memory: SharedMemory) -> MessageCost:
    """What an order costs beside the work that it asks for: the message, switching contexts, reading the sample.

    Measured as bursts are, after outputs were filled and caches emptied, with a runner that was stopped; one that loads
    no library, so that no candidate has a say in it. Where filling leaves nothing for the device to do, once is
    enough: the pages must be there. On a GPU the runner does a known piece of work, and what the device itself counts
    for it is taken off: who has waited for milliseconds goes on more slowly. Of the costs the device's kind says which
    one bursts pay: too low a one makes kernels look slow, too high a one fast.
    """
    slots, device = range(min(memory.slots, FEW)), memory.device
    costs = []
    for turn in range(device.messages):
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
        """The order comes next. What the sample holds is read again: see `require_punctuality`."""
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
    with kernel.link.running() if device.pings else kernel.link.woken():
        for _ in range(device.pings):
            ping()
        watch.start()
        order(watch.stop)
    watch.require_punctuality()
    return watch


def rotation(slots: int, calls: int, first: int) -> list[int]:
    """Slots in turn from one of them on; each burst starts where the last one stopped, so that nothing repeats."""
    return [(first + i) % slots for i in range(calls)]


def renumber(bench: Bench, slots: Sequence[int], others: Sequence[RunnerLink] = ()) -> None:
    """Choose the numbers of coming calls, and tell the runners while the values of earlier ones lie in these slots.

    No clock runs then: who is told beside the new values could work on them ahead.
    """
    if bench.arguments.manner == "given" or not any(bench.arguments.numbers):
        return
    for slot in slots:
        bench.arguments.numbers[slot] = bench.arguments.scalars.for_timed(slot)
    for link in (bench.link, *others):
        with link.running():
            pass


def candidates_burst(bench: Bench, pace: Pace, first: int, outputs: TimedOutputs) -> float:
    """The candidate's turn, over inputs that it has not seen: what it kept from an earlier round is of no use."""
    slots = rotation(bench.memory.slots, pace.calls, first)
    watched = random.choice(slots)
    before = digest(bench, watched)
    spent = kernel_burst(bench, Kernel(bench.link, bench.memory), pace, first)
    require_same_inputs(bench, watched, before)
    outputs.after_burst(slots, min(LOOKED_AT, 1 + len(slots) // LOOKED_AT**2))
    return spent


def touched_burst(bench: Bench, pace: Pace, first: int, outputs: TimedOutputs, *, last: bool = False) -> None:
    """A burst that counts for no time, before the first and after the last: inputs of calls before, slightly changed.

    Who takes what looks the same for the same is wrong here. In counted bursts such inputs would be a gift:
    a result of the ones before can be mended in the few places that they touch. Before the first burst `set_pace` has
    called `FEW` of the slots.

    In every second call some of the arguments stay wholly what they were: a result may be kept by those. In every
    other one of the last burst, where the reference takes it, inputs are the file's own but for a few elements.
    """
    if not pace.hopeless:
        pace = replace(pace, calls=max(pace.calls, min(TOUCHED, bench.memory.slots)))
    slots = rotation(bench.memory.slots, pace.calls, first)
    for position, slot in enumerate(slots):
        if position % 2 == int(last):
            bench.arguments.touch(slot, bench.arguments.touchable())
        else:
            bench.arguments.touch(slot, some_of(bench.arguments.touchable()))
        if last and position % 2 == 1 and bench.arguments.manner in PLANTED_BESIDE:
            bench.arguments.plant(slot)
    kernel_burst(bench, Kernel(bench.link, bench.memory), pace, first)
    outputs.after_changes(slots[:FEW])


def some_of(names: list[str]) -> list[str]:
    """Not all of them, but one at least, by chance."""
    return random.sample(names, random.randint(1, len(names) - 1)) if len(names) > 1 else names


def kernel_burst(bench: Bench, kernel: Kernel, pace: Pace, first: int) -> float:
    slots = rotation(kernel.memory.slots, pace.calls, first)
    for slot in slots:
        kernel.memory.poison(slot, random.choice(FILLINGS))
    bench.device.empty_caches()
    spent = kernel_seconds(kernel, slots, pace.timeout_s)
    return max(spent - bench.message.usual_s, LEAST_SHARE * spent) / len(slots)


def kernel_seconds(kernel: Kernel, slots: list[int], timeout_s: float, caller: Caller = USUAL) -> float:
    """One order's time; `timeout_s` is for each call."""
    link = kernel.link
    order = partial(link.call, slots, timeout_s * len(slots), caller=caller)
    return _clocked(kernel, slots, lambda: link.call([], timeout_s), order).seconds


def torch_burst(bench: Bench, pace: Pace, first: int, models: Sequence[Model]) -> float:
    slots = rotation(bench.memory.slots, pace.calls, first)
    if bench.device.pings:  # nothing is awake here either after another's turn
        torch_seconds(bench, slots[-1:], models)
    with bench.device.team_in_place():
        bench.device.empty_caches()
        time.sleep(bench.device.settle_s)
        return torch_seconds(bench, slots, models) / len(slots)


def torch_seconds(bench: Bench, slots: list[int], models: Sequence[Model]) -> float:
    reference, replicas = bench.reference, bench.arguments.replicas
    calls = [(slot, reference.prepared(models[slot], replicas[slot], bench.arguments.inputs(slot))) for slot in slots]
    bench.device.finish()

    def call() -> float:
        before = time.perf_counter()
        for slot, prepared in calls:
            result = prepared()
            if bench.device.keeps_results:
                bench.results[slot] = result
        bench.device.finish()
        return time.perf_counter() - before

    with torch.no_grad():
        return float(bench.reference.guarded("forward", call))
