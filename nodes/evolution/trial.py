"""The judge's word on a generation: one kernel a step, so that a killed run has lost none that was judged."""

from __future__ import annotations

from harness.judging.device_lock import held_s
from harness.nouns.verdict import Verdict
from nodes.evolution.state import EvolutionState, Proposal
from nodes.history import head_to_head_with, outcome_against
from nodes.node import Update
from nodes.node_context import NodeContext
from nodes.state import Best, Step, require
from nodes.tester import say_failure
from nodes.turn.agent_common import best_speedup
from tools.kernel_tools import call_tool


def tester(state: EvolutionState, node_context: NodeContext) -> Update:
    """Judge the most promising proposal that waits, of equals the first, beside the best kernel; keep it where it is
    faster beyond the noise."""
    proposal = max((each for each in state.pool if each.waits), key=lambda each: each.promise)
    candidate = require(proposal.candidate, "candidate")
    before = held_s()
    verdict: Verdict = call_tool(node_context.tools(state).run_kernel, candidate.source)
    outcome = outcome_against(verdict, state.best)
    best = Best(candidate=candidate, verdict=verdict) if outcome == "faster" else state.best
    return {
        "pool": (proposal.model_copy(update={"verdict": verdict}),),
        "verdict": verdict,
        "best": best,
        "attempts": state.attempts + 1,
        "device_seconds": held_s() - before,
        "history": (_step(proposal, verdict, state.best, best, undecided=outcome == "undecided"),),
    }


def _step(proposal: Proposal, verdict: Verdict, before: Best | None, best: Best | None, *, undecided: bool) -> Step:
    return Step(
        depth=proposal.order.generation,
        agent="tester",
        move=proposal.move,
        candidate=proposal.digest,
        parent=proposal.order.parents[0] if proposal.order.parents else None,
        status=verdict.status,
        message=say_failure(verdict),
        candidate_speedup=verdict.timing.speedup if verdict.timing else None,
        speedup=best_speedup(best),
        improved=best is not before,
        undecided=undecided,
        head_to_head=head_to_head_with(before, verdict),
    )
