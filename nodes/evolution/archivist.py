"""What an evolution takes from the archive, and what it leaves there."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from harness.nouns.errors import CutegenError, MachineError
from nodes.evolution.state import EvolutionState, Proposal
from nodes.node import Update
from nodes.node_context import NodeContext
from nodes.protocols import JudgedRun
from nodes.state import Step, require
from nodes.turn.agent_common import best_speedup
from nodes.turn.request import Shown
from tools.archive import Archive, Entry, Found


def archivist(state: EvolutionState, node_context: NodeContext) -> Update:
    """Write what was judged since the last time, or all of it where the archive has less than it was given.

    An archive that cannot be used, or is none any more, is said so, and tried again later: the run's own folder has
    every kernel.
    """
    archive = Archive.named(node_context.settings.archive)
    new = [each for each in state.pool if each.verdict and each.digest not in state.archived]
    if archive is None or not new:
        return {}
    put = partial(
        archive.put, node_context.thread_id or "", require(state.task, "task"), node_context.judge(state).facts().device
    )
    try:
        if put([_entry(each) for each in new]) < len(state.archived) + len(new):
            put([_entry(each) for each in state.pool if each.verdict])
    except CutegenError as error:
        step = Step(depth=state.generation, agent="archivist", message=str(error), speedup=best_speedup(state.best))
        return {"history": (step,)}
    return {"archived": (*state.archived, *(each.digest for each in new))}


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
    return tuple(Shown(source=each.source, about=_about(each, device)) for each in found), _sentence(found, device)


def _about(found: Found, device: str) -> str:
    where = (
        "" if found.device == device else f" on {found.device}, which is another device: the factor says little here"
    )
    return f'For the task "{found.name}" ({", ".join(found.operations)}): {found.speedup:.2f}x its baseline{where}'


def _sentence(found: Sequence[Found], device: str) -> str:
    others = sorted({each.device for each in found} - {device})
    if not found:
        return ""
    told = f"{len(found)} kernels of near tasks come from the archive, to be looked at, not to be believed."
    return f"{told} Some were judged on {', '.join(others)}, and not on {device}." if others else told


def _entry(proposal: Proposal) -> Entry:
    return Entry(
        candidate=require(proposal.candidate, "candidate"),
        verdict=require(proposal.verdict, "verdict"),
        operator=proposal.order.operator,
        move=proposal.move,
        parents=proposal.order.parents,
        dollars=proposal.usage.dollars,
        seconds=proposal.seconds,
    )
