"""Which kernels the next ones are made of, and in which way: the orders of a generation."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from functools import lru_cache
from zlib import crc32

from harness.nouns.frozen import Frozen
from harness.screen.tokens import LexicalError, tokenize
from nodes.evolution.state import EvolutionState, Order, Proposal
from nodes.roles import KEYLESS
from nodes.settings import Operator, Proposer, Settings
from nodes.state import Stop
from nodes.stops import over_budget, target_met
from nodes.turn.node import NodeContext, Update
from tools.structure import Structure


def elites(pool: Sequence[Proposal], most: int) -> list[Proposal]:
    """The kernels to go on with: the fastest, then again and again the one that is fast and unlike those chosen.

    A kernel's merit is its speed as a share of the fastest's, times its distance from the nearest one chosen before it:
    one that is built like a faster one comes last.
    """
    chosen, left = by_speed(pool)[:1], by_speed(pool)[1:]
    while left and len(chosen) < most:
        best = max(left, key=lambda each: _merit(each, chosen))
        left.remove(best)
        chosen.append(best)
    return chosen


def by_speed(pool: Sequence[Proposal]) -> list[Proposal]:
    """Those that passed, the fastest first; of equal ones the older."""
    passed = [each for each in pool if each.speedup is not None]
    return sorted(passed, key=lambda each: (-(each.speedup or 0.0), each.order.number))


def orders_of(state: EvolutionState, settings: Settings, generation: int) -> tuple[Order, ...]:
    """The orders of a generation: a function of what is known alone, so that a killed run gives the same once more."""
    ensemble = settings.ensemble()
    number = state.pool[-1].order.number + 1 if state.pool else 0
    usable = [each for each in state.pool if each.digest not in state.withdrawn]
    ways = [_ways(on_island(at, usable, settings, generation), settings, generation) for at in range(settings.islands)]
    orders: list[Order] = []
    for slot in range(settings.proposals):
        proposer, island = ensemble[(number + slot) % len(ensemble)], slot % settings.islands
        operator, parents = next(each for each in ways[island] if _suits(each[0], proposer))
        alike = Counter((order.operator, order.model, order.parents) for order in orders)
        orders.append(
            Order(
                number=number + slot,
                generation=generation,
                island=island,
                operator=operator,
                model=proposer.model,
                temperature=proposer.temperature,
                parents=parents,
                turn=alike[operator, proposer.model, parents],
            )
        )
    return tuple(orders)


def on_island(island: int, pool: Sequence[Proposal], settings: Settings, generation: int) -> list[Proposal]:
    """The kernels that an island has by now: its own, and those that came from the island before it.

    Every `migration` generations the fastest kernel that each island had of its own goes to the next one, in a ring.
    """
    own = [each for each in pool if each.order.island == island]
    if settings.islands == 1:
        return own
    neighbours = [each for each in pool if each.order.island == (island - 1) % settings.islands]
    came = {
        fastest.digest: fastest
        for moved in range(settings.migration, generation + 1, settings.migration)
        for fastest in by_speed([each for each in neighbours if each.order.generation < moved])[:1]
    }
    known = {each.digest for each in own}
    return own + [each for digest, each in came.items() if digest not in known]


Way = tuple[Operator, tuple[str, ...]]


def _ways(pool: Sequence[Proposal], settings: Settings, generation: int) -> Iterator[Way]:
    """Operators with their parents, without end: first what failed just now, then kernels that are right, in turn."""
    if "refinement" in settings.operators:
        failed = to_refine(pool, generation, settings.max_repairs)
        yield from (("refinement", (each.digest,)) for each in failed[: max(1, settings.proposals // 2)])
    chosen = [each.digest for each in elites(pool, settings.parents)]
    made: list[Way] = []
    if "mutation" in settings.operators:
        made += [("mutation", (digest,)) for digest in chosen]
    if "crossover" in settings.operators and len(chosen) > 1:
        second = chosen[1 + generation % (len(chosen) - 1)]
        made.insert(min(len(made), max(0, settings.proposals - 1)), ("crossover", (chosen[0], second)))
    while True:
        yield from made or [("translation", ())]


def _suits(operator: Operator, proposer: Proposer) -> bool:
    """The playbook mends no kernels: what it can take back, it has as another proposal already."""
    return operator != "refinement" or proposer.model != KEYLESS


def to_refine(pool: Sequence[Proposal], generation: int, most: int) -> list[Proposal]:
    """The kernels of the generation before that failed, and were not mended `most` times in a row yet."""
    made = {each.digest: each for each in pool if each.digest}
    failed = [
        each for each in pool if each.verdict and each.speedup is None and each.order.generation == generation - 1
    ]
    return [each for each in failed if _mended(each, made) < most]


def _mended(proposal: Proposal, made: dict[str, Proposal]) -> int:
    """How many refinements in a row made the kernel."""
    count, at, seen = 0, proposal, {proposal.digest}
    while at.order.operator == "refinement" and at.order.parents and at.order.parents[0] in made:
        count, at = count + 1, made[at.order.parents[0]]
        if at.digest in seen:
            break
        seen.add(at.digest)
    return count


def _merit(candidate: Proposal, chosen: Sequence[Proposal]) -> float:
    mine = features_of(_source(candidate))
    nearest = min(distance(mine, features_of(_source(each))) for each in chosen)
    return (candidate.speedup or 0.0) / (chosen[0].speedup or 1.0) * nearest


def _source(proposal: Proposal) -> str:
    return proposal.candidate.source if proposal.candidate else ""


# -- In what two kernels differ: their structure, their constants, and their words ------------------------------------


WINDOW = 4
"""Tokens in a row that count as one word of a source: enough to tell statements apart, and no line as a whole."""

_CONSTANT = re.compile(r"\bconstexpr\s+\w+\s+(\w+)\s*=\s*(\d+)|\busing\s+(\w+)\s*=\s*(?:cute::)?Int<(\d+)>")


class Features(Frozen):
    """A kernel's place among others. `structure` counts what optimizations are made of, `constants` are its own."""

    structure: tuple[int, ...] = ()
    constants: tuple[tuple[str, int], ...] = ()
    words: frozenset[int] = frozenset()


