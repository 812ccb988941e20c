"""At the end of a run a kernel of one batch gets loops for others beside it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from scripted_judge import ScriptedJudge
from softsign_script import FASTER, RIGHT, SOURCE
from test_final import digest, ended, found

from harness.nouns.batches import OTHER_BATCHES, Batches, ServedBatches
from harness.nouns.candidate import Candidate
from harness.nouns.contest import Contest
from harness.nouns.errors import MachineError
from harness.nouns.task import Task
from harness.nouns.verdict import Verdict
from harness.trusted.facts.batches import find_batches
from nodes.state import Result, RunState

LOOPS = "namespace part2"


class Wide(ScriptedJudge):
    """Kernels with loops beside them are right everywhere."""

    def batches(self, task: Task) -> Batches:
        assert task.source == SOURCE
        return Batches.model_validate(find_batches(task.source, task.name))

    def serves(self, task: Task, candidate: Candidate, batches: Batches) -> ServedBatches:
        if LOOPS not in candidate.source:
            return ServedBatches(own=batches.own, refused="the kernel's sizes are constants")
        return ServedBatches(own=batches.own, workloads=batches.workloads, speedup=1.5)


class Slower(Wide):
    """The loops' tests cost the own batch time."""

    def contest(self, task: Task, candidates: Sequence[Candidate]) -> Contest:
        slowed = [
            each.model_copy(update={"source": each.source.replace("passed 3x", "passed 2x")})
            if LOOPS in each.source
            else each
            for each in candidates
        ]
        standings = super().contest(task, slowed).standings
        named = zip(standings, candidates, strict=True)
        return Contest(standings=tuple(each.model_copy(update={"candidate": own.digest}) for each, own in named))


class Failing(Wide):
    """What has loops fails among timed calls."""

    def contest(self, task: Task, candidates: Sequence[Candidate]) -> Contest:
        failed = next((each for each in candidates if LOOPS in each.source), None)
        if failed:
            return Contest(failed=failed.digest, message="It is wrong between timed calls.")
        return super().contest(task, candidates)


class Late(Wide):
    """A verdict takes longer than a run may."""

    def evaluate(self, task: Task, candidate: Candidate, *given: Any, **named: Any) -> Verdict:
        verdict = super().evaluate(task, candidate, *given, **named)
        return verdict.model_copy(update={"seconds": {"check": 1e6}})


class Gone(Wide):
    """The machine fails while batches are asked for."""

    def batches(self, task: Task) -> Batches:
        raise MachineError("It went away.", "Go on with --resume.")


def result_of(state: RunState) -> Result:
    assert state.result is not None
    return state.result


def said(state: RunState) -> str:
    best = result_of(state).best
    return best.verdict.served.said if best and best.verdict.served else ""


def moves(state: RunState) -> list[str]:
    return [step.move for step in state.history]


def test_the_result_is_the_best_kernel_with_loops_beside_it() -> None:
    state, _ = ended(RIGHT, FASTER, judge=Wide)
    assert LOOPS in found(state)
    assert said(state).startswith("Serves batches 1 to ")
    assert "; 1.50x over eager at batch " in said(state)
    last = state.history[-1]
    assert (last.agent, last.move, last.parent) == ("tester", OTHER_BATCHES, state.earlier[-1].candidate.digest)
    assert state.candidate is not None
    assert last.candidate == state.candidate.digest
    assert state.earlier[-1].candidate.source.rstrip() == FASTER.rstrip()
    assert result_of(state).depth == 1


def test_a_result_that_the_final_chose_is_what_gets_the_loops() -> None:
    open_still = FASTER.replace("passed 3x", "passed 1.02x 20%\n// judge: finally 5x")
    state, _ = ended(RIGHT, open_still, judge=Wide)
    assert LOOPS in found(state)
    assert state.history[-1].parent == digest(open_still)
    assert said(state).startswith("Serves batches 1 to ")
    assert f"The kernel {digest(open_still)} takes the place of " in result_of(state).final.note
    assert [each.candidate.source for each in state.earlier] == [RIGHT, open_still]


def test_what_costs_the_own_batch_time_is_not_kept() -> None:
    state, _ = ended(RIGHT, FASTER, judge=Slower)
    assert LOOPS not in found(state)
    assert said(state).endswith("alone: its own batch would be slower.")
    assert OTHER_BATCHES not in moves(state)


def test_what_fails_among_timed_calls_is_not_kept() -> None:
    state, _ = ended(RIGHT, FASTER, judge=Failing)
    assert LOOPS not in found(state)
    assert said(state).endswith("alone: its loops failed.")
    final = result_of(state).final
    assert [each.candidate for each in final.standings] == [digest(RIGHT), digest(FASTER)]
    assert "withdrawn" in final.note


def test_one_final_times_the_kept_kernels_and_what_has_loops() -> None:
    state, judges = ended(RIGHT, FASTER, judge=Wide)
    assert [asked for asked, _ in judges.asked].count("contest") == 3, "three kernels, once"
    assert [each.candidate for each in result_of(state).final.standings][:2] == [digest(RIGHT), digest(FASTER)]


def test_nobody_asks_where_the_setting_is_off_time_is_short_or_the_machine_fails() -> None:
    for judge, settings in ((Wide, {"serve_batches": False}), (Late, {}), (Gone, {})):
        state, _ = ended(RIGHT, judge=judge, **settings)
        assert LOOPS not in found(state)
        assert said(state) == ""
