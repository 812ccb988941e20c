"""At which sizes a kernel is watched, with tools that answer as they are told."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from harness.isolation.tiers import resolve_tier
from harness.judging import local as watching
from harness.judging.local import CONFIRMED_S, LocalJudge, Watcher
from harness.judging.terms import Terms
from harness.nouns.build import Build
from harness.nouns.candidate import Candidate
from harness.nouns.device import DeviceName
from harness.nouns.errors import UserError
from harness.nouns.sanitizer_run import Finding, SanitizerRun
from harness.nouns.task import Signature, Task, TensorSpec, Workload
from harness.targets.cpu import CpuTarget
from harness.tasks.describing import describe_task

FOUND = (Finding(kind="race", message="a race"),)


def described(source: str, **_: Any) -> Task:
    """A square of the size that the file holds."""
    size = int(source.partition("=")[2])
    if size == 1024:
        raise UserError("not this size", "")
    square = TensorSpec(name="x", shape=(size, size), strides=(size, 1), dtype="float32")
    signature = Signature(inputs=(square,), outputs=(square.model_copy(update={"name": "y"}),))
    work = Workload(name="given", signature=signature, flops=2 * size**3, bytes_moved=8 * size**2)
    return Task(name="square", source=source, workloads=(work,), op_class="gemm")


class Tools:
    """A target with two tools: `answers` says what the second one finds at a size. Keeps what it was asked."""

    name = "cuda"
    device = DeviceName(target="cuda")

    def __init__(self, answers: dict[int, str], soon: int = 600) -> None:
        self.answers, self.soon, self.asked = answers, soon, []

    def ends_soon(self, workload: Workload) -> bool:
        return workload.signature.inputs[0].shape[0] <= self.soon

    def require_device(self) -> None:
        pass

    def compile_watched(self, candidate: Candidate, *, tier: str) -> Build:
        return Build(digest=candidate.source.encode().hex().ljust(32, "0"), seconds=0.0)

    def sanitize(
        self, build: Build, workload: Workload, values: Path, *, tier: str, limit_s: float | None = None
    ) -> tuple[SanitizerRun, ...]:
        size = workload.signature.inputs[0].shape[0]
        self.asked.append((size, bytes.fromhex(build.digest).rstrip(b"\0").decode(), limit_s))
        return SanitizerRun(tool="first", status="clean"), {
            "clean": SanitizerRun(tool="second", status="clean"),
            "found": SanitizerRun(tool="second", status="found", findings=FOUND),
            "long": SanitizerRun(tool="second", status="skipped", note="long", ended=False),
        }[self.answers.get(size, "clean")]


@pytest.fixture(autouse=True)
def no_child(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUTEGEN_CACHE", str(tmp_path))
    monkeypatch.setattr(watching, "describe_task", described)
    monkeypatch.setattr(watching, "draw_arguments", lambda *_, **__: None)


def watched(tools: Tools, size: int, source: str = "Int<{size}>", right: Any = lambda *_: True) -> SanitizerRun:
    candidate = Candidate(source=source.format(size=size), target="cuda", author="test:test")
    first, second = Watcher(tools, "none", right).watch(described(f"n = {size}"), candidate)
    assert first.status == "clean"
    return second


def test_a_small_task_is_watched_as_it_is() -> None:
    tools = Tools({})
    assert watched(tools, 512).smaller is None
    assert tools.asked == [(512, "Int<512>", None)]


def test_a_large_one_is_watched_at_the_largest_size_that_is_small() -> None:
    """2048 is too much, 1024 is refused by the file."""
    tools = Tools({})
    smaller = watched(tools, 8192).smaller
    assert smaller is not None
    assert (smaller.shapes, smaller.numbers) == (((512, 512), (512, 512)), ((8192, 512),))
    assert tools.asked == [(512, "Int<512>", None)]
    smaller = watched(tools, 8192, source="x.size(0)").smaller
    assert smaller is not None
    assert smaller.numbers == ()


def test_where_a_tool_does_not_come_to_an_end_it_is_tried_on_less() -> None:
    tools = Tools({512: "long"})
    run = watched(tools, 8192)
    assert run.status == "clean"
    assert run.smaller is not None
    assert run.smaller.shapes[0] == (256, 256)
    run = watched(Tools({512: "long", 256: "long"}), 8192)
    assert (run.status, run.ended) == ("skipped", False)
    assert run.smaller is not None


def test_a_kernel_that_is_not_right_at_smaller_sizes_is_watched_at_its_own() -> None:
    tools, tried = Tools({8192: "long"}), []

    def right(task: Task, candidate: Candidate, build: Build) -> bool:
        tried.append((task.signature.inputs[0].shape[0], candidate.source))
        return False

    run = watched(tools, 8192, right=right)
    assert (run.status, run.smaller) == ("skipped", None)
    assert tools.asked == [(8192, "Int<8192>", None)]
    assert tried == [(512, "Int<512>")], "all sizes are those of the batch"


def test_what_came_to_an_end_at_the_tasks_own_sizes_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the task's own sizes seemed small enough, and one tool was not through."""
    tools = Tools({8192: "long"}, soon=8192)
    first, second = Watcher(tools, "none", lambda *_: True).watch(
        described("n = 8192"), Candidate(source="Int<8192>", target="cuda", author="test:test")
    )
    assert first.smaller is None
    assert second.status == "clean"
    assert second.smaller is not None
    assert watched(Tools({8192: "long"}, soon=8192), 8192, right=lambda *_: False).note == "long"


