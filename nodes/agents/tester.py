"""The tester compiles and runs the kernel, and decides whether it is the best one now."""

from __future__ import annotations

from harness.judging.device_lock import held_s
from harness.nouns.build import Build
from harness.nouns.candidate import Candidate
from harness.nouns.verdict import HeadToHead, Verdict
from nodes.agents.final import MOST_UNDECIDED
from nodes.agents.learning import keep_lesson
from nodes.approval import Decision
from nodes.history import head_to_head_with, outcome_against
from nodes.settings import Settings
from nodes.state import Best, RunState, Step, require
from nodes.stops import after_test
from nodes.turn.node import NodeContext, Update
from nodes.turn.speak import best_speedup
from tools.kernel_tools import KernelTools, call_tool

MAX_MESSAGE_CHARS = 300
SAME_CODE = "It is the machine code that was judged before. "
EDITOR = "editor"
"""The author of a kernel that was edited in a fork of the thread, in Studio or by `update_state`."""


def tester(state: RunState, node_context: NodeContext) -> Update:
    """Judge the kernel, and keep it where it is the best one now."""
    candidate = _by_its_writer(require(state.candidate, "candidate"), state)
    judged = state.model_copy(update={"candidate": candidate})
    tools = node_context.tools(state)
    # Sanitizers watch another build: what they found can be gone from that where this one is as it was.
    build = None if state.final_repair else tools.built(candidate.source)
    if build and build.machine_code and (number := _passed_before(judged, build.machine_code)):
        return _known(judged, number, node_context.settings)
    verdict, device_seconds = _failed_before(judged, build), 0.0
    if verdict is None:
        verdict, device_seconds = _judge(tools, candidate)
    keep_lesson(judged, verdict, node_context)
    if node_context.settings.approve_best and outcome_against(verdict, state.best) == "faster":
        # The approver writes the test down: until then the kernel is neither kept nor counted.
        return {"candidate": candidate, "verdict": verdict, "device_seconds": device_seconds}
    update = apply_verdict(judged, verdict, device_seconds, node_context.settings)
    return update if candidate is state.candidate else {**update, "candidate": candidate}


def _passed_before(state: RunState, machine_code: str) -> int | None:
    """The number of the step, counted from 1, whose test passed a kernel of this machine code."""
    passed = (
        number
        for number, step in enumerate(state.history, start=1)
        if step.agent == "tester" and step.status == "passed" and step.machine_code == machine_code
    )
    return next(passed, None) if state.best else None


def _failed_before(state: RunState, build: Build | None) -> Verdict | None:
    """The verdict on the kernel whose repair has changed nothing that runs. A crash may have been the machine's."""
    last, candidate = state.verdict, require(state.candidate, "candidate")
    if build is None or last is None or last.build is None or last.status not in ("wrong", "refused"):
        return None
    if not build.machine_code or last.build.machine_code != build.machine_code:
        return None
    message = SAME_CODE + last.message.removeprefix(SAME_CODE)
    return last.model_copy(update={"candidate": candidate.digest, "build": build, "message": message})


def _known(state: RunState, number: int, settings: Settings) -> Update:
    """What a kernel of the machine code that an earlier step has tested changes: nothing is run, the best stays.

    It is no depth. It is a test, and a move without a gain: who only renames things comes to an end.
    """
    earlier, best = state.history[number - 1], require(state.best, "best")
    candidate = require(state.candidate, "candidate")
    moved = f", {earlier.move.replace(': ', ', ')}" if earlier.move else ""
    eager_ms, speedup = require(best.verdict.timing, "timing").baseline_ms, earlier.candidate_speedup or 1.0
    step = Step(
        depth=state.depth,
        agent="tester",
        move=state.move,
        candidate=candidate.digest,
        parent=candidate.parent,
        status="passed",
        message=f"the same machine code as step {number}{moved}, whose verdict stands",
        candidate_speedup=speedup,
        speedup=best_speedup(best),
        head_to_head=HeadToHead.of_identical(require(earlier.candidate, "candidate"), eager_ms / speedup),
        machine_code=earlier.machine_code,
    )
    update: Update = {
        "candidate": best.candidate,
        "verdict": best.verdict,
        "attempts": state.attempts + 1,
        "repairs": 0,
        "diagnosis": None,
        "profile": None,
    }
    after = state.model_copy(update={**update, "history": (*state.history, step)})
    return {**update, "history": (step,), "stop_reason": after_test(after, settings)}


