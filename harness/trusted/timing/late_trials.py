"""The families of the trials once more, amid timed calls: by when and where it is called a kernel cannot tell which.

Timed inputs are like the file's own, so that who is careful for some calls, or at the addresses that trials use, or
unless addresses follow one another as they do in a burst, and else leaves out what those inputs never ask for (a
maximum, NaN, an offset) would be right on all of them. So these trials are made in bursts that are ordered as the
timed ones are, over the slots whose turn it is, and the clock on them is not read. These bursts end early, too: nobody
knows which call is the last one, to do the work of several at once.
"""

from __future__ import annotations

import math
import random
from collections.abc import Container, Sequence
from itertools import pairwise

import torch

from harness.checks.errors import MULTIPLE, Scope, floor_of, own_error, scaled_error
from harness.checks.families import FAMILIES, STIRRED
from harness.nouns.caller import USUAL, callers
from harness.nouns.errors import UserError
from harness.nouns.verdict import OutputError, Trial
from harness.trusted.bench import Bench
from harness.trusted.comparison import scope_of
from harness.trusted.link import CandidateFailedError
from harness.trusted.timing.bursts import Kernel, Pace, kernel_seconds, renumber, rotation, some_of
from harness.trusted.timing.timed_outputs import TimedOutputs
from harness.trusted.trials import compared, digest, require_same_inputs

COMPANY = 3
"""Calls on values as timed beside each trial's own, where a burst has as many; its place among them is by chance."""
ROUGHER = 4.0
"""Times what a trial allows. A family amid values of another size is harder for a plain sum than all of one kind: a row
of 1023 squares, added one after the other, was up to 0.97 times what is allowed off in trials, and 2.4 times here. Who
is careless for some calls only is off by far more; how exact timed calls are is told by their own outputs."""
EVERY = 4
"""Rounds whose trials are made together: stirring a burst's slots for one alone would take as long as a round."""


