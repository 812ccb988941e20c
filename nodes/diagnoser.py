"""The diagnoser says what is wrong with a failing kernel, and edits nothing."""

from __future__ import annotations

from nodes.node import Update
from nodes.node_context import NodeContext
from nodes.state import RunState, Step, require
from nodes.turn.agent_common import best_speedup, ended, request_for
from nodes.turn.answers import parse_diagnosis
from nodes.turn.speak import TurnEndedError, speak
from nodes.turn.toolbox import tools_for


def diagnoser(state: RunState, node_context: NodeContext) -> Update:
    """Ask for a structured diagnosis of the failed verdict."""
    candidate = require(state.candidate, "candidate")
    tools = tools_for("diagnoser", state, node_context)
    request = request_for("diagnoser", state, node_context, tools, candidate=candidate, verdict=state.verdict)
    try:
        said = speak(request, parse_diagnosis, node_context=node_context, state=state, tools=tools)
    except TurnEndedError as error:
        return ended("diagnoser", state, error)
    step = Step(
        depth=state.depth,
        agent="diagnoser",
        move=state.move,
        candidate=candidate.digest,
        parent=candidate.parent,
        message=said.answer.cause,
        speedup=best_speedup(state.best),
        usage=said.usage,
    )
    return {"diagnosis": said.answer, "history": (step,), "usage": said.usage}