def _by_its_writer(candidate: Candidate, state: RunState) -> Candidate:
    """The kernel; one that no agent's step names was put into the state from outside, and is not theirs."""
    written = any(step.candidate == candidate.digest for step in state.history)
    return candidate if written else candidate.model_copy(update={"author": EDITOR})


def apply_verdict(
    state: RunState, verdict: Verdict, device_seconds: float, settings: Settings, decision: Decision | None = None
) -> Update:
    """What a verdict changes. A pass is one depth, except for the first kernel; only a gain replaces the best.

    A person's `decision` on it is held to: what is turned down is no gain.
    What a busy machine left undecided is neither kept nor held against the move, and no depth; the run's final timing
    decides on it, unless a person is to approve of each kernel.
    The repair of a final kernel is no depth either: its move was counted when the kernel passed.
    """
    candidate = require(state.candidate, "candidate")
    outcome = outcome_against(verdict, state.best)
    gained = outcome == "faster" and (decision is None or decision.kept)
    best = Best(candidate=candidate, verdict=verdict) if gained else state.best
    undecided = outcome == "undecided"
    counts = verdict.passed and state.best is not None and not state.final_repair and not undecided
    depth = state.depth + counts
    judged = {"depth": depth, "improved": gained, "undecided": undecided, "speedup": best_speedup(best)}
    awaits = undecided and not settings.approve_best
    waiting = tuple(each for each in state.undecided if each.candidate.digest != candidate.digest)
    said = decision.sentence if decision else say_failure(verdict)
    step = _step(state, candidate, verdict, said).model_copy(update=judged)
    update: Update = {
        "verdict": verdict,
        "best": best,
        "earlier": (*state.earlier, state.best) if gained and state.best else state.earlier,
        "undecided": _most_promising((*waiting, Best(candidate=candidate, verdict=verdict))) if awaits else waiting,
        "depth": depth,
        "attempts": state.attempts + 1,
        "repairs": 0 if verdict.passed and not state.final_repair else state.repairs,
        "diagnosis": None,
        "profile": None,
        "device_seconds": device_seconds,
    }
    after = state.model_copy(
        update={
            **update,
            "history": (*state.history, step),
            "device_seconds": state.device_seconds + device_seconds,
        }
    )
    return {**update, "history": (step,), "stop_reason": after_test(after, settings)}


def _most_promising(waiting: tuple[Best, ...]) -> tuple[Best, ...]:
    """As many as the run's final timing takes, in their order."""
    ranked = sorted(waiting, key=_ahead, reverse=True)[:MOST_UNDECIDED]
    return tuple(each for each in waiting if each in ranked)


def _ahead(undecided: Best) -> float:
    """How far it seemed ahead of the best kernel of its time."""
    timing = undecided.verdict.timing
    return timing.head_to_head.speedup if timing and timing.head_to_head else 0.0


def _step(state: RunState, candidate: Candidate, verdict: Verdict, said: str) -> Step:
    """What is known of this test before it is known what came of it."""
    return Step(
        depth=state.depth,
        agent="tester",
        move=state.move,
        candidate=candidate.digest,
        parent=candidate.parent,
        status=verdict.status,
        message=said,
        candidate_speedup=verdict.timing.speedup if verdict.timing else None,
        busy=bool(verdict.timing and verdict.timing.busy and verdict.timing.busy.crowded),
        head_to_head=head_to_head_with(state.best, verdict),
        machine_code=verdict.build.machine_code if verdict.build else "",
    )


def _judge(tools: KernelTools, candidate: Candidate) -> tuple[Verdict, float]:
    """The verdict, and the seconds that the kernel held the device for."""
    before = held_s()
    verdict: Verdict = call_tool(tools.run_kernel, candidate.source)
    return verdict, held_s() - before


def say_failure(verdict: Verdict) -> str:
    """What failed, on one line."""
    return " ".join(f"{verdict.check}: {verdict.message}".split())[:MAX_MESSAGE_CHARS] if verdict.check else ""
