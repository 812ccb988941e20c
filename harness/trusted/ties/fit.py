"""An oracle for one result: the float64 oracle, with what a last bit decides as that result has it.

Decisions are first taken as somebody does who goes through equals in order; then by least squares over all outputs
together, for each decision changes them in a way of its own; then by descent, those first that set most right, which is
what counts of choices ask for; then by trying: many at once, in patterns of which each has its own, and those that
change what is wrong in halves. What no decision explains stays an error.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress

import torch

from harness.checks.errors import DOUBTFUL, floor_of, scale_of
from harness.trusted.ties.breaks import TieBreaks
from harness.trusted.ties.decisions import Order, Tensors
from harness.trusted.ties.sides import Open

ROUNDS = 12
"""Of linear equations: shares have ends, and decisions that lie behind each other change the results together."""
PATIENCE = 3
"""Rounds after which one that does not halve the largest error is the last."""
STEPS = 12
"""Of conjugate gradients in a round: most decisions change elements of their own."""
SOLVED = 1e-16
"""Of the first slope squared: what is left is rounding."""
PROBE = 2.0**-10
"""How far shares are moved to see what a direction changes."""
TOGETHER = 64
"""A step changes so many decisions at most."""
FOLLOWED = 0.1
"""A step is taken at once where the error falls by this share of what the slope promises; else the best of all is."""
SIGNS, SEEDS = 60, 2
TRIES, TRIES_S = 256, 2.0
"""By halves; seconds of a processor, which are the same on a busy machine."""

Distance = Callable[[Sequence[torch.Tensor | Open]], torch.Tensor]


def fit_ties(function: TieBreaks, got: Sequence[torch.Tensor], enough: Sequence[float] = ()) -> Tensors:
    """The results in float64 by those decisions that come nearest to what somebody got.

    Errors up to `enough` (scaled, by output) are what rounding explains.
    """
    if not function.sides:
        return function.own
    search = _Search(function, got, enough or [DOUBTFUL * floor_of(each.dtype) for each in got])
    for way in (search.in_order, search.by_shares, search.by_descent, *[search.by_signs] * SEEDS, search.by_trying):
        if search.least[0] > 0:
            with suppress(RuntimeError, IndexError, TypeError, NotImplementedError):  # shares cannot always be followed
                way()
    return search.best


class _Search:
    """Decisions that come nearer and nearer; `least` is how many elements are off, and their squares."""

    def __init__(self, function: TieBreaks, got: Sequence[torch.Tensor], enough: Sequence[float]) -> None:
        self._function = function
        self._distance = _distance(function.own, got, enough)
        self._order: Order | None = None
        self._seed = 0
        self._which = torch.cat([torch.zeros_like(side.at, dtype=torch.bool) for side in function.sides])
        self.best = function.own
        self.least = _badness(self._distance(self.best))

    def in_order(self) -> None:
        """As those have it who take equals by their indices, upwards or downwards."""
        for order in ((False, False), (True, True), (True, False), (False, True)):
            if self.least[0] and self._keep(self._function.taken(self._which, order)):
                self._order = order

    def by_shares(self) -> None:
        """As least squares have it, where results can be differentiated.

        Of more decisions than there are elements, all acting together, nobody can tell which were taken, nor of sums
        that are equal but for their last bits: there any shares will do.
        """
        many = len(self._which) > self.least[0] or not self._function.equals
        for sides, shared in _sharing(self._function, self._distance):
            for which in sides:
                if self._keep(self._function.taken(which)):
                    self._which, self._order = which, None
            if many and shared:
                self._keep(shared)
            if not self.least[0]:
                return

    def by_descent(self) -> None:
        """Follow the slope of the error: change the decisions that reduce it most, as many at once as do, then one at a
        time. On the way more elements may be off than before."""
        function, until = self._function, time.thread_time() + TRIES_S
        which = function.as_taken(self._which, self._order)
        here, units, most = self._off(which), function.units, TOGETHER
        while self.least[0] and time.thread_time() < until:
            gains = self._gains(which)
            waiting = gains.argsort(descending=True)[: int((gains > 0).sum())]
            best, least = which, here
            while len(waiting) and self.least[0] and time.thread_time() < until:
                other = self._changed(which, torch.isin(units, waiting[:most]))
                off = self._off(other)
                if off < least:
                    best, least = other, off
                if off < here - FOLLOWED * float(gains[waiting[:most]].sum()):
                    most = min(2 * most, TOGETHER)
                    break
                if most > 1:
                    most //= 2
                else:
                    waiting = waiting[1:]
            if least == here:
                return
            which, here = function.as_taken(best), least

    def _off(self, which: torch.Tensor) -> float:
        """The error where these sides are taken, on a logarithmic scale: no large element outweighs the rest."""
        found = self._function.taken(which)
        if self._keep(found):
            self._which, self._order = which, None
        return float(self._distance(found).square().log1p().sum())

    def _gains(self, which: torch.Tensor) -> torch.Tensor:
        """For each unit of decisions by how much the slope says the error falls if that unit alone is changed."""
        here = which.double().requires_grad_()
        with torch.enable_grad():
            off = self._distance(self._function(here)).square().log1p().sum()
        slope = -torch.autograd.grad(off, here)[0]
        alone = torch.where(which, -slope, slope - self._function.at_places(slope * which))
        alone = torch.where(self._function.twice(which), 0.0, alone)
        units = self._function.units
        return slope.new_zeros(int(units.max()) + 1).index_add(0, units, alone)

    def _changed(self, which: torch.Tensor, part: torch.Tensor) -> torch.Tensor:
        """With the sides of `part` that were not taken, in the place of others, and without those that were."""
        new = part & ~which
        return which & ~part & (self._function.at_places(new.double()) == 0) | new

    def by_signs(self) -> None:
        """As each tells of itself: all are tried at once, each by a pattern of its own, which shows in what it sets
        right."""
        here = self._function.taken(self._which, self._order)
        if _badness(self._distance(here)) > self.least:
            return  # shares of decisions explain more
        units = self._function.units
        self._seed += 1
        signs = self._function.signs(SIGNS, torch.Generator(units.device).manual_seed(self._seed))
        count = signs.shape[1]
        off = self._distance(here).abs() > 1
        right = []
        for sign in signs:
            found = self._function.taken(self._which ^ sign[units], self._order)
            right.append(self._distance(found)[off].abs() <= 1)
        powers = 2 ** torch.arange(SIGNS, device=units.device).unsqueeze(1)
        told, order = (signs * powers).sum(0).sort()
        seen = (torch.stack(right) * powers).sum(0)
        place = torch.searchsorted(told, seen).clamp_(max=count - 1)
        flipped = torch.zeros(count, dtype=torch.bool, device=units.device)
        flipped[order[place[told[place] == seen]]] = True
        which = self._which ^ flipped[units]
        if self._keep(self._function.taken(which, self._order)):
            self._which = which

    def by_trying(self) -> None:
        """As trying has it: sides of decisions that change nothing of what is off are left as they are."""
        until = time.thread_time() + TRIES_S
        here = self._function.taken(self._which, self._order)
        if _badness(self._distance(here)) > self.least:
            return
        units = self._function.units
        waiting, start, since = list[torch.Tensor](), torch.arange(int(units.max()) + 1, device=units.device), math.inf
        for _ in range(TRIES):
            if not waiting:  # what was set right shows what else is to be
                if self.least[0] >= since:
                    return
                waiting, since = [start], self.least[0]
            if not self.least[0] or time.thread_time() > until:
                return
            part = waiting.pop()
            moved, some = False, torch.isin(units, part)
            beside = self._which ^ some
            instead = self._changed(self._which, some)  # of another side of the same decision
            for which in (beside,) if torch.equal(beside, instead) else (beside, instead):
                found, before = self._function.taken(which, self._order), self._distance(self.best)
                moved |= bool((self._distance(found) != before)[before.abs() > 1].any())
                if self._keep(found):
                    self._which = which
            if moved and len(part) > 1:
                waiting += [*part.tensor_split(2)][::-1]

    def _keep(self, found: Tensors) -> bool:
        off = _badness(self._distance(found))
        better = off < self.least
        if better:
            self.best, self.least = [each.detach() for each in found], off
        return better


def _sharing(function: TieBreaks, distance: Distance) -> Iterator[tuple[Tensors, Tensors]]:
    """Sides that are taken, as least squares have them, nearer each time, and the results by the shares themselves."""
    changing = _changing(function)
    followed = function.only(changing)
    if not followed.sides:
        return
    shares, before = followed.even(), math.inf
    for turn in range(ROUNDS):
        shares = (shares + _step(followed, distance, shares)).clamp(0, 1)
        with torch.no_grad():
            found = followed(shares)
        which = [torch.zeros_like(changing) for _ in range(1 + function.orders)]
        for together, each in enumerate(which):
            each[changing] = followed.nearest(shares, together=bool(together))
        plain = all(each.is_floating_point() for each in function.own)
        yield which, found if plain else []  # type: ignore[misc]
        error = float(distance(found).abs().max())
        if turn > PATIENCE and error > before / 2:
            return
        before = min(error, before)


def _badness(errors: torch.Tensor) -> tuple[int, float]:
    return int((errors.abs() > 1).sum()), float(errors.square().clamp_(max=1e60).sum())


def _distance(exact: Tensors, got: Sequence[torch.Tensor], enough: Sequence[float]) -> Distance:
    """What results are off by, as multiples of what rounding explains, in one row; what is not finite has to agree."""
    weights = []
    for own, each in zip(exact, enough, strict=True):
        size = _finite(own).abs().add_(scale_of(own)) if own.is_floating_point() else own.new_ones(own.shape).double()
        weights.append(1 / (size * (each or 0.5)))
    wanted = [*zip(got, map(_finite, got), strict=True)]

    def off(found: torch.Tensor | Open, want: tuple[torch.Tensor, torch.Tensor], weight: torch.Tensor) -> torch.Tensor:
        raw, finite = want
        if isinstance(found, Open):
            return found.off(raw) * weight
        error = (_finite(found) - finite) * weight
        if raw.is_floating_point():
            unlike = found.isinf() & raw.isinf() & (found != raw) | (found.isfinite() != raw.isfinite())
            error = torch.where(unlike, error.detach() + 4.0, error)
        return error

    def distance(found: Sequence[torch.Tensor | Open]) -> torch.Tensor:
        triples = zip(found, wanted, weights, strict=True)
        return torch.cat([off(*each).reshape(-1) for each in triples])

    return distance


def _step(function: TieBreaks, distance: Distance, at: torch.Tensor) -> torch.Tensor:
    """By how much the shares are to move: conjugate gradients on the results' linear change.

    Those that are at an end already, and would go on, stay.
    """
    here = at.detach().requires_grad_()
    with torch.enable_grad():
        error = distance(function(here))
    if not error.requires_grad:
        return torch.zeros_like(at)

    slope = torch.autograd.grad(error, here, -error.detach(), retain_graph=True)[0]
    free = ~(((at <= 0) & (slope < 0)) | ((at >= 1) & (slope > 0)))

    def back(value: torch.Tensor) -> torch.Tensor:
        return torch.autograd.grad(error, here, value, retain_graph=True)[0] * free

    def ahead(direction: torch.Tensor) -> torch.Tensor:
        size = PROBE / float(direction.abs().max())
        with torch.no_grad():
            return (distance(function(at + size * direction)) - error).div_(size)

    moved, left = torch.zeros_like(at), -error.detach()
    direction = slope = slope * free
    first = 0.0
    for _ in range(STEPS):
        steep = float(slope.square().sum())
        first = first or steep
        if steep <= SOLVED * first:
            break
        change = ahead(direction)
        length = steep / float(change.square().sum())
        moved, left = moved + length * direction, left - length * change
        slope = back(left)
        direction = slope + float(slope.square().sum()) / steep * direction
    return moved


def _changing(function: TieBreaks) -> torch.Tensor:
    """Which sides' elements change results in a way that can be followed: not those of several zeros that are equal."""
    here = function.even().requires_grad_()
    generator = torch.Generator(here.device).manual_seed(2)
    with torch.enable_grad():
        numbers = (each.number if isinstance(each, Open) else each for each in function(here))
        found = [_finite(each) for each in numbers if each.requires_grad]
        drawn = (torch.rand(each.shape, generator=generator, dtype=each.dtype, device=each.device) for each in found)
        probe = sum(torch.vdot(each.reshape(-1), draw.reshape(-1)) for each, draw in zip(found, drawn, strict=True))
    slope = torch.autograd.grad(probe, here)[0] if isinstance(probe, torch.Tensor) else torch.zeros_like(here)
    return slope != 0


def _finite(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.double().nan_to_num(0.0, 0.0, 0.0)
