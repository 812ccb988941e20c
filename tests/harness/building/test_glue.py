"""What stands between a caller and a kernel's entry: arguments by their types, and what a kernel throws."""

from __future__ import annotations

import ctypes
from array import array

import pytest

from harness.building.compilation import library_of
from harness.isolation.tiers import resolve_tier
from harness.nouns.candidate import Candidate
from harness.processes.candidate_process import runtime_library
from harness.targets.cpu import CpuTarget
from harness.wire import abi

SOURCE = """
#include <tvm/ffi/container/tensor.h>
#include <tvm/ffi/error.h>
#include <tvm/ffi/function.h>
void run(tvm::ffi::TensorView x, double factor, int64_t way, bool really, tvm::ffi::TensorView const& y) {
  if (way == 1) { TVM_FFI_THROW(ValueError) << "refused " << x.size(0); }
  if (way == 2) { throw std::out_of_range("far away"); }
  auto in = static_cast<float const*>(x.data_ptr());
  auto out = static_cast<float*>(y.data_ptr());
  for (int64_t i = 0; i < x.size(0); ++i) { out[i * y.stride(0)] = really ? factor * in[i * x.stride(0)] : 0; }
}
TVM_FFI_DLL_EXPORT_TYPED_FUNC(run, run);
"""


class Entry:
    """A built kernel, called as its runner calls it."""

    def __init__(self, path: str) -> None:
        self.runtime = ctypes.CDLL(str(runtime_library()))
        self.entry = ctypes.CDLL(path)["__tvm_ffi_run"]
        self.x, self.y = array("f", [1, 2, 3, 4]), array("f", [9] * 4)

    def view(self, of: array, stride: int = 1) -> abi.DLTensor:
        return abi.tensor(of.buffer_info()[0], [len(of) // stride], [stride], "float32")

    def said(self, *arguments: abi.DLTensor | float) -> str:
        """Nothing where the call came through, else what was raised."""
        given, result = abi.pack(arguments), abi.Any_()
        failed = self.entry(None, given, len(given), ctypes.byref(result))
        return abi.raised_message(self.runtime) if failed else ""


@pytest.fixture(scope="module")
def built():
    build = CpuTarget().compile(Candidate(source=SOURCE, target="cpu", author="test"), tier=resolve_tier("auto"))
    assert build.succeeded, build.diagnostics
    return str(library_of(build))


@pytest.fixture
def entry(built):
    return Entry(built)


def test_arguments_of_every_type_arrive(entry):
    assert entry.said(entry.view(entry.x), 2.5, 0, True, entry.view(entry.y)) == ""
    assert [*entry.y] == [2.5, 5, 7.5, 10]
    assert entry.said(entry.view(entry.x, 2), 3, 0, True, entry.view(entry.y, 2)) == ""  # an int is a double, too
    assert [*entry.y] == [3, 5, 9, 10]
    assert entry.said(entry.view(entry.x), 1.0, 0, False, entry.view(entry.y)) == "" and not any(entry.y)


def test_what_does_not_fit_is_said_and_nothing_is_run(entry):
    whole = [entry.view(entry.x), 1.0, 0, True, entry.view(entry.y)]
    for place, other in ((0, 1.0), (1, entry.view(entry.x)), (2, 0.5), (3, entry.view(entry.x)), (4, 1)):
        given = [*whole[:place], other, *whole[place + 1 :]]
        assert entry.said(*given) == f"TypeError: argument {place} is of another type"
    assert entry.said(*whole[:4]) == "TypeError: the entry takes 5 arguments, and 4 were given"
    assert entry.said(*whole, 1) == "TypeError: the entry takes 5 arguments, and 6 were given"
    assert [*entry.y] == [9] * 4


def test_what_a_kernel_throws_is_raised(entry):
    assert entry.said(entry.view(entry.x), 1.0, 1, True, entry.view(entry.y)) == "ValueError: refused 4"
    assert entry.said(entry.view(entry.x), 1.0, 2, True, entry.view(entry.y)) == "InternalError: far away"
