"""What runs at load time, as compilers really make it: theirs is passed over, a kernel's own is named."""

from __future__ import annotations

import subprocess

import pytest

from harness.building.load_time import load_time_code
from harness.building.toolchain import host_compiler
from harness.screen.static_data import screen_load_time

HONEST = {
    "streams": "#include <iostream>\nvoid run() { std::cout << 1; }",
    "a table": "constexpr float table[] = {1, 2}; static float const other[] = {3, 4}; float run(int i) "
    "{ return table[i] + other[i]; }",
    "folded": "static float const third = 1.f / 3; static float scratch[64]; float run(int i) "
    "{ return third + scratch[i]; }",
    "containers": "#include <iostream>\n#include <vector>\nstatic std::vector<float> kept; std::vector<int> other; "
    "float run() { kept.push_back(1); other.push_back(1); std::cout << 1; return kept[0]; }",
    "a cache": "#include <map>\n#include <string>\nstatic std::map<int, float> kept; static std::map<std::string, int> "
    "more; "
    "float run() { return kept[1] + more[\"x\"]; }",
    "a static in a function": "#include <vector>\nstatic float make(); float run() "
    "{ static std::vector<float> kept(9, make()); return kept[0]; } float make() { return 1; }",
    "a thread's own": "#include <vector>\nthread_local std::vector<float> own; void run() { own.resize(9); }",
    "a mutex and a flag": "#include <atomic>\n#include <mutex>\nstd::mutex turn; std::atomic<int> calls{0}; "
    "void run() { std::lock_guard held(turn); ++calls; }",
    "an optimizer's option": "#include <iostream>\n#pragma GCC optimize(\"unroll-loops\")\n"
    "#pragma GCC target(\"avx2\")\nvoid run() { std::cout << 1; }",
}  # fmt: skip
FOREIGN = {
    "early": "extern float draw(); struct Early { float x; Early() : x(draw()) {} }; static Early early; "
    "float run() { return early.x; }",
    "seed": "extern int draw(); int seed = draw(); int run() { return seed; }",
    "kept": "#include <vector>\nstatic std::vector<float> kept(9, 1.f); float run() { return kept[0]; }",
    "quiet": "static int volatile kept; __attribute__((noinline)) static void quiet() { for (int i = 0; i < 99; ++i) "
    "kept = kept * 7 + i; } struct Early { Early() { quiet(); } }; static Early early; int run() { return kept; }",
    "shared": "static int volatile kept; __attribute__((noinline)) static void shared() { for (int i = 0; i < 99; ++i) "
    "kept = kept * 7 + i; } struct Early { Early() { shared(); } }; static Early early; int run() { shared(); "
    "return kept; }",
    "__sti____cudaRegisterAll": "static int volatile kept; __attribute__((noinline)) static void work() { for (int i "
    "= 0; i < 99; ++i) kept = kept * 7 + i; } __attribute__((constructor)) static void __sti____cudaRegisterAll() "
    "{ work(); } int run() { return kept; }",
    "last": "extern void draw(); struct Last { ~Last() { draw(); } }; Last last; void* run() { return &last; }",
    "draw": "#include <iostream>\nextern int draw(); static int const seed = draw(); void run() { std::cout << seed; }",
    "_GLOBAL__sub_I_": "#include <iostream>\nstruct Alone { Alone() { for (volatile int i = 0, k = 9; i < 99; ++i) "
    "k = k * 7 + i; } }; static Alone alone; void run() { std::cout << &alone; }",
    "begin": "extern void draw(); __attribute__((constructor)) static void begin() { draw(); }",
    "begin_first": "extern void draw(); __attribute__((constructor(101))) static void begin_first() { draw(); }",
    "section .fini_array": "extern void draw(); __attribute__((destructor)) static void end() { draw(); }",
    "section .preinit_array": 'extern void draw(); __attribute__((section(".preinit_array"), used)) '
    "static void (*first)() = draw;",
    "section .init": 'asm(".section .init\\nnop\\n.text");',
    "chosen": 'extern "C" { static int one() { return 1; } static int (*pick())() { return one; } '
    'int chosen() __attribute__((ifunc("pick"))); }',
}  # fmt: skip


@pytest.fixture
def compiled(tmp_path):
    def compile_source(source, *flags):
        file = tmp_path / "kernel.o"
        always = ["-std=c++17", "-O3", "-fPIC", "-fvisibility=hidden", "-ffunction-sections"]
        command = [*host_compiler().command, *always, *flags]
        subprocess.run([*command, "-x", "c++", "-c", "-", "-o", str(file)], input=source.encode(), check=True)
        return file

    return compile_source


@pytest.mark.parametrize("name", HONEST)
def test_what_compilers_put_there_is_passed_over(compiled, name):
    assert load_time_code(compiled(HONEST[name])) == ()


@pytest.mark.parametrize("name", FOREIGN)
def test_a_kernels_own_code_is_named(compiled, name):
    found = load_time_code(compiled(FOREIGN[name]))
    assert any(name in each for each in found), found


@pytest.mark.parametrize("name", ["quiet", "shared"])
def test_a_call_that_leaves_no_trace_is_named_all_the_same(compiled, name):
    """Inside one section the assembler resolves it."""
    found = load_time_code(compiled(FOREIGN[name], "-O1", "-fno-function-sections"))
    assert name in found


def test_other_levels_of_optimization_change_nothing(compiled):
    for level in ("-O1", "-O2"):
        assert load_time_code(compiled(HONEST["streams"], level, "-fcf-protection", "-fstack-protector-strong")) == ()
        assert load_time_code(compiled(FOREIGN["early"], level))


def test_what_is_no_object_file_is_refused(tmp_path):
    (tmp_path / "kernel.o").write_bytes(b"\x7fELF and nothing else")
    assert "cannot be read" in load_time_code(tmp_path / "kernel.o")[0]


def test_the_refusal_names_what_runs_and_what_to_do():
    assert screen_load_time(()) is None
    refusal = screen_load_time(("early", "second", "third", "fourth"))
    assert refusal.check == "screen:load_time"
    assert "(early, second, third, ...)" in refusal.message
    assert "constexpr" in refusal.message
