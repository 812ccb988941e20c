"""Small nouns and states for the tests of nodes and graph: a task, kernels, verdicts, and a run in any condition."""

from __future__ import annotations

from typing import Any

from harness.nouns.build import Build, Diagnostic
from harness.nouns.candidate import Candidate
from harness.nouns.device_facts import DeviceFacts
from harness.nouns.profile import Profile
from harness.nouns.task import OpClass, Signature, Task, TensorSpec, Workload
from harness.nouns.verdict import Correctness, FirstBad, Interval, OutputError, Timing, Trial, Verdict
from nodes.state import Best, RunState, Step

DEVICE = DeviceFacts(
    device="a test's processor", threads=2, simd_floats=8, l1_bytes=32 << 10, l2_bytes=1 << 20, l3_bytes=32 << 20,
    peak_gb_s=20.0, peak_gflop_s=100.0, source="made up",
)  # fmt: skip


def task(op_class: OpClass = "elementwise") -> Task:
    """A task of one input and one output."""
    x = TensorSpec(name="x", shape=(16,), strides=(1,), dtype="float32")
    signature = Signature(inputs=(x,), outputs=(x.model_copy(update={"name": "output"}),))
    workload = Workload(name="given", signature=signature, flops=16, bytes_moved=128)
    return Task(name="sample", source="class Model: ...", workloads=(workload,), op_class=op_class)


def kernel(source: str = "one\ntwo\nthree\n", parent: Candidate | None = None) -> Candidate:
    """A kernel by the generator, or by the optimizer where it has a parent."""
    author = "optimizer:scripted" if parent else "generator:scripted"
    return Candidate(source=source, target="cpu", author=author, parent=parent.digest if parent else None)


def passed(candidate: Candidate, speedup: float, low: float | None = None, high: float | None = None) -> Verdict:
    """A verdict of a right kernel with this speed-up and interval."""
    interval = Interval(low=speedup * 0.99 if low is None else low, high=speedup * 1.01 if high is None else high)
    timing = Timing(
        candidate_ms=1 / speedup, baseline_ms=1.0, speedup=speedup, speedup_interval=interval, rounds=9, threads=2,
        converged=True,
    )  # fmt: skip
    return _verdict(candidate, status="passed", build=built(), correctness=Correctness(trials=()), timing=timing)


def wrong(candidate: Candidate) -> Verdict:
    """A verdict of a kernel with wrong numbers."""
    bad = OutputError(
        output="output", relative_l2=0.5, max_scaled=1.0, reference_relative_l2=1e-8, reference_max_scaled=1e-8,
        bad_fraction=0.25, first_bad=FirstBad(index=(3, 1), expected=1.5, got=2.5), pattern="every fourth column",
    )  # fmt: skip
    trials = (Trial(distribution="normal", seed=7, outputs=(bad,)),)
    return _verdict(
        candidate, status="wrong", build=built(), correctness=Correctness(trials=trials), check="accuracy",
        message="25 % of the elements are off",
    )  # fmt: skip


def not_built(candidate: Candidate) -> Verdict:
    """A verdict of a kernel that does not compile."""
    error = Diagnostic(severity="error", file="kernel", line=2, column=5, message="'rows' was not declared")
    build = Build(diagnostics=(error,), seconds=1.0)
    return _verdict(candidate, status="build_failed", build=build, check="build", message="'rows' was not declared")


def built() -> Build:
    """A build that succeeded, with a remark."""
    remark = Diagnostic(severity="note", file="kernel", line=3, message="loop not vectorized")
    return Build(digest="0" * 32, seconds=1.0, remarks=(remark,))


def profile(share: float = 0.5) -> Profile:
    """A profile at some share of the roof."""
    return Profile(
        target="cpu", device="a test's processor", time_ms=1.0, achieved_gb_s=20 * share, peak_gb_s=20.0,
        achieved_gflop_s=1.0, peak_gflop_s=100.0, bound="memory", share_of_roof=share, findings=("It waits.",),
    )  # fmt: skip


def best(speedup: float = 2.0, source: str = "best\n") -> Best:
    """A best kernel."""
    candidate = kernel(source)
    return Best(candidate=candidate, verdict=passed(candidate, speedup))


def attempt(move: str, candidate: Candidate, verdict: Verdict, *, improved: bool = False) -> tuple[Step, Step]:
    """The two steps that an optimization leaves: the move, and its test."""
    digest, speedup = candidate.digest, verdict.timing.speedup if verdict.timing else None
    message = f"{verdict.check}: {verdict.message}" if verdict.check else ""
    return (
        Step(depth=0, agent="optimizer", move=move, candidate=digest, parent=candidate.parent),
        Step(
            depth=0, agent="tester", move=move, candidate=digest, parent=candidate.parent, status=verdict.status,
            message=message, candidate_speedup=speedup, improved=improved,
        ),
    )  # fmt: skip


def run(**fields: Any) -> RunState:
    """A run in any condition."""
    return RunState.model_validate(
        {"source": "class Model: ...", "task": task(), "target": "cpu", "tier": "none", **fields}
    )


def _verdict(candidate: Candidate, **fields: Any) -> Verdict:
    return Verdict(candidate=candidate.digest, task=task().digest, seed=1, tier="none", **fields)
