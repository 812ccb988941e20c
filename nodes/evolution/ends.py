"""The first and the last nodes of an evolution: the task, and the kernel that is left when tools have watched it."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from harness.judging.device_lock import held_s
from harness.nouns.errors import CutegenError, UserError
from harness.nouns.sanitizer_run import SanitizerRun
from harness.tasks.declaring import directed
from nodes.agents.ablator import Accepted, ablated, left
from nodes.agents.generator import inspirations
from nodes.agents.intake import described
from nodes.agents.reviewer import require_reviewer
from nodes.evolution.selection import by_speed
from nodes.evolution.state import EvolutionState, Proposal
from nodes.evolution.verifier import require_verifiers
from nodes.settings import Settings
from nodes.state import Best, Step, require
from nodes.turn.node import NodeContext, Update
from nodes.turn.speak import best_speedup
from tools.archive import Archive, Entry
from tools.kernel_tools import call_tool
from tools.wording import say_sanitizers


def intake(state: EvolutionState, node_context: NodeContext) -> Update:
    """Describe the task and settle where its kernels run; a run that had ended goes on from its kernels.

    Raises `UserError` for a file that is no task and for verifiers or a reviewer without a model, `MachineError` where
    nothing can run it.
    """
    require_verifiers(node_context.settings)
    require_reviewer(node_context.settings)
    judge, direction = node_context.any_judge(), node_context.settings.direction
    if state.task is not None and state.task.source != directed(state.source, direction):
        raise UserError("This thread holds the evolution of another task.", "Begin a new one.")
    task = state.task or described(judge, state.source, state.name, direction)
    found: Update = {"task": task, "target": judge.device.target, "tier": judge.tier}
    shown, told = inspirations(state.model_copy(update=found), node_context, node_context.settings.inspirations)
    steps = (Step(depth=state.begun, agent="archivist", message=told),) if told else ()
    ended = {"stop_reason": None, "result": None}
    return {"name": state.name, **found, **ended, "inspiration": shown, "history": steps}


def sanitizer(state: EvolutionState, node_context: NodeContext) -> Update:
    """Watch the best kernel's every access; one with a finding is withdrawn, and the fastest of the others follows."""
    if not node_context.settings.sanitize:
        return {}
    before = held_s()
    best, withdrawn, steps = state.best, list(state.withdrawn), list[Step]()
    while best is not None:
        runs: tuple[SanitizerRun, ...] = call_tool(node_context.tools(state).sanitize_kernel, best.candidate.source)
        verdict = best.verdict.sanitized(runs)
        watched = best.candidate
        if verdict.passed:
            best = best.model_copy(update={"verdict": verdict})
        else:
            withdrawn.append(watched.digest)
            best = _next(state, withdrawn)
        steps.append(
            Step(
                depth=state.generation,
                agent="sanitizer",
                candidate=watched.digest,
                status=verdict.status,
                message=say_sanitizers(runs),
                speedup=best_speedup(best),
            )
        )
        if verdict.passed:
            break
    return {
        "best": best,
        "withdrawn": tuple(withdrawn),
        "history": tuple(steps),
        "device_seconds": held_s() - before,
    }


def _next(state: EvolutionState, withdrawn: list[str]) -> Best | None:
    left = [each for each in by_speed(state.pool) if each.digest not in withdrawn]
    found = left[0] if left else None
    return (
        Best(candidate=found.candidate, verdict=found.verdict) if found and found.candidate and found.verdict else None
    )


# -- What an evolution takes from the archive, and what it leaves there -----------------------------------------------


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


# -- What each kernel in the best one's line was worth by itself ------------------------------------------------------


def ablator(state: EvolutionState, node_context: NodeContext) -> Update:
    """Take back the first move of the line whose turn has not come."""
    return ablated(next(to_ablate(state, node_context.settings)), state, state.generation, node_context)


def to_ablate(state: EvolutionState, settings: Settings) -> Iterator[Accepted]:
    """The moves that are still to be taken back, the oldest first."""
    return left(_line(state), state.best, state.history, state, settings)


def _line(state: EvolutionState) -> Iterator[Accepted]:
    """From the first of the best kernel's ancestors that is right: each with the next one; of two parents the first.

    What failed and was mended on the way belongs to the move that began it.
    """
    made = {each.digest: each for each in state.pool if each.candidate and not each.dropped}
    line: list[Proposal] = []
    at = made.pop(state.best.candidate.digest, None) if state.best else None
    while at is not None:
        line.insert(0, at)
        at = made.pop(at.order.parents[0], None) if at.order.parents else None
    before, move = None, ""
    for each in line:
        move = move or each.move
        if each.candidate and each.speedup is not None:
            yield from [Accepted(move, before, each.candidate)] if before else []
            before, move = each.candidate, ""
