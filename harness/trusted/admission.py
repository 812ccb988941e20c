"""What the reference takes, found by trying: weights of other signs and sizes, and how various timed inputs may be."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from functools import partial

import torch

from harness.checks.emptiness import all_finite, emptiness
from harness.checks.families import MILDER, STIRRED
from harness.checks.stirring import MANNERS
from harness.nouns.errors import UserError
from harness.nouns.task import TensorSpec
from harness.nouns.verdict import Untried
from harness.trusted.bench import Bench

PROBES = 24
"""Forwards spent on finding the weights whose sign, or size, must stay: enough for four among some forty."""
WEIGHTS = "trained weights"
FEW, DRAWS = 1 << 12, 5
"""Stirred inputs of so few elements hold little that is foreign: several draws say whether the reference takes it."""
_REFUSED = "there the reference's outputs are not finite, all one value, or refused"


def choose_weights(bench: Bench, seed: int) -> None:
    """Find the weights whose signs the reference does not take varied (variances, scales under a root), and those that
    begin tiny and have to stay so, or show a structure and have to keep it.

    Those keep them. Where it is not even finite then, weights vary by factors alone. On the file's own inputs.
    """
    trained = bench.arguments.trained
    if not trained.habits or not _healthy(bench, seed, varied=False):
        return
    trained.probed = True
    trained.keeps_sign, trained.keeps_structure = {*trained.signed}, {*trained.structured}
    healthy = partial(_healthy, bench, seed, varied=True)
    _keep(trained.tiny, trained.keeps_size, healthy)
    _keep(trained.signed, trained.keeps_sign, healthy)
    _keep(trained.structured, trained.keeps_structure, healthy)
    trained.probed = False
    if not _healthy(bench, seed, varied=True):
        trained.tame = True
        bench.untried.append(Untried(distribution=WEIGHTS, seed=seed, reason=f"only by factors: else {_REFUSED}"))
        return
    kinds = (trained.keeps_sign, "signs"), (trained.keeps_size, "sizes"), (trained.keeps_structure, "structure")
    for kept, what in kinds:
        if kept:
            reason = f"the file's {what} alone of {', '.join(sorted(kept))}: {_REFUSED}"
            bench.untried.append(Untried(distribution=WEIGHTS, seed=seed, reason=reason))


def choose_structure(bench: Bench, seed: int) -> None:
    """Find the inputs that the reference takes without the triangle, or the symmetry, that the file shows.

    Others keep it (what is to be decomposed, say). Numbers are as far out as the reference takes them with it.
    """
    shaped = tuple(name for name, structure in bench.arguments.structures.items() if structure.shaped)
    bench.arguments.shaped.update(shaped)

    def healthy(mild: int) -> bool:
        bench.arguments.fill(0, seed, "normal", mild)
        return _worth_something(bench)

    mild = next((each for each in range(MILDER + 1) if shaped and healthy(each)), None)
    if mild is not None:
        _keep(shaped, bench.arguments.shaped, partial(healthy, mild))
    if bench.arguments.shaped:
        reason = f"the file's triangles and symmetry alone of {', '.join(sorted(bench.arguments.shaped))}: {_REFUSED}"
        bench.untried.append(Untried(distribution="structure", seed=seed, reason=reason))


def _keep(names: tuple[str, ...], kept: set[str], healthy: Callable[[], bool]) -> None:
    """Leave in `kept` those of the names whose other values the reference does not take.

    Halves what is suspected until single weights are left; when the forwards are spent, all suspects keep theirs.
    """
    left, suspects = PROBES, [names] if names else []
    good: set[str] = set()
    while suspects:
        some = suspects.pop()
        _set(kept, {*names} - good - {*some})
        left -= 1
        if healthy():
            good |= {*some}
        elif len(some) > 1 and left > 0:
            middle = len(some) // 2
            suspects += [some[:middle], some[middle:]]
    _set(kept, {*names} - good)


def _set(kept: set[str], names: set[str]) -> None:
    kept.clear()
    kept.update(names)


def choose_manner(bench: Bench, seed: int, *, various: bool = True) -> None:
    """Timed inputs are as various as the reference takes them (see `MANNERS`); without `various` stirred at most."""
    if bench.facts.multiplies:
        bench.arguments.manner = "near one"
        if _takes_stirred(bench, seed):
            return
    usual = _says_little(bench)
    for manner in MANNERS if various and not usual else MANNERS[-2:]:
        bench.arguments.manner = manner
        if manner == "given" or _takes_stirred(bench, seed, anything=usual):
            break
    if bench.arguments.manner != "mixed" and various:
        words = f"inputs are {bench.arguments.manner} where timed: mixed within a row {_REFUSED.removeprefix('there ')}"
        bench.untried.append(Untried(distribution=STIRRED, seed=seed, reason=words))


def choose_moving(bench: Bench, seed: int) -> None:
    """Find out whether infinities and triangles may lie elsewhere in timed calls: all of them, or none."""
    if bench.arguments.manner == "given" or not (movable := bench.arguments.movable()):
        return
    bench.arguments.moving = movable
    if not _takes_stirred(bench, seed, anything=_says_little(bench)):
        bench.arguments.moving = frozenset()
        reason = f"the places of infinities and zeros of {', '.join(sorted(movable))} stay where timed: {_REFUSED}"
        bench.untried.append(Untried(distribution=STIRRED, seed=seed, reason=reason))


def _takes_stirred(bench: Bench, seed: int, *, anything: bool = False) -> bool:
    """Whether the reference accepts stirred and touched inputs, and has results on them that are worth something."""
    largest = max((spec.numel for spec in bench.signature.inputs if isinstance(spec, TensorSpec)), default=1)
    for draw in range(DRAWS if largest < FEW else 1):
        bench.arguments.fill(0, (seed + draw) % (1 << 31), STIRRED)
        bench.arguments.touch(0, bench.arguments.touchable())
        if not _worth_something(bench, anything=anything):
            return False
    return True


def _healthy(bench: Bench, seed: int, *, varied: bool) -> bool:
    """Whether the reference has results on the file's inputs, under its weights or varied ones."""
    bench.arguments.fill(0, seed, "given")
    if varied:
        bench.arguments.fill_weights(0, torch.Generator(bench.device.place).manual_seed(seed))
        bench.arguments.derive(0)
    return _worth_something(bench)


def _worth_something(bench: Bench, *, anything: bool = False) -> bool:
    results = bench.arguments.eager(0)
    return results is not None and (anything or (all_finite(results) and not emptiness(results)))


def _says_little(bench: Bench) -> bool:
    """Whether the outputs are not finite, or all alike, on the file's own inputs already."""
    with suppress(UserError):
        known = bench.reference.run(bench.arguments.pattern)
        return bool(emptiness(known)) or not all_finite(known)
    return True
