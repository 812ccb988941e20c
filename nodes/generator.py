"""The generator writes the first kernel, and another one where no repair could save it."""

from __future__ import annotations

from harness.nouns.candidate import Candidate
from nodes.evolution.archivist import inspirations
from nodes.node import Update
from nodes.node_context import NodeContext
from nodes.state import RunState, Step, Stop, Usage, require
from nodes.turn.agent_common import author, ended, request_for, require_untried
from nodes.turn.answers import Declined, Written, parse_kernel
from nodes.turn.request import Search
from nodes.turn.speak import TurnEndedError, speak
from nodes.turn.toolbox import tools_for


def generator(state: RunState, node_context: NodeContext) -> Update:
    """Write a kernel from the task alone; a new start is shown the kernel that failed and why."""
    tools = tools_for("generator", state, node_context)
    shown, _ = inspirations(state, node_context, node_context.settings.first_inspirations)
    request = request_for(
        "generator", state, node_context, tools, candidate=state.candidate, verdict=state.verdict,
        search=Search(operator="translation", inspiration=shown) if shown else None,
    )  # fmt: skip

    def written(text: str) -> Written | Declined:
        answer = parse_kernel(text, move_required=False)
        if isinstance(answer, Written):
            require_untried(_kernel(answer.source, state, author="generator"), state.history)
        return answer

    try:
        said = speak(request, written, node_context=node_context, state=state, tools=tools)
    except TurnEndedError as error:
        return ended("generator", state, error)
    if isinstance(said.answer, Declined):
        step = Step(depth=0, agent="generator", message=said.answer.reason, usage=said.usage)
        stop = Stop(name="declined", message=said.answer.reason)
        return {"history": (step,), "usage": said.usage, "stop_reason": stop}
    candidate = _kernel(said.answer.source, state, author=author("generator", node_context, said.usage))
    return _begun(candidate, said.answer, said.usage, state)


def _begun(candidate: Candidate, answer: Written, usage: Usage, state: RunState) -> Update:
    """A kernel to be tested, of which nothing is known yet."""
    step = Step(
        depth=0, agent="generator", move=answer.move, candidate=candidate.digest, message=answer.why, usage=usage
    )
    return {
        "candidate": candidate,
        "move": answer.move,
        "verdict": None,
        "diagnosis": None,
        "repairs": 0,
        "gave_up": False,
        "regenerations": state.regenerations + (state.candidate is not None),
        "history": (step,),
        "usage": usage,
    }


def _kernel(source: str, state: RunState, author: str) -> Candidate:
    return Candidate(source=source, target=require(state.target, "target"), author=author)
