"""Which loops stayed scalar, as g++ really reports them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.building.vectorizer import parse_remarks

PROLOGUE = """\
#include <tvm/ffi/container/tensor.h>
#include <tvm/ffi/function.h>
void run(tvm::ffi::TensorView x, tvm::ffi::TensorView y) {
  const float* a = static_cast<const float*>(x.data_ptr());
  float* b = static_cast<float*>(y.data_ptr());
  const int64_t n = x.numel();
"""
EPILOGUE = "}\nTVM_FFI_DLL_EXPORT_TYPED_FUNC(run, run);\n"
FIRST = PROLOGUE.count("\n") + 1


def remarks(compile_cpu, body):
    build = compile_cpu(PROLOGUE + body + EPILOGUE)
    assert build.succeeded, build.diagnostics
    return {remark.line - FIRST: remark.message for remark in build.remarks}


def test_a_vectorized_loop_is_not_mentioned(compile_cpu):
    body = "  for (int64_t i = 0; i < n; ++i) b[i] = a[i] / (1 + std::fabs(a[i]));\n"
    assert remarks(compile_cpu, body) == {}


def test_a_call_in_the_loop_is(compile_cpu):
    found = remarks(compile_cpu, "  for (int64_t i = 0; i < n; ++i)\n    b[i] = std::exp(a[i]);\n")
    assert list(found) == [0] and "loop not vectorized, because of line" in found[0]


def test_a_loop_that_breaks_off_is(compile_cpu):
    found = remarks(
        compile_cpu, "  for (int64_t i = 0; i < n; ++i) {\n    if (a[i] > 3) break;\n    b[i] = a[i];\n  }\n"
    )
    ((line, message),) = found.items()
    assert line in (0, 1) and "break" in message  # g++ places the loop at its condition or at the branch in it


def test_only_the_innermost_loop_counts(compile_cpu):
    body = (
        "#pragma omp parallel for\n"
        "  for (int64_t i = 0; i < n; ++i) {\n"
        "    float s = 0;\n"
        "    for (int64_t j = 0; j < 100; ++j)\n"
        "      s += std::sin(a[j]);\n"
        "    b[i] = s;\n"
        "  }\n"
    )
    assert list(remarks(compile_cpu, body)) == [3]


def test_an_outer_loop_around_a_vectorized_one_is_no_remark(compile_cpu):
    body = (
        "  for (int64_t i = 0; i < n; ++i)\n"
        "    for (int64_t j = 0; j < n; ++j)\n"
        "      b[i * n + j] = a[i * n + j] * 2;\n"
    )
    assert remarks(compile_cpu, body) == {}


def test_nor_is_it_where_the_vectorized_one_is_said_to_lie_in_a_header(compile_cpu):
    body = (
        "  auto layout = cute::make_layout(cute::make_shape(48, 100), cute::make_stride(333, cute::_1{}));\n"
        "  auto g = cute::make_tensor(a, layout);\n"
        "  float sums[100] = {};\n"
        "  for (int c = 0; c < 48; ++c) {\n"
        "#pragma omp simd\n"
        "    for (int p = 0; p < static_cast<int>(n % 100); ++p) { sums[p] += g(c, p); }\n"
        "  }\n"
        "  for (int p = 0; p < 100; ++p) { b[p] = std::exp(sums[p]); }\n"
    )
    assert list(remarks(compile_cpu, body)) == [7]


@pytest.mark.parametrize("reason", ["no vectype for stmt: _24 = *_23;", "control flow in loop."])
def test_no_name_of_a_temporary_reaches_the_reader(reason):
    text = f"k.cpp:3:1: missed: couldn't vectorize loop\nk.cpp:3:5: missed: not vectorized: {reason}\n"
    (remark,) = parse_remarks(text, kernel_file="k.cpp", source="\n\nfor\n")
    assert remark.severity == "note" and remark.line == 3 and "_2" not in remark.message


def test_headers_are_left_out():
    text = "/h.hpp:3:1: missed: couldn't vectorize loop\n/h.hpp:3:5: missed: not vectorized: control flow in loop.\n"
    assert parse_remarks(text, kernel_file="k.cpp", source="") == ()


@given(st.text(), st.text())
def test_any_text_is_read_without_a_fault(text, source):
    assert parse_remarks(text, kernel_file="k.cpp", source=source) == ()
