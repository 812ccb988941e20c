"""A plan as a tree of the model's modules: how much of a call each takes, and what became of the regions in it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Literal

from graph.model.plan import Plan, PlannedRegion
from graph.model.plan_table import in_times
from graph.model.state import RegionOutcome
from harness.nouns.acceptance import Acceptance, Inside

Fate = Literal["kept", "dropped", "no gain", "left"]


@dataclass(frozen=True)
class Leaf:
    """A region at one of its places. `share` is of a call's time; gains are speed-ups, where they were measured.

    `bound` is the whole's speed-up if the region took no longer than its floor at all of its places.
    """

    region: PlannedRegion
    fate: Fate
    share: float
    alone: float | None
    inside: float | None
    bound: str


@dataclass
class Branch:
    """A module by its path: the regions that stand in it, and the modules inside."""

    path: str
    leaves: list[Leaf] = field(default_factory=list)
    inner: dict[str, Branch] = field(default_factory=dict)

    @property
    def share(self) -> float:
        """Of a call's time, with all that is inside."""
        return sum(leaf.share for leaf in self.leaves) + sum(each.share for each in self.inner.values())

    @property
    def name(self) -> str:
        """As its parent calls it."""
        return self.path.rpartition(".")[2] or "(model)"


def tree_of(plan: Plan, outcomes: tuple[RegionOutcome, ...], acceptance: Acceptance | None) -> Branch:
    """A region stands in the innermost module that holds all of its operations at a place."""
    root = Branch("")
    found = {outcome.name: outcome for outcome in outcomes}
    inside = {each.name: each for each in (acceptance.regions if acceptance else ())}
    kept = frozenset(acceptance.kept if acceptance else ())
    for region in plan.regions:
        outcome, within = found.get(region.name), inside.get(region.name)
        leaf = Leaf(
            region=region,
            fate=_fate(region.name, outcome, within, kept),
            share=plan.share(region) / len(region.places),
            alone=outcome.speedup if outcome else None,
            inside=within.speedup if within else None,
            bound=in_times(plan.bound([region])),
        )
        for place in region.places:
            _branch(root, common(place.modules)).leaves.append(leaf)
    return root


def common(paths: tuple[str, ...]) -> str:
    """The innermost module that all of these lie in, or are: `layers.0` of `layers.0.up` and `layers.0`."""
    split = [path.split(".") if path else [] for path in paths]
    shared = []
    for names in zip(*split, strict=False):
        if len(set(names)) > 1:
            break
        shared.append(names[0])
    return ".".join(shared)


def rows(branch: Branch, depth: int = 0) -> Iterator[tuple[int, Branch | Leaf]]:
    """The tree from above, each with its depth; of modules side by side in the model's order."""
    yield depth, branch
    for leaf in branch.leaves:
        yield depth + 1, leaf
    for each in branch.inner.values():
        yield from rows(each, depth + 1)


def _branch(root: Branch, path: str) -> Branch:
    found = root
    for name in path.split(".") if path else []:
        inner = f"{found.path}.{name}" if found.path else name
        found = found.inner.setdefault(name, Branch(inner))
    return found


def _fate(name: str, outcome: RegionOutcome | None, inside: Inside | None, kept: frozenset[str]) -> Fate:
    if name in kept:
        return "kept"
    if inside is not None:
        return "dropped"
    return "no gain" if outcome is not None else "left"