@pytest.mark.parametrize(
    ("own", "status", "smaller"), [("clean", "clean", False), ("found", "found", False), ("long", "found", True)]
)
def test_what_is_found_in_a_source_with_other_numbers_is_asked_for_at_the_tasks_own_sizes(
    own: str, status: str, smaller: bool
) -> None:
    tools = Tools({512: "found", 8192: own})
    run = watched(tools, 8192)
    assert (run.status, run.smaller is not None) == (status, smaller)
    assert tools.asked[-1] == (8192, "Int<8192>", CONFIRMED_S)


def test_the_same_source_at_smaller_sizes_has_the_fault_itself() -> None:
    tools = Tools({512: "found"})
    assert watched(tools, 8192, source="x.size(0)").status == "found"
    assert len(tools.asked) == 1


def test_without_arguments_nothing_is_watched(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*_: Any, **__: Any) -> None:
        raise UserError("get_inputs() raised ValueError.", "")

    monkeypatch.setattr(watching, "draw_arguments", fails)
    (run,) = Watcher(Tools({}), "none", lambda *_: True).watch(
        described("n = 512"), Candidate(source="", target="cuda", author="test:test")
    )
    assert run.status == "skipped"
    assert "get_inputs() raised ValueError" in run.note


SOURCE = """\
import torch
class Model(torch.nn.Module):
    def forward(self, x, parts):
        return x // parts
def get_inputs():
    return [torch.randint(0, 1000, (4096, 3000), dtype=torch.int32), torch.randint(1, 9, (3000,), dtype=torch.int32)]
"""
KERNEL = """\
constexpr int64_t kCount = 12288000, kColumns = 3000;
void run(tvm::ffi::TensorView x, tvm::ffi::TensorView parts, tvm::ffi::TensorView output) {
  auto in = static_cast<const int*>(x.data_ptr()), by = static_cast<const int*>(parts.data_ptr());
  auto out = static_cast<int*>(output.data_ptr());
  for (int64_t i = 0; i < kCount; ++i) out[i] = in[i] / by[i % kColumns];
}
TVM_FFI_DLL_EXPORT_TYPED_FUNC(run, run);
"""


def test_a_kernel_that_holds_its_sizes_is_compiled_for_smaller_ones_and_called_with_the_files_own_numbers(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """With zeros for its divisors it would be stopped for a division by zero."""
    monkeypatch.undo()

    class Slow(CpuTarget):
        def ends_soon(self, workload: Workload) -> bool:
            return False

    tier = resolve_tier("auto")
    task = describe_task(SOURCE, name="parts", tier=tier)
    (run,) = LocalJudge(Slow(), Terms(tier)).sanitize(task, Candidate(source=KERNEL, target="cpu", author="test:test"))
    assert run.status == "clean", run
    assert run.smaller is not None
    assert run.smaller.shapes == ((2048, 2232), (2232,), (2048, 2232))
    assert run.smaller.numbers == ((3000, 2232), (12288000, 4571136))