@lru_cache(maxsize=4096)
def features_of(source: str) -> Features:
    """Of one source; those of a text that is no C++ to the screen are empty."""
    structure = Structure.of(source)
    try:
        texts = [token.text for token in tokenize(source)]
    except LexicalError:
        return Features()
    found = _CONSTANT.findall(source)
    constants = {name or alias: int(value or other) for name, value, alias, other in found}
    windows = range(max(1, len(texts) - WINDOW + 1))
    return Features(
        structure=tuple(structure.model_dump().values()) if structure else (),
        constants=tuple(sorted(constants.items())),
        words=frozenset(crc32("\0".join(texts[at : at + WINDOW]).encode()) for at in windows),
    )


def distance(one: Features, other: Features) -> float:
    """From 0, the same, to 1, nothing in common: the mean of what structure, constants and words are apart."""
    structure = _apart(set(enumerate(one.structure)), set(enumerate(other.structure)))
    constants = _apart(set(one.constants), set(other.constants))
    return (structure + constants + _apart(one.words, other.words)) / 3


def _apart(one: set[tuple[int, int]] | set[tuple[str, int]] | frozenset[int], other: object) -> float:
    """One less what two sets have in common, as a share of both."""
    assert isinstance(other, set | frozenset)
    both = one | other
    return 1 - len(one & other) / len(both) if both else 0.0


# -- The first node of a generation: it orders the proposals, or ends the run -----------------------------------------


def breeder(state: EvolutionState, node_context: NodeContext) -> Update:
    """Order the next generation from the kernels known by now."""
    settings = node_context.settings
    stop = next(stops(state, settings), None)
    if stop is not None:
        return {"stop_reason": stop, "orders": ()}
    return {"generation": state.begun, "orders": orders_of(state, settings, state.begun)}


def stops(state: EvolutionState, settings: Settings) -> Iterator[Stop]:
    """The reasons to order no further generation, the happiest first."""
    yield from target_met(state.best, settings)
    if state.begun >= settings.generations:
        yield Stop(name="generations", message=f"{state.begun} generations have passed, as the settings asked.")
    last = [each for each in state.pool if each.order.generation == state.begun - 1]
    if last and all(each.candidate is None for each in last):
        yield Stop(name="no_moves_left", message=f"Nobody proposed anything: {last[0].dropped}")
    if (since := without_gain(state)) and settings.patience is not None and since >= settings.patience:
        yield Stop(name="patience", message=f"{since} generations in a row brought no gain.")
    budget = over_budget(state, settings)
    yield from [budget] if budget else []


def without_gain(state: EvolutionState) -> int:
    """How many generations have passed since the best kernel was proposed."""
    best = state.best.candidate.digest if state.best else None
    made = next((each.order.generation for each in state.pool if each.digest == best), None)
    return state.begun - 1 - made if made is not None else 0
