"""The tools over the real judge: what they say to a model and what they hand to the nodes."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest
from brief_judge import brief_here
from langchain_core.messages import ToolMessage
from langchain_core.tools import ToolException

from harness.isolation.tiers import resolve_tier
from harness.judging.protocol import JudgeOrder
from harness.nouns.build import Build
from harness.nouns.candidate import Candidate
from harness.nouns.profile import Profile
from harness.nouns.task import Task
from harness.nouns.verdict import Verdict
from harness.tasks.describing import describe_task
from tools.judges import open_judge, terms_of
from tools.kernel_tools import KernelTools, call_tool

SOURCE = """
import torch
from torch import nn

class Model(nn.Module):
    def forward(self, x):
        return x + 1

def get_inputs():
    return [torch.randn(100)]

def get_init_inputs():
    return []
"""

KERNEL = """\
#include <tvm/ffi/container/tensor.h>
#include <tvm/ffi/function.h>

void run(tvm::ffi::TensorView x, tvm::ffi::TensorView output) {
    const float* in = static_cast<const float*>(x.data_ptr());
    float* out = static_cast<float*>(output.data_ptr());
    for (int i = 0; i < 100; ++i) out[i] = in[i] + 1.0f;
}

TVM_FFI_DLL_EXPORT_TYPED_FUNC(run, run);
"""


@pytest.fixture(scope="module")
def task() -> Task:
    return describe_task(SOURCE, name="plus_one", tier=resolve_tier("auto"))


@pytest.fixture
def tools(task: Task) -> Iterator[KernelTools]:
    with brief_here():
        yield KernelTools(task, open_judge(JudgeOrder("cpu")), seed=5)


def test_a_tool_call_says_it_in_words_and_hands_the_noun_over(tools: KernelTools) -> None:
    call = {"type": "tool_call", "id": "1", "name": "compile_kernel", "args": {"source": KERNEL}}
    message = tools.compile_kernel.invoke(call)
    assert isinstance(message, ToolMessage)
    assert message.text.startswith("The kernel compiles")
    assert isinstance(message.artifact, Build)
    assert message.artifact.succeeded


def test_a_kernel_is_watched_for_memory_errors_whether_it_is_right_or_wrong(tools: KernelTools) -> None:
    words, runs = tools.sanitize(KERNEL)
    assert [run.status for run in runs] == ["clean"]
    assert words.startswith("address, undefined: clean after ")
    words, runs = tools.sanitize(KERNEL.replace("i < 100", "i <= 100"))
    assert [finding.line for run in runs for finding in run.findings] == [7]
    assert "reads 4 bytes beyond the end of x or output (400 bytes)" in words
    with pytest.raises(ToolException, match="not run"):
        tools.sanitize(KERNEL.replace("    const float* in", '    std::system("true");\n    const float* in'))


def test_compiler_errors_are_told_by_line(tools: KernelTools) -> None:
    words, build = tools.compile(KERNEL.replace("in[i]", "inn[i]"))
    assert not build.succeeded
    assert "kernel:7:" in words
    assert "error: " in words
    assert "inn" in words


def test_a_right_kernel_is_timed_and_can_be_profiled(tools: KernelTools, task: Task) -> None:
    verdict: Verdict = call_tool(tools.run_kernel, KERNEL)
    assert verdict.passed
    assert verdict.seed == 5
    assert verdict.task == task.digest
    words, profile = tools.profile(KERNEL)
    assert isinstance(profile, Profile)
    assert verdict.timing is not None
    assert profile.time_ms == pytest.approx(verdict.timing.candidate_ms)
    assert "of the roof" in words


def test_a_wrong_kernel_is_told_with_numbers_and_not_profiled(tools: KernelTools) -> None:
    wrong = KERNEL.replace("1.0f", "2.0f")
    words, verdict = tools.run(wrong)
    assert verdict.status == "wrong"
    assert "expected" in words
    assert "got" in words
    with pytest.raises(ToolException, match="Only a kernel that passes"):
        tools.profile(wrong)


def test_the_tools_take_the_source_and_nothing_else(tools: KernelTools) -> None:
    every = (
        tools.compile_kernel, tools.run_kernel, tools.time_kernel, tools.profile_kernel, tools.sanitize_kernel,
    )  # fmt: skip
    assert [tool.name for tool in every] == [
        "compile_kernel", "run_kernel", "time_kernel", "profile_kernel", "sanitize_kernel",
    ]  # fmt: skip
    assert all(list(tool.args) == ["source"] for tool in every)


def test_the_tools_take_edits_of_the_kernel_at_hand(tools: KernelTools, task: Task) -> None:
    present = Candidate(source=KERNEL, target="cpu", author="test")
    number = KERNEL.splitlines().index("    for (int i = 0; i < 100; ++i) out[i] = in[i] + 1.0f;") + 1

    def edits(expected: str, text: str) -> str:
        line = {"kind": "replace", "line": number, "expected": expected, "text": text}
        return json.dumps({"edits": [line]}, indent=1)

    editing = KernelTools(task, open_judge(JudgeOrder("cpu")), seed=5, incumbent=present, present=present)
    loop = "    for (int i = 0; i < 100; ++i) out[i] = in[i] + 1.0f;"
    words, build = editing.compile(edits(loop, loop.replace("in[i]", "inn[i]")))
    assert not build.succeeded and f"kernel:{number}:" in words and "inn" in words
    words, verdict = editing.time(edits(loop, loop.replace("++i", "i += 1").replace("1.0f", "2.0f - 1.0f")))
    assert verdict.passed and verdict.timing is not None and verdict.timing.head_to_head is not None
    assert verdict.timing.head_to_head.incumbent == present.digest
    assert words.startswith(
        ("Against the present kernel, in the same rounds: ", "It is the machine code of the present")
    )
    words, verdict = editing.time(edits(loop, loop.replace("1.0f", "2.0f")))
    assert verdict.status == "wrong" and "expected" in words
    with pytest.raises(ToolException, match="No edit was applied"):
        editing.compile(edits("    return;", "    return;"))
    with pytest.raises(ToolException, match=r"cannot be read: edits\.0"):
        editing.run('{"edits": [{"kind": "swap"}]}')
    words, build = tools.compile(edits(loop, loop))
    assert not build.succeeded, "without a kernel at hand it is a source like any other"


def test_one_judge_for_each_target_and_tier_and_a_processor_knows_no_tf32() -> None:
    assert open_judge(JudgeOrder("cpu", "none")) is open_judge(JudgeOrder("cpu", "none"))
    assert open_judge(JudgeOrder("cpu", "none")) is open_judge(JudgeOrder("cpu", "none", "tf32"))
    assert open_judge(JudgeOrder("cpu", "none")) is not open_judge(JudgeOrder("cpu", "none", tolerance=2.0))
    assert open_judge(JudgeOrder("cpu")) is open_judge(JudgeOrder("cpu", resolve_tier("auto")))
    quick = terms_of(JudgeOrder("cpu", "none", tolerance=3.0, quick=True))
    assert (quick.tolerance, quick.trials) == (3.0, 1)
