"""The profiler finds out what limits the kernel that the optimizer is about to improve."""

from __future__ import annotations

from harness.judging.device_lock import held_s
from harness.nouns.profile import Profile
from harness.profile.render import BUSY, say_phase
from nodes.node import Update
from nodes.node_context import NodeContext
from nodes.optimizer import base
from nodes.state import RunState, Step
from nodes.stops import after_profile
from nodes.turn.agent_common import best_speedup
from tools.kernel_tools import call_tool


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
    stands = f"{profile.bound} bound, {profile.share_of_roof:.0%} of the roof{limit}{most}"
    return f"{stands}. Without counters: {profile.unprofiled}" if profile.unprofiled else stands


def _profile(state: RunState, node_context: NodeContext, source: str) -> Profile:
    profile: Profile = call_tool(node_context.tools(state).profile_kernel, source)
    return profile
