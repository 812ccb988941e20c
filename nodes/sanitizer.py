"""The sanitizer watches the final kernel's every access; one with a finding gives way to the best kernel before it."""

from __future__ import annotations

import time

from harness.sanitize.report import SanitizerRun
from nodes.asking import best_speedup
from nodes.node import Update
from nodes.state import Best, RunState, Step
from nodes.workshop import Workshop
from tools.kernel_tools import call_tool
from tools.wording import say_sanitizers


def sanitizer(state: RunState, workshop: Workshop) -> Update:
    """From the best kernel downwards, until one is clean or could not be watched. None is left: the run has no best."""
    if state.best is None or not workshop.settings.sanitize:
        return {}
    began = time.monotonic()
    tool = workshop.tools(state).sanitize_kernel
    steps: list[Step] = []
    waiting = [*state.earlier, state.best]
    best: Best | None = None
    while waiting and best is None:
        held = waiting.pop()
        runs: tuple[SanitizerRun, ...] = call_tool(tool, held.candidate.source)
        verdict = held.verdict.sanitized(runs)
        best = held.model_copy(update={"verdict": verdict}) if verdict.passed else None
        steps.append(
            Step(
                depth=state.depth,
                agent="sanitizer",
                candidate=held.candidate.digest,
                parent=held.candidate.parent,
                status=verdict.status,
                message=say_sanitizers(runs),
                speedup=best_speedup(best),
            )
        )
    return {
        "best": best,
        "earlier": tuple(waiting),
        "history": tuple(steps),
        "device_seconds": time.monotonic() - began,
    }
