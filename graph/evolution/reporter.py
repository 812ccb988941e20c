"""The last node of an evolution: what it found, as one value."""

from __future__ import annotations

from graph.reporter import summed_up
from nodes.evolution.state import EvolutionState
from nodes.node import Update
from nodes.node_context import NodeContext
from nodes.state import Best, Step


def reporter(state: EvolutionState, node_context: NodeContext) -> Update:
    """Time the kept kernels together, and sum the run up. Its depth is the number of its generations."""
    left_open = _those(state, {step.candidate for step in _tests(state) if step.undecided})
    _, update = summed_up(state, _kept(state), left_open, node_context, depth=state.begun)
    gone = update["result"].final.withdrawn
    return {**update, "withdrawn": (*state.withdrawn, *gone)}


def _kept(state: EvolutionState) -> tuple[Best, ...]:
    """The kernels that were the best once, in their order, the present one last."""
    best = state.best
    if best is None:
        return ()
    return (*_those(state, {step.candidate for step in _tests(state) if step.improved}), best)


def _tests(state: EvolutionState) -> list[Step]:
    return [step for step in state.history if step.agent == "tester"]


def _those(state: EvolutionState, digests: set[str | None]) -> tuple[Best, ...]:
    """The kernels of these digests, but for the best one and what was withdrawn."""
    others = digests - {state.best.candidate.digest if state.best else None, *state.withdrawn}
    return tuple(
        Best(candidate=each.candidate, verdict=each.verdict)
        for each in state.pool
        if each.candidate and each.verdict and each.verdict.passed and not each.dropped and each.digest in others
    )
