"""How a verdict is put together from what the judge's processes said, and how they ended."""

from __future__ import annotations

import fcntl
from pathlib import Path

import pytest

from harness.isolation.process import Completed
from harness.judging import terms as room
from harness.judging.device_lock import one_at_a_time
from harness.judging.evaluation import SLOT_BUDGET_BYTES, Evaluation
from harness.judging.outcome import Case, Outcome
from harness.judging.terms import MEMORY_BYTES, Terms, require_room
from harness.machine.system import memory_bytes
from harness.nouns.batches import Batches
from harness.nouns.build import Build, Diagnostic
from harness.nouns.candidate import Candidate
from harness.nouns.device import DeviceName
from harness.nouns.device_facts import DeviceFacts
from harness.nouns.errors import MachineError
from harness.nouns.task import Signature, Task, TensorSpec, Variant, Workload
from harness.processes.runner_process import how_it_ended
from harness.wire.job import JudgeAnswer
from harness.wire.layout import slot_bytes

TERMS = Terms("none")
MIB, GIB = 1 << 20, 1 << 30
KERNEL = Candidate(source="int k;", target="cpu", author="test")
TIMING = {
    "candidate_ms": 1, "baseline_ms": 2, "speedup": 2, "speedup_interval": {"low": 1.9, "high": 2.1}, "rounds": 8,
    "threads": 1, "converged": True,
}  # fmt: skip


def raw(status="passed", *, distribution="given", seconds=1.0, **fields):
    errors = {"relative_l2": 0, "max_scaled": 0, "reference_relative_l2": 0, "reference_max_scaled": 0}
    trial = {"distribution": distribution, "seed": 1, "outputs": [{"output": "y", **errors}]}
    outcome = {"status": status, "check": "", "message": "", "seconds": {"check": seconds, "load": 0.25}}
    return outcome | {"correctness": {"trials": [trial]}} | fields


def judged(*outcomes):
    named = [Outcome(workload=name, **each) for name, each in zip("abc", outcomes, strict=False)]
    case = Case(task(5, workloads=len(outcomes)), KERNEL, TERMS, seed=3)
    return case.judged(Build(digest="0" * 32, seconds=2.0), named, {})


def test_one_workload_is_the_verdict():
    verdict = judged(raw(timing=TIMING))
    assert (verdict.status, verdict.timing.speedup, verdict.workloads) == ("passed", 2, ())
    assert verdict.seconds == {"build": 2.0, "check": 1.0, "load": 0.25}
    failed = judged(raw("crashed", check="signal", message="It died."))
    assert (failed.status, failed.check, failed.message) == ("crashed", "signal", "It died.")


def test_of_several_the_last_one_decides_and_the_first_one_is_shown_where_all_passed():
    passes = raw(timing=TIMING), raw(timing=TIMING | {"speedup": 8}, distribution="wide"), raw(distribution="zeros")
    verdict = judged(*passes)
    assert verdict.status == "passed"
    assert verdict.timing.speedup == pytest.approx(4)  # what is not timed counts for nothing
    assert verdict.correctness.trials[0].distribution == "given"
    assert [each.name for each in verdict.workloads] == ["a", "b", "c"]
    assert verdict.workloads[2].timing is None
    assert verdict.seconds == {"build": 2.0, "check": 3.0, "load": 0.75}
    fails = raw("wrong", check="correctness", message="Off.", distribution="wide", seconds=0.00004)
    verdict = judged(passes[0], fails)
    assert (verdict.status, verdict.message, verdict.timing) == ("wrong", "Workload b: Off.", None)
    assert verdict.correctness.trials[0].distribution == "wide"
    assert verdict.workloads[0].timing.speedup == 2
    assert verdict.seconds["check"] == 1.0


def test_the_first_error_speaks_for_a_failed_build():
    said = [
        Diagnostic(severity=severity, file="kernel", line=line, message=f"{severity} {line}")
        for line, severity in enumerate(("warning", "note", "error", "error"))
    ]
    verdict = Case(task(5), KERNEL, TERMS, seed=3).not_built(Build(diagnostics=tuple(said), seconds=1))
    assert (verdict.status, verdict.message) == ("build_failed", "kernel:2: error 2")


