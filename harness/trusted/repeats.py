"""The same inputs once more: what moves from call to call, or follows what lay in memory before, is no function."""

from __future__ import annotations

import torch

from harness.checks.families import STIRRED
from harness.checks.pattern import MOVING, STALE
from harness.nouns.errors import UserError
from harness.nouns.verdict import OutputError, Trial
from harness.trusted.bench import Bench
from harness.trusted.comparison import errors_of
from harness.trusted.link import CandidateFailedError
from harness.trusted.memory import other_poison

REPEATS = 3
_BITS = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}


def needs_repeating(trial: Trial) -> bool:
    """A wrong result may be a race, which the diagnosis should know; a right one is repeated once a verdict."""
    return _wrong(trial.outputs) or trial.distribution == STIRRED


def repeated(bench: Bench, slot: int, trial: Trial, timeout_s: float) -> Trial:
    """The trial after up to three more calls on the same inputs over outputs filled otherwise.

    Other bits within the tolerance are noted, others beyond it make it a wrong trial whose pattern says so. Whatever
    else fails on the way fails the candidate, unless it was wrong already.
    """
    first = [output.clone() for output in bench.memory.outputs(slot)]
    try:
        for _ in range(REPEATS):
            _call_again(bench, slot, trial, timeout_s)
            changed = [*map(_changed, bench.memory.outputs(slot), first)]
            if any(changed):
                return _moved(bench, slot, trial, changed)
    except CandidateFailedError:
        if _wrong(trial.outputs):
            return trial
        raise
    return trial.model_copy(update={"repeatable": True})


def _call_again(bench: Bench, slot: int, trial: Trial, timeout_s: float) -> None:
    bench.memory.poison(slot, "other")
    bench.device.finish()
    bench.call([slot], trial, timeout_s)


def _moved(bench: Bench, slot: int, trial: Trial, changed: list[str]) -> Trial:
    """The trial as it came out this time; where both times were wrong, as it came out first."""
    errors = trial.outputs
    if not _wrong(errors):
        try:
            errors = errors_of(bench, slot, trial)
        except UserError:  # a forward that now refuses what it accepted is the reference's own matter
            return trial.model_copy(update={"repeatable": False})
    marked = tuple(map(_marked, errors, changed))
    return trial.model_copy(update={"repeatable": False, "outputs": marked})


def _marked(error: OutputError, how: str) -> OutputError:
    """What is known as never written needs no second word for it."""
    if not error.bad_fraction or not how or (how == STALE and "never written" in error.pattern):
        return error
    return error.model_copy(update={"pattern": f"{error.pattern}, {how}"})


def _wrong(errors: tuple[OutputError, ...]) -> bool:
    return any(error.bad_fraction > 0 for error in errors)


def _changed(now: torch.Tensor, first: torch.Tensor) -> str:
    """How an output differs from its first version, as a phrase; empty where it has the same bits.

    NaN is like NaN here, if its bits are.
    """
    if now.dtype == torch.bool:
        return "" if torch.equal(now, first) else MOVING
    bits = _BITS[now.element_size()]
    if torch.equal(now.view(bits), first.view(bits)):
        return ""
    stale = now.is_floating_point() and bool((now == other_poison(now.dtype))[now.view(bits) != first.view(bits)].all())
    return STALE if stale else MOVING
