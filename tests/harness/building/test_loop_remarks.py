"""What is said of loops, held against kernels that g++ really builds."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.building import cpu_build
from harness.building.loop_remarks import loop_remarks, source_loops
from harness.building.stack_slots import stack_slots
from harness.building.toolchain import disassembler

FLAGS = Path("/proc/cpuinfo").read_text(encoding="utf-8").split()
pytestmark = pytest.mark.skipif(
    disassembler() is None or not {"avx2", "fma"} <= set(FLAGS),
    reason="needs objdump of binutils 2.36 and AVX2",
)

# Each loop has a mark behind it. Every array is its own argument, so that nobody need fear that they overlap.
KERNEL = """\
#include <cmath>
#include <immintrin.h>
#include <cute/tensor.hpp>
#include <tvm/ffi/container/tensor.h>
#include <tvm/ffi/function.h>
typedef float Vec __attribute__((vector_size(32)));
float run(tvm::ffi::TensorView x, tvm::ffi::TensorView y) {
  float const* __restrict a = static_cast<float const*>(x.data_ptr());
  float* __restrict b = static_cast<float*>(y.data_ptr());
  int64_t const n = x.numel();
#pragma omp parallel for
  for (int64_t i = 0; i < n; ++i) {
#pragma omp simd
    for (int64_t j = 0; j < n; ++j)  // nested
      b[i * n + j] = a[i * n + j] / (1 + std::fabs(a[i * n + j]));
  }
  auto layout = cute::make_layout(cute::make_shape(48, 100), cute::make_stride(333, cute::_1{}));
  auto g = cute::make_tensor(a, layout);
  float sums[100] = {};
  for (int c = 0; c < 48; ++c) {  // cute
#pragma omp simd
    for (int p = 0; p < static_cast<int>(n % 100); ++p) { sums[p] += g(c, p) * a[p]; }
  }
  float last = 0;
  for (int64_t i = 0; i < n; ++i) last = last * 0.5f + a[i];  // recurrence
  for (int64_t i = 0; i < n; ++i)  // call
    b[i] = std::exp(a[i]);
  for (int64_t i = 0; i < n; ++i) {  // leaves
    if (a[i] > 3) break;
    b[i] = a[i] * 2;
  }
  __m256i const* order = static_cast<__m256i const*>(x.data_ptr());
  for (int64_t i = 0; i < n; ++i)  // gather
    _mm256_storeu_ps(b + 8 * i, _mm256_i32gather_ps(a, _mm256_loadu_si256(order + i), 4));
  Vec sum[40];
  for (auto& each : sum) each = Vec{};
  for (int64_t i = 0; i < n; ++i) {  // spill
#pragma GCC unroll 40
    for (int k = 0; k < 40; ++k) sum[k] += *reinterpret_cast<Vec const*>(a + 8 * (40 * i + k)) * a[i];
  }
  for (int k = 0; k < 40; ++k) *reinterpret_cast<Vec*>(b + 8 * k) = sum[k];
  Vec lanes[4] = {};
  for (int64_t i = 0; i < n; ++i) {  // own
#pragma GCC unroll 4
    for (int k = 0; k < 4; ++k) lanes[k] += *reinterpret_cast<Vec const*>(a + 32 * i + 8 * k) * lanes[(n + k) & 3];
  }
  for (int k = 0; k < 4; ++k) *reinterpret_cast<Vec*>(b + 8 * k + 400) = lanes[k];
  return last + sums[n % 100];
}
TVM_FFI_DLL_EXPORT_TYPED_FUNC(run, run);
"""


def line_of(mark):
    return next(n for n, line in enumerate(KERNEL.splitlines(), start=1) if line.endswith(f"// {mark}"))


@pytest.fixture
def said(compile_cpu):
    build = compile_cpu(KERNEL)
    assert build.succeeded, build.diagnostics
    found = {}
    for remark in build.remarks:
        assert (remark.severity, remark.file) == ("note", "kernel")
        found.setdefault(remark.line, []).append(remark.message)
    return lambda mark: " | ".join(found.get(line_of(mark), []))


def test_a_simd_loop_below_a_parallel_one_is_a_vector_loop(said):
    assert re.match(r"loop in (128|256|512)-bit vectors of (4|8|16) floats: 1 division", said("nested"))
    assert "scalar, no vectors" not in said("nested") and "g++ on vectors" not in said("nested")


def test_so_is_one_over_a_tensor_of_cute_s_that_g_places_in_a_header(said):
    assert re.match(r"loop in (256|512)-bit vectors of (8|16) floats: \d+ FMAs", said("cute")), (
        "unrolled into the outer"
    )
    assert "g++ on vectors" not in said("cute")


def test_a_recurrence_is_scalar_and_g_s_reason_is_repeated(said):
    assert said("recurrence").startswith("scalar loop, no vectors: 1 FMA, 1 load in")
    assert "not a plain reduction" in said("recurrence")


def test_a_call_left_is_named(said):
    assert said("call").startswith("scalar loop, no vectors:")
    assert "calls of expf" in said("call")
    assert "g++ on vectors: a value there has no vector form" in said("call")


def test_so_is_a_loop_that_breaks_off(said):
    assert "scalar loop, no vectors" in said("leaves") and "over all ways through it" not in said("leaves")


def test_spills_are_counted(said):
    assert "40 FMAs" in said("spill")
    accesses = int(re.search(r"(\d+) accesses of spilled registers", said("spill"))[1])
    assert accesses >= 2 * (40 - 32) and "variables on the stack" not in said("spill")


def test_an_array_on_the_stack_is_no_spill(said):
    assert re.search(r"\d access(es)? of variables on the stack", said("own"))
    assert "spill" not in said("own")


def test_without_a_listing_nobody_can_tell_the_two_apart(compile_cpu, fresh, monkeypatch):
    monkeypatch.setattr(cpu_build, "LISTED", "-Wa,--no-pad-sections")
    remarks = compile_cpu(fresh(KERNEL)).remarks
    (told,) = [each.message for each in remarks if each.line == line_of("spill")]
    assert re.search(r"\d+ accesses of the stack \(spills or variables, which cannot be told\)", told)
    assert "spilled registers" not in told


def test_two_functions_that_differ_at_one_place_leave_it_untold():
    listing = """\
  18 0000 55       \t\tvmovups\t520(%rsp), %zmm1\t# s[0], s_I_lsm.8
  58 0010 62F17C48 \t\tvmovaps\t%zmm2, 264(%rsp)\t# s_I_lsm.12, %sfp
  59 0020 62F17C48 \t\tvmovaps\t%zmm2, (%rsp)\t# tmp, %sfp
  60 0030 62F17C48 \t\tvmovss\t-120(%rsp,%rax,4), %xmm0\t# lanes[_6], lanes[_6]
  99 0020 62F17C48 \t\tvmovaps\t%zmm2, (%rsp)\t# tmp, own
