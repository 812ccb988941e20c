"""The generator writes the first kernel, and another one where no repair could save it."""

from __future__ import annotations

from collections.abc import Sequence

from harness.nouns.candidate import Candidate
from harness.nouns.errors import MachineError
from nodes.protocols import JudgedRun
from nodes.request import Search, Shown
from nodes.state import RunState, Step, Stop, Usage, require
from nodes.turn.answers import Declined, Written, parse_kernel
from nodes.turn.node import NodeContext, Update
from nodes.turn.speak import TurnEndedError, author, ended, request_for, require_untried, speak, tools_for
from tools.archive import Archive, Found


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


def inspirations(run: JudgedRun, node_context: NodeContext, most: int) -> tuple[tuple[Shown, ...], str]:
    """At most so many kernels of the nearest tasks, and a sentence where there is something to say of the archive.

    Raises `UserError` for an archive of another version; one that cannot be used just now gives none.
    """
    archive = Archive.named(node_context.settings.archive)
    if archive is None or most == 0:
        return (), ""
    try:
        found = archive.nearest(
            require(run.task, "task"), require(run.target, "target"), most, but=node_context.thread_id or ""
        )
    except MachineError as error:
        return (), str(error)
    device = node_context.judge(run).facts().device
    return tuple(Shown(source=each.source, about=_about_kernel(each, device)) for each in found), _about_archive(
        found, device
    )


def _about_kernel(found: Found, device: str) -> str:
    where = (
        "" if found.device == device else f" on {found.device}, which is another device: the factor says little here"
    )
    return f'For the task "{found.name}" ({", ".join(found.operations)}): {found.speedup:.2f}x its baseline{where}'


def _about_archive(found: Sequence[Found], device: str) -> str:
    others = sorted({each.device for each in found} - {device})
    if not found:
        return ""
    told = f"{len(found)} kernels of near tasks come from the archive, to be looked at, not to be believed."
    return f"{told} Some were judged on {', '.join(others)}, and not on {device}." if others else told
