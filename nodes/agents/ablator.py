"""What each move of the best kernel is worth: taken back by itself, and the rest judged beside the whole."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

from harness.judging.device_lock import held_s
from harness.nouns.candidate import Candidate
from harness.nouns.verdict import Verdict
from nodes.agents.tester import say_failure
from nodes.history import head_to_head_with
from nodes.protocols import Account, JudgedRun
from nodes.settings import Settings
from nodes.state import Best, RunState, Step, require
from nodes.stops import out_of_time
from nodes.turn.node import NodeContext, Update
from nodes.turn.speak import best_speedup
from tools.kernel_tools import call_tool
from tools.taking_back import taken_back

INSEPARABLE = "It cannot be taken back alone: later moves changed the same lines."


@dataclass(frozen=True)
class Accepted:
    """A move that the best kernel is made of, with the kernels before and after it."""

    move: str
    before: Candidate
    after: Candidate


def ablator(state: RunState, node_context: NodeContext) -> Update:
    """Take back the first accepted move whose turn has not come."""
    return ablated(next(to_ablate(state, node_context.settings)), state, state.depth, node_context)


def to_ablate(state: RunState, settings: Settings) -> Iterator[Accepted]:
    """The moves that are still to be taken back: none where the settings ask for none, or the run's time is over."""
    return left(accepted(state), state.best, state.history, state, settings)


def accepted(state: RunState) -> Iterator[Accepted]:
    """Each kernel that was the best once, with the one before it."""
    moves = {step.candidate: step.move for step in state.history if step.agent == "tester"}
    for before, after in pairwise([*state.earlier, *([state.best] if state.best else [])]):
        digest = after.candidate.digest
        yield Accepted(moves.get(digest, ""), before.candidate, after.candidate)


def left(
    moves: Iterator[Accepted], best: Best | None, history: Sequence[Step], run: Account, settings: Settings
) -> Iterator[Accepted]:
    """Those of the moves that were not taken back from the best kernel yet."""
    if not settings.ablate_moves or best is None or out_of_time(run, settings):
        return
    done = {step.parent for step in history if step.agent == "ablator" and step.candidate == best.candidate.digest}
    yield from (each for each in moves if each.after.digest not in done)


def ablated(accepted: Accepted, run: JudgedRun, depth: int, node_context: NodeContext) -> Update:
    """The step that says what the best kernel is without one move. The kernel that is judged for it is no candidate."""
    best, before = require(run.best, "best"), held_s()
    source = taken_back(accepted.before.source, accepted.after.source, best.candidate.source)
    step = Step(
        depth=depth,
        agent="ablator",
        move=accepted.move,
        candidate=best.candidate.digest,
        parent=accepted.after.digest,
        message=INSEPARABLE,
        speedup=best_speedup(best),
    )
    if source is None:
        return {"history": (step,)}
    verdict: Verdict = call_tool(node_context.tools(run).run_kernel, source)
    found = {
        "status": verdict.status,
        "message": say_failure(verdict),
        "candidate_speedup": verdict.timing.speedup if verdict.timing else None,
        "head_to_head": head_to_head_with(best, verdict),
    }
    return {"history": (step.model_copy(update=found),), "device_seconds": held_s() - before}
