"""What outlives a kernel's calls, as its object file says, and which of it the screen lets pass."""

import subprocess

import pytest

from harness.building.load_time import _outermost, plain_name, static_data
from harness.building.toolchain import cuda_compiler, host_compiler
from harness.nouns.build import StaticData
from harness.nouns.errors import MachineError
from harness.screen.static_data import screen_static_data

HEAD = """
#include <array>
#include <atomic>
#include <mutex>
#include <vector>
int ask();
float* room();
"""
CONSTANT = {
    "a table": "constexpr float table[] = {1, 2, 3}; float run(int i) { return table[i]; }",
    "addresses": "static int one() { return 1; } static int (*const all[])() = {one, ask}; "
    "int run(int i) { return all[i](); }",
    "asked once": "int run() { static int const found = ask(); return found; }",
    "asked once, not const": "int run() { static bool found = (ask(), true); return found; }",
    "filled once": "float run(int i) { static std::array<float, 4> const t = [] { std::array<float, 4> made; "
    "for (float& each : made) each = ask(); return made; }(); return t[i]; }",
    "a vector": "float run(int i) { static std::vector<float> const t(ask(), 1.f); return t[i]; }",
    "a constant behind a pointer": "struct T { int x; }; T const* find(); "
    "int run() { static T const* const t = find(); return t->x; }",
    "by threads": "static std::once_flag once; static float t[9]; void fill(float*); "
    "float run(int i) { std::call_once(once, [] { fill(t); }); return t[i]; }",
    "a counter of threads": "static std::atomic<int> calls; int run() { return ++calls; }",
    "of a header": "#include <iostream>\nvoid run() { std::cout << 1; }",
    "a local of that name": "int run(int n) { int sum = 0; for (int i = 0; i < n; ++i) sum += ask(); return sum; } "
    "int other() { static int const sum = ask(); return sum; }",
    "what omp critical locks": "void run(float* x) {\n#pragma omp critical(mine)\n{ x[0] += ask(); } }",
}
WRITTEN = {
    "calls": "static int calls = 0; int run() { return ++calls; }",
    "shared": "float shared[40]; void run(int i) { shared[i] += 1; }",
    "inside": "namespace { int inside; } int run() { return ++inside; }",
    "row": "float run(int i) { static std::vector<float> row(99); return row[i] += 1; }",
    "made": "float run(int i) { static float* const made = new float[9]; return made[i] += 1; }",
    "given": "float run(int i) { static float* const given = room(); return given[i] += 1; }",
    "referred": "float run(int i) { static auto& referred = *room(); return (&referred)[i] += 1; }",
    "loose": "struct Loose { mutable int n = ask(); }; int run() { static Loose loose; return ++loose.n; }",
    "member": "struct Holder { static inline int member = 2; }; int run() { return ++Holder::member; }",
    "typed": "template <class T> int typed = 0; int run() { return ++typed<float>; }",
    "each": "thread_local int each = 0; int run() { return ++each; }",
    "captured": "int run() { auto f = [] { static int captured = 0; return ++captured; }; return f(); }",
    "done": "void run() { static bool done = false; if (!done) { ask(); done = true; } }",
    "extra": "namespace std { int extra; } int run() { return ++std::extra; }",
    "second": "static int first = 0, second = 1; int run() { return ++second + first; }",
    "kept": "#define KEEP static int\nKEEP kept = 0; int run() { return ++kept; }",
    "plain": 'extern "C" { int plain; } int run() { return ++plain; }',
    "twin": "static int const twin = 3; namespace mine { int twin; } int run() { return ++mine::twin + ::twin; }",
    "late": "static std::mutex lock; static float* late; void run(int i) { std::lock_guard<std::mutex> g(lock); "
    "if (!late) late = room(); late[i] += 1; }",
}


