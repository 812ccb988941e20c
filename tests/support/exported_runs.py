"""Runs that found a kernel, as records made by hand: a scaled and shifted ReLU, in both directions."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

from report_records import passed

from graph.runs.machine import this_machine
from graph.runs.record import RunRecord
from harness.nouns.candidate import Candidate, TargetName
from harness.nouns.task import Task
from nodes.state import Best

CHEATS = Path(__file__).parents[1] / "cheats"
GATED = (CHEATS / "tasks" / "gated_backward.py").read_text()
BACKWARD = (CHEATS / "twins" / "takes_saved_output.cpp").read_text()
FORWARD = """
#include <tvm/ffi/container/tensor.h>
#include <tvm/ffi/extra/c_env_api.h>
#include <tvm/ffi/function.h>
using tvm::ffi::TensorView;
static float* at(TensorView const& t) { return static_cast<float*>(t.data_ptr()); }
void run(TensorView x, TensorView scale, TensorView shift, TensorView output) {
  if (x.size(-1) != scale.numel() || TVMFFIEnvGetStream(kDLCPU, 0)) TVM_FFI_THROW(ValueError) << "another width";
  auto const held = tvm::ffi::Tensor::FromEnvAlloc(TVMFFIEnvTensorAlloc, {x.numel()}, x.dtype(), x.device());
  float* sums = static_cast<float*>(held.data_ptr());
  for (int64_t i = 0; i < x.numel(); ++i) sums[i] = at(x)[i] * at(scale)[i % scale.numel()];
  for (int64_t i = 0; i < x.numel(); ++i) {
    float const y = sums[i] + at(shift)[i % scale.numel()];
    at(output)[i] = y <= 0.0f ? 0.0f : y;
  }
}
TVM_FFI_DLL_EXPORT_TYPED_FUNC(run, run);
"""


def record(source: str, kernel: str, name: str = "gated", target: TargetName = "cpu") -> RunRecord:
    """A run that found the kernel. torch is needed to describe the task, so it is imported here and not above."""
    from harness.trusted.facts.describing import describe

    task = Task.model_validate(describe(source, name))
    found = Candidate(source=kernel, target=target, author="test")
    return RunRecord(
        id="1", outcome="improved", task=task, name=name, created=datetime.now(UTC), seconds=1.0, settings={},
        machine=this_machine(), best=Best(candidate=found, verdict=passed(found, 2.0)),
    )  # fmt: skip
