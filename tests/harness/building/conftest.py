"""Kernels to build, and a way to make a source that no cache has seen."""

from __future__ import annotations

import uuid
from collections.abc import Callable

import pytest

from harness.building.compilation import compile_candidate
from harness.building.cpu_build import CpuToolchain
from harness.isolation.policy import Limits
from harness.isolation.tiers import resolve_tier
from harness.nouns.build import Build
from harness.nouns.candidate import Candidate

GOOD = """\
#include <cute/tensor.hpp>
#include <tvm/ffi/container/tensor.h>
#include <tvm/ffi/function.h>
void run(tvm::ffi::TensorView x, tvm::ffi::TensorView y) {
  auto in = cute::make_tensor(static_cast<const float*>(x.data_ptr()), cute::make_layout(x.numel()));
  auto out = cute::make_tensor(static_cast<float*>(y.data_ptr()), cute::make_layout(y.numel()));
#pragma omp parallel for
  for (int64_t i = 0; i < x.numel(); ++i) out(i) = 2 * in(i);
}
TVM_FFI_DLL_EXPORT_TYPED_FUNC(run, run);
"""


@pytest.fixture
def good() -> str:
    return GOOD


@pytest.fixture
def fresh() -> Callable[[str], str]:
    """The same source with a comment at its end that makes it new to every cache."""
    return lambda source: f"{source.rstrip()}\n// {uuid.uuid4()}\n"


@pytest.fixture
def compile_cpu() -> Callable[..., Build]:
    """Compile a source for the cpu in the strongest isolation of this machine."""

    def compile_source(source: str, **limits: float) -> Build:
        candidate = Candidate(source=source, target="cpu", author="test:test")
        chosen = {"limits": Limits(**limits)} if limits else {}
        return compile_candidate(candidate, CpuToolchain(), tier=resolve_tier("auto"), **chosen)

    return compile_source
