"""Records of runs, made by hand, for the tests of the report and of the record's file."""

from datetime import UTC, datetime

from graph.runs.machine import this_machine
from graph.runs.record import RunRecord
from harness.nouns.build import Build, Diagnostic
from harness.nouns.candidate import Candidate
from harness.nouns.profile import Profile
from harness.nouns.samples import Samples
from harness.nouns.task import Signature, Task, TensorSpec, Workload
from harness.nouns.verdict import Correctness, FirstBad, Interval, OutputError, Timing, Trial, Verdict
from nodes.models.replay import Exchange, Said, digest_of
from nodes.state import Best, Step, Usage

DRAFT = """#include <cute/tensor.hpp>

void run(tvm::ffi::TensorView x, tvm::ffi::TensorView y) {
  const float* in = static_cast<const float*>(x.data_ptr());
  float* out = static_cast<float*>(y.data_ptr());
  for (int64_t i = 0; i < x.numel(); ++i) {
    out[i] = in[i] / (1.0f + std::fabs(in[i]));
  }
}
TVM_FFI_DLL_EXPORT_TYPED_FUNC(run, run);
"""
PARALLEL = DRAFT.replace("  for (", "#pragma omp parallel for schedule(static)\n  for (")
WRONG = PARALLEL.replace("1.0f +", "2.0f +")
STREAMING = PARALLEL.replace("out[i] = in[i] / (1.0f + std::fabs(in[i]));", "stream(out + i, soft(in[i]));")


def softsign_task(name: str = "softsign") -> Task:
    """A task with one input and one output of 16 elements."""
    x = TensorSpec(name="x", shape=(16,), strides=(1,), dtype="float32")
    signature = Signature(inputs=(x,), outputs=(x.model_copy(update={"name": "out"}),))
    workload = Workload(name="default", signature=signature, flops=32, bytes_moved=128)
    return Task(name=name, source="class Model: ...", workloads=(workload,), op_class="elementwise")


def candidate(source: str, author: str, parent: Candidate | None = None) -> Candidate:
    return Candidate(source=source, target="cpu", author=author, parent=parent.digest if parent else None)


def passed(kernel: Candidate, speedup: float, spread: float = 0.04) -> Verdict:
    """A verdict of a kernel that is right and `speedup` times as fast, give or take `spread` of it."""
    interval = Interval(low=speedup * (1 - spread), high=speedup * (1 + spread))
    around = [1 + spread * (at * 7 % 11 - 5) / 5 for at in range(40)]
    samples = Samples(
        candidate_ms=tuple(20 / speedup * each for each in around), baseline_ms=tuple(20 * each for each in around)
    )
    timing = Timing(
        candidate_ms=20 / speedup, baseline_ms=20, speedup=speedup, speedup_interval=interval, rounds=40, threads=2,
        converged=True, samples=samples,
    )  # fmt: skip
    return Verdict(
        status="passed", candidate=kernel.digest, task="t", seed=1, tier="landlock",
        build=Build(digest="0" * 32, seconds=2.0), correctness=errors(), timing=timing,
    )  # fmt: skip


def errors(bad: float = 0.0, name: str = "out") -> Correctness:
    first = FirstBad(index=(3,), expected=0.5, got=0.25) if bad else None
    error = OutputError(
        output=name, relative_l2=3e-8 + bad, max_scaled=1e-7 + bad, reference_relative_l2=2.8e-8,
        reference_max_scaled=9e-8, bad_fraction=bad, first_bad=first,
    )  # fmt: skip
    return Correctness(trials=(Trial(distribution="signed", seed=1, outputs=(error,)),))


def failed(kernel: Candidate, message: str) -> Verdict:
    build = Build(diagnostics=(Diagnostic(severity="error", file="kernel", line=3, message=message),), seconds=1.0)
    return Verdict(
        status="build_failed", candidate=kernel.digest, task="t", seed=1, tier="landlock", build=build,
        check="build", message=message,
    )  # fmt: skip


def wrong(kernel: Candidate) -> Verdict:
    return Verdict(
        status="wrong", candidate=kernel.digest, task="t", seed=1, tier="landlock",
        build=Build(digest="0" * 32, seconds=2.0), correctness=errors(0.97),
        check="error", message="out[3]: expected 0.5, got 0.25; 97 % of the elements are wrong",
    )  # fmt: skip


def roof(kernel_ms: float) -> Profile:
    return Profile(
        target="cpu", device="Testing CPU", time_ms=kernel_ms, achieved_gb_s=134 / kernel_ms, peak_gb_s=22.0,
        achieved_gflop_s=33 / kernel_ms, peak_gflop_s=120.0, bound="memory", share_of_roof=134 / kernel_ms / 22.0,
        findings=("memory bound: 0.25 FLOP a byte", "the loop in line 6 is vectorized"),
    )  # fmt: skip


