"""On a real GPU: a final kernel with a fault that only a sanitizer sees is repaired, and keeps what it had gained."""

from __future__ import annotations

import pytest
from langchain_core.messages import AIMessage
from softsign_script import diagnosed, edited, written

from graph.workflow import build_graph
from harness.building.toolchain import find_tool
from harness.machine.gpu import find_gpu
from nodes.models.local import ScriptedModel
from nodes.settings import Settings
from nodes.state import RunState

SOURCE = """
import torch
from torch import nn


class Model(nn.Module):
    def forward(self, x):
        return x / (1 + torch.abs(x))


def get_inputs():
    return [torch.randn(1023, 1000)]


def get_init_inputs():
    return []
"""

# The neighbour is read, and counts only where it is one NaN of millions: right on every input, and one element too
# far at the end, where the judge's page goes on (the size is no multiple of one) and the sanitizer's allocation does
# not. (ptxas leaves a read out whose value counts nowhere.)
KERNEL = """\
__global__ void softsign(const float* x, float* y, int n) {
  const int step = gridDim.x * blockDim.x;
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += step) {
    const float neighbour = x[i];
    y[i] = __float_as_uint(neighbour) == 0x7fc12345u ? neighbour : x[i] / (1.0f + fabsf(x[i]));
  }
}

void run(tvm::ffi::TensorView x, tvm::ffi::TensorView output) {
  auto stream = static_cast<cudaStream_t>(TVMFFIEnvGetStream(x.device().device_type, x.device().device_id));
  auto in = static_cast<const float*>(x.data_ptr());
  softsign<<<64, 64, 0, stream>>>(in, static_cast<float*>(output.data_ptr()), 1023 * 1000);
}

TVM_FFI_DLL_EXPORT_TYPED_FUNC(run, run);
"""
FAULTY = KERNEL.replace("<<<64, 64,", "<<<4000, 256,").replace("neighbour = x[i]", "neighbour = x[i + 1]")
MENDED = FAULTY.replace("neighbour = x[i + 1]", "neighbour = i + 1 < n ? x[i + 1] : 0.0f")


def calling(source: str) -> AIMessage:
    call = {"type": "tool_call", "id": "c1", "name": "sanitize_kernel", "args": {"source": source}}
    return AIMessage("", tool_calls=[call])


@pytest.mark.gpu
@pytest.mark.skipif(find_gpu() is None, reason="no NVIDIA GPU answers here")
def test_a_read_beyond_the_end_is_repaired_and_the_gain_is_kept() -> None:
    if find_tool("compute-sanitizer") is None:
        pytest.skip("compute-sanitizer is not installed here")
    line = next(text for text in MENDED.splitlines() if "neighbour = i" in text)
    model = ScriptedModel(answers={
        "generator": [written(KERNEL)],
        "optimizer": [written(FAULTY, "more blocks"), "DONE: enough"],
        "diagnoser": [calling(MENDED), diagnosed("the last thread reads x[n]")],
        "repairer": [edited(FAULTY, "neighbour = x[i + 1]", line)],
    })  # fmt: skip
    state = RunState.model_validate(
        build_graph(lambda spec, options: model).compile().invoke(
            {"source": SOURCE, "name": "softsign"}, context=Settings(target="cuda", serve_batches=False)
        )
    )  # fmt: skip
    told = [f"{step.agent} {step.status}: {step.message}" for step in state.history]
    ending = [(step.agent, step.status) for step in state.history][-5:]
    repaired = [("diagnoser", None), ("repairer", None), ("tester", "passed")]
    assert ending == [("sanitizer", "refused"), *repaired, ("sanitizer", "passed")], told
    assert "memcheck: Invalid __global__ read" in state.history[-5].message
    assert state.best is not None
    assert state.best.candidate.source == MENDED
    assert [held.candidate.source for held in state.earlier] == [KERNEL]
    best, first = state.best.verdict.timing, state.earlier[0].verdict.timing
    assert best is not None and first is not None
    assert best.speedup > 2 * first.speedup
