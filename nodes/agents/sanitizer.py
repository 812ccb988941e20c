"""The sanitizer watches the final kernel's every access; what it finds is repaired like any other failure."""

from __future__ import annotations

import time

from harness.judging.device_lock import held_s
from harness.nouns.sanitizer_run import SanitizerRun
from harness.nouns.verdict import Verdict
from nodes.protocols import JudgedRun
from nodes.state import Best, RunState, Step
from nodes.stops import may_mend
from nodes.turn.node import NodeContext, Update
from nodes.turn.speak import best_speedup
from tools.kernel_tools import call_tool
from tools.wording import say_sanitizers


def sanitizer(state: RunState, node_context: NodeContext) -> Update:
    """From the best kernel downwards, until one is clean or could not be watched. None is left: the run has no best.

    A kernel with a finding is withdrawn. While repairs and budgets last it goes to the diagnoser first, and comes back
    here when a repair of it has passed, or none could be had; then the best kernel before it takes its place.
    """
    if state.best is None or not node_context.settings.sanitize:
        return {"final_repair": False}
    began, before = time.monotonic(), held_s()
    steps: list[Step] = []
    waiting = [*state.earlier, state.best]
    best: Best | None = None
    sent_back: Update = {"final_repair": False}
    while waiting and best is None and not sent_back["final_repair"]:
        held = waiting.pop()
        verdict = watched(held, state, node_context)
        if verdict.passed:
            best = held.model_copy(update={"verdict": verdict})
        elif may_mend(_after(state, time.monotonic() - began, held_s() - before), node_context.settings):
            sent_back = _sent_back(held, verdict, state)
            best = waiting.pop() if waiting else None
        steps.append(_step(held, verdict, state, best))
    return {
        "best": best,
        "earlier": tuple(waiting),
        "history": tuple(steps),
        "device_seconds": held_s() - before,
        **sent_back,
    }


def watched(held: Best, state: JudgedRun, node_context: NodeContext) -> Verdict:
    """The kernel's verdict with what the sanitizers say of it."""
    runs: tuple[SanitizerRun, ...] = call_tool(node_context.tools(state).sanitize_kernel, held.candidate.source)
    return held.verdict.sanitized(runs)


def _sent_back(held: Best, verdict: Verdict, state: RunState) -> Update:
    """What the diagnoser is to find: the kernel withdrawn, as one that failed."""
    digest = held.candidate.digest
    moves = [step.move for step in state.history if step.agent == "tester" and step.candidate == digest]
    return {
        "candidate": held.candidate,
        "verdict": verdict,
        "move": moves[-1] if moves else "",
        "diagnosis": None,
        "profile": None,
        "repairs": state.repairs if state.final_repair else 0,
        "gave_up": False,
        "final_repair": True,
    }


def _after(state: RunState, seconds: float, device_seconds: float) -> RunState:
    spent = {"seconds": state.seconds + seconds, "device_seconds": state.device_seconds + device_seconds}
    return state.model_copy(update=spent)


def _step(held: Best, verdict: Verdict, state: RunState, best: Best | None) -> Step:
    return Step(
        depth=state.depth,
        agent="sanitizer",
        candidate=held.candidate.digest,
        parent=held.candidate.parent,
        status=verdict.status,
        message=say_sanitizers(verdict.sanitizers),
        speedup=best_speedup(best),
    )
