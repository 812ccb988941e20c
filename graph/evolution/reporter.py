"""The last node of an evolution: what it found, as one value."""

from __future__ import annotations

from graph.reporter import summed_up
from nodes.evolution.state import EvolutionState
from nodes.node import Update
from nodes.node_context import NodeContext


def reporter(state: EvolutionState, node_context: NodeContext) -> Update:
    """Sum the run up. Its depth is the number of its generations."""
    return summed_up(state, node_context, depth=state.begun)
