"""The last node: what the run found, as one value."""

from __future__ import annotations

from nodes.node import Update
from nodes.state import Result, RunState, present
from nodes.workshop import Workshop


def reporter(state: RunState, workshop: Workshop) -> Update:
    """Sum the run up. The best verified kernel is part of it, whatever ended the run."""
    timing = state.best.verdict.timing if state.best else None
    result = Result(
        best=state.best,
        improved=timing is not None and timing.wins,
        depth=state.depth,
        attempts=state.attempts,
        usage=state.usage,
        seconds=state.seconds,
        device_seconds=state.device_seconds + state.usage.device_seconds,
        stop=present(state.stop_reason, "stop_reason"),
    )
    return {"result": result}