@pytest.fixture
def found(tmp_path):
    def compile_source(source):
        file = tmp_path / "kernel.o"
        flags = ("-std=c++17", "-O3", "-fopenmp", "-fPIC", "-fvisibility=hidden", "-ffunction-sections", "-w")
        command = [*host_compiler().command, *flags, "-x", "c++", "-c", "-", "-o", str(file)]
        subprocess.run(command, input=source.encode(), check=True)
        return static_data(file)

    return compile_source


@pytest.mark.sampled(3)
@pytest.mark.parametrize("name", CONSTANT)
def test_what_is_filled_once_may_stay(found, name):
    source = HEAD + CONSTANT[name]
    assert screen_static_data(found(source), source) is None


@pytest.mark.parametrize("name", WRITTEN)
def test_what_calls_write_is_refused_by_its_name(found, name):
    source = HEAD + WRITTEN[name]
    refusal = screen_static_data(found(source), source)
    assert refusal is not None
    assert refusal.check == "screen:static_data"
    assert refusal.message.startswith(f"{name} ")


def test_the_line_is_that_of_the_variable(found):
    source = f"{HEAD}\n\nstatic int calls = 0;\nint run() {{ return ++calls; }}"
    assert screen_static_data(found(source), source).line == HEAD.count("\n") + 3


@pytest.mark.parametrize(
    ("mangled", "name"),
    [
        ("_ZZ3runN3tvm3ffi10TensorViewES1_E7block_1", "block_1"),
        ("_ZN12_GLOBAL__N_11cE", "c"),
        ("_ZN4mine1fILi3EEE", "f"),
        ("_ZZZ3runPfENKUlvE_clEvE1u", "u"),
        ("_ZZ3runPfE1k_0", "k"),
        ("calls.12", "calls"),
        ("_Zstrange", "_Zstrange"),
    ],
)
def test_names_are_read_from_those_of_the_linker(mangled, name):
    assert plain_name(mangled) == name


def test_a_table_in_constant_memory_is_one_unless_it_is_written():
    data = StaticData(name="table", within="table")
    declared = "__constant__ float table[4] = {1, 2, 3, 4};"
    assert screen_static_data([data], declared) is None
    assert screen_static_data([data], f"{declared} void f() {{ cudaMemcpyToSymbolAsync(table, 0, 4); }}")
    assert screen_static_data([data], "__constant__ float table[4];")
    assert screen_static_data([data], "__device__ float table[4];")


def test_what_nvcc_puts_around_private_names_hides_no_headers():
    assert _outermost("_ZN21_INTERNAL_0_kernel_cu4cute7productE") == "cute"
    assert _outermost("_ZN21_INTERNAL_0_kernel_cu5tableE") == "table"


LAUNCHES = """
namespace kernels {
template <int N> __global__ void templated(float* x) { x[threadIdx.x] = N; }
template <class T> __global__ void typed(T* x) { x[threadIdx.x] = T(1); }
namespace { __global__ void hidden(float* x) { x[threadIdx.x] = 1; } }
static __global__ void fixed(float* x) { x[threadIdx.x] = 1; }
__global__ void open(float* x) { x[threadIdx.x] = 1; }
}
void run(float* x) {
  kernels::templated<4><<<1, 32>>>(x);
  kernels::templated<1><<<1, 32>>>(x);
  kernels::typed<<<1, 32>>>(x);
  kernels::hidden<<<1, 32>>>(x);
  kernels::fixed<<<1, 32>>>(x);
  kernels::open<<<1, 32>>>(x);
}
"""


@pytest.mark.parametrize("level", ["-O0", "-O2"])
def test_what_nvcc_adds_to_launch_kernels_is_none_of_theirs(level, tmp_path):
    try:
        nvcc = cuda_compiler()
    except MachineError as missing:
        pytest.skip(str(missing))
    source = tmp_path / "kernel.cu"
    for text, names in ((LAUNCHES, []), (f"__device__ float kept[4];{LAUNCHES}", ["kept"])):
        source.write_text(text)
        subprocess.run([*nvcc.command, level, "-c", source, "-o", tmp_path / "kernel.o"], check=True, timeout=300)
        assert [each.name for each in static_data(tmp_path / "kernel.o")] == names
