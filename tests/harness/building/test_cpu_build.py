"""The real compiler in its real cage: libraries, the cache, limits, and what a source can reach."""

from __future__ import annotations

import ctypes
import subprocess
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from harness.building.compilation import LIBRARIES, library_of
from harness.building.cpu_build import PRELUDES, CpuToolchain, compile_flags, precompiled_prelude
from harness.building.ninja_file import PRELUDE_NAME, Edge, run_edges
from harness.building.toolchain import host_compiler
from harness.isolation.tiers import resolve_tier, why_unavailable
from harness.nouns.candidate import Candidate
from harness.nouns.errors import MachineError
from harness.targets.cpu import CpuTarget


def test_a_kernel_becomes_a_library_with_the_entry_point(compile_cpu, good, fresh):
    build = compile_cpu(fresh(good))
    assert build.succeeded and not build.cached and build.seconds > 0.1
    assert library_of(build).name == "kernel.so"
    symbols = subprocess.run(
        ["nm", "-D", "--defined-only", library_of(build)], capture_output=True, text=True, check=True
    )
    assert " T __tvm_ffi_run\n" in symbols.stdout
    assert "_Z3run" not in symbols.stdout  # everything but the entry point is hidden
    ctypes.CDLL(str(library_of(build)))


def test_the_second_build_comes_from_the_cache_and_says_the_same(compile_cpu, fresh, good):
    source = fresh(good.replace("2 * in(i)", "std::exp(in(i))"))
    first, second = compile_cpu(source), compile_cpu(source)
    assert not first.cached and second.cached
    assert second.digest == first.digest and second.seconds < first.seconds
    assert first.remarks and second.remarks == first.remarks


def test_sources_that_differ_do_not_share_a_library(compile_cpu, fresh, good):
    assert compile_cpu(fresh(good)).digest != compile_cpu(fresh(good)).digest


@pytest.mark.parametrize("tier", ["bubblewrap", "landlock", "none"])
def test_every_tier_builds(tier, fresh, good):
    if tier != "none" and why_unavailable(tier):
        pytest.skip(f"{tier} does not work here: {why_unavailable(tier)}")
    candidate = Candidate(source=fresh(good), target="cpu", author="test:test")
    assert CpuTarget().compile(candidate, tier=tier).succeeded


def test_threads_that_build_the_same_agree_on_one_library(compile_cpu, fresh, good):
    source = fresh(good)
    with ThreadPoolExecutor(3) as pool:
        builds = list(pool.map(lambda _: compile_cpu(source), range(3)))
    assert len({build.digest for build in builds}) == 1 and library_of(builds[0]).is_file()


def test_a_fresh_cache_precompiles_the_prelude_once_and_gcc_uses_it(tmp_path, monkeypatch, compile_cpu, good):
    monkeypatch.setenv("CUTEGEN_CACHE", str(tmp_path))
    with ThreadPoolExecutor(2) as pool:
        builds = list(pool.map(compile_cpu, (good, good + "\n")))
    assert all(build.succeeded for build in builds)
    (header,) = PRELUDES.root.glob(f"??/*/{PRELUDE_NAME}.gch")
    assert not list((tmp_path / "staging").iterdir())
    plain = str(header).removesuffix(".gch")
    source = tmp_path / "one.cpp"
    source.write_text("int main() {}\n")
    command = [*host_compiler().command, *compile_flags(), "-H", "-include", plain, "-fsyntax-only", str(source)]
    listed = subprocess.run(command, capture_output=True, text=True, check=True)
    assert f"! {header}" in listed.stderr  # "!" is how g++ marks a precompiled header that it took


def test_an_undefined_function_fails_the_build_with_the_line_that_names_it(compile_cpu, good, fresh):
    source = fresh("void missing(int);\n" + good.replace("out(i) = 2", "missing(3), out(i) = 2"))
    build = compile_cpu(source)
    assert not build.succeeded
    assert build.diagnostics[0].file == "kernel" and build.diagnostics[0].line == 1
    assert "missing(int)" in build.diagnostics[0].message


def test_a_failed_build_is_not_cached(compile_cpu):
    first, second = compile_cpu("int run( {"), compile_cpu("int run( {")
    assert not first.succeeded and not second.cached


