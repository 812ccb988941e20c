"""The repairer mends a failing kernel by line edits, as small as the diagnosis allows."""

from __future__ import annotations

from harness.nouns.candidate import Candidate
from nodes.state import RunState, Step, Usage, require
from nodes.stops import after_giving_up
from nodes.turn.answers import AnswerError, Declined, parse_diagnosis, parse_patch
from nodes.turn.node import NodeContext, Update
from nodes.turn.speak import TurnEndedError, author, best_speedup, ended, request_for, require_untried, speak, tools_for
from tools.structure import lost


def repairer(state: RunState, node_context: NodeContext) -> Update:
    """Ask for edits and apply them; edits that do not fit the kernel go back to the model."""
    broken = require(state.candidate, "candidate")
    tools = tools_for("repairer", state, node_context, present=broken)
    request = request_for(
        "repairer", state, node_context, tools, candidate=broken, verdict=state.verdict, diagnosis=state.diagnosis
    )

    def patched(text: str) -> str | Declined:
        patch = parse_patch(text)
        if isinstance(patch, Declined):
            return patch
        mended = patch.apply(broken.source)
        _require_structure(broken, mended, state)
        require_untried(broken.model_copy(update={"source": mended}), state.history)
        return mended

    try:
        said = speak(request, patched, node_context=node_context, state=state, tools=tools)
    except TurnEndedError as error:
        return ended("repairer", state, error)
    if isinstance(said.answer, Declined) and state.diagnosis is None:
        step = _step(state, said.usage).model_copy(update={"message": said.answer.reason})
        return {"history": (step,), "usage": said.usage}
    if isinstance(said.answer, Declined):
        return _given_up(state, node_context, said.answer.reason, said.usage)
    candidate = Candidate(
        source=said.answer,
        target=broken.target,
        author=author("repairer", node_context, said.usage),
        parent=broken.digest,
    )
    if state.best is not None and candidate.digest == state.best.candidate.digest:
        return _given_up(
            state, node_context, "The repair takes the move back: the best kernel stands as it was.", said.usage
        )
    step = _step(state, said.usage).model_copy(update={"candidate": candidate.digest, "parent": broken.digest})
    return {"candidate": candidate, "repairs": state.repairs + 1, "history": (step,), "usage": said.usage}


def _require_structure(broken: Candidate, mended: str, state: RunState) -> None:
    """Send back a repair that throws the optimizations away. Going back to a kernel of this run is no such repair."""
    known = {step.candidate for step in state.history}
    gone = lost(broken.source, mended)
    if gone and Candidate(source=mended, target=broken.target, author=broken.author).digest not in known:
        raise AnswerError(
            "structure",
            f"The edits take away what makes the kernel fast: {'; '.join(gone)}. Mend the fault and keep them, "
            "or answer with the single line `CANNOT: <reason>`.",
        )


def _given_up(state: RunState, node_context: NodeContext, reason: str, usage: Usage) -> Update:
    """No further repair: the way on is the same as after the last one allowed."""
    stop = after_giving_up(state.model_copy(update={"gave_up": True}), node_context.settings)
    step = _step(state, usage).model_copy(update={"message": reason})
    return {"gave_up": True, "history": (step,), "usage": usage, "stop_reason": stop}


def _step(state: RunState, usage: Usage) -> Step:
    return Step(depth=state.depth, agent="repairer", move=state.move, speedup=best_speedup(state.best), usage=usage)


# -- The diagnoser says what is wrong with a failing kernel, and edits nothing ----------------------------------------


def diagnoser(state: RunState, node_context: NodeContext) -> Update:
    """Ask for a structured diagnosis of the failed verdict."""
    candidate = require(state.candidate, "candidate")
    tools = tools_for("diagnoser", state, node_context, present=candidate)
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
