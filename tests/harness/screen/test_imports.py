"""Libraries as the linker makes them: what they ask for decides, however the source spelled it."""

import platform
import subprocess

import pytest

from harness.building.toolchain import host_compiler
from harness.nouns.errors import MachineError
from harness.screen.imports import screen_library

HONEST = """
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>
extern "C" __attribute__((visibility("default"))) int __tvm_ffi_run(float* x, int n) {
  std::vector<float> v(x, x + n);
  #pragma omp parallel for
  for (int i = 0; i < n; ++i) x[i] = std::exp(v[i]) + std::tanh(v[0]) + std::fmod(v[i], 3.f);
  if (n < 0) throw std::string("negative") + std::to_string(n);
  std::memset(x, 0, n);
  void* p = std::aligned_alloc(64, 64 * n);
  std::free(p);
  return std::abs(n);
}
"""


@pytest.fixture
def built(tmp_path):
    def build(source, *flags):
        library = tmp_path / "kernel.so"
        command = [*host_compiler().command, "-std=c++17", "-O1", "-fopenmp", "-fPIC", "-fvisibility=hidden", "-shared"]
        words = [*command, "-x", "c++", "-", "-o", str(library), *flags]
        subprocess.run(words, input=source.encode(), check=True)
        return library

    return build


def test_an_honest_library_passes(built):
    assert screen_library(built(HONEST)) is None


STREAMS = """
#include <sstream>
#include <stdexcept>
extern "C" __attribute__((visibility("default"))) int __tvm_ffi_run(double x) {
  std::ostringstream said;
  said << "got " << x;
  if (x < 0) throw std::out_of_range(said.str());
  return static_cast<int>(said.str().size());
}
"""


def test_streams_and_errors_may_bring_the_standard_library_along(built):
    """Some compilers link all of libstdc++, or a part of it, into the kernel."""
    assert screen_library(built(STREAMS)) is None
    assert screen_library(built(STREAMS, "-static-libstdc++")) is None


def test_what_only_the_standard_library_may_ask_for_is_refused_beside_a_shared_one(built):
    raw = 'extern "C" long hidden(long, ...) __asm__("syscall"); auto* f = &hidden;'
    assert "calls syscall" in str(screen_library(built(STREAMS + raw)))


@pytest.fixture
def library_of_others(tmp_path):
    """Makes an empty library; gives the flags that link it to a kernel."""

    def make(name):
        other = tmp_path / name
        command = [*host_compiler().command, "-shared", "-fPIC", "-x", "c++", "-", f"-Wl,-soname,{name}"]
        subprocess.run([*command, "-o", str(other)], input=b"int nothing;", check=True)
        return ("-Wl,--no-as-needed", "-x", "none", str(other))

    return make


def test_the_host_bodies_that_nvcc_gives_to_device_functions_pass(built, library_of_others):
    stub = "#include <cstdlib>\nfloat on_device(float x) { int volatile code = 1; (void)x; ::exit(code); }"
    assert screen_library(built(HONEST + stub, *library_of_others("libcudart.so.13"))) is None
    assert " exit," in str(screen_library(built(HONEST + stub)))


def test_what_mutexes_and_locks_ask_for_passes(built):
    turns = "#include <mutex>\n#include <omp.h>\nstd::mutex turn; omp_lock_t lock; void run() { omp_init_lock(&lock); "
    both = "omp_set_lock(&lock); std::lock_guard held(turn); omp_unset_lock(&lock); omp_destroy_lock(&lock); }"
    assert screen_library(built(HONEST + turns + both)) is None


def test_what_libstdcxx_asks_for_where_part_of_it_is_linked_in_passes(built):
    weak = 'extern "C" __attribute__((weak)) void _ITM_addUserCommitAction(void*);'
    assert screen_library(built(f"{HONEST}{weak} void* used[] = {{(void*)_ITM_addUserCommitAction}};")) is None


