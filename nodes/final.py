"""The end of a run: the kernels that were the best once, and eager, timed in the same rounds.

Each was kept by a head-to-head, and its speed-up over eager measured in rounds of its own. Those are not each other's:
on a machine whose weather changes a kernel that won can have the smaller one.
"""

from __future__ import annotations

from collections.abc import Sequence

from harness.nouns.contest import Contest, Standing
from harness.nouns.verdict import Timing
from nodes.node_context import NodeContext
from nodes.sanitizer import watched
from nodes.settings import Settings
from nodes.state import Best, Final, RunState, require
from nodes.stops import out_of_time

MOST = 8
"""Kernels that are timed together, the latest ones: each has a process and outputs of its own."""
NOT_TIMED = "The kept kernels were not timed together at the end"


def held(state: RunState, node_context: NodeContext) -> tuple[tuple[Best, ...], Final]:
    """What is kept after the final, the result last, and the final. Nothing is left where no kernel got through it."""
    kept = (*state.earlier, *([state.best] if state.best else []))
    if len(kept) < 2:
        return kept, Final()
    if why := _no_time(kept, state, node_context.settings):
        return kept, Final(note=f"{NOT_TIMED}: {why}")
    kept, contest, lost = _contested(kept, state, node_context)
    kept = tuple(_timed(each, contest) for each in kept)
    result = _result(kept, contest, state, node_context)
    notes = [*lost, _said(result, contest) if result else ""]
    final = Final(standings=contest.standings, note=" ".join(filter(None, notes)))
    digests = [each.candidate.digest for each in kept]
    return ((*kept[: digests.index(result.candidate.digest)], result) if result else ()), final


def _no_time(kept: Sequence[Best], state: RunState, settings: Settings) -> str:
    """Why there is no time for it: it takes about as long as the longest verdict on one of them, builds apart."""
    if spent := out_of_time(state, settings):
        return spent.message
    needed_s = max(sum(s for name, s in each.verdict.seconds.items() if name != "build") for each in kept)
    left_s = min(
        settings.max_wall_s - state.seconds,
        settings.max_device_s - state.device_seconds - state.usage.device_seconds,
    )
    return f"that takes about {needed_s:.0f} s, and {left_s:.0f} s were left." if needed_s > left_s else ""


def _contested(
    kept: tuple[Best, ...], state: RunState, node_context: NodeContext
) -> tuple[tuple[Best, ...], Contest, list[str]]:
    """Those that got through, with their contest, where there are two, and a sentence for each that did not."""
    lost = list[str]()
    while len(kept) > 1:
        candidates = [each.candidate for each in kept[-MOST:]]
        contest = node_context.judge(state).contest(require(state.task, "task"), candidates)
        if not contest.failed:
            return kept, contest, lost
        lost.append(f"The kernel {contest.failed} was withdrawn, for it failed in the final: {contest.message}")
        kept = tuple(each for each in kept if each.candidate.digest != contest.failed)
    return kept, Contest(), lost


def _timed(held: Best, contest: Contest) -> Best:
    """The kernel with its times in the final; of its verdict's timing stays what those do not tell."""
    standing = next((each for each in contest.standings if each.candidate == held.candidate.digest), None)
    verdict = held.verdict
    if standing is None or verdict.timing is None:
        return held
    workloads = tuple(
        part.model_copy(update={"timing": _instead(part.timing, timing)}) if part.timing else part
        for part, timing in zip(verdict.workloads, _padded(standing, len(verdict.workloads)), strict=True)
    )
    update = {"timing": _instead(verdict.timing, standing.timing), "workloads": workloads}
    return held.model_copy(update={"verdict": verdict.model_copy(update=update)})


def _padded(standing: Standing, count: int) -> list[Timing]:
    """A timing for each of a verdict's workloads; those that are checked and not timed come last, and need none."""
    return [*standing.workloads, *[standing.timing] * (count - len(standing.workloads))]


def _instead(then: Timing, now: Timing) -> Timing:
    kept = {"head_to_head", "task_defect", "compiled", "compiled_failure", "advisory", "hopeless"}
    return now.model_copy(update={name: getattr(then, name) for name in kept})


def _result(kept: Sequence[Best], contest: Contest, state: RunState, node_context: NodeContext) -> Best | None:
    """The kernel that is surely faster than the last one, the fastest such; else the latest.

    Sanitizers have watched the run's best alone: any other is watched now, and left out if they find anything.
    """
    met = {each.candidate: each.timing.head_to_head for each in contest.standings}
    faster = {digest: found.speedup for digest, found in met.items() if found and found.outcome == "faster"}
    ranked = sorted(enumerate(kept), key=lambda at: (faster.get(at[1].candidate.digest, 0.0), at[0]), reverse=True)
    for _, each in ranked:
        known = state.best is not None and each.candidate.digest == state.best.candidate.digest
        if known or not node_context.settings.sanitize:
            return each
        verdict = watched(each, state, node_context)
        if verdict.passed:
            return each.model_copy(update={"verdict": verdict})
    return None


def _said(result: Best, contest: Contest) -> str:
    """Why a kernel that was not kept last is the result."""
    digest = result.candidate.digest
    met = next((each.timing.head_to_head for each in contest.standings if each.candidate == digest), None)
    if met is None or met.outcome != "faster":
        return ""
    return (
        f"The kernel {digest} is the result, not {met.incumbent}, which was kept last: timed together at the end it is "
        f"{met.speedup:.2f}x as fast ({met.interval.low:.2f} to {met.interval.high:.2f})."
    )
