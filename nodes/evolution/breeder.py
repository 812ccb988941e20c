"""The first node of a generation: it orders the proposals, or ends the run."""

from __future__ import annotations

from collections.abc import Iterator

from nodes.evolution.selection import orders_of
from nodes.evolution.state import EvolutionState
from nodes.node import Update
from nodes.node_context import NodeContext
from nodes.settings import Settings
from nodes.state import Stop
from nodes.stops import over_budget, target_met


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
