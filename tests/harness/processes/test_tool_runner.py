"""A kernel alone: what its arguments are, what it is given of the machine, and how its end is told."""

from __future__ import annotations

import ctypes
import os
import struct

import pytest
import torch

from harness.building.compilation import library_of
from harness.candidate.tool_runner import HostMemory, fill, numbers
from harness.isolation.policy import Limits
from harness.isolation.process import Completed
from harness.isolation.tiers import resolve_tier
from harness.nouns.candidate import Candidate
from harness.nouns.errors import UserError
from harness.nouns.task import ScalarSpec, Signature, Task, TensorSpec, Workload
from harness.processes.tool_runner import FAILED, Tool, argument_bytes, run_alone, why_unfinished
from harness.targets.cpu import CpuTarget
from harness.tasks.describing import draw_arguments
from harness.trusted.facts.drawing import storage_bytes

KERNEL = """\
#include <cstdio>
#include <cstdlib>
void run(tvm::ffi::TensorView x, int64_t mode, double scale, tvm::ffi::TensorView index, tvm::ffi::TensorView y) {
  auto in = static_cast<const float*>(x.data_ptr());
  auto at = static_cast<const int64_t*>(index.data_ptr());
  float least = in[0], most = in[0];
  for (int64_t i = 0; i < x.numel(); ++i) least = std::min(least, in[i]), most = std::max(most, in[i]);
  static int calls = 0;
  std::printf("%d: %g..%g %d %g %s\\n", ++calls, least, most, static_cast<int>(at[6]), scale, std::getenv("PLACE"));
  std::fflush(stdout);
  if (mode == 1) TVM_FFI_THROW(ValueError) << "not with these";
  if (mode == 2) std::abort();
  if (mode == 3) for (volatile int i = 0;;) i = 0;
}
TVM_FFI_DLL_EXPORT_TYPED_FUNC(run, run);
"""


def signature(mode):
    x = TensorSpec(name="x", shape=(300, 300), strides=(300, 1), dtype="float32")
    index = TensorSpec(name="index", shape=(7,), strides=(1,), dtype="int64")
    y = TensorSpec(name="y", shape=(3, 5), strides=(1, 4), dtype="float32")
    scalars = (ScalarSpec(name="mode", type="int", value=mode), ScalarSpec(name="scale", type="float", value=2.5))
    return Signature(inputs=(x, *scalars, index), outputs=(y,))


def alone(tmp_path, mode, wall_s=20.0, values=None):
    tier = resolve_tier("auto")
    build = CpuTarget().compile(Candidate(source=KERNEL, target="cpu", author="test:test"), tier=tier)
    tool = Tool(("env",), limits=Limits(wall_s=wall_s), environment={"PLACE": "in {scratch}"}, calls=2, values=values)
    return run_alone(library_of(build), signature(mode), tool, device="cpu", tier=tier, folder=tmp_path)


def test_it_is_called_with_arguments_of_its_own(tmp_path):
    done = alone(tmp_path, 0)
    assert (done.outcome, done.exit_code) == ("exited", 0), done.stderr
    first, second = done.stdout.decode().splitlines()
    assert first.startswith("1: ") and second.startswith("2: ")
    spread, index, scale, *place = first.split()[1:]
    least, most = map(float, spread.split(".."))
    assert 0 <= least < 0.01 and 0.99 < most < 1
    assert (index, scale, place) == ("0", "2.5", ["in", str(tmp_path)])


TASK = """\
import torch
class Model(torch.nn.Module):
    def forward(self, x, mode, scale, index):
        return (x.sum() * scale + index.sum() + mode) * torch.ones(3, 5)
def get_inputs():
    x = torch.arange(90000.0).reshape(300, 300)
    return [x, 0, 2.5, torch.arange(20, 27)]
"""


def test_a_tasks_own_values_are_what_it_is_called_with(tmp_path, monkeypatch):
    folder = tmp_path / "values"
    folder.mkdir()
    work = Workload(name="given", signature=signature(0), flops=1, bytes_moved=1)
    task = Task(name="t", source=TASK, workloads=(work,), op_class="other")
    draw_arguments(task, work, folder, tier=resolve_tier("auto"))
    done = alone(tmp_path, 0, values=folder)
    assert done.stdout.decode().splitlines()[0].split()[1:4] == ["0..89999", "26", "2.5"], done.stderr
    broken = task.model_copy(update={"source": TASK.replace("torch.arange(20, 27)", "1 // 0")})
    with pytest.raises(UserError, match="ZeroDivisionError"):
        draw_arguments(broken, work, folder, tier=resolve_tier("auto"))


@pytest.mark.parametrize(
    ("tensor", "most", "held"),
    [
        (torch.arange(6, dtype=torch.int32).reshape(2, 3).t(), 4096, [0, 1, 2, 3, 4, 5]),
        (torch.arange(10, dtype=torch.int32)[2::3], 4096, [2, 3, 4, 5, 6, 7, 8]),
        (torch.arange(10, dtype=torch.int32), 13, [0, 1, 2]),
        (torch.tensor(7, dtype=torch.int32), 4096, [7]),
        (torch.tensor([3], dtype=torch.int32).expand(5), 4096, [3]),
    ],
)
def test_a_tensors_storage_is_written_as_it_lies(tensor, most, held):
    assert storage_bytes(tensor, most) == struct.pack(f"<{len(held)}i", *held)
    assert storage_bytes(tensor == tensor, most)[0] == 1


@pytest.mark.parametrize(
    ("mode", "words"), [(1, "the call failed: ValueError: not with these"), (2, "SIGABRT"), (3, "did not end within")]
)
def test_its_end_is_told(tmp_path, mode, words):
    done = alone(tmp_path, mode, wall_s=1.5 if mode == 3 else 20)
    assert words in why_unfinished(done)
    assert (done.exit_code == FAILED) == (mode == 1)


def test_a_limit_that_a_busy_machine_met_is_told_as_such(monkeypatch):
    done = Completed("timed_out", None, None, b"", b"", 10.0, 0, 0, "")
    for load, said in ((0.5, "shapes"), (1e6, "the machine was busy (load 1000000 on ")):
        monkeypatch.setattr(os, "getloadavg", lambda load=load: (load, 0.0, 0.0))
        assert said in why_unfinished(done) and ("busy" in why_unfinished(done)) == (load > 1)


def test_bytes_count_what_the_strides_span():
    assert argument_bytes(signature(0)) == 300 * 300 * 4 + 7 * 8 + (1 + 2 + 4 * 4) * 4


@pytest.mark.parametrize(
    ("dtype", "letter", "size"), [("float32", "f", 4), ("float64", "d", 8), ("float16", "e", 2), ("int32", "i", 4)]
)
def test_numbers_are_drawn_once_and_below_one(dtype, letter, size):
    block = numbers(dtype)
    values = struct.unpack(f"<{len(block) // size}{letter}", block)
    assert all(0 <= value <= 1 for value in values)
    assert (len(set(values)) > 100) == (letter != "i")


def test_bfloat16_is_the_upper_half_of_float32():
    halves = struct.unpack("<65536H", numbers("bfloat16"))
    singles = struct.unpack("<65536I", numbers("float32"))
    assert all(half == single >> 16 for half, single in zip(halves, singles, strict=True))


@pytest.mark.parametrize("size", [1, 5, 8, 9, 37])
def test_a_block_is_repeated_to_the_last_byte(size):
    memory = HostMemory()
    address = memory.allocate(size)
    fill(memory, address, size, b"abcdefgh")
    assert ctypes.string_at(address, size) == (b"abcdefgh" * 5)[:size]
