"""What nvcc and ptxas print, taken from nvcc 13.0's own output, and any other text."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.building.cuda_build import parse_nvcc_messages, parse_resources, unmangled

ERRORS = """\
kernel.cu(3): error: no instance of overloaded function "push_back" matches the argument list
            argument types are: (const char [2])
  int run() { a.push_back("x"); return g(3); }
                ^
/usr/include/c++/12/bits/stl_vector.h(1293): note #3326-D: argument #1 does not match parameter
        push_back(value_type&& __x)
        ^

/opt/cutlass/include/cute/layout.hpp(120): error: static assertion failed with "rank"
    static_assert(rank == 1);
    ^
          detected during:
            instantiation of "auto cute::e(T) [with T=int]" at line 31
            instantiation of "auto cute::f(T) [with T=int]" at line 40 of /opt/cutlass/include/cute/tensor.hpp
            instantiation of "auto g(T) [with T=int]" at line 7 of kernel.cu

/opt/cutlass/include/cute/stride.hpp(8): warning #186-D: pointless comparison of unsigned integer with zero
          detected during instantiation of "auto h(T) [with T=int]" at line 21 of kernel.cu

kernel.cu(9): warning #177-D: variable "n" was declared but never referenced

2 errors detected in the compilation of "kernel.cu".
"""

RESOURCES = """\
ptxas info    : 0 bytes gmem
ptxas info    : Compiling entry function '_ZN4gemm5scaleEPKfPfi' for 'sm_80'
ptxas info    : Function properties for _ZN4gemm5scaleEPKfPfi
    64 bytes stack frame, 40 bytes spill stores, 24 bytes spill loads
ptxas info    : Used 255 registers, used 1 barriers, 512 bytes smem, 372 bytes cmem[0]
ptxas info    : Compiling entry function 'plain' for 'sm_80'
ptxas info    : Function properties for plain
    0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
ptxas info    : Used 8 registers, 360 bytes cmem[0]
"""


def parse(output):
    return parse_nvcc_messages(output, kernel_file="kernel.cu", source="")


def test_errors_come_first_with_their_origin_in_the_kernel():
    found = parse(ERRORS)
    told = [(each.severity, each.file, each.line) for each in found]
    assert told == [
        ("error", "kernel", 3),
        ("note", "12/bits/stl_vector.h", 1293),
        ("error", "cute/layout.hpp", 120),
        ("warning", "kernel", 9),
        ("warning", "cute/stride.hpp", 8),
    ]
    assert found[4].message.endswith("(instantiated from kernel line 21)")
    assert found[2].message == 'static assertion failed with "rank" (instantiated from kernel line 7)'


def test_ptxas_errors_are_errors():
    (error,) = parse("ptxas error   : Entry function 'big' uses too much shared data (0x19000 bytes, 0xc000 max)\n")
    assert (error.file, error.line) == ("kernel", 1)
    assert error.severity == "error" and "too much shared data" in error.message


def test_the_host_compilers_errors_are_errors():
    (error,) = parse("kernel.cu:7:3: error: 'missing' was not declared in this scope\n")
    assert (error.file, error.line, error.column) == ("kernel", 7, 3)


def test_resources_of_each_kernel():
    first, second = parse_resources(RESOURCES)
    assert (first.kernel, first.registers, first.shared_bytes, first.spill_bytes) == ("scale", 255, 512, 64)
    assert (second.kernel, second.registers, second.shared_bytes, second.spill_bytes) == ("plain", 8, 0, 0)
    assert (first.stack_bytes, second.stack_bytes) == (64, 0)


OUT_OF_LINE = """\
ptxas info    : Compiling entry function '_Z1qPf' for 'sm_80'
ptxas info    : Function properties for _Z1qPf
    0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
ptxas info    : Used 72 registers, used 0 barriers, 360 bytes cmem[0]
ptxas info    : Compile time = 211.808 ms
ptxas info    : Function properties for _Z3barfPKf
    0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
ptxas info    : Compiling entry function '_Z1kPf' for 'sm_80'
ptxas info    : Function properties for _Z1kPf
    760 bytes stack frame, 380 bytes spill stores, 684 bytes spill loads
ptxas info    : Used 32 registers, used 0 barriers, 760 bytes cumulative stack size, 360 bytes cmem[0]
ptxas info    : Compile time = 728.491 ms
ptxas info    : Function properties for _Z3barfPKf
    0 bytes stack frame, 628 bytes spill stores, 632 bytes spill loads
ptxas info    : Compiling entry function 'last' for 'sm_80'
ptxas info    : Used 8 registers, 360 bytes cmem[0]
"""


def test_what_a_function_out_of_line_spills_is_its_kernels():
    spills = {each.kernel: each.spill_bytes for each in parse_resources(OUT_OF_LINE)}
    assert spills == {"q": 0, "k": 380 + 684 + 628 + 632, "last": 0}


def test_words_about_spills_without_a_kernel_are_passed_over():
    assert parse_resources("    0 bytes stack frame, 4 bytes spill stores, 4 bytes spill loads\n") == ()


@pytest.mark.parametrize(
    ("symbol", "name"),
    [
        ("_Z5scalePf", "scale"),
        ("_ZN3foo3barEv", "bar"),
        ("plain", "plain"),
        ("k_3foo", "k_3foo"),
        ("_Z", "_Z"),
        ("_ZN3fooIiE3barE", "foo"),
    ],
)
def test_names_of_kernels(symbol, name):
    assert unmangled(symbol) == name


@given(st.text())
def test_any_output_is_read_without_a_fault(text):
    assert len(parse(text)) <= 20
    parse_resources(text)
    unmangled(f"_Z{text}")
