"""The approver asks a person about each new best kernel before it is kept, where the settings say so."""

from __future__ import annotations

from langgraph.types import interrupt

from nodes.agents.tester import apply_verdict
from nodes.approval import HOW, Approval, decided
from nodes.settings import Settings
from nodes.state import RunState, Stop, require
from nodes.turn.node import NodeContext, Update


def approver(state: RunState, node_context: NodeContext) -> Update:
    """Wait for the decision, then write down the test as the decision has it.

    A kernel that is turned down is no gain: the way on is from the best one before it, or from none. The graph needs a
    checkpointer, as every interrupt does; the node runs again from its start when it is answered.
    """
    complaint = ""
    while (decision := decided(interrupt(Approval.of(state, complaint).shown()))) is None:
        complaint = f"That was no decision. {HOW}"
    update = apply_verdict(state, require(state.verdict, "verdict"), 0.0, node_context.settings, decision)
    return update if decision.kept else {**update, **_without(state, node_context.settings)}


def _without(state: RunState, settings: Settings) -> Update:
    """The way on from the best kernel before it; where there is none the generator is shown what was turned down."""
    if state.best is not None:
        # With "latest" the optimizer would begin from what nobody wants, and the reviewer looks at the last kernel.
        return {"candidate": state.best.candidate, "verdict": state.best.verdict}
    if state.regenerations < settings.max_regenerations:
        return {}
    message = f"Each of the {state.regenerations + 1} first kernels was turned down."
    return {"stop_reason": Stop(name="declined", message=message)}