@pytest.mark.parametrize(
    ("ending", "check", "words"),
    [
        ({"outcome": "signalled", "signal": "SIGSEGV"}, "signal", "killed by SIGSEGV: an address that is not its own"),
        ({"outcome": "signalled", "signal": "SIGUSR1"}, "signal", "killed by SIGUSR1."),
        ({"outcome": "signalled"}, "signal", "killed by SIGKILL."),
        ({"outcome": "out_of_memory", "note": "used 9 GB"}, "memory", "The kernel used 9 GB."),
        ({"outcome": "flooded", "note": "too many files"}, "exit", "ended its process: too many files."),
        ({"outcome": "exited", "exit_code": 7, "stderr": b"x" * 900 + b"bye\xff\n"}, "exit", "with code 7. xxx"),
    ],
)
def test_a_runner_that_is_gone_is_a_crash_with_its_reason(ending, check, words):
    plain = {"exit_code": None, "signal": None, "stdout": b"", "stderr": b"", "wall_s": 1.0, "note": ""}
    told = how_it_ended(Completed(**(plain | {"peak_memory_bytes": 0, "strays": 0} | ending)))
    assert (told["status"], told["check"]) == ("crashed", check)
    assert words in told["message"]
    assert len(told["message"]) < 600


def test_a_runner_that_never_began_is_the_machines_fault():
    with pytest.raises(MachineError, match="could not be started: no room"):
        how_it_ended(Completed("setup_failed", None, None, b"", b"", 0.0, 0, 0, "no room"))


class Processor:
    """What a judge asks of a target here."""

    name = "cpu"

    def facts(self, *, again: bool = False) -> DeviceFacts:
        return DeviceFacts(
            device="d", threads=1, simd_floats=8, l1_bytes=1, l2_bytes=1, l3_bytes=1 << 20, peak_gb_s=10,
            peak_gflop_s=100, source="s",
        )  # fmt: skip


class Card(Processor):
    name = "cuda"

    def __init__(self, memory: int = 0) -> None:
        self.memory = memory

    def facts(self, *, again: bool = False) -> DeviceFacts:
        return super().facts().model_copy(update={"memory_bytes": self.memory})


def task(elements, workloads=1):
    spec = TensorSpec(name="y", shape=(elements,), strides=(1,), dtype="int8")
    signature = Signature(inputs=(), outputs=(spec,))
    workload = Workload(name="given", signature=signature, flops=1, bytes_moved=300_000_000)
    return Task(name="task", source="", workloads=(workload,) * workloads, op_class="other")


