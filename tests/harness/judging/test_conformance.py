"""What every judge keeps to, asked of the local one and of the scripted one alike."""

from __future__ import annotations

from functools import cache

import pytest
from brief_terms import brief
from kernel_frame import HEAD, TAIL
from own_turns import own_turns
from scripted_judge import Scripted

from harness.judging.device_lock import held_s
from harness.judging.local import LocalJudge
from harness.judging.protocol import JudgeOrder, KernelJudge
from harness.judging.terms import Terms
from harness.nouns.candidate import Candidate
from harness.nouns.errors import MachineError, UserError
from harness.nouns.verdict import Verdict
from harness.targets.cpu import CpuTarget

SOFTSIGN = """
import torch

class Model(torch.nn.Module):
    def forward(self, x):
        return x / (1 + x.abs())

def get_inputs():
    return [torch.rand(37, 129)]
"""
LOOP = """
void run(TensorView x, TensorView y) {
  BEFORE
  for (int64_t i = 0; i < x.numel(); ++i) out(y)[i] = in(x)[i] / (ONE + std::fabs(in(x)[i]));
}
"""


def kernel(before: str = "", one: str = "1") -> Candidate:
    text = LOOP.replace("BEFORE", before).replace("ONE", one)
    return Candidate(source=HEAD + text + TAIL, target="cpu", author="test")


RIGHT = kernel()
INCUMBENT = kernel("volatile int unused = 0;  // judge: passed 1.2x")
KERNELS = {
    "passed": RIGHT,
    "wrong": kernel("// judge: wrong", one="2"),
    "crashed": kernel("__builtin_trap();  // judge: crashed killed by SIGILL"),
    "build_failed": kernel("rows = 3;  // judge: build_failed 'rows' was not declared in this scope"),
    "refused": kernel('std::system("true");  // judge: refused a kernel calls nothing of the system'),
}
FAULTY = kernel(
    "float* own = new float[4](); volatile float stray = own[4]; delete[] own;  // judge: finding heap-buffer-overflow"
)


class Asked:
    """A judge, each of whose verdicts is asked for once."""

    def __init__(self, judge: KernelJudge) -> None:
        self.judge = judge
        self.task = judge.describe(SOFTSIGN, name="softsign")
        self.verdict = cache(self._verdict)

    def _verdict(self, status: str, incumbent: Candidate | None = None) -> Verdict:
        with own_turns():
            return self.judge.evaluate(self.task, KERNELS[status], seed=7, incumbent=incumbent)


@pytest.fixture(scope="module", params=["local", "scripted"])
def asked(request: pytest.FixtureRequest, bench) -> Asked:
    if request.param == "scripted":
        return Asked(Scripted()(JudgeOrder("cpu")))
    return Asked(LocalJudge(CpuTarget(), brief(Terms(bench.tier))))


@pytest.mark.parametrize("status", KERNELS)
def test_a_verdict_names_what_it_is_on_and_carries_what_its_status_may(asked: Asked, status: str) -> None:
    verdict = asked.verdict(status)
    assert verdict.status == status, verdict.message
    assert (verdict.candidate, verdict.task, verdict.seed) == (KERNELS[status].digest, asked.task.digest, 7)
    assert (verdict.tier, verdict.precision, verdict.tolerance) == (asked.judge.tier, "ieee", 1.0)
    assert (verdict.timing is not None, verdict.correctness is not None) == (status == "passed", status in _COMPARED)
    assert bool(verdict.message) == bool(verdict.check) == (status != "passed")
    assert (verdict.build is not None) == (status != "refused")
    assert Verdict.model_validate_json(verdict.model_dump_json()) == verdict
    if status == "build_failed":
        assert "'rows' was not declared in this scope" in verdict.message


_COMPARED = ("passed", "wrong")


def test_a_pass_has_all_its_comparisons_right_and_a_wrong_one_ends_with_what_is_wrong(asked: Asked) -> None:
    passed, wrong = asked.verdict("passed").correctness, asked.verdict("wrong").correctness
    assert passed is not None
    assert wrong is not None
    assert not any(error.bad_fraction for trial in passed.trials for error in trial.outputs)
    last = wrong.trials[-1].outputs[0]
    assert last.bad_fraction > 0
    assert last.first_bad is not None


def test_a_refusal_comes_before_the_build_and_is_the_screens(asked: Asked) -> None:
    refusal = asked.judge.screen(asked.task, KERNELS["refused"])
    assert refusal is not None
    assert (asked.verdict("refused").check, asked.verdict("refused").message) == (refusal.check, str(refusal))
    assert asked.judge.screen(asked.task, RIGHT) is None
    build = asked.judge.build(asked.task, RIGHT)
    assert asked.judge.evaluate(asked.task, KERNELS["refused"], build).build == build, "what was built is not lost"


def test_a_build_that_is_given_is_judged_as_it_is(asked: Asked) -> None:
    build = asked.judge.build(asked.task, KERNELS["build_failed"])
    verdict = asked.judge.evaluate(asked.task, RIGHT, build)
    assert (verdict.status, verdict.build, verdict.candidate) == ("build_failed", build, RIGHT.digest)


def test_seeds_that_nobody_gives_differ(asked: Asked) -> None:
    seeds = {asked.judge.evaluate(asked.task, KERNELS["refused"]).seed for _ in range(3)}
    assert len(seeds) == 3


def test_the_device_is_named_and_its_time_counted(asked: Asked) -> None:
    assert asked.judge.device.target == "cpu"
    assert asked.judge.facts().threads > 0
    before = held_s()
    asked.judge.evaluate(asked.task, KERNELS["crashed"])
    assert held_s() > before


