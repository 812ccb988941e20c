"""The optimizer makes one move at a time from a kernel that is right."""

from __future__ import annotations

from harness.judging.device_lock import held_s
from harness.nouns.candidate import Candidate
from harness.nouns.profile import Profile
from harness.profile.render import BUSY, say_phase
from nodes.agents.learning import shown_lessons
from nodes.history import gate_open
from nodes.settings import Settings
from nodes.state import Best, RunState, Step, Stop, require
from nodes.stops import after_profile
from nodes.turn.answers import AnswerError, Declined, Written, parse_move
from nodes.turn.node import NodeContext, Update
from nodes.turn.race import raced
from nodes.turn.speak import (
    Spoken,
    TurnEndedError,
    author,
    best_speedup,
    ended,
    request_for,
    require_untried,
    speak,
    tools_for,
)
from tools.kernel_tools import call_tool


def optimizer(state: RunState, node_context: NodeContext) -> Update:
    """Ask for one move from the kernel that `base` names; the model may answer that none is left.

    A move whose best values the model cannot know comes as a sweep, which the sweeper settles before the test.
    """
    start = base(state, node_context.settings)
    profile = shown_profile(state, start, node_context.settings)
    tools = tools_for("optimizer", state, node_context, present=start.candidate, profiled=profile is not None)
    request = request_for(
        "optimizer",
        state,
        node_context,
        tools,
        candidate=start.candidate,
        verdict=start.verdict,
        profile=profile,
        max_sweep=node_context.settings.max_sweep,
        critique=state.critique,
        lessons=shown_lessons(state, node_context),
    )

    def moved(text: str) -> Written | Declined:
        answer = parse_move(text, start.candidate.source, max_sweep=node_context.settings.max_sweep)
        if isinstance(answer, Written) and not answer.sweep and answer.source.strip() == start.candidate.source.strip():
            raise AnswerError("unchanged", "The answer is the present kernel. Make the move, or answer DONE.")
        if isinstance(answer, Written) and not answer.sweep:
            require_untried(start.candidate.model_copy(update={"source": answer.source}), state.history)
        return answer

    def ask(model: str, first_exchange: int) -> Spoken[Written | Declined]:
        return speak(
            request,
            moved,
            node_context=node_context,
            state=state,
            tools=tools,
            first_exchange=first_exchange,
            model=model,
        )

    try:
        won = raced(ask, start.candidate, state, node_context)
    except TurnEndedError as error:
        return ended("optimizer", state, error)
    step = Step(depth=state.depth, agent="optimizer", speedup=best_speedup(state.best), usage=won.usage)
    if isinstance(won.said.answer, Declined):
        return {**_no_move(won.said.answer.reason, step), "device_seconds": won.device_seconds}
    by = author("optimizer", node_context, won.said.usage, won.model)
    return {**_move(won.said.answer, start.candidate, by, step), "device_seconds": won.device_seconds}


def _no_move(reason: str, step: Step) -> Update:
    """The run ends where nothing is left to try."""
    return {
        "history": (step.model_copy(update={"message": reason}),),
        "usage": step.usage,
        "stop_reason": Stop(name="no_moves_left", message=reason),
    }


def _move(written: Written, start: Candidate, author: str, step: Step) -> Update:
    """The kernel that the move made, of which nothing is known yet."""
    candidate = Candidate(source=written.source, target=start.target, author=author, parent=start.digest)
    made = {
        "move": written.move,
        "candidate": candidate.digest,
        "parent": candidate.parent,
        "message": written.why,
    }
    return {
        "candidate": candidate,
        "move": written.move,
        "sweep": written.sweep,
        "verdict": None,
        "diagnosis": None,
        "profile": None,
        "repairs": 0,
        "gave_up": False,
        "history": (step.model_copy(update=made),),
        "usage": step.usage,
    }


def base(state: RunState, settings: Settings) -> Best:
    """The kernel that the next move starts from: the best, or with `advance="latest"` the one that just passed.

    After a move that could not be repaired it is the best in either case.
    """
    best = require(state.best, "best")
    passed = state.candidate is not None and state.verdict is not None and state.verdict.passed
    if settings.advance == "best" or not passed:
        return best
    return Best(
        candidate=require(state.candidate, "candidate"),
        verdict=require(state.verdict, "verdict"),
        profile=state.profile,
    )


def shown_profile(state: RunState, start: Best, settings: Settings) -> Profile | None:
    """The profile of the kernel at hand, once the gate is open; nothing before."""
    return start.profile if gate_open(state, settings) else None


# -- The profiler finds out what limits the kernel that the optimizer is about to improve -----------------------------


def profiler(state: RunState, node_context: NodeContext) -> Update:
    """Profile the base kernel; one that has a profile already keeps it."""
    start = base(state, node_context.settings)
    before = held_s()
    profile = start.profile or _profile(state, node_context, start.candidate.source)
    device_seconds = held_s() - before
    best = state.best
    if best is not None and best.candidate.digest == start.candidate.digest:
        best = best.model_copy(update={"profile": profile})
    step = Step(
        depth=state.depth,
        agent="profiler",
        candidate=start.candidate.digest,
        parent=start.candidate.parent,
        message=_told(profile),
        speedup=best_speedup(best),
    )
    update: Update = {"profile": profile, "best": best, "device_seconds": device_seconds}
    after = state.model_copy(update={**update, "device_seconds": state.device_seconds + device_seconds})
    return {**update, "history": (step,), "stop_reason": after_profile(after, node_context.settings)}


def _told(profile: Profile) -> str:
    """The history's line: where the kernel stands, what takes most of its time, and why no counters were read where
    they should have been."""
    limit = f", limited by {profile.bottleneck.replace('_', ' ')}" if profile.bottleneck else ""
    quiet = profile.held_up < BUSY  # else most of it is waiting for others
    most = f"; {say_phase(profile.phases[0])}" if len(profile.phases) > 1 and quiet else ""
    stands = f"{profile.bound} bound, {profile.roof_said}{limit}{most}"
    return f"{stands}. Without counters: {profile.unprofiled}" if profile.unprofiled else stands


def _profile(state: RunState, node_context: NodeContext, source: str) -> Profile:
    profile: Profile = call_tool(node_context.tools(state).profile_kernel, source)
    return profile
