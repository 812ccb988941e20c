"""Where each node's outcome leads. Pure functions of state and settings; the names are the graph's edges."""

from __future__ import annotations

from typing import Literal

from nodes.agents.ablator import to_ablate
from nodes.history import failed_builds, gate_open, outcome_against
from nodes.settings import Settings
from nodes.state import RunState, require
from nodes.stops import broke_off, out_of_repairs

AfterFailure = Literal["diagnoser", "repairer", "reviewer", "optimizer", "generator"]
ToNextMove = Literal["reviewer", "optimizer"]


def after_intake(
    state: RunState, settings: Settings
) -> Literal["generator", "profiler", "reviewer", "optimizer", "sanitizer"]:
    """A task without a kernel gets its first one; a run that goes on from its best is optimized, if it may be."""
    if state.stop_reason:
        return "sanitizer"
    if state.best is None:
        return "generator"
    return "profiler" if gate_open(state, settings) else _to_next_move(settings)


def after_generator(state: RunState, settings: Settings) -> Literal["tester", "sanitizer"]:
    """A kernel is tested; a refusal ends the run."""
    return "sanitizer" if state.stop_reason else "tester"


def after_tester(
    state: RunState, settings: Settings
) -> Literal["approver", "diagnoser", "repairer", "generator", "profiler", "reviewer", "optimizer", "sanitizer"]:
    """A failure is diagnosed or mended; a pass is optimized, and first profiled where the gate is open.

    A new best that somebody is to approve of waits for that.
    """
    if _waits_for_approval(state, settings):
        return "approver"
    passed = require(state.verdict, "verdict").passed
    if state.final_repair:
        return "sanitizer" if passed or broke_off(state, settings) else _to_be_mended(state, settings)
    if state.stop_reason:
        return "sanitizer"
    if not passed:
        return _after_failure(state, settings)
    return "profiler" if gate_open(state, settings) else _to_next_move(settings)


def after_approver(
    state: RunState, settings: Settings
) -> Literal["generator", "profiler", "reviewer", "optimizer", "sanitizer"]:
    """Kept or not, the run goes on from the best kernel; without one it begins anew."""
    if state.stop_reason:
        return "sanitizer"
    if state.best is None:
        return "generator"
    return "profiler" if gate_open(state, settings) else _to_next_move(settings)


def after_diagnoser(state: RunState, settings: Settings) -> Literal["repairer", "sanitizer"]:
    """A diagnosis is acted on."""
    ended = state.gave_up if state.final_repair else state.stop_reason
    return "sanitizer" if ended else "repairer"


def after_repairer(
    state: RunState, settings: Settings
) -> Literal["tester", "diagnoser", "generator", "reviewer", "optimizer", "sanitizer"]:
    """A repair is tested. Where the repairer gives up, a new start or the best kernel is the way on.

    Who was sent no diagnosis and sees no repair is sent one.
    """
    if state.stop_reason and not state.final_repair:
        return "sanitizer"
    if state.gave_up:
        return "sanitizer" if state.final_repair else _fall_back(state, settings)
    return "diagnoser" if _wants_a_diagnosis(state) else "tester"


def after_profiler(state: RunState, settings: Settings) -> Literal["reviewer", "optimizer", "sanitizer"]:
    """A profiled kernel is optimized, unless it is as fast as asked for."""
    return "sanitizer" if state.stop_reason else _to_next_move(settings)


def after_reviewer(state: RunState, settings: Settings) -> Literal["optimizer", "sanitizer"]:
    """Whatever was said, the next move is the optimizer's."""
    return "sanitizer" if state.stop_reason else "optimizer"


def after_optimizer(state: RunState, settings: Settings) -> Literal["tester", "sweeper", "sanitizer"]:
    """A move is tested, a sweep settled before; no move left ends the run."""
    if state.stop_reason:
        return "sanitizer"
    return "sweeper" if state.sweep else "tester"


def after_sweeper(state: RunState, settings: Settings) -> Literal["tester", "sanitizer"]:
    """The fastest variant is tested; a budget that was spent before one was found ends the run."""
    return "sanitizer" if state.stop_reason else "tester"


def after_sanitizer(state: RunState, settings: Settings) -> Literal["diagnoser", "ablator", "reporter"]:
    """A finding is diagnosed like any failure; otherwise the run is at its end."""
    return "diagnoser" if state.final_repair else after_ablator(state, settings)


def after_ablator(state: RunState, settings: Settings) -> Literal["ablator", "reporter"]:
    """One accepted move after the other is taken back, where the settings ask for that."""
    return "ablator" if any(True for _ in to_ablate(state, settings)) else "reporter"


def _waits_for_approval(state: RunState, settings: Settings) -> bool:
    """Whether the tester has left a gain unsettled: a settled one is the best kernel already."""
    verdict, best = require(state.verdict, "verdict"), state.best
    settled = best is not None and best.verdict == verdict
    return settings.approve_best and not settled and outcome_against(verdict, best) == "faster"


def _wants_a_diagnosis(state: RunState) -> bool:
    """Whether the repairer has left the failing kernel as it was, because nobody had said what is wrong with it."""
    failed = state.verdict.candidate if state.verdict else None
    return state.diagnosis is None and state.candidate is not None and state.candidate.digest == failed


def _after_failure(state: RunState, settings: Settings) -> AfterFailure:
    return _fall_back(state, settings) if out_of_repairs(state, settings) else _to_be_mended(state, settings)


def _to_be_mended(state: RunState, settings: Settings) -> Literal["diagnoser", "repairer"]:
    """What a compiler says of its first errors is mostly diagnosis enough; of what it says again, it was not."""
    unbuilt = require(state.verdict, "verdict").status == "build_failed"
    return (
        "repairer"
        if unbuilt and settings.diagnose == "when_needed" and failed_builds(state.history) < 2
        else "diagnoser"
    )


def _fall_back(state: RunState, settings: Settings) -> Literal["reviewer", "optimizer", "generator"]:
    return "generator" if state.best is None else _to_next_move(settings)


def _to_next_move(settings: Settings) -> ToNextMove:
    """The optimizer, to whom a reviewer speaks first where there is one."""
    return "reviewer" if settings.reviewer_model else "optimizer"
