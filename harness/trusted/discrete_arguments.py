"""The integers and masks among a task's arguments: which variations of them the reference takes, and whose turn it is.

Variations are tried before the first trial: all arguments together, one by one where that is refused. What is refused
in every combination stays as the file gives it.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import Any

import torch

from harness.checks.discrete import BEYOND, EQUALS, TIMED, Shown, Way, base_of, candidates, reach_of, show
from harness.checks.families import STIRRED
from harness.checks.variations import change_few, vary
from harness.nouns.task import Signature
from harness.trusted.integer_uses import IntegerUses, due
from harness.trusted.reference import Value

Ways = Mapping[str, Way]

SETS, SETS_S, SETS_BYTES = 8, 0.5, 1 << 29
"""Sets of the file's own integers that timed calls take turns at: so many at most, and two at least, drawn for about so
many seconds, of so many bytes each set included."""
FRESH_S = 1.0
"""Seconds of drawing new sets while timed, for arguments of which no variation is taken."""
FAR_AWAY = (16, 1024)
"""Times the file's largest: distances that a logarithm puts into buckets of their own."""
COMPARED = 3
"""Draws that a kind is told by."""


@dataclass(frozen=True)
class Known:
    """What is known of a task's integers: the values that the module singles out in an argument, by its name.

    Where equals are `ambiguous` none are made. Values `beyond` what the file shows are tried only where a wrong index
    ends no more than the forward. `extents` are those of the tables that an argument names places of; `computed` is
    what is multiplied or divided, where no number decides about sizes. `compared` are values on both sides of numbers
    that the module compares an argument with, `turns` the steps after which a counter comes to the other side. Those
    that it compares the difference from another one with stand in `apart`, with the other's name. What is `loose` is
    not looked at together with its neighbour.
    """

    own: Mapping[str, Iterable[int]] = field(default_factory=dict)
    ambiguous: bool = False
    beyond: bool = True
    extents: Mapping[str, int] = field(default_factory=dict)
    computed: frozenset[str] = frozenset()
    compared: Mapping[str, Iterable[int]] = field(default_factory=dict)
    turns: Mapping[str, int] = field(default_factory=dict)
    apart: Mapping[str, tuple[str, Sequence[int]]] = field(default_factory=dict)
    loose: frozenset[str] = frozenset()

    @classmethod
    def of(
        cls, uses: IntegerUses, at: Mapping[str, int], held: Mapping[str, torch.Tensor],
        *, ambiguous: bool, beyond: bool,
    ) -> Known:  # fmt: skip
        """What a run says of the arguments that are `held`, whose storages are `at` these addresses."""

        def of_each(found: Mapping[int, Any]) -> dict[str, Any]:
            return {name: found[where] for name, where in at.items() if where in found}

        compared = of_each(uses.compared)
        for name in (name for name, where in at.items() if where in uses.logged and held[name].numel()):
            compared[name] = {*compared.get(name, ()), *(int(held[name].max()) * far for far in FAR_AWAY)}
        names = {where: name for name, where in at.items()}
        pairs = ((names[one], names[other], [*numbers]) for (one, other), numbers in uses.apart.items()
                 if beyond and {one, other} <= names.keys())  # fmt: skip
        apart = {one: (other, numbers) for one, other, numbers in pairs if held[one].shape == held[other].shape}
        return cls(
            own=of_each(uses.own), ambiguous=ambiguous, beyond=beyond, extents=of_each(uses.extents),
            computed=frozenset() if uses.steered else frozenset(name for name in at if at[name] in uses.computed),
            compared=compared, turns={name: due(turns) for name, turns in of_each(uses.turns).items()}, apart=apart,
            loose=frozenset(name for name, where in at.items() if where not in uses.limits),
        )  # fmt: skip