def full_record() -> RunRecord:
    """A run with everything in it: a failed build, a wrong kernel, a slower one, two that became the best."""
    first = candidate(DRAFT, "generator:playbook")
    bad = candidate(WRONG, "optimizer:playbook", first)
    parallel = candidate(PARALLEL, "repairer:playbook", bad)
    broken = candidate(STREAMING, "optimizer:playbook", parallel)
    slower = candidate(PARALLEL + "// unrolled\n", "optimizer:playbook", parallel)
    last = candidate(PARALLEL.replace("static", "static, 4096"), "optimizer:playbook", parallel)
    kernels = (first, bad, parallel, broken, slower, last)
    verdicts = (
        passed(first, 0.92), wrong(bad), passed(parallel, 1.74), failed(broken, "'stream' was not declared"),
        passed(slower, 1.66, 0.08), passed(last, 1.93, 0.02),
    )  # fmt: skip
    moves = ("", "threads: one chunk a core", "", "streaming stores", "unroll", "chunk size")
    return RunRecord(
        id="20260131-120000-1a2b",
        outcome="improved",
        stop_reason="no gain in 2 depths",
        task=softsign_task(),
        name="softsign",
        created=datetime(2026, 1, 31, 12, tzinfo=UTC),
        seconds=48.2,
        settings={"model": "playbook", "target": "cpu", "max_depth": 6, "base_url": ""},
        machine=this_machine(),
        steps=_steps(kernels, verdicts, moves),
        candidates={kernel.digest: kernel for kernel in kernels},
        verdicts={verdict.candidate: verdict for verdict in verdicts},
        profiles={first.digest: roof(21.0), parallel.digest: roof(12.0), last.digest: roof(10.2)},
        best=Best(candidate=last, verdict=verdicts[-1], profile=roof(10.2)),
        usage=Usage(calls=6, seconds=0.4),
    )


def _steps(kernels: tuple[Candidate, ...], verdicts: tuple[Verdict, ...], moves: tuple[str, ...]) -> tuple[Step, ...]:
    steps: list[Step] = []
    best: float | None = None
    for depth, (kernel, verdict, move) in enumerate(zip(kernels, verdicts, moves, strict=True)):
        writer = kernel.author.partition(":")[0]
        steps.append(Step(depth=depth, agent=writer, move=move, candidate=kernel.digest, seconds=0.1))  # type: ignore[arg-type]
        speedup = verdict.timing.speedup if verdict.timing else None
        improved = speedup is not None and (best is None or speedup > best)
        best = speedup if improved else best
        steps.append(
            Step(
                depth=depth,
                agent="tester",
                move=move,
                candidate=kernel.digest,
                parent=kernel.parent,
                status=verdict.status,
                message=verdict.message,
                seconds=7.1,
                candidate_speedup=speedup,
                speedup=best,
                improved=improved,
            )
        )
    return tuple(steps)


def exchanges(record: RunRecord) -> tuple[Exchange, ...]:
    """What the agents of a record's steps were asked, once for each call that the step's usage has."""
    said: list[Exchange] = []
    for step in record.steps:
        for _ in range(step.usage.calls):
            prompt = (Said(type="system", content="You write kernels."), Said(type="human", content=f"At {step.move}."))
            said.append(
                Exchange(
                    index=len(said), role=step.agent, prompt_sha256=digest_of(prompt), prompt=prompt,  # type: ignore[arg-type]
                    answer=f"The answer for {step.move}", usage=step.usage,
                )
            )  # fmt: skip
    return tuple(said)


def long_record(steps: int) -> RunRecord:
    """A run of so many optimizations, each a few lines of a kernel of two hundred, each with a call of its model."""
    full = full_record()
    body = [f"  out[{at}] = in[{at}] / (1.0f + std::fabs(in[{at}]));  // element {at} of a row" for at in range(200)]
    kernels = [candidate("\n".join([*DRAFT.splitlines()[:5], *body]), "generator:openai:m")]
    for depth in range(1, steps):
        for at in range(4):
            body[(17 * depth + 31 * at) % 200] = f"  store(out + {depth}, soft(in[{at}]), {depth});"
        kernels.append(candidate("\n".join([*DRAFT.splitlines()[:5], *body]), "optimizer:openai:m", kernels[-1]))
    verdicts = tuple(passed(kernel, 1.0 + 0.1 * depth) for depth, kernel in enumerate(kernels))
    told = _steps(tuple(kernels), verdicts, tuple(f"move {depth}" for depth in range(steps)))
    spoken = tuple(
        step if step.agent == "tester" else step.model_copy(update={"usage": Usage(calls=1, input_tokens=9000)})
        for step in told
    )
    return full.model_copy(
        update={
            "steps": spoken, "candidates": {kernel.digest: kernel for kernel in kernels},
            "verdicts": {verdict.candidate: verdict for verdict in verdicts},
            "profiles": {kernel.digest: roof(21.0 - depth / 3) for depth, kernel in enumerate(kernels)},
            "best": Best(candidate=kernels[-1], verdict=verdicts[-1], profile=roof(10.2)),
        }
    )  # fmt: skip
