"""The families of the trials once more, amid timed calls: by when and where it is called a kernel cannot tell which.

Timed inputs are like the file's own, so that who is careful for some calls, or at the addresses that trials use, and
later leaves out what those inputs never ask for (a maximum, NaN, an offset) would be right on all of them.
"""

from __future__ import annotations

import math
import random
from collections.abc import Sequence

from harness.checks.errors import MULTIPLE, floor_of, own_error, scaled_error
from harness.checks.expected import Scope
from harness.checks.families import STIRRED
from harness.nouns.errors import UserError
from harness.nouns.verdict import OutputError, Trial
from harness.trusted.bench import Bench
from harness.trusted.comparison import scope_of
from harness.trusted.link import CandidateFailedError
from harness.trusted.timing.timed_outputs import TimedOutputs
from harness.trusted.trials import compared, digest, require_same_inputs

COMPANY = 3
"""Calls beside the trial's own in its order, on values as timed; its place among them is by chance."""


class LateTrials:
    """The trials of one verdict that had results, to be made again on new values, at any slot, in any order.

    `within` so many rounds all families have had a turn. `outputs` are told of slots whose results are gone.
    """

    def __init__(
        self, bench: Bench, outputs: TimedOutputs, trials: Sequence[Trial], timeout_s: float, *, within: int
    ) -> None:
        self._bench, self._outputs, self._timeout_s = bench, outputs, timeout_s
        self._made = [trial for trial in trials if trial.distribution not in ("given", STIRRED)]
        self._each_round = math.ceil(len(self._made) / within)
        self._waiting: list[Trial] = []

    def after_round(self) -> None:
        """Make some of them. Raises `CandidateFailedError`."""
        for _ in range(self._each_round):
            self._waiting = self._waiting or random.sample(self._made, len(self._made))
            self._once_more(self._waiting.pop())

    def _once_more(self, trial: Trial) -> None:
        bench = self._bench
        planned = Trial(distribution=trial.distribution, seed=random.randrange(1 << 31), mild=trial.mild, outputs=())
        slots = random.sample(range(bench.memory.slots), min(1 + COMPANY, bench.memory.slots))
        for slot in slots[1:]:
            bench.stir(slot)
        bench.fill(slots[0], planned.seed, planned.distribution, planned.mild)
        for slot in slots:
            bench.memory.poison(slot)
        before = digest(bench, slots[0])
        bench.device.finish()
        with bench.link.running():
            bench.link.call(random.sample(slots, len(slots)), self._timeout_s * len(slots))
        require_same_inputs(bench, slots[0], before)
        self._verify(slots[0], planned, trial)
        self._outputs.called.discard(slots[0])
        bench.stir(slots[0])

    def _verify(self, slot: int, planned: Trial, trial: Trial) -> None:
        """Raise `CandidateFailedError` where the outputs are wrong by the trials' rule, which the oracle decides."""
        scope = scope_of(self._bench, planned.distribution)  # "finite": what else matters the oracle says
        if scope != "finite" and self._as_pytorchs(slot, trial, scope):
            return
        try:
            outcome = compared(self._bench, slot, planned)
        except UserError:
            return  # these values the reference refuses
        wrong = [error for error in outcome.outputs if error.bad_fraction] if isinstance(outcome, Trial) else []
        if wrong:
            raise CandidateFailedError("refused", "timed_output", _told(wrong[0], planned))

    def _as_pytorchs(self, slot: int, trial: Trial, scope: Scope) -> bool:
        """Whether the outputs are so near to PyTorch's own that both are as near to the oracle as a trial asks."""
        bench = self._bench
        try:
            wanted = bench.reference.run(bench.inputs(slot), bench.replicas[slot])
        except UserError:
            return True
        allowed = [(MULTIPLE - 1) * own_error(error) for error in trial.outputs]
        return all(
            scaled_error(got, want, scope=scope) <= bench.tolerance * (most + floor_of(want.dtype))
            for got, want, most in zip(bench.memory.outputs(slot), wanted, allowed, strict=True)
        )


def _told(error: OutputError, planned: Trial) -> str:
    return (
        f"Called between timed calls, {error.output} came out wrong on {planned.distribution} inputs "
        f"(seed {planned.seed}), where the trials before saw it right: {error.bad_fraction:.3%} of it, "
        f"off by {error.max_scaled:.3g}."
    )