@pytest.mark.parametrize("way", ['#include "{path}"', 'asm(".incbin \\"{path}\\"");'])
def test_a_private_file_cannot_be_read_through_the_compiler(way, tmp_path, compile_cpu, good):
    secret = tmp_path / "secret.txt"
    secret.write_text("hunter2 is the password\n")
    source = f"{way.format(path=secret)}\n{good}"
    build = compile_cpu(source)
    assert not build.succeeded
    assert "hunter2" not in build.model_dump_json()


def test_other_builds_cannot_be_read_through_the_compiler(compile_cpu, good, fresh):
    other = library_of(compile_cpu(fresh(good))).with_name("kernel.cpp")
    assert other.is_file()
    build = compile_cpu(f'#include "{other}"\n')
    assert "No such file" in build.diagnostics[0].message or "denied" in build.diagnostics[0].message


def test_a_source_that_takes_too_long_is_a_failed_build(compile_cpu, fresh):
    # g++ gives up on one constant after 33 million steps, so there are many: minutes of work in all.
    spin = "constexpr long spin(long n) { long s = 0; for (long i = 0; i < 200000; ++i) s += i ^ n; return s; }\n"
    source = fresh(spin + "".join(f"constexpr long s{n} = spin({n});\n" for n in range(2000)))
    started = time.monotonic()
    build = compile_cpu(source, wall_s=1.5)
    assert time.monotonic() - started < 30
    assert not build.succeeded and "too long" in build.diagnostics[0].message


def test_a_source_that_takes_all_memory_is_a_failed_build(compile_cpu, fresh):
    tree = "template <int N, int K> struct F { static constexpr int v = F<N - 1, 2 * K>::v + F<N - 1, 2 * K + 1>::v; };"
    leaf = "template <int K> struct F<0, K> { static constexpr int v = 1; };"
    build = compile_cpu(fresh(f"{tree}\n{leaf}\nint run() {{ return F<24, 0>::v; }}"), memory_bytes=300 << 20)
    assert not build.succeeded
    assert "memory" in build.diagnostics[0].message


def test_a_cache_that_cannot_be_written_is_the_machines_fault(tmp_path, monkeypatch, compile_cpu, good):
    (tmp_path / "file").write_text("in the way")
    monkeypatch.setenv("CUTEGEN_CACHE", str(tmp_path / "file"))
    with pytest.raises(MachineError, match="CUTEGEN_CACHE"):
        compile_cpu(good)


def test_a_missing_compiler_is_the_machines_fault(monkeypatch, compile_cpu, fresh, good):
    monkeypatch.setenv("CXX", "no-such-compiler")
    host_compiler.cache_clear()
    try:
        with pytest.raises(MachineError, match=r"no-such-compiler.*apt install"):
            compile_cpu(fresh(good))
    finally:
        host_compiler.cache_clear()


def test_a_compiler_may_not_change_the_shared_prelude():
    tier = resolve_tier("auto")
    header = precompiled_prelude(CpuToolchain(), tier)
    before = header.read_text()
    command = ("/bin/sh", "-c", f"cat {header} > copy && echo changed > {header}")
    with LIBRARIES.staging() as folder:
        edge = Edge("change", command, ("build.ninja",), "copy")
        completed = run_edges([edge], folder, compiler=host_compiler(), tier=tier, read=(header.parent,))
        assert (folder / "copy").read_text() == before
    assert completed.exit_code != 0 and header.read_text() == before


def test_a_library_built_without_walls_is_not_handed_to_those_who_ask_for_them(tmp_path, good, fresh):
    if resolve_tier("auto") == "none":
        pytest.skip("no walls here")
    (tmp_path / "secret.txt").write_text("hunter2")
    source = fresh(f'asm(".incbin \\"{tmp_path}/secret.txt\\"");\n{good}')
    candidate = Candidate(source=source, target="cpu", author="test:test")
    assert CpuTarget().compile(candidate, tier="none").succeeded
    assert not CpuTarget().compile(candidate, tier=resolve_tier("auto")).succeeded


def test_an_entry_of_very_many_arguments_builds(compile_cpu):
    """A model's: tvm-ffi's own export takes time and memory by the square of their number."""
    places = range(300)
    parameters = ", ".join(f"tvm::ffi::TensorView t{place}" for place in places)
    body = " + ".join(f"t{place}.ndim()" for place in places)
    source = f"static int sum; void run({parameters}) {{ sum = {body}; }}\nTVM_FFI_DLL_EXPORT_TYPED_FUNC(run, run);\n"
    build = compile_cpu(source)
    assert build.succeeded
