"""Calls on what the call before had, but for a few elements: a result that was kept is wrong there.

Who compares all of its arguments may keep a result; who looks at a sample of them, or at some arguments alone, may not.
The clock does not tell: timed calls share nothing. So the last trial's inputs are changed in few places, at the same
addresses and at others, one change after the other, and each result is looked at as a whole.
"""

from __future__ import annotations

import random
import time
from itertools import product

import torch

from harness.nouns.devices import on_gpu
from harness.nouns.errors import UserError
from harness.trusted.bench import Bench
from harness.trusted.timing.timed_outputs import TimedOutputs
from harness.trusted.trials import digest, require_same_inputs

SAID = "Called on inputs as timed ones are, few of which differ from those of the call before"
PARTS, TIMES = 4, 2
"""Arguments are changed all at once, then in so many parts, each so often: some changes lie where a sample looks."""
TRIES = 4
"""A change that the reference's outputs do not show, as when no row's largest element is another, is made again."""
WHOLE = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}
"""An integer type of so many bytes."""
LIMIT_S, CALLS = 1.0, 18
"""About so long parts take, each as long as so many of the reference's calls: of a large task there are fewer. No clock
ends them, for a busy machine would let pass what another refuses."""


def require_new_results(bench: Bench, outputs: TimedOutputs, slot: int, timeout_s: float) -> None:
    """Raise `CandidateFailedError` where the candidate keeps what it may not.

    A slot holds the inputs of the last call, as timed ones are. Of each part single elements change, twice, then a
    stretch, at the same place and at another one.
    """
    given = bench.arguments
    names = given.touchable()
    random.shuffle(names)
    size = -(-len(names) // PARTS)
    parts = [names[first : first + size] for first in range(0, len(names), size or 1)]
    few = (parts * TIMES)[: int(LIMIT_S / (CALLS * _usual_s(bench, slot)))]
    mark = _mark(bench, slot)
    for part in [names, *few] if names else []:
        for change, moves in product((given.touch, given.touch, given.replace_stretch), (False, True)):
            if moves and bench.memory.slots > 1:
                other = (slot + 1) % bench.memory.slots
                given.copy(slot, other)
                slot = other
            for _ in range(TRIES):
                change(slot, part)
                if (now := _mark(bench, slot)) != mark:
                    break
            mark = now
            if not _as_it_should(bench, outputs, slot, timeout_s):
                return


def _usual_s(bench: Bench, slot: int) -> float:
    """The reference's time in seconds, the least of three, for a first call takes many times that.

    On a processor only what this thread computes counts: on a busy machine it waits longer than that.
    """
    clock = time.perf_counter if on_gpu(bench.device.place.type) else time.thread_time
    spent = []
    for _ in range(3):
        began = clock()
        bench.arguments.results(slot)
        bench.device.finish()
        spent.append(clock() - began)
    return min(spent)


def _mark(bench: Bench, slot: int) -> list[int]:
    """Sums over the bits of the reference's outputs on a slot; none where it does not take what lies there."""
    try:
        results = bench.arguments.results(slot)
    except UserError:
        return []
    whole = (each.contiguous().view(WHOLE[each.element_size()]) for each in results)
    return [int(each.sum(dtype=torch.int64)) for each in whole]


def _as_it_should(bench: Bench, outputs: TimedOutputs, slot: int, timeout_s: float) -> bool:
    """Call on a slot and look at all of its outputs; whether the reference takes what lies there."""
    bench.memory.poison(slot)
    before = digest(bench, slot)
    bench.device.finish()
    with bench.link.running():
        bench.link.call([slot], timeout_s)
    require_same_inputs(bench, slot, before)
    try:
        outputs.after_changes([slot], SAID)
    except UserError:
        return False
    return True