class LateTrials:
    """The trials of one verdict that had results, to be made again on new values, in bursts of the candidate's `pace`.

    `within` so many rounds, a multiple of `EVERY`, all families have had a turn. `outputs` are told which slots hold
    results.
    """

    def __init__(
        self, bench: Bench, outputs: TimedOutputs, trials: Sequence[Trial], pace: Pace, *, within: int
    ) -> None:
        self._bench, self._outputs, self._pace = bench, outputs, pace
        self._made = [trial for trial in trials if trial.distribution not in ("given", STIRRED)]
        self._wanted = EVERY * math.ceil(len(self._made) / within)
        self._together = max(1, min(self._wanted, pace.calls // (1 + COMPANY)))
        self._waiting: list[Trial] = []
        self._places: list[int] = []

    def due(self) -> int:
        """How many bursts come next. Asked before and after each round's timed ones: who counts calls, too, cannot
        tell which of them are timed."""
        if not self._places:
            bursts = math.ceil(self._wanted / self._together)
            drawn = random.choices(range(2 * EVERY), k=bursts)
            self._places = [drawn.count(place) for place in range(2 * EVERY)]
        return self._places.pop()

    def burst(self, first: int) -> int:
        """Make some of them in a burst from this slot on; how many slots it called. Raises `CandidateFailedError`.

        It may end early, by chance: who has already worked for the calls that do not come any more is seen by their
        outputs, who has left work for them by its own.
        """
        bench = self._bench
        slots = rotation(bench.memory.slots, self._pace.calls, first)
        called = slots[: random.randint(max(self._together, len(slots) // 2), len(slots))]
        chosen = dict(zip(random.sample(called, self._together), self._next(), strict=True))
        renumber(bench, slots)
        for slot in slots:
            bench.memory.poison(slot)
            if slot not in chosen:
                bench.arguments.stir(slot, numbered=True)
        planned = {slot: self._filled(slot, trial) for slot, trial in chosen.items()}
        twin = self._twin(called, chosen)
        before = {slot: digest(bench, slot) for slot in chosen}
        bench.device.empty_caches()
        # Who asks by whom he is called learns nothing. Large teams would make a burst long.
        brisk = [each for each in callers(bench.device.kind) if each.patience == 1]
        caller = random.choice(brisk) if random.random() < 0.5 else USUAL
        kernel_seconds(Kernel(bench.link, bench.memory), called, self._pace.timeout_s, caller)
        self._require_own_work(called, slots[len(called) :], chosen)
        self._outputs.after_changes(twin)
        for slot, trial in chosen.items():
            require_same_inputs(bench, slot, before[slot])
            self._verify(slot, planned[slot], trial)
            self._outputs.called.discard(slot)
            bench.arguments.stir(slot)
        return len(called)

    def _twin(self, called: Sequence[int], chosen: Container[int]) -> list[int]:
        """Give a slot what the one called before it has, but for a few elements; which one, if there is any.

        Who keeps a result wherever its arguments lay, and looks at samples of them, takes it for the same.
        """
        pairs = [(before, slot) for before, slot in pairwise(called) if before not in chosen and slot not in chosen]
        if not pairs:
            return []
        before, slot = random.choice(pairs)
        self._bench.arguments.copy(before, slot)
        change = random.choice((self._bench.arguments.touch, self._bench.arguments.replace_stretch))
        change(slot, some_of(self._bench.arguments.touchable()))
        return [slot]

    def _require_own_work(self, called: list[int], others: list[int], chosen: Container[int]) -> None:
        """Raise `CandidateFailedError` where calls have worked for others, or left work to them."""
        memory = self._bench.memory
        for slot in others:
            if output := memory.written_output(slot):
                raise CandidateFailedError(
                    "refused", "timed_output", f"A call wrote {output} for another one, that was not called."
                )
            self._outputs.called.discard(slot)
        self._outputs.called.update(called)
        if called[-1] not in chosen:
            self._outputs.after_burst(called[-1:])

    def _next(self) -> list[Trial]:
        taken: list[Trial] = []
        while len(taken) < self._together:
            self._waiting = self._waiting or random.sample(self._made, len(self._made))
            taken.append(self._waiting.pop())
        return taken

    def _filled(self, slot: int, trial: Trial) -> Trial:
        """Write new values of a trial's family into a slot: what is planned there.

        They lie amid others like the timed ones, for who compares signs or sizes with an earlier call's: single values
        always, of the other families every second one, by chance. But an offset is one only where all have it.
        """
        seed, family = random.randrange(1 << 31), trial.distribution
        facts = FAMILIES[family]
        amid = facts.puts or (not facts.even and random.random() < 0.5)
        self._bench.arguments.fill(slot, seed, family, trial.mild, amid=amid)
        return Trial(distribution=family, seed=seed, mild=trial.mild, outputs=())

    def _verify(self, slot: int, planned: Trial, trial: Trial) -> None:
        """Raise `CandidateFailedError` where the outputs are wrong by the trials' rule, which the oracle decides."""
        scope = scope_of(self._bench, planned.distribution)  # "finite": what else matters the oracle says
        if scope != "finite" and self._as_pytorchs(slot, trial, scope):
            return
        try:
            outcome = compared(self._bench, slot, planned)
        except UserError:
            return  # these values the reference refuses
        errors = outcome.outputs if isinstance(outcome, Trial) else ()
        pairs = zip(errors, self._bench.memory.outputs(slot), strict=bool(errors))
        if wrong := [error for error, got in pairs if self._is_wrong(error, got.dtype)]:
            raise CandidateFailedError("refused", "timed_output", _told(wrong[0], planned))

    def _is_wrong(self, error: OutputError, dtype: torch.dtype) -> bool:
        most = ROUGHER * self._bench.tolerance * (MULTIPLE * own_error(error) + floor_of(dtype))
        return error.bad_fraction > 0 and not error.max_scaled <= most

    def _as_pytorchs(self, slot: int, trial: Trial, scope: Scope) -> bool:
        """Whether the outputs are so near to PyTorch's own that both are as near to the oracle as a trial asks."""
        bench, wanted = self._bench, self._bench.arguments.eager(slot)
        if wanted is None:
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
