"""What the best kernel's profile says to the authors of the next ones: three recommendations."""

from __future__ import annotations

from langchain_core.tools import ToolException

from harness.judging.device_lock import held_s
from harness.nouns.profile import Profile
from nodes.evolution.held_out import hidden_workloads, shown_task, shown_verdict
from nodes.evolution.proposer import latest_errors
from nodes.evolution.state import EvolutionState
from nodes.node import Update
from nodes.node_context import NodeContext
from nodes.roles import KEYLESS
from nodes.settings import Settings
from nodes.state import Best, Step, require
from nodes.stops import over_budget
from nodes.turn.agent_common import asked, best_speedup
from nodes.turn.answers import parse_recommendations
from nodes.turn.request import Request, Search
from nodes.turn.speak import TurnEndedError, speak
from tools.kernel_tools import call_tool


def summarizer(state: EvolutionState, node_context: NodeContext) -> Update:
    """Profile the best kernel where it is a new one, and draw recommendations; without an answer the old ones stay."""
    best = state.best
    if best is None or best.candidate.digest == state.summarized or not wanted(state, node_context.settings):
        return {}
    before = held_s()
    try:
        profile: Profile = best.profile or call_tool(node_context.tools(state).profile_kernel, best.candidate.source)
    except ToolException as error:
        return {"summarized": best.candidate.digest, "history": (_step(state, str(error)),)}
    device_seconds = held_s() - before
    best = best.model_copy(update={"profile": profile})
    done = {"best": best, "summarized": best.candidate.digest, "device_seconds": device_seconds}
    try:
        said = speak(_request(state, best, node_context), parse_recommendations, node_context=node_context, state=state)
    except TurnEndedError as error:
        step = _step(state, str(error)).model_copy(update={"usage": error.usage})
        return {**done, "usage": error.usage, "history": (step,)}
    told = said.answer.recommendations
    step = _step(state, " ".join(told)).model_copy(update={"usage": said.usage})
    return {**done, "recommendations": told, "usage": said.usage, "history": (step,)}


def wanted(state: EvolutionState, settings: Settings) -> bool:
    """Whether a model is to be asked, and another generation can follow its advice."""
    asks = settings.recommendations and settings.model_for("summarizer") != KEYLESS
    return asks and state.begun < settings.generations and over_budget(state, settings) is None


def _request(state: EvolutionState, best: Best, node_context: NodeContext) -> Request:
    task = require(state.task, "task")
    hidden = hidden_workloads(task, node_context.settings.held_out)
    return asked(
        "summarizer",
        state.model_copy(update={"task": shown_task(task, hidden)}),
        node_context,
        candidate=best.candidate,
        verdict=shown_verdict(best.verdict, hidden),
        profile=best.profile,
        search=Search(operator="mutation", errors=latest_errors(state.pool)),
    )


def _step(state: EvolutionState, message: str) -> Step:
    return Step(
        depth=state.generation,
        agent="summarizer",
        candidate=state.best.candidate.digest if state.best else None,
        message=message,
        speedup=best_speedup(state.best),
    )