class DiscreteArguments:
    """Integer and bool inputs, parameters and buffers of one bench, by name.

    Until `settle` they are what the file gives. `refused` says in words what was tried in vain.
    """

    def __init__(
        self,
        signature: Signature,
        pattern: Sequence[Value],
        weights: Mapping[str, torch.Tensor],
        buffers: Iterable[str] = (),
    ) -> None:
        self._names = [spec.name for spec in signature.inputs]
        self._sets = [self._only(pattern)]
        self._kept = {name: tensor for name, tensor in weights.items() if not tensor.is_floating_point()}
        self._learnt = self._kept.keys() - set(buffers)
        self._shown: dict[str, Shown] = {}
        self._turns: list[Ways] = [{}]
        self._whose_turn: dict[str, int] = {}
        self._timed: Ways = {}
        self._draw: Callable[[], list[Value]] | None = None
        self._fresh_s = FRESH_S
        self.refused: list[str] = []
        self.apart: Mapping[str, tuple[str, Sequence[int]]] = {}

    def settle(
        self,
        draw: Callable[[int], list[Value]],
        takes: Callable[[Ways], bool],
        seed: int,
        known: Known = Known(),
    ) -> None:
        """Draw further sets, see what they show, and try variations on the reference.

        `draw` gives a set of inputs under a seed, `takes` says whether the reference accepts inputs varied so.
        """
        self.apart = known.apart
        self._draw_sets(draw, seed)
        self._shown = {name: show([each[name] for each in self._sets[:COMPARED]]) for name in self._sets[0]}
        self._shown |= {name: show([tensor], mask=name not in self._learnt) for name, tensor in self._kept.items()}
        tensors = {**self._sets[0], **self._kept}
        for name, shown in self._shown.items():
            reach = reach_of(shown, tensors[name].dtype, computed=name in known.computed)
            extent = known.extents.get(name, 0)
            crowded = known.ambiguous and base_of(tensors[name]).numel() > extent
            self._shown[name] = replace(
                shown, extent=0 if crowded else extent, apart=known.ambiguous, reach=reach,
                turn=known.turns.get(name, 0), loose=name in known.loose, beside=name in known.apart,
            )  # fmt: skip
        self._plant(takes, known)
        ways = {name: ways for name, shown in self._shown.items() if (ways := self._to_try(name, shown, known))}
        for turn in range(max(map(len, ways.values()), default=0)):
            taken = self._taken({name: each[turn % len(each)] for name, each in ways.items()}, takes)
            self._turns += [taken] * bool(taken)
        self._timed = self._choose_timed(takes)
        standing = all(name in self._timed for name in self._sets[0])
        self._draw = None if standing or len(self._sets) == 1 else lambda: draw(random.randrange(1 << 31))

    def ways(self, distribution: str) -> Ways:
        """Which variation each argument shows in a trial of this distribution; trials take turns."""
        if distribution == "given":
            return {}
        if distribution == STIRRED:
            return self._timed
        turn = self._whose_turn.setdefault(distribution, len(self._whose_turn) + 1)
        return self._turns[turn % len(self._turns)]

    def varied(self, name: str, value: torch.Tensor, ways: Ways, generator: torch.Generator) -> torch.Tensor:
        """An argument in its variation, of extent 1 where it is expanded; the value itself where it has none."""
        if name not in ways:
            return value
        changed = vary(base_of(value), self._shown[name], ways[name], generator)
        return changed if value.ndim else changed.view(())

    def timed_set(self) -> dict[str, torch.Tensor]:
        """The file's own integers for one timed call, to be varied by `ways(STIRRED)`."""
        began = time.monotonic()
        if self._draw and self._fresh_s > 0:
            drawn = self._only(self._draw())
            self._fresh_s -= time.monotonic() - began
            return drawn
        return random.choice(self._sets)

    def touch(self, name: str, view: torch.Tensor, generator: torch.Generator) -> None:
        """Change a few elements of an argument, as far as it varies in timed calls."""
        if way := self._timed.get(name):
            change_few(base_of(view), self._shown[name], way, generator)

    def within(self, one: str, other: str) -> bool:
        """Whether the values that one argument shows are among those of another."""
        inner, outer = self._shown[one], self._shown[other]
        return bool(outer.low.max() <= inner.low.min()) and bool(inner.high.max() <= outer.high.min())

    def _to_try(self, name: str, shown: Shown, known: Known) -> tuple[Way, ...]:
        """A kind's variations but for those that nobody can be held to here, or that cannot be tried."""
        never = EQUALS.get(shown.kind, frozenset()) | {"alone"} if known.ambiguous else frozenset()
        self.refused += [f"{name} {way}" for way in shown.ways if way in never]
        beyond = frozenset() if known.beyond else BEYOND
        return tuple(way for way in shown.ways if way not in never | beyond)

    def _plant(self, takes: Callable[[Ways], bool], known: Known) -> None:
        """Find the values outside of each range that the reference takes."""
        tensors = {**self._sets[0], **self._kept}
        plain = dict(self._shown)
        tried = {
            name: candidates(
                shown, tensors[name].dtype, known.own.get(name, ()), known.compared.get(name, ()), beyond=known.beyond
            )
            for name, shown in plain.items()
        }
        # Not every operator refuses a place that its table does not have: ctc_loss reads whatever lies there.
        tried |= {name: tuple(each for each in tried[name] if each < extent or each in known.own.get(name, ()))
                  for name, extent in known.extents.items() if name in tried}  # fmt: skip
        taken: dict[str, list[int]] = {name: [] for name in tried}
        refused = [*self.refused]
        for rank in range(max(map(len, tried.values()), default=0)):
            now = {name: values[rank] for name, values in tried.items() if rank < len(values)}
            self._shown = plain | {name: replace(plain[name], extras=(value,)) for name, value in now.items()}
            for name in self._taken(dict.fromkeys(now, "planted"), takes):
                taken[name].append(now[name])
        self.refused = refused  # that they are legal is nobody's claim
        self._shown = {name: replace(shown, extras=tuple(taken[name])) for name, shown in plain.items()}

    def _draw_sets(self, draw: Callable[[int], list[Value]], seed: int) -> None:
        first, began = self._sets[0], time.monotonic()
        room = SETS_BYTES // max(1, sum(tensor.nbytes for tensor in first.values()))
        for number in range(1, min(SETS, max(2, room)) if first else 1):
            if number > 1 and time.monotonic() - began > SETS_S:
                return
            drawn = self._only(draw((seed + 15_485_863 * number) % (1 << 31)))
            if all(torch.equal(drawn[name], first[name]) for name in first):
                return
            self._sets.append(drawn)

    def _only(self, values: Sequence[Value]) -> dict[str, torch.Tensor]:
        named = zip(self._names, values, strict=True)
        return {
            name: value for name, value in named if isinstance(value, torch.Tensor) and not value.is_floating_point()
        }

    def _taken(self, ways: Ways, takes: Callable[[Ways], bool]) -> Ways:
        """All of these variations, or those that are taken one by one, if they are together, too; or none."""
        if not ways or takes(ways):
            return ways
        alone = {name: way for name, way in ways.items() if len(ways) > 1 and takes({name: way})}
        refused = (f"{name} {way}" for name, way in ways.items() if name not in alone)
        self.refused = [*dict.fromkeys([*self.refused, *refused])]
        return alone if len(alone) < 2 or takes(alone) else {}

    def _choose_timed(self, takes: Callable[[Ways], bool]) -> Ways:
        """For each argument the first of its variations for timed calls that the reference takes."""
        chosen: Ways = {}
        for rank in range(max(map(len, TIMED.values()))):
            open_yet = {name: shown for name, shown in self._shown.items() if name not in chosen}
            ways = {name: way for name, shown in open_yet.items() for way in islice(shown.timed, rank, rank + 1)}
            taken = {**chosen, **self._taken(ways, takes)}
            chosen = taken if not chosen or taken == chosen or takes(taken) else chosen
        return chosen