"""
    assert stack_slots(listing) == {(0, "520(%rsp)"): "own", (16, "264(%rsp)"): "spill"}


def test_a_gather_is_counted(said):
    words = r"loop that moves 256 bits at a time: 1 load, 1 store, 1 gather in [89] instructions a turn"
    assert re.fullmatch(words, said("gather"))


def test_without_objdump_nothing_is_said_and_the_build_is_whole(compile_cpu, good, fresh, monkeypatch):
    toolchain = cpu_build.CpuToolchain()
    with_objdump, prelude = toolchain.key(), toolchain.prelude_key()
    monkeypatch.setattr(cpu_build, "disassembler", lambda: None)
    assert (toolchain.key() != with_objdump, toolchain.prelude_key()) == (True, prelude)
    build = compile_cpu(fresh(good))
    assert build.succeeded and build.remarks == ()


def test_an_objdump_that_fails_costs_the_remarks_alone(compile_cpu, good, fresh, monkeypatch):
    whole = cpu_build.CpuToolchain().key()
    monkeypatch.setattr(cpu_build, "COMMAND", ("--no-such-option",))
    assert cpu_build.CpuToolchain().key() == whole
    build = compile_cpu(fresh(good))
    assert build.succeeded and build.remarks == ()


@given(st.text(st.sampled_from("012af:\t \n()<>,%$xyzmREL_.jnev"), max_size=300))
def test_any_disassembly_is_read_without_a_fault(text):
    loop_remarks(f"k.o: file format elf64-x86-64\n\n00000000 <f>:\n{text}", kernel_file="k.cpp", source=text)


def test_another_machine_s_code_gets_no_remark():
    code = machine_code("nop", "vmulps %ymm0,%ymm0,%ymm0", "jne    4 <f>", "ret")
    assert loop_remarks(code, kernel_file="k.cpp", source="\nfor (;;) x();\n")
    text = code.replace("elf64-x86-64", "elf64-littleaarch64")
    assert loop_remarks(text, kernel_file="k.cpp", source="\nfor (;;) x();\n") == ()


def machine_code(*instructions, line=2):
    """A function whose instructions, one every 4 bytes, all stand on one line."""
    lines = [f"  {4 * at:x}:\t{text}" for at, text in enumerate(instructions)]
    return "\n".join(["k.o: file format elf64-x86-64", "", "0000000000000000 <f>:", f"/tmp/k.cpp:{line}", *lines])


def test_a_jump_back_into_a_path_beside_the_loop_makes_no_loop():
    code = machine_code("jne    10 <f>", "vaddss %xmm1,%xmm0,%xmm0", "vaddss %xmm1,%xmm0,%xmm0", "ret", "jmp    4 <f>")
    assert loop_remarks(code, kernel_file="k.cpp", source="\nfor (;;) x();\n") == ()
    round_it_goes = machine_code("nop", "vaddss %xmm1,%xmm0,%xmm0", "jne    4 <f>", "ret")
    (remark,) = loop_remarks(round_it_goes, kernel_file="k.cpp", source="\nfor (;;) x();\n")
    assert remark.message == "scalar loop, no vectors: 1 float operation in 2 instructions a turn"


@pytest.mark.parametrize(
    ("instruction", "words"),
    [
        ("vfmadd231ps 0x40(%rax){1to16},%zmm0,%zmm6", "512-bit vectors of 16 floats: 1 FMA, 1 load"),
        ("vfmadd132pd 0x10(%rsp),%ymm0,%ymm6", "256-bit vectors of 4 doubles: 1 FMA, 1 access of the stack"),
        ("vmulps 0x0(%rip),%ymm0,%ymm0", "256-bit vectors of 8 floats: 1 float operation in 2"),
        ("mulps  (%rdi,%rax,1),%xmm0", "128-bit vectors of 4 floats: 1 float operation, 1 load"),
        ("vmulss (%rdi,%rax,1),%xmm0,%xmm0", "scalar loop, no vectors: 1 float operation, 1 load"),
        ("vsqrtss %xmm0,%xmm0,%xmm0", "scalar loop, no vectors: 1 division or root"),
        ("vcvtsi2ss (%rdi),%xmm0,%xmm0", "scalar loop, no vectors: 1 float operation, 1 load"),
        ("vcvtdq2ps (%rdi),%zmm0", "512-bit vectors: 1 float operation, 1 load"),
        ("vpaddd (%rdi),%zmm0,%zmm0", "512-bit vectors: 1 load"),
        ("vmovups %ymm0,(%rdi)", "moves 256 bits at a time: 1 store"),
        ("rep movsb %ds:(%rsi),%es:(%rdi)", "scalar loop, no vectors: 1 load, 1 store"),
        ("addl   $0x1,(%rdi,%rax,4)", "scalar loop, no vectors: 1 load, 1 store"),
    ],
)
def test_each_instruction_is_counted_for_what_it_does(instruction, words):
    code = machine_code("nop", instruction, "jne    4 <f>", "ret")
    (remark,) = loop_remarks(code, kernel_file="k.cpp", source="\nfor (;;) x();\n")
    assert words in remark.message


@pytest.mark.parametrize("instruction", ["inc    %rax", "cmpl   $0x0,(%rdi)", "mov    (%rdi),%rdi"])
def test_a_loop_that_computes_nothing_is_left_out(instruction):
    code = machine_code("nop", instruction, "jne    4 <f>", "ret")
    assert loop_remarks(code, kernel_file="k.cpp", source="\nfor (;;) x();\n") == ()


def test_what_was_inlined_is_told_with_its_loop_and_its_caller():
    code = "\n".join(
        [
            "k.o: file format elf64-x86-64", "", "0000000000000000 <f>:", "/tmp/k.cpp:9", "  0:\tnop", "/tmp/k.cpp:6",
            "inlined by /tmp/k.cpp:3 (sweep)", "inlined by /tmp/k.cpp:6 (run)", "  4:\tvaddps %ymm1,%ymm0,%ymm0",
            "/usr/include/c++/12/cmath:80", "inlined by /tmp/k.cpp:6 (_run)", "inlined by /tmp/k.cpp:3 (sweep)",
            "inlined by /tmp/k.cpp:6 (run)", "  8:\tvmulps %ymm1,%ymm0,%ymm0", "/tmp/k.cpp:2 (discriminator 1)",
            "inlined by /tmp/k.cpp:6 (run)", "  c:\tjne    4 <f+0x4>", "  10:\tret",
        ]
    )  # fmt: skip
    sweep = "void sweep(F f) {\n  for (int i = 0; i < n; ++i) {\n    f(i);\n  }\n}\n"
    source = f"{sweep}for (;;) sweep([](int i) {{ s += a[i]; }});\n"
    (remark,) = loop_remarks(code, kernel_file="k.cpp", source=source)
    assert remark.line == 2 and remark.message.startswith(
        "loop in 256-bit vectors of 8 floats (called in line 6): 2 float"
    )


SOURCE = """\
/* for (;;) */
#pragma omp parallel for
#pragma omp simd
for (int i = 0;
     i < n; ++i)
  if (i) { f(); } else
    g();
do { h("for (;;) {"); }
while (--i);
while (true)
  for (auto x : y) z();
"""


def test_written_loops_are_found_with_their_pragmas_and_their_ends():
    found = [(loop.line, loop.first, loop.last, sorted(loop.control)) for loop in source_loops(SOURCE)]
    assert found[0] == (4, 2, 7, [2, 3, 4, 5])
    assert found[1] == (8, 8, 9, [8, 9])
    assert found[-2:] == [(10, 10, 11, [10]), (11, 11, 11, [11])]
    assert (
        source_loops("int x = 1'000; // for (;;)\nchar c = '{'; char const* s = R\"(for)\";\nwhile (x) --x;")[0].line
        == 3
    )


@given(st.lists(st.sampled_from(["for", "while", "do", "(", ")", "{", "}", ";", "\n", "#pragma x\n", "else", "x"])))
def test_any_source_is_read_without_a_fault(words):
    for loop in source_loops(" ".join(words)):
        assert loop.first <= loop.line <= loop.last
