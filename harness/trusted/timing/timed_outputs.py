"""What timed calls leave behind must be as right as what the trials saw, and there when the clock stops."""

from __future__ import annotations

import math
import random
import sys
import time
from collections.abc import Sequence

import torch

from harness.checks.errors import MULTIPLE, Expected, compare, floor_of, scaled_error
from harness.checks.families import STIRRED
from harness.nouns.verdict import OutputError, Trial
from harness.trusted.bench import Bench
from harness.trusted.comparison import compared_nearby, more_draws
from harness.trusted.link import CandidateFailedError
from harness.trusted.reference import writable

LOOKED_AT = 1 << 16
"""Elements of each output that are compared after a burst, drawn anew: who leaves out a part of the work is found, and
drawing and comparing them takes a millisecond."""

FEW = 1 << 14
"""Of outputs with fewer elements many calls are looked at, and the candidate's worst of all those is what is compared:
PyTorch's worst is then that of as many."""
MOST_DRAWS, DRAWN_S = 64, 3.0
WHOLE = 1 << 26
"""Elements that are compared as a whole after a burst whose inputs differ in a few places from those before."""
TIMED = "While timed"


class TimedOutputs:
    """The outputs of the candidate's timed calls. `allowances`: how far off each may be, as `scaled_error` measures.

    Compared with PyTorch's own result: an oracle for every slot would double the verdict's time. It is asked where that
    comparison fails.
    """

    def __init__(self, bench: Bench, allowances: Sequence[float]) -> None:
        self.called: set[int] = set()
        """Slots that have been called."""
        self._bench, self._allowances = bench, [*allowances]
        self._draws: list[list[Expected]] = []

    def after_burst(self, slots: Sequence[int], count: int = 1) -> None:
        """Look at some of what a burst left in so many of its slots. Raises `CandidateFailedError`.

        Later bursts write over it: who computes only what is compared at the end would be fast until then.
        """
        self.called.update(slots)
        for slot in random.sample(slots, min(count, len(slots))):
            self._verify(slot, LOOKED_AT)

    def after_changes(self, slots: Sequence[int], said: str = TIMED) -> None:
        """Compare all elements of slots a few of whose inputs were changed, as long as that is little: a sample misses
        what follows from those. Then some. Raises `CandidateFailedError`, which begins with `said`."""
        self.called.update(slots)
        left = WHOLE
        for slot in random.sample(slots, len(slots)):
            self._verify(slot, sys.maxsize if left > 0 else LOOKED_AT, said)
            left -= sum(output.numel() for output in self._bench.memory.outputs(slot))

    def at_the_end(self, count: int) -> None:
        """Compare all elements of so many of the slots, drawn at random. Raises `CandidateFailedError`."""
        for slot in random.sample(sorted(self.called), min(len(self.called), count)):
            self._verify(slot)

    def _verify(self, slot: int, some: int = sys.maxsize, said: str = TIMED) -> None:
        bench = self._bench
        wanted = [writable(out) for out in bench.arguments.results(slot)]
        outputs = bench.memory.outputs(slot)
        for got, want, allowed in zip(outputs, wanted, self._allowances, strict=True):
            at = torch.randint(got.numel(), (some,), device=got.device) if some < got.numel() else None
            error = scaled_error(got, want, at)
            if not error <= bench.tolerance * (allowed + floor_of(want.dtype)):  # a NaN is neither above nor below
                self._confirm(slot, said)
                return

    def _confirm(self, slot: int, said: str) -> None:
        """Ask the oracle, by the trials' own rule. Raises `CandidateFailedError`."""
        bench = self._bench
        outputs, (expected, _) = bench.memory.outputs(slot), compared_nearby(bench, slot, STIRRED)
        draws = self._draws or [[] for _ in outputs]
        until = time.monotonic() + DRAWN_S
        while any(map(_is_doubtful, errors := [*map(compare, outputs, expected, draws)], outputs, draws)):
            if time.monotonic() > until:
                break
            like_it = Trial(distribution=STIRRED, seed=random.randrange(1 << 31), outputs=())
            more = more_draws(bench, slot, like_it, few=FEW)
            draws = self._draws = [[*known, *new] for known, new in zip(draws, more, strict=True)]
            bench.arguments.stir(slot)
            self.called.discard(slot)  # what lies in its outputs belongs to inputs that are gone
        for position, error in enumerate(errors):
            if error.bad_fraction:
                raise CandidateFailedError(
                    "refused",
                    "timed_output",
                    f"{said}, {error.output} came out wrong: off by {error.max_scaled:.3g}.",
                )
            if not draws[position]:  # else the scale is all draws', not this slot's own
                off = (MULTIPLE + 1) * error.reference_max_scaled  # both sides' errors, as the oracle allows them
                self._allowances[position] = max(self._allowances[position], off)


def _is_doubtful(error: OutputError, output: torch.Tensor, draws: Sequence[Expected]) -> bool:
    """Is an output wrong by a number, which more draws of PyTorch's may explain?"""
    few = output.is_floating_point() and output.numel() < FEW and len(draws) < MOST_DRAWS
    return few and error.bad_fraction > 0 and math.isfinite(error.max_scaled)
