"""The last node of an evolution: what it found, as one value."""

from __future__ import annotations

from graph.reporter import summed_up
from nodes.evolution.state import EvolutionState
from nodes.node import Update
from nodes.node_context import NodeContext
from nodes.state import Best


def reporter(state: EvolutionState, node_context: NodeContext) -> Update:
    """Time the kept kernels together, and sum the run up. Its depth is the number of its generations."""
    _, update = summed_up(state, _kept(state), node_context, depth=state.begun)
    gone = update["result"].final.withdrawn
    return {**update, "withdrawn": (*state.withdrawn, *gone)}


def _kept(state: EvolutionState) -> tuple[Best, ...]:
    """The kernels that were the best once, in their order, the present one last."""
    best = state.best
    if best is None:
        return ()
    improved = {step.candidate for step in state.history if step.agent == "tester" and step.improved}
    known = {each.digest: each for each in state.pool if each.digest in improved}
    earlier = [
        Best(candidate=each.candidate, verdict=each.verdict)
        for digest, each in known.items()
        if each.candidate and each.verdict and digest not in (best.candidate.digest, *state.withdrawn)
    ]
    return (*earlier, best)
