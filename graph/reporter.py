"""The last node: what the run found, as one value."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from typing import Protocol

from graph.export.drop_in import drop_in_files
from graph.export.serving import checkable, served_by
from harness.judging.device_lock import held_s
from nodes.agents.batches import widened
from nodes.agents.final import held
from nodes.protocols import Account, JudgedRun
from nodes.state import Best, Final, Result, RunState, Stop, require
from nodes.turn.node import NodeContext, Update
from tools.static_verifier import say_instructions

Widen = Callable[[tuple[Best, ...], Final], tuple[tuple[Best, ...], Final, Update]]


class Ended(Account, JudgedRun, Protocol):
    """A run of any graph at its end."""

    @property
    def stop_reason(self) -> Stop | None:
        """What ended it."""
        ...


def reporter(state: RunState, node_context: NodeContext) -> Update:
    """Time the kept kernels together, and sum the run up. The best verified kernel is part of it, whatever ended it."""
    kept = (*state.earlier, *([state.best] if state.best else []))
    widen = partial(_widened, state=state, node_context=node_context)
    left, update = summed_up(state, kept, state.undecided, node_context, depth=state.depth, widen=widen)
    return {**update, "earlier": left[:-1], "undecided": ()}


def _widened(
    left: tuple[Best, ...], final: Final, state: RunState, node_context: NodeContext
) -> tuple[tuple[Best, ...], Final, Update]:
    """The result with the batches that it serves; where only a kernel with loops beside it serves any, that one is kept
    last, and they are timed together again."""
    task = require(state.task, "task")
    widest, update = widened(left[-1], state, node_context)
    served = tuple(each.model_copy(update={"verdict": checkable(task, each.verdict)}) for each in widest)
    left = (*left[:-1], *served)
    if len(served) == 1:
        return left, final, update
    left, again = held(left, (), state, node_context)
    note = " ".join(dict.fromkeys(filter(None, (final.note, again.note))))
    both = again.model_copy(update={"withdrawn": (*final.withdrawn, *again.withdrawn), "note": note})
    return left, both, update


def summed_up(
    state: Ended,
    kept: tuple[Best, ...],
    undecided: tuple[Best, ...],
    node_context: NodeContext,
    *,
    depth: int,
    widen: Widen | None = None,
) -> tuple[tuple[Best, ...], Update]:
    """Which of the `kept` kernels are left after the final, the result last; and the result, whose drop-in is timed as
    its caller has it. `widen` finds the batches that it serves."""
    before, began, more = held_s(), time.monotonic(), Update()
    left, final = held(kept, undecided, state, node_context)
    if left and widen:
        left, final, more = widen(left, final)
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
    return left, {**more, "result": result, "best": best, "device_seconds": device_seconds}


def _as_called(best: Best, state: Ended, node_context: NodeContext) -> Best:
    """The best kernel with what its machine code has; its verdict also tells how fast the export is for a caller."""
    task = require(state.task, "task")
    drop_in = drop_in_files(served_by(task, best.verdict), best.candidate)
    verdict = node_context.judge(state).as_called(task, best.candidate, best.verdict, drop_in)
    instructions = say_instructions(verdict.build, best.candidate.target) if verdict.build else ""
    return best.model_copy(update={"verdict": verdict, "instructions": instructions})
