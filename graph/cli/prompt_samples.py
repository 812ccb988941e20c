"""The prompts of a run that has not taken place: a task's own, with a kernel and a failure that stand in."""

from __future__ import annotations

from harness.building.versions import compiled_with
from harness.nouns.build import Build
from harness.nouns.candidate import Candidate, TargetName
from harness.nouns.device_facts import HOPPER, DeviceFacts
from harness.nouns.task import Task
from harness.nouns.verdict import Correctness, FirstBad, Interval, OutputError, Timing, Trial, Verdict, precision_on
from harness.wire.entry import stub
from knowledge.compiler.kernels.source import representative
from nodes.diagnosis import Diagnosis
from nodes.models.playbook import PlaybookModel
from nodes.settings import ExemplarChoice, Settings
from nodes.turn.answers import Declined, parse_kernel
from nodes.turn.prompts import messages_for
from nodes.turn.request import Left, Request

MAX_MOVES = 4
MAX_LINES = 300
"""Of the kernel that stands in: what the sizes of prompts are promised for."""
TOOLS = ("look_up", "compile_kernel", "run_kernel", "sanitize_kernel")
"""Of the agent that has the most of them."""

_BUILT = Build(digest="0" * 32, seconds=0.0)

H200 = DeviceFacts(
    device="NVIDIA H200", threads=132, simd_floats=1, l1_bytes=256 << 10, l2_bytes=60 << 20, l3_bytes=60 << 20,
    peak_gb_s=4265.0, peak_gflop_s=60_000.0, source="measured on one", architecture=HOPPER, multiprocessors=132,
    shared_bytes=232_448, memory_bytes=141 * 10**9, tf32_gflop_s=535_000.0, half_gflop_s=990_000.0,
)  # fmt: skip
"""Stands in for the GPU where none answers: prompts can be read on any machine."""

PROCESSOR = DeviceFacts(
    device="a processor of 8 cores", threads=8, simd_floats=16, l1_bytes=32 << 10, l2_bytes=1 << 20, l3_bytes=32 << 20,
    peak_gb_s=40.0, peak_gflop_s=600.0, source="made up for a page that is the same everywhere",
)  # fmt: skip


def sample_requests(
    task: Task, target: TargetName, device: DeviceFacts, *, exemplar: ExemplarChoice = "representative"
) -> tuple[Request, ...]:
    """One request for each agent that speaks, in the order in which a run would come to them.

    The kernel in them is the playbook's for this task, some moves on, as long as none makes it longer than 300 lines;
    where it has none, the class's exemplar; where there is none either, the stub. That it is wrong in its last element,
    and how fast it is, is made up.
    """
    first = Request(
        role="generator",
        task=task,
        target=target,
        precision=precision_on(target, "default"),
        device=device,
        stub=stub(task, target),
        compiled_with=compiled_with(target),
        left=Left(
            depth=0, max_depth=Settings().max_depth, seconds=3600.0, tools=TOOLS, calls=Settings().max_tool_calls
        ),
        exemplar=exemplar,
        max_sweep=Settings().max_sweep,
    )
    return (first, *later_requests(first, _kernel(first)))


def later_requests(first: Request, source: str) -> tuple[Request, ...]:
    """The diagnoser's, repairer's and optimizer's requests for the task of `first`, with `source` as the kernel."""
    kernel = Candidate(source=source, target=first.target, author="generator:playbook")
    wrong, passed = _wrong(first.task, kernel), _passed(first, kernel)
    diagnosis = _diagnosis(first.task)
    facts: tuple[dict[str, object], ...] = (
        {"role": "diagnoser", "candidate": kernel, "verdict": wrong},
        {"role": "repairer", "candidate": kernel, "verdict": wrong, "diagnosis": diagnosis},
        {"role": "optimizer", "candidate": kernel, "verdict": passed},
    )
    return tuple(first.model_copy(update=fact) for fact in facts)


def _kernel(first: Request) -> str:
    """The playbook's kernel after some moves, or what stands in for it: of a long one its first lines."""
    source = _answer(first)
    if source is None:
        shown = representative(first.task.op_class, first.architecture)
        return shown.text if shown else first.stub
    for _ in range(MAX_MOVES):
        kernel = Candidate(source=source, target=first.target, author="optimizer:playbook")
        moved = _answer(first.model_copy(update={"role": "optimizer", "candidate": kernel}))
        if moved is None or moved.count("\n") > MAX_LINES:
            break
        source = moved
    return "".join(source.splitlines(keepends=True)[:MAX_LINES])


def _answer(request: Request) -> str | None:
    written = parse_kernel(str(PlaybookModel().invoke(list(messages_for(request))).text), move_required=False)
    return None if isinstance(written, Declined) else written.source


def _wrong(task: Task, kernel: Candidate) -> Verdict:
    """The last element of the first output is wrong, as where a tail is forgotten."""
    output = task.signature.outputs[0]
    last = tuple(extent - 1 for extent in output.shape)
    error = OutputError(
        output=output.name, relative_l2=3e-4, max_scaled=1.0, reference_relative_l2=2e-8, reference_max_scaled=1e-7,
        bad_fraction=1 / max(1, output.numel), first_bad=FirstBad(index=last, expected=0.5, got=float("nan")),
        pattern="only the tail is wrong",
    )  # fmt: skip
    trial = Trial(distribution="normal", seed=1, outputs=(error,))
    return Verdict(
        status="wrong", candidate=kernel.digest, task=task.digest, seed=1, tier="none", build=_BUILT,
        correctness=Correctness(trials=(trial,)), check="accuracy",
        message=f"{output.name} is wrong on normal inputs (seed 1): expected 0.5, got nan.",
    )  # fmt: skip


def _passed(first: Request, kernel: Candidate) -> Verdict:
    """It is right, and takes three times as long as its bytes."""
    work = first.task.workloads[0]
    time_ms = 3 * max(work.bytes_moved, 1) / (first.device.peak_gb_s * 1e6)
    timing = Timing(
        candidate_ms=time_ms, baseline_ms=1.5 * time_ms, speedup=1.5, speedup_interval=Interval(low=1.48, high=1.52),
        rounds=20, threads=first.device.threads, converged=True,
    )  # fmt: skip
    return Verdict(
        status="passed", candidate=kernel.digest, task=first.task.digest, seed=1, tier="none", build=_BUILT,
        correctness=Correctness(trials=()), timing=timing,
    )  # fmt: skip


def _diagnosis(task: Task) -> Diagnosis:
    return Diagnosis(
        intent=f"{task.name} in one pass over whole vectors; tiles and vector accesses stay.",
        cause="The loop over whole vectors ends before the last element, and nothing computes the rest.",
        evidence="Only the last element is wrong, and it still holds the NaN that outputs are filled with.",
        fix="Behind the loop, compute the elements that are left one by one.",
        proof="The last element is right, and the elements before it stay what they were.",
    )
