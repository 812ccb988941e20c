"""What g++'s sanitizers say of a kernel with one bug for each number, and the cause that the catalogue has for it."""

from __future__ import annotations

from functools import cache

import pytest

from harness.isolation.tiers import resolve_tier
from harness.nouns.build import Build
from harness.nouns.candidate import Candidate
from harness.nouns.sanitizer_run import first_finding
from harness.nouns.task import ScalarSpec, Signature, TensorSpec
from harness.sanitize.host import sanitize_on_host
from harness.targets.cpu import CpuTarget
from knowledge import library

KERNEL = """\
void run(tvm::ffi::TensorView x, int64_t bug, tvm::ffi::TensorView y) {
  auto in = static_cast<const float*>(x.data_ptr());
  auto out = static_cast<float*>(y.data_ptr());
  volatile int n = static_cast<int>(x.numel());
  auto* scratch = new float[64]();
  float lanes[8] = {};
  volatile float odd = std::numeric_limits<float>::quiet_NaN();
  if (bug == 1) for (int i = 0; i < 8; ++i) out[n - 4 + i] = in[0];
  if (bug == 2) out[0] = in[n - 41];
  if (bug == 3) out[0] = *reinterpret_cast<volatile float*>(16);
  if (bug == 4) delete[] scratch;
  if (bug == 4) scratch[n] = 1;
  if (bug == 5) delete[] scratch;
  if (bug == 13) free(scratch + 1);
  if (bug == 6) for (int i = 0; i <= n / 5; ++i) lanes[i] += in[i];
  if (bug == 7) out[0] = static_cast<float>(n * 1000000000);
  if (bug == 8) out[0] = static_cast<float>(1 << n);
  if (bug == 9) out[0] = static_cast<float>((n - 50) << 2);
  if (bug == 10) out[0] = static_cast<float>(n / (n - 40));
  if (bug == 11) out[0] = static_cast<float>(static_cast<int>(odd));
  if (bug == 12) out[0] = static_cast<float>(static_cast<int>(1e20f * static_cast<float>(n)));
  typedef float Vector __attribute__((vector_size(16), may_alias));
  if (bug == 14) *reinterpret_cast<Vector*>(out + 1) = Vector{} + in[0];
  out[1] = lanes[n % 8];
  delete[] scratch;
}
TVM_FFI_DLL_EXPORT_TYPED_FUNC(run, run);
"""


@cache
def built() -> Build:
    candidate = Candidate(source=KERNEL, target="cpu", author="test:test")
    return CpuTarget().compile_watched(candidate, tier=resolve_tier("auto"))


def said_of(bug: int) -> str:
    """The finding's sentence, as a diagnoser is shown it."""
    tensors = [TensorSpec(name=name, shape=(40,), strides=(1,), dtype="float32") for name in "xy"]
    number = ScalarSpec(name="bug", type="int", value=bug)
    signature = Signature(inputs=(tensors[0], number), outputs=(tensors[1],))
    run = sanitize_on_host(built(), signature, tier=resolve_tier("auto"), limit_s=60)
    finding = first_finding((run,))
    assert finding is not None, run
    return finding.message


@pytest.mark.sampled(4)
@pytest.mark.parametrize(
    ("bug", "message", "cause"),
    [
        (1, "beyond the end of", "whole vector or a whole tile at the edge"),
        (2, "before the start of", "an index below 0"),
        (3, "SEGV", "never set"),
        (14, "no multiple of its size", "aligned(4)"),
        (4, "heap-use-after-free", "was freed"),
        (5, "double-free: line 25 frees memory once more", "was freed"),
        (13, "frees memory that was not allocated this way", "only what it allocated"),
        (6, "out of bounds for type", "shorter than the loop over it"),
        (7, "signed integer overflow", "product of extents"),
        (8, "shift exponent 40", "by the width of the type"),
        (9, "left shift of negative value -10", "bits moved in a signed number"),
        (10, "division by zero", "an extent or a count"),
        (11, "nan is outside the range", "converted to an integer"),
        (12, "is outside the range", "clamp before the conversion"),
    ],
)
def test_what_the_sanitizers_find_has_its_cause_first(bug: int, message: str, cause: str) -> None:
    said = said_of(bug)
    assert message in said
    known = library.likely_causes(said)[0]
    assert any(cause in line for line in known.causes), (said, known)
