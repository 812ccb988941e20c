"""One kernel with a bug for each number: every one is found, named and placed, and the clean one is called clean."""

from __future__ import annotations

import pytest

from harness.isolation.tiers import resolve_tier
from harness.nouns.candidate import Candidate
from harness.nouns.sanitizer_run import SanitizerRun, first_finding
from harness.nouns.task import ScalarSpec, Signature, TensorSpec
from harness.sanitize.host import parse_reports, sanitize_on_host
from harness.targets.cpu import CpuTarget

KERNEL = """\
void run(tvm::ffi::TensorView x, int64_t bug, tvm::ffi::TensorView y) {
  auto in = static_cast<const float*>(x.data_ptr());
  auto out = static_cast<float*>(y.data_ptr());
  const int64_t n = x.numel() - (bug == 8);
  auto tensor = cute::make_tensor(out, cute::make_layout(n));
#pragma omp parallel for
  for (int64_t i = 0; i < n; ++i) tensor(i) = 2 * in[i];
  if (bug == 1) out[n + 1] = 0;
  if (bug == 2) out[0] = in[-1];
  volatile int most = std::numeric_limits<int>::max();
  if (bug == 3) out[0] = static_cast<float>(most + 1);
  if (bug == 4) for (;;) most = 0;
  if (bug == 5) TVM_FFI_THROW(ValueError) << "no such thing";
  if (bug == 6) out[0] = *reinterpret_cast<volatile float*>(16);
  typedef float Vector __attribute__((vector_size(16), may_alias));
  if (bug == 7) *reinterpret_cast<Vector*>(out + 1) = Vector{} + in[0];
}
TVM_FFI_DLL_EXPORT_TYPED_FUNC(run, run);
"""
BYTES = 40 * 4


def run_with(bug, *, source=KERNEL, limit_s=60.0):
    tensors = [TensorSpec(name=name, shape=(shape), strides=(1,), dtype="float32") for name, shape in names()]
    number = ScalarSpec(name="bug", type="int", value=bug)
    signature = Signature(inputs=(tensors[0], number), outputs=(tensors[1],))
    candidate = Candidate(source=source, target="cpu", author="test:test")
    tier = resolve_tier("auto")
    build = CpuTarget().compile_watched(candidate, tier=tier)
    return sanitize_on_host(build, signature, tier=tier, limit_s=limit_s)


def names():
    return (("x", (40,)), ("y", (40,)))


def test_a_clean_kernel_is_clean():
    assert run_with(0).status == "clean"


@pytest.mark.parametrize(
    ("bug", "line", "words"),
    [
        (1, 8, ["heap-buffer-overflow", "writes 4 bytes, 4 bytes beyond the end of x or y (160 bytes)"]),
        (2, 9, ["heap-buffer-overflow", "reads 4 bytes, 4 bytes before the start of x or y"]),
        (3, 11, ["signed integer overflow: 2147483647 + 1"]),
        (6, 14, ["SEGV", "not mapped"]),
        (7, 16, ["SEGV", "no multiple of its size"]),
    ],
)
def test_a_bug_is_found_with_its_line(bug, line, words):
    run = run_with(bug)
    assert run.status == "found"
    finding = first_finding((run,))
    assert finding.line == line and f"line {line}" in finding.message
    assert all(word in finding.message for word in words), finding.message


def test_an_output_that_is_not_written_everywhere_is_named():
    finding = first_finding((run_with(8),))
    assert finding.kind == "unwritten output"
    assert finding.message == "y is not written everywhere: 1 of the 40 words of 4 bytes, from word 39 on."


def test_what_says_nothing_of_the_kernel_is_skipped_with_the_reason():
    assert "did not end within" in run_with(4, limit_s=1.0).note
    assert "no such thing" in run_with(5).note
    assert "did not compile" in run_with(0, source="void run(").note


def test_a_defect_in_a_library_that_the_kernel_did_not_call_is_no_finding():
    text = "/usr/include/thing.h:7:3: runtime error: shift exponent 99 is too large\n    #0 0x1 in thing /usr/a.h:7\n"
    assert not list(parse_reports(text, {}))
    (finding,) = parse_reports(text + "    #1 0x2 in run kernel.cpp:31\n", {})
    assert finding.line == 31


def test_a_run_cannot_contradict_itself():
    with pytest.raises(ValueError, match="findings belong"):
        SanitizerRun(tool="x", status="found")
    with pytest.raises(ValueError, match="why a run was skipped"):
        SanitizerRun(tool="x", status="skipped")
