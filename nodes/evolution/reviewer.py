"""The reviewer of an evolution: what it says of a new best kernel, and what it plans, goes to every proposer."""

from __future__ import annotations

from harness.nouns.candidate import TargetName
from nodes.agents.reviewer import bare, compared, criticized
from nodes.evolution.proposer import hidden_workloads, shown_task, shown_verdict
from nodes.evolution.state import EvolutionState, Proposal
from nodes.request import Compared, Request
from nodes.settings import Settings
from nodes.state import Best, Step, require
from nodes.stops import over_budget
from nodes.turn.node import NodeContext, Update
from nodes.turn.speak import asked


def reviewer(state: EvolutionState, node_context: NodeContext) -> Update:
    """Look at the best kernel where it is a new one. Without an answer proposers are told what was said before."""
    best = state.best
    if best is None or best.candidate.digest == state.reviewed or not _wanted(state, node_context.settings):
        return {}
    critique, told, usage = criticized(_request(state, best, node_context), node_context, state)
    step = Step(
        depth=state.generation,
        agent="reviewer",
        candidate=best.candidate.digest,
        message=told,
        speedup=best.verdict.timing.speedup if best.verdict.timing else None,
        usage=usage,
    )
    said = {"critique": critique} if critique else {}
    return {**said, "reviewed": best.candidate.digest, "history": (step,), "usage": usage}


def _wanted(state: EvolutionState, settings: Settings) -> bool:
    """Whether there is one, and another generation can follow its plan."""
    return bool(settings.reviewer_model) and state.begun < settings.generations and not over_budget(state, settings)


def _request(state: EvolutionState, best: Best, node_context: NodeContext) -> Request:
    task = require(state.task, "task")
    hidden = hidden_workloads(task, node_context.settings.held_out)
    verdict = shown_verdict(best.verdict, hidden)
    return asked(
        "reviewer",
        state.model_copy(update={"task": shown_task(task, hidden)}),
        node_context,
        candidate=bare(best.candidate),
        verdict=verdict,
        profile=best.profile,
        compared=_compared(state, best.model_copy(update={"verdict": verdict})),
        critique=state.critique,
    )


def _compared(state: EvolutionState, best: Best) -> Compared:
    target: TargetName = require(state.target, "target")
    made: dict[str, Proposal] = {each.digest: each for each in state.pool if each.candidate}
    parent = made.get(best.candidate.parent or "")
    parts = (parent.candidate, parent.verdict) if parent else (None, None)
    return compared(best.candidate, best.verdict, target, *parts)