def test_a_large_task_has_room_for_two_slots_and_a_larger_one_for_none(monkeypatch):
    monkeypatch.setattr(room, "memory_bytes", lambda: 64 << 30)
    evaluation = Evaluation(Processor(), TERMS)
    assert evaluation._host_bytes(task(5)) == SLOT_BUDGET_BYTES
    large = task(SLOT_BUDGET_BYTES)
    assert evaluation._host_bytes(large) == 2 * slot_bytes(large.signature)
    assert evaluation._host_bytes(task(MEMORY_BYTES // 2 + 1)) == MEMORY_BYTES
    with pytest.raises(MachineError, match=r"task needs 16\.0 GiB .* the judge allows 16\.0 GiB"):
        evaluation._host_bytes(task(MEMORY_BYTES))
    assert Evaluation(Card(), TERMS)._host_bytes(task(MEMORY_BYTES)) == SLOT_BUDGET_BYTES


def test_a_task_too_large_for_the_device_is_refused_in_gib(monkeypatch):
    monkeypatch.setattr(room, "memory_bytes", lambda: 8 << 30)
    require_room(task(4 * GIB - MIB), Processor())
    with pytest.raises(MachineError, match=r"needs 5\.0 GiB .* this machine has 8\.0 GiB, .* allows 4\.0 GiB"):
        require_room(task(5 * GIB), Processor())
    with pytest.raises(MachineError, match=r"needs 20\.0 GiB .* the GPU has 70\.0 GiB, .* allows 10\.0 GiB"):
        require_room(task(20 * GIB), Card(70 * GIB))
    require_room(task(20 * GIB), Card())  # it does not say how much it has


def test_a_container_has_the_memory_that_it_was_given(tmp_path):
    limit = tmp_path / "memory.max"
    limit.write_text("1048576\n")
    assert memory_bytes(limit) == MIB
    limit.write_text("max\n")
    assert memory_bytes(limit) == memory_bytes(tmp_path / "none") > MIB


@pytest.mark.parametrize(("ms", "status"), [(19.0, "refused"), (21.0, "passed")])
def test_a_time_below_the_floor_is_refused_and_forgotten(ms, status):
    """300 MB at 1.5 times 10 GB/s take 20 ms."""
    outcome = Outcome(workload="a", **raw(timing=TIMING | {"candidate_ms": ms}))
    found = Evaluation(Processor(), TERMS)._with_floor(task(300_000_000), outcome)
    assert found.status == status
    assert (found.timing is None, found.check) == ((True, "floor") if status == "refused" else (False, ""))
    untimed = Outcome(workload="a", **raw())
    assert Evaluation(Processor(), TERMS)._with_floor(task(5), untimed) is untimed


@pytest.mark.parametrize(
    ("device", "name"),
    [
        (DeviceName(target="cpu", uuid="0b1c-22"), "timing-cpu-0b1c-22"),
        (DeviceName(target="cuda", uuid="GPU-6a1f"), "timing-cuda-GPU-6a1f"),
        (DeviceName(target="cuda", ordinal=1, uuid="GPU-6a1f"), "timing-cuda-GPU-6a1f"),
        (DeviceName(target="cuda", uuid="MIG-GPU-6a1f/7/0"), "timing-cuda-MIG-GPU-6a1f-7-0"),
    ],
)
def test_each_device_has_its_own_turns_however_it_is_counted(tmp_path, monkeypatch, device, name):
    monkeypatch.setenv("CUTEGEN_CACHE", str(tmp_path / "cache"))
    cache = tmp_path / "cache"
    with one_at_a_time(device), (cache / f"{name}.lock").open() as lock, pytest.raises(BlockingIOError):
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    with (cache / f"{name}.lock").open() as lock:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)


@pytest.mark.parametrize(("speedup", "serves"), [(0.62, False), (1.05, True)])
def test_a_kernel_slower_than_eager_at_other_batches_serves_none_however_unclear_that_is(speedup, serves, monkeypatch):
    class Timed(Evaluation):
        def _run(self, *given, timed):
            timing = TIMING | {"speedup": speedup, "speedup_interval": {"low": 0.4, "high": 1.3}}
            return JudgeAnswer.model_validate(raw(timing=timing))

        def _by_turns(self, *given):
            return Outcome(workload="all by turns", **raw())

    monkeypatch.setattr(Processor, "require_device", lambda self: None, raising=False)
    given = task(5)
    (own,) = given.workloads
    other = task(10).workloads[0].model_copy(update={"variant": Variant(name="more", batch=10)})
    found = Timed(Processor(), TERMS).serves(
        Case.of(given, KERNEL, TERMS, 1), Path("kernel.so"), Batches(own=5, workloads=(own, other))
    )
    assert bool(found.workloads) == serves
    assert found.refused == ("" if serves else "at 10 it is 0.62x over eager")


def test_where_no_kernel_can_be_right_that_is_said_and_nothing_wins():
    passed = Outcome(workload="given", **raw(timing=TIMING)).on("its forward is random")
    assert (passed.timing.task_defect, passed.timing.wins) == ("its forward is random", False)
    wrong = Outcome(workload="given", **raw("wrong", message="y is wrong.")).on("its forward is random")
    assert wrong.message == "y is wrong. No kernel can be right here: its forward is random."


def test_a_branch_that_another_processor_takes_is_named_as_not_tried():
    source = 'int f() { return __builtin_cpu_supports("amx-tile"); }'
    case = Case(task(5), Candidate(source=source, target="cpu", author="test"), TERMS, seed=3)
    verdict = case.judged(Build(digest="0" * 32, seconds=2.0), [Outcome(workload="given", **raw(timing=TIMING))], {})
    (untried,) = verdict.correctness.untried
    assert untried.distribution == "other processors"
    assert '__builtin_cpu_supports("amx-tile")' in untried.reason
