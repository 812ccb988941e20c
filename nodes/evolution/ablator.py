"""What each kernel in the best one's line was worth by itself."""

from __future__ import annotations

from collections.abc import Iterator

from nodes.ablator import Accepted, ablated, left
from nodes.evolution.state import EvolutionState, Proposal
from nodes.node import Update
from nodes.node_context import NodeContext
from nodes.settings import Settings


def ablator(state: EvolutionState, node_context: NodeContext) -> Update:
    """Take back the first move of the line whose turn has not come."""
    return ablated(next(to_ablate(state, node_context.settings)), state, state.generation, node_context)


def to_ablate(state: EvolutionState, settings: Settings) -> Iterator[Accepted]:
    """The moves that are still to be taken back, the oldest first."""
    return left(_line(state), state.best, state.history, state, settings)


def _line(state: EvolutionState) -> Iterator[Accepted]:
    """From the first of the best kernel's ancestors that is right: each with the next one; of two parents the first.

    What failed and was mended on the way belongs to the move that began it.
    """
    made = {each.digest: each for each in state.pool if each.candidate and not each.dropped}
    line: list[Proposal] = []
    at = made.pop(state.best.candidate.digest, None) if state.best else None
    while at is not None:
        line.insert(0, at)
        at = made.pop(at.order.parents[0], None) if at.order.parents else None
    before, move = None, ""
    for each in line:
        move = move or each.move
        if each.candidate and each.speedup is not None:
            yield from [Accepted(move, before, each.candidate)] if before else []
            before, move = each.candidate, ""
