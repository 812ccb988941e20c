"""What this machine has of all that cutegen can use, what is missing, and how to get it."""

from __future__ import annotations

import platform
import re
import shutil
import tempfile
from collections.abc import Callable
from importlib import metadata
from pathlib import Path
from typing import Literal, NamedTuple

from harness.building.ninja_file import Edge, run_edges
from harness.building.store import Store, require_room, write_text
from harness.building.toolchain import (
    ask_version,
    compiler_name,
    cuda_compiler,
    cuda_include,
    cute_include,
    cutlass_version,
    disassembler,
    find_tool,
    host_compiler,
    ninja,
    tvm_ffi_folder,
)
from harness.isolation.tiers import resolve_tier
from harness.machine.gpu import find_gpu
from harness.machine.system import cache_dir
from harness.nouns.errors import MachineError
from harness.nouns.frozen import Frozen
from harness.targets.cuda import CudaTarget

Status = Literal["found", "limited", "missing"]

# The precompiled header takes 210 MB, a build 1 MB: room for one of the former per compiler and many of the latter.
_ROOM_BYTES = 1 << 30
_OPENMP_PROGRAM = r"""
#include <cstdio>
#include <omp.h>
int main() {
  int threads = 0;
#pragma omp parallel reduction(+ : threads)
  threads += 1;
  std::printf("threads %d\n", threads);
}
"""
LEAST_TORCH = (2, 11)
"""As pyproject.toml declares it; what torch.compile's backend needs of PyTorch is there from that version on."""
_PROFILER_SETTINGS = Path("/proc/driver/nvidia/params")


class Prerequisite(Frozen):
    """One thing looked for. `detail` says what was found, `remedy` what to do where it is not all there."""

    name: str
    status: Status
    detail: str
    remedy: str = ""
    needed_for: str


class Limited(NamedTuple):
    """What is there, and does not serve for all."""

    detail: str
    remedy: str


def check_prerequisites() -> tuple[Prerequisite, ...]:
    """Look for every prerequisite, trying rather than assuming. Never raises; takes about a second."""
    return (
        _attempt("Python", "everything", platform.python_version),
        _attempt("C++ compiler", "target cpu", lambda: compiler_name(host_compiler().version)),
        _attempt("OpenMP", "target cpu on more than one core", _try_openmp),
        _attempt("objdump", "remarks on loops, target cpu", _disassembler),
        _attempt("ninja", "building kernels", lambda: f"{ask_version((str(ninja()),))} ({ninja()})"),
        _attempt("CuTe headers", "building kernels", lambda: f"{cutlass_version()} ({cute_include()})"),
        _attempt("CUDA headers", "building kernels", lambda: str(cuda_include())),
        _attempt("tvm-ffi", "building and calling kernels", _tvm_ffi_version),
        _attempt("torch", "tracing and judging tasks", _torch),
        _attempt("nvcc", "target cuda", lambda: compiler_name(cuda_compiler().version)),
        _attempt("GPU", "running cuda kernels", _gpu),
        _attempt("ncu", "profiling cuda kernels", _profiler),
        _attempt("isolation", "running kernels that nobody vouches for", _isolation),
        _attempt("cache folder", "building kernels", _try_cache),
    )


def _attempt(name: str, needed_for: str, look: Callable[[], str | Limited]) -> Prerequisite:
    """What `look` finds; it raises `MachineError` where that is missing."""
    try:
        found = look()
    except MachineError as missing:
        return Prerequisite(
            name=name, status="missing", detail=missing.problem, remedy=missing.remedy, needed_for=needed_for
        )
    if isinstance(found, Limited):
        return Prerequisite(name=name, status="limited", **found._asdict(), needed_for=needed_for)
    return Prerequisite(name=name, status="found", detail=found, needed_for=needed_for)


def _try_openmp() -> str:
    compiler = host_compiler()
    edges = (
        Edge("compile", (*compiler.command, "-fopenmp", "check.cpp", "-o", "check"), ("check.cpp",), "check"),
        Edge("start", ("./check",), ("check",), "started"),
    )
    with Store("checks").staging() as folder:
        write_text(folder / "check.cpp", _OPENMP_PROGRAM)
        # Our own program: it needs the limits, not the walls.
        completed = run_edges(edges, folder, compiler=compiler, tier="none")
    threads = re.search(rb"threads (\d+)", completed.stdout)
    if completed.exit_code != 0 or threads is None:
        problem = f"{compiler.command[0]} does not build and run an OpenMP program."
        raise MachineError(problem, "Install the compiler's OpenMP runtime (libgomp for g++).")
    return f"{int(threads[1])} threads"


def _disassembler() -> str:
    found = disassembler()
    if found is None:
        problem = "no objdump of binutils 2.36 or later: nothing is said of what became of a kernel's loops"
        raise MachineError(problem, "Install binutils (apt install binutils), those of the C++ compiler.")
    unread = (
        "" if platform.machine() == "x86_64" else "; loops are read on x86-64 alone, and nothing is said of them here"
    )
    return f"{found}{unread}"


def _tvm_ffi_version() -> str:
    return f"{metadata.version('apache-tvm-ffi')} ({tvm_ffi_folder()})"


def _torch() -> str | Limited:
    """Not imported: that takes two seconds and 200 MB, and this process may go on to be the graph's."""
    try:
        found = metadata.version("torch")
    except metadata.PackageNotFoundError as absent:
        raise MachineError("not installed", "Install it with: pip install torch.") from absent
    if tuple(map(int, re.findall(r"\d+", found)[:2])) < LEAST_TORCH:
        detail = f"{found}, older than {'.'.join(map(str, LEAST_TORCH))}"
        return Limited(detail, "Install a newer one with: pip install -U torch.")
    return found


def _gpu() -> str | Limited:
    gpu = find_gpu()
    if gpu is None:
        remedy = "Install the NVIDIA driver where there is a GPU; without one use --target cpu."
        raise MachineError("nvidia-smi was not found or reports no device", remedy)
    detail = f"{gpu.name}, {gpu.architecture}, driver {gpu.driver}"
    try:
        CudaTarget().require_device()
    except MachineError as unfit:
        return Limited(f"{detail}; {unfit.problem}", unfit.remedy)
    return detail


def _profiler() -> str | Limited:
    program = find_tool("ncu")
    if program is None:
        remedy = "Install Nsight Compute with the CUDA toolkit; target cpu needs none of it."
        raise MachineError("Nsight Compute was not found", remedy)
    if not _may_profile():
        remedy = "Load the nvidia module with NVreg_RestrictProfilingToAdminUsers=0: no kernel runs as administrator."
        return Limited(f"{program}; the driver lets only administrators read performance counters", remedy)
    return str(program)


def _may_profile() -> bool:
    if not _PROFILER_SETTINGS.is_file():
        return True
    return "RmProfilingAdminOnly: 1" not in _PROFILER_SETTINGS.read_text(encoding="utf-8")


def _isolation() -> str | Limited:
    tier = resolve_tier("auto")
    if tier == "bubblewrap":
        return tier
    detail = f"{tier}: a kernel can still list processes and connect to unix sockets"
    return Limited(detail, "Install bubblewrap (apt install bubblewrap) and allow unprivileged user namespaces.")


def _try_cache() -> str:
    folder = cache_dir()
    with Store("checks").staging() as staged:
        with tempfile.NamedTemporaryFile(dir=staged):
            pass
        require_room(staged, _ROOM_BYTES)
        free = shutil.disk_usage(staged).free
    return f"{folder}, {free >> 30} GB free"