def test_a_rival_runs_in_the_same_rounds(asked: Asked) -> None:
    assert asked.verdict("passed").timing.head_to_head is None
    head_to_head = asked.verdict("passed", incumbent=INCUMBENT).timing.head_to_head
    assert head_to_head.incumbent == INCUMBENT.digest
    assert head_to_head.interval.low <= head_to_head.speedup <= head_to_head.interval.high


def test_the_same_machine_code_meets_nobody(asked: Asked) -> None:
    """A comment is no other kernel: nothing is run, and it is no gain."""
    twin = kernel("// judge: code the same")
    itself = kernel("// judge: code the same\n  // as before")
    met = asked.judge.evaluate(asked.task, itself, incumbent=twin).timing.head_to_head
    assert (met.incumbent, met.identical, met.outcome, met.speedup) == (twin.digest, True, "not faster", 1.0)
    assert not asked.verdict("passed", incumbent=INCUMBENT).timing.head_to_head.identical


def test_a_timings_ratio_is_the_quotient_of_its_times(asked: Asked) -> None:
    timing = asked.verdict("passed").timing
    assert timing.speedup == pytest.approx(timing.baseline_ms / timing.candidate_ms)
    assert timing.headline.speedup == pytest.approx(timing.headline.baseline_ms / timing.headline.ms)


def test_a_contest_is_of_kernels_and_eager_in_the_same_rounds(asked: Asked) -> None:
    third = kernel("volatile int other = 1;")
    found = asked.judge.contest(asked.task, [INCUMBENT, third, RIGHT])
    assert [each.candidate for each in found.standings] == [INCUMBENT.digest, third.digest, RIGHT.digest]
    assert found.failed == ""
    assert len({(each.timing.baseline_ms, each.timing.rounds) for each in found.standings}) == 1, "one eager for all"
    *others, last = [each.timing for each in found.standings]
    assert last.head_to_head is None
    for timing in others:
        assert timing.head_to_head.incumbent == RIGHT.digest
        assert timing.head_to_head.rounds >= 16
        assert timing.speedup == pytest.approx(timing.baseline_ms / timing.candidate_ms)
    with pytest.raises(ValueError, match="two kernels or more"):
        asked.judge.contest(asked.task, [RIGHT])


def test_a_contest_names_the_kernel_that_does_not_get_through(asked: Asked) -> None:
    traps = kernel("if (x.numel() > 0) __builtin_trap();  // judge: lost killed by SIGILL")
    for entered in ([traps, RIGHT], [RIGHT, traps]):
        found = asked.judge.contest(asked.task, entered)
        assert (found.failed, found.standings) == (traps.digest, ())
        assert found.message


def test_only_a_pass_is_profiled(asked: Asked) -> None:
    profile = asked.judge.profile(asked.task, RIGHT, asked.verdict("passed"))
    assert profile.target == "cpu"
    assert profile.time_ms == pytest.approx(asked.verdict("passed").timing.candidate_ms)
    with pytest.raises(ValueError, match="only a passed verdict"):
        asked.judge.profile(asked.task, KERNELS["wrong"], asked.verdict("wrong"))


def test_a_finding_withdraws_a_pass_and_the_screen_comes_first(asked: Asked) -> None:
    runs = asked.judge.sanitize(asked.task, FAULTY)
    assert [run.status for run in runs] == ["found"]
    assert "heap-buffer-overflow" in runs[0].findings[0].kind
    withdrawn = asked.verdict("passed").sanitized(runs)
    assert (withdrawn.status, withdrawn.check, withdrawn.timing) == ("refused", "sanitizer", None)
    with pytest.raises(ValueError, match="kernel:"):
        asked.judge.sanitize(asked.task, KERNELS["refused"])


def test_only_a_pass_is_timed_as_called(asked: Asked) -> None:
    failed = asked.verdict("wrong")
    assert asked.judge.as_called(asked.task, KERNELS["wrong"], failed, {}) is failed
    told = asked.judge.as_called(
        asked.task, RIGHT, asked.verdict("passed"), {"model_new.py": "class ModelNew: ..."}
    ).timing
    assert (told.caller is not None) != bool(told.caller_failure)
    assert told.candidate_ms == asked.verdict("passed").timing.candidate_ms


def test_what_is_no_task_is_the_users_error(asked: Asked) -> None:
    with pytest.raises(UserError) as told:
        asked.judge.describe("x = 1  # judge: no task\n", name="nothing")
    assert told.value.problem.startswith("nothing: ")
    assert told.value.remedy


class Gone(CpuTarget):
    """A device that is lost after its kernel was built."""

    def require_device(self) -> None:
        raise MachineError("The device went away.", "Go on with --resume.")


def gone(name: str, bench) -> KernelJudge:
    return LocalJudge(Gone(), brief(Terms(bench.tier))) if name == "local" else Scripted()(JudgeOrder("cpu"))


@pytest.mark.parametrize("name", ["local", "scripted"])
def test_a_judge_that_goes_away_is_the_machines_error_and_no_verdict(name: str, bench) -> None:
    judge = gone(name, bench)
    task = bench.task(SOFTSIGN)
    source = RIGHT.source + ("// judge: machine_error its device was lost\n" if name == "scripted" else "")
    with pytest.raises(MachineError, match="went away") as told:
        judge.evaluate(task, RIGHT.model_copy(update={"source": source}))
    assert told.value.remedy == "Go on with --resume."
