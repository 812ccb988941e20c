"""The end of a run: the kernels that were the best once, and eager, timed in the same rounds.

Each was kept by a head-to-head, and its speed-up over eager measured in rounds of its own. Those are not each other's:
on a machine whose weather changes a kernel that won can have the smaller one.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Protocol

from harness.nouns.contest import PATIENCE, Contest, Standing
from harness.nouns.errors import CutegenError
from harness.nouns.verdict import Timing
from nodes.agents.sanitizer import watched
from nodes.protocols import Account, JudgedRun
from nodes.settings import Settings
from nodes.state import Best, Final, require
from nodes.stops import left_s, out_of_time
from nodes.turn.node import NodeContext

MOST, MOST_UNDECIDED = 8, 4
"""Kernels that are timed together, the latest ones, and how many of them nobody could tell from the best of their time:
each has a process and outputs of its own."""
NOT_TIMED = "The kept kernels were not timed together at the end"


class Run(Account, JudgedRun, Protocol):
    """A run of any graph."""


def held(
    kept: tuple[Best, ...], undecided: tuple[Best, ...], state: Run, node_context: NodeContext
) -> tuple[tuple[Best, ...], Final]:
    """What is kept after the final, the result last, and the final. Nothing is left where no kernel got through it.

    `kept` are the kernels that were the best once, the latest last; of the `undecided` ones each is the result that is
    surely faster than that. A machine that cannot time them together, as where their outputs do not fit its memory,
    leaves them as they are.
    """
    waiting = undecided[-MOST_UNDECIDED:]
    room = MOST - len(waiting)
    entered = (*kept[:-room], *waiting, *kept[-room:])
    if not kept or len(entered) < 2:
        return kept, Final()
    if why := _no_time(entered, state, node_context.settings):
        return kept, Final(note=f"{NOT_TIMED}: {why}")
    lost = dict[str, str]()
    try:
        contest, failure = _contest(entered, state, node_context, lost), ""
    except CutegenError as error:
        contest, failure = Contest(), f"{NOT_TIMED}: {error.problem}"
    through = [_timed(each, contest) for each in entered if each.candidate.digest not in lost]
    result = _result(through, contest, state, node_context, lost)
    notes = (*lost.values(), failure, _said(result, contest) if result else "")
    final = Final(standings=contest.standings, withdrawn=tuple(lost), note=" ".join(filter(None, notes)))
    if result is None:
        return (), final
    known = {each.candidate.digest for each in kept} - set(lost)
    before = [each for each in through if each.candidate.digest in known]
    left = itertools.takewhile(lambda each: each.candidate.digest != result.candidate.digest, before)
    return (*left, result), final


def _no_time(kept: Sequence[Best], state: Run, settings: Settings) -> str:
    """Why there is no time for it: at most as long as a verdict's trials, and its rounds for each pair of sides."""
    if spent := out_of_time(state, settings):
        return spent.message
    trials_s = max(sum(s for name, s in each.verdict.seconds.items() if name not in ("build", "time")) for each in kept)
    rounds_s = max(each.verdict.seconds.get("time", 0.0) for each in kept)
    needed_s = trials_s + PATIENCE * rounds_s * (min(len(kept), MOST) + 1) / 2
    left = left_s(state, settings)
    return f"that takes about {needed_s:.0f} s, and {left:.0f} s were left." if needed_s > left else ""


def _contest(entered: Sequence[Best], state: Run, node_context: NodeContext, lost: dict[str, str]) -> Contest:
    """Of those that get through it, where there are two; `lost` gets each other one's digest, and a sentence."""
    left = [each.candidate for each in entered[-MOST:]]
    while len(left) > 1:
        contest = node_context.judge(state).contest(require(state.task, "task"), left)
        if not contest.failed:
            return contest
        said = f"The kernel {contest.failed} was withdrawn, for it failed in the final: {contest.message}"
        lost[contest.failed] = said
        left = [each for each in left if each.digest != contest.failed]
    return Contest()


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
    kept = {"head_to_head", "task_defect", "influence", "advisory", "hopeless"}
    return now.model_copy(update={name: getattr(then, name) for name in kept})


def _result(
    kept: Sequence[Best], contest: Contest, state: Run, node_context: NodeContext, lost: dict[str, str]
) -> Best | None:
    """The kernel that is surely faster than the last one, the fastest such; else the latest.

    Sanitizers have watched the run's best alone: any other is watched now, and `lost` if they find anything.
    """
    met = {each.candidate: each.timing.head_to_head for each in contest.standings}
    faster = {digest: found.speedup for digest, found in met.items() if found and found.outcome == "faster"}
    ranked = sorted(enumerate(kept), key=lambda at: (faster.get(at[1].candidate.digest, 0.0), at[0]), reverse=True)
    for _, each in ranked:
        digest = each.candidate.digest
        if (state.best and digest == state.best.candidate.digest) or not node_context.settings.sanitize:
            return each
        verdict = watched(each, state, node_context)
        if verdict.passed:
            return each.model_copy(update={"verdict": verdict})
        lost[digest] = f"The kernel {digest} was withdrawn: {verdict.message}"
    return None


def _said(result: Best, contest: Contest) -> str:
    """Why a kernel that did not come last is the result."""
    digest = result.candidate.digest
    met = next((each.timing.head_to_head for each in contest.standings if each.candidate == digest), None)
    if met is None or met.outcome != "faster":
        return ""
    return (
        f"The kernel {digest} takes the place of {met.incumbent}, which came last: timed together at the end it is "
        f"{met.speedup:.2f}x as fast {met.within}."
    )
