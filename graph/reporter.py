"""The last node: what the run found, as one value."""

from __future__ import annotations

import time
from typing import Protocol

from graph.export.drop_in import drop_in_files
from graph.export.serving import checkable, served_by
from harness.judging.device_lock import held_s
from nodes.agents.batches import widened
from nodes.agents.final import held
from nodes.protocols import Account, JudgedRun
from nodes.state import Best, Result, RunState, Stop, require
from nodes.turn.node import NodeContext, Update
from tools.static_verifier import say_instructions


class Ended(Account, JudgedRun, Protocol):
    """A run of any graph at its end."""

    @property
    def stop_reason(self) -> Stop | None:
        """What ended it."""
        ...


def reporter(state: RunState, node_context: NodeContext) -> Update:
    """Time the kept kernels together, and sum the run up. The best verified kernel is part of it, whatever ended it."""
    before = held_s()
    widest, wider = widened(state, node_context)
    task = require(state.task, "task") if widest else None
    widest = tuple(each.model_copy(update={"verdict": checkable(task, each.verdict)}) for each in widest if task)
    widening_s = held_s() - before
    left, update = summed_up(state, (*state.earlier, *widest), state.undecided, node_context, depth=state.depth)
    device_seconds = update["device_seconds"] + widening_s
    return {**wider, **update, "earlier": left[:-1], "undecided": (), "device_seconds": device_seconds}


def summed_up(
    state: Ended, kept: tuple[Best, ...], undecided: tuple[Best, ...], node_context: NodeContext, *, depth: int
) -> tuple[tuple[Best, ...], Update]:
    """Which of the `kept` kernels are left after the final, the result last; and the result, whose drop-in is timed as
    its caller has it."""
    before, began = held_s(), time.monotonic()
    left, final = held(kept, undecided, state, node_context)
    best = _as_called(left[-1], state, node_context) if left else None
    timing = best.verdict.timing if best else None
    device_seconds = held_s() - before
    result = Result(
        best=best,
        improved=timing is not None and timing.wins,
        depth=depth,
        attempts=state.attempts,
        usage=state.usage,
        seconds=state.seconds + time.monotonic() - began,
        device_seconds=state.device_seconds + device_seconds + state.usage.device_seconds,
        stop=require(state.stop_reason, "stop_reason"),
        final=final,
    )
    return left, {"result": result, "best": best, "device_seconds": device_seconds}


def _as_called(best: Best, state: Ended, node_context: NodeContext) -> Best:
    """The best kernel with what its machine code has; its verdict also tells how fast the export is for a caller."""
    task = require(state.task, "task")
    drop_in = drop_in_files(served_by(task, best.verdict), best.candidate)
    verdict = node_context.judge(state).as_called(task, best.candidate, best.verdict, drop_in)
    instructions = say_instructions(verdict.build, best.candidate.target) if verdict.build else ""
    return best.model_copy(update={"verdict": verdict, "instructions": instructions})
