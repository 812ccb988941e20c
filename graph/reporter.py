"""The last node: what the run found, as one value."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from typing import Protocol

from graph.export.drop_in import drop_in_files
from graph.export.serving import checkable, served_by
from harness.judging.device_lock import held_s
from nodes.agents.batches import alone, joined, widened
from nodes.agents.final import held
from nodes.protocols import Account, JudgedRun
from nodes.state import Best, Final, Result, RunState, Stop, require
from nodes.turn.node import NodeContext, Update
from tools.static_verifier import say_instructions

Left = tuple[tuple[Best, ...], Final, Update]
"""The kernels that are left after the final, the result last; the final; and what it adds to the run."""

UNTIMED = "its loops were not timed beside it"


class Ended(Account, JudgedRun, Protocol):
    """A run of any graph at its end."""

    @property
    def stop_reason(self) -> Stop | None:
        """What ended it."""
        ...


def reporter(state: RunState, node_context: NodeContext) -> Update:
    """Time the kept kernels together, and sum the run up. The best verified kernel is part of it, whatever ended it."""
    kept = (*state.earlier, *([state.best] if state.best else []))
    final = partial(_serving, kept, state, node_context)
    left, update = summed_up(state, final, node_context, depth=state.depth)
    return {**update, "earlier": left[:-1], "undecided": ()}


def _serving(kept: tuple[Best, ...], state: RunState, node_context: NodeContext) -> Left:
    """The final, in which a kernel that serves other batches stands beside the one it is made of, and is the result
    where it is no slower. Another kernel that wins gets such a one of its own, and they are timed together again."""
    if not kept:
        return (), Final(), {}
    entered = _widened(kept[-1], state, node_context)
    left, final = held((*kept[:-1], *entered), state.undecided, state, node_context)
    if left and left[-1].candidate not in [each.candidate for each in entered]:
        left, final = _without(entered[1:], left, final)
        entered = _widened(left[-1], state, node_context)
        left = (*left[:-1], *entered)
        if len(entered) > 1:
            left, again = held(left, (), state, node_context)
            note = " ".join(dict.fromkeys(filter(None, (final.note, again.note))))
            final = again.model_copy(update={"withdrawn": (*final.withdrawn, *again.withdrawn), "note": note})
    if len(entered) == 1 or not left:
        return left, final, {}
    last, wide = (each.candidate for each in entered)
    if left[-1].candidate == wide and final.standings:
        return left, final, joined(left[-1], state)
    lost, timed = wide.digest in final.withdrawn, bool(final.standings)
    left, final = _without(entered[1:], left, final)
    if left and left[-1].candidate == last:
        why = "its loops failed" if lost else "its own batch would be slower" if timed else UNTIMED
        left = (*left[:-1], alone(left[-1], why))
    return left, final, {}


def _without(gone: tuple[Best, ...], left: tuple[Best, ...], final: Final) -> tuple[tuple[Best, ...], Final]:
    """What is left, and the final, without kernels that the run does not keep."""
    digests = {each.candidate.digest for each in gone}
    standings = tuple(each for each in final.standings if each.candidate not in digests)
    kept = tuple(each for each in left if each.candidate.digest not in digests)
    return kept, final.model_copy(update={"standings": standings})


def _widened(best: Best, state: RunState, node_context: NodeContext) -> tuple[Best, ...]:
    """See `widened`. The verdicts say what the drop-in of each serves."""
    task = require(state.task, "task")
    found = widened(best, state, node_context)
    return tuple(each.model_copy(update={"verdict": checkable(task, each.verdict)}) for each in found)


def summed_up(
    state: Ended, final: Callable[[], Left], node_context: NodeContext, *, depth: int
) -> tuple[tuple[Best, ...], Update]:
    """What the final left; and the result, whose drop-in is timed as its caller has it."""
    before, began = held_s(), time.monotonic()
    left, found, more = final()
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
        final=found,
    )
    return left, {**more, "result": result, "best": best, "device_seconds": device_seconds}


def _as_called(best: Best, state: Ended, node_context: NodeContext) -> Best:
    """The best kernel with what its machine code has; its verdict also tells how fast the export is for a caller."""
    task = require(state.task, "task")
    drop_in = drop_in_files(served_by(task, best.verdict), best.candidate)
    verdict = node_context.judge(state).as_called(task, best.candidate, best.verdict, drop_in)
    instructions = say_instructions(verdict.build, best.candidate.target) if verdict.build else ""
    return best.model_copy(update={"verdict": verdict, "instructions": instructions})