IMPORTED = {
    "system": 'extern "C" int hidden(const char*) __asm__("system"); int (*f)(const char*) = hidden;',
    "dlsym": 'extern "C" void* dlsym(void*, const char*); auto* f = &dlsym;',
    "mmap": "#include <sys/mman.h>\nauto* f = &mmap;",
    "pthread_create": "#include <pthread.h>\nauto* f = &pthread_create;",
    "_ZNSt6thread20hardware_concurrencyEv": "#include <thread>\nauto* f = &std::thread::hardware_concurrency;",
    "clock_gettime": "#include <ctime>\nauto* f = &clock_gettime;",
    "getenv": "#include <cstdlib>\nauto* f = &std::getenv;",
    "fork": 'extern "C" __attribute__((weak)) int fork(); auto* f = &fork;',
    "omp_get_wtime": 'extern "C" double omp_get_wtime(); auto* f = &omp_get_wtime;',
    "GOMP_parallel_start": 'extern "C" void GOMP_parallel_start(); auto* f = &GOMP_parallel_start;',
    "GOMP_parallel_loop_static_start": 'extern "C" void GOMP_parallel_loop_static_start(); '
    "auto* f = &GOMP_parallel_loop_static_start;",
    "GOMP_target_ext": "float x; void f() {\n#pragma omp target nowait\n++x; }",
    "_Unwind_ForcedUnwind": "#include <unwind.h>\nauto* f = &_Unwind_ForcedUnwind;",
    "_Unwind_Backtrace": "#include <unwind.h>\nauto* f = &_Unwind_Backtrace;",
    "_ZSt13set_terminatePFvvE": "#include <exception>\nauto* f = &std::set_terminate;",
    "_ZSt15set_new_handlerPFvvE": "#include <new>\nauto* f = &std::set_new_handler;",
    "omp_set_num_threads": 'extern "C" void omp_set_num_threads(int); auto* f = &omp_set_num_threads;',
}  # fmt: skip


@pytest.mark.parametrize("name", IMPORTED)
def test_an_import_outside_the_list_is_refused(built, name):
    refusal = screen_library(built(HONEST + IMPORTED[name]))
    assert refusal is not None
    assert refusal.kind == "import"
    assert f" {name}," in refusal.message
    assert refusal.line is None


PARTS = (
    '#include <fstream>\nstd::ifstream f("a");',
    "#include <chrono>\nauto f = &std::chrono::steady_clock::now;",
    '#include <random>\nstd::random_device f("a");',
    "namespace std { template <class> struct __basic_file; template <> struct __basic_file<char> { void close(); }; }\n"
    "auto f = &std::__basic_file<char>::close;",
    "#include <condition_variable>\nauto f = &std::condition_variable_any::notify_all;",
)


@pytest.mark.parametrize("source", PARTS, ids=["files", "clocks", "entropy", "files below", "waiting"])
def test_parts_of_the_standard_library_are_refused(built, source):
    assert screen_library(built(HONEST + source)).kind == "import"


def test_libraries_of_others_are_refused(built, library_of_others):
    refusal = screen_library(built(HONEST, *library_of_others("libcublas.so.13")))
    assert refusal.kind == "library"
    assert "libcublas.so.13" in refusal.message


def test_a_library_may_not_stand_in_for_the_systems_functions(built):
    source = 'extern "C" __attribute__((visibility("default"))) int clock_gettime(int, void*) { return 0; }'
    refusal = screen_library(built(HONEST + source))
    assert refusal.kind == "export"
    assert "clock_gettime" in refusal.message


def test_without_any_export_the_imports_are_seen_all_the_same(built):
    assert screen_library(built('extern "C" int fork(); auto* f = &fork;')).kind == "import"


def test_what_is_no_library(tmp_path):
    file = tmp_path / "kernel.so"
    for content in (b"", b"no library", b"\x7fELF\x02\x01\x01" + bytes(60)):
        file.write_bytes(content)
        assert screen_library(file).kind == "library"
    with pytest.raises(MachineError, match="cannot be read"):
        screen_library(tmp_path / "gone.so")


HELD = """
extern "C" __attribute__((visibility("default"), noinline)) long __tvm_ffi_run(char const* x, long n) { return %s; }
"""
ON_X86 = pytest.mark.skipif(platform.machine() != "x86_64", reason="the bytes are those of x86-64")


@ON_X86
@pytest.mark.parametrize(
    "held",
    ["n ^ 0x11c3050f90909090", "x[0x00c3050f]", "n + 0x00c3340f", "n ^ 0x1111c380cd111111", "n ^ 0x11c3c085050f9090"],
)
def test_bytes_that_call_the_system_and_return_are_refused_wherever_they_stand(built, held):
    refusal = screen_library(built(HELD % held))
    assert refusal is not None
    assert refusal.check == "screen:system_call"


@ON_X86
@pytest.mark.parametrize("held", ["n * 1295", "n ^ 0x80cd", "x[0x050f]", "n + 0x340f", "n ^ 0x0f0500000f050000"])
def test_numbers_with_such_bytes_pass(built, held):
    assert screen_library(built(HELD % held)) is None


def test_a_callers_random_numbers_are_no_kernels(built):
    source = (
        '#include <cstdlib>\nextern "C" __attribute__((visibility("default"))) int __tvm_ffi_run() { return rand(); }'
    )
    assert "calls rand," in screen_library(built(source)).message
