"""From a source to a library for an NVIDIA GPU: nvcc, with or without a device at hand."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import Literal

from harness.building.compilation import LIBRARY, Messages, Toolchain
from harness.building.gcc import KERNEL, parse_messages, select, short_name, trim_types
from harness.building.lean_headers import FOLDER, suffices, write_lean_headers
from harness.building.ninja_file import LIMITS, PRELUDE, PRELUDE_NAME, Edge, search_path
from harness.building.store import write_text
from harness.building.toolchain import Compiler, cuda_compiler, headers, host_compiler, tvm_ffi_folder
from harness.machine.gpu import find_gpu
from harness.nouns.build import Diagnostic, Resources
from harness.nouns.errors import UserError
from harness.nouns.tier import Tier

# -- What nvcc and ptxas printed, as diagnostics and as each kernel's registers, shared memory and spills -------------


_MESSAGE = re.compile(
    r"^(?P<file>[^\s(][^(]*)\((?P<line>\d+)\): "
    r"(?P<kind>error|warning|catastrophic error|note)(?: #[\w-]+)?: (?P<text>.*)$"
)
_INSTANTIATED = re.compile(r"^\s+(?:detected during|instantiation of ).* at line (?P<line>\d+)(?P<other> of .+)?$")
_PTXAS_PROBLEM = re.compile(r"^ptxas (?P<where>.*?)\s*(?P<kind>error|fatal)\s*: (?P<text>.*)$")
_COMPILING = re.compile(r"Compiling entry function '(?P<kernel>[^']+)'")
_SPILLS = re.compile(
    r"(?P<frame>\d+) bytes stack frame, (?P<stores>\d+) bytes spill stores, (?P<loads>\d+) bytes spill loads"
)
_USED = re.compile(r"Used (?P<registers>\d+) registers")
_SHARED = re.compile(r"(?P<bytes>\d+) bytes smem")
_LENGTH = re.compile(r"(\d+)")

_SEVERITIES: dict[str, Literal["error", "warning", "note"]] = {
    "error": "error",
    "catastrophic error": "error",
    "warning": "warning",
    "note": "note",
}


def parse_nvcc_messages(output: str, *, kernel_file: str, source: str) -> tuple[Diagnostic, ...]:
    """At most 20 diagnostics, errors first; those of the host compiler, of the linker and of ptxas among them."""
    host = parse_messages(output, kernel_file=kernel_file, source=source)
    return select([*_device_messages(output, kernel_file), *_ptxas_problems(output), *host])


def parse_resources(output: str) -> tuple[Resources, ...]:
    """One entry a kernel, from `-Xptxas -v`. Spills are the bytes stored and loaded, added up, and so are frames.

    Functions that stayed out of line, compiled again for each kernel that calls them, are told of behind it.
    """
    found: list[Resources] = []
    kernel, spilled, frame = "", 0, 0
    for line in output.splitlines():
        if entry := _COMPILING.search(line):
            kernel, spilled, frame = unmangled(entry["kernel"]), 0, 0
        elif spills := _SPILLS.search(line):
            spilled += int(spills["stores"]) + int(spills["loads"])
            frame += int(spills["frame"])
            if found and not kernel:
                found[-1] = found[-1].model_copy(update={"spill_bytes": spilled, "stack_bytes": frame})
        elif kernel and (used := _USED.search(line)):
            shared = _SHARED.search(line)
            found.append(
                Resources(
                    kernel=kernel,
                    registers=int(used["registers"]),
                    shared_bytes=int(shared["bytes"]) if shared else 0,
                    spill_bytes=spilled,
                    stack_bytes=frame,
                )
            )
            kernel = ""
    return tuple(found)


def unmangled(symbol: str) -> str:
    """The function's own name out of an Itanium-mangled symbol: `_ZN3foo3barEPf` gives `bar`; others are kept."""
    if not symbol.startswith("_Z"):
        return symbol
    position = 3 if symbol.startswith("_ZN") else 2
    name = symbol
    while length := _LENGTH.match(symbol, position):
        start = length.end()
        position = start + int(length[1])
        name = symbol[start:position]
    return name


def _device_messages(output: str, kernel_file: str) -> Iterator[Diagnostic]:
    lines = output.splitlines()
    for index, line in enumerate(lines):
        match = _MESSAGE.match(line)
        if match is None:
            continue
        file = short_name(match["file"], kernel_file)
        origin = "" if file == KERNEL else _origin(lines, index + 1, kernel_file)
        yield Diagnostic(
            severity=_SEVERITIES[match["kind"]],
            file=file,
            line=int(match["line"]),
            message=trim_types(match["text"].strip()) + origin,
        )


def _origin(lines: list[str], start: int, kernel_file: str) -> str:
    """The kernel's lines among the instantiations that nvcc lists below a message, up to the next message."""
    found: list[str] = []
    for line in lines[start:]:
        if _MESSAGE.match(line):
            break
        step = _INSTANTIATED.match(line)
        if step and step["other"] and kernel_file in step["other"]:
            found.append(step["line"])
    return f" (instantiated from kernel line {', '.join(dict.fromkeys(found))})" if found else ""


def _ptxas_problems(output: str) -> Iterator[Diagnostic]:
    for line in output.splitlines():
        match = _PTXAS_PROBLEM.match(line)
        if match:
            yield Diagnostic(severity="error", file=KERNEL, line=1, message=f"ptxas: {trim_types(match['text'])}")


# -- nvcc's own steps, its two front ends side by side ----------------------------------------------------------------

# nvcc compiles a source for the host and for the device one after the other, 6 s each where a kernel uses CuTe, though
# neither needs the other. `nvcc --dryrun` prints the commands that it would run; here they become three edges: host,
# device, and what joins them.


MODULE_ID = "kernel.module_id"
"""A file that both front ends read: the name by which they call what is private to the source."""
MODULE_ID_TEXT = "_kernel"

_LINE = re.compile(r"^#\$ (?P<text>.*)$", re.MULTILINE)
_SETTING = re.compile(r"(?P<name>[A-Z_]+)=(?P<value>.*)")
_OWN_ID = "--gen_module_id_file"
_HOST, _DEVICE = "kernel.cudafe1.cpp", "kernel.fatbin.c"
_ASK_S = 20.0


def parallel_edges(command: Sequence[str], source: str, library: str, path: str) -> tuple[Edge, ...] | None:
    """The edges of `command SOURCE -o LIBRARY`; None where this nvcc goes another way than the one known here.

    `path` is the PATH that they will be run with.
    """
    asked = (*command, "--keep", "--keep-dir", ".", "--dryrun", source, "-o", library)
    return _edges(_said(asked, path), source, library)


@lru_cache(maxsize=8)
def _said(command: tuple[str, ...], path: str) -> str:
    """What nvcc prints on stderr; it reads no source for that, and writes nothing."""
    with tempfile.TemporaryDirectory(prefix="cutegen-") as folder:
        environment = {"PATH": path, "LC_ALL": "C"}
        try:
            done = subprocess.run(command, env=environment, cwd=folder, capture_output=True, text=True, timeout=_ASK_S)
        except (OSError, subprocess.TimeoutExpired):
            return ""
    return done.stderr if done.returncode == 0 else ""


def _edges(said: str, source: str, library: str) -> tuple[Edge, ...] | None:
    lines = [match["text"].strip() for match in _LINE.finditer(said)]
    settings = [match for line in lines if (match := _SETTING.fullmatch(line))]
    steps = [line for line in lines if not _SETTING.fullmatch(line) and not line.startswith("rm ")]
    programs = [_program(step) for step in steps]
    if [programs.count(name) for name in ("cudafe++", "cicc", "ptxas")] != [1, 1, 1]:
        return None
    host_end, ptxas = programs.index("cudafe++") + 1, programs.index("ptxas")
    device_end = ptxas + 2
    ordered = host_end <= programs.index("cicc") < ptxas and programs[ptxas + 1 : device_end] == ["fatbinary"]
    if not ordered or _OWN_ID not in steps[host_end - 1] or _HOST not in steps[host_end - 1]:
        return None
    steps[host_end - 1] = steps[host_end - 1].replace(_OWN_ID, "")
    exported = [f"export {match['name']}={shlex.quote(match['value'])}" for match in settings]

    def edge(name: str, part: Sequence[str], inputs: tuple[str, ...], output: str) -> Edge:
        return Edge(name, ("/bin/sh", "-c", " && ".join((*exported, *part))), inputs, output)

    return (
        edge("host", steps[:host_end], (source, MODULE_ID), _HOST),
        edge("device", steps[host_end:device_end], (source, MODULE_ID), _DEVICE),
        edge("join", steps[device_end:], (_HOST, _DEVICE), library),
    )


def _program(step: str) -> str:
    """The name of the program that a step runs, without its folder."""
    return shlex.split(step)[0].rpartition("/")[2]


# -- From a source to a library for an NVIDIA GPU: nvcc, with or without a device at hand -----------------------------


# Ampere: the oldest generation that CuTe's asynchronous copies and tensor-core atoms are written for.
DEFAULT_ARCHITECTURE = "sm_80"

# -O2 is for the host's code, which launches and nothing else: half a second less than -O3 where it reads CuTe. The
# device's is always optimized in full. The suppressed numbers tell of host functions called from device templates,
# which CuTe's own headers do throughout.
_FLAGS = (
    "-std=c++17", "-O2", "--expt-relaxed-constexpr", "--expt-extended-lambda", "--cudart", "shared", "-Xptxas", "-v",
    "-Xcompiler", "-fPIC,-fvisibility=hidden,-ffunction-sections,-fdiagnostics-plain-output",
    "-diag-suppress", "20012,20013,20014,20015",
)  # fmt: skip

# Some installations of g++ link the newest part of libstdc++ statically. What the kernel does not use of it must not
# stay, or the library would ask for functions that the kernel never calls.
_ONLY_WHAT_IS_USED = ("-Xlinker", "--gc-sections", "-Xlinker", "--exclude-libs,ALL")


# Device code is compiled twice over, and CuTe's larger GEMMs take a minute on an idle machine.
CUDA_LIMITS = replace(LIMITS, wall_s=300.0)


class CudaToolchain(Toolchain):
    """nvcc for one architecture."""

    source_name = "kernel.cu"

    def __init__(self, architecture: str) -> None:
        self.architecture = architecture

    @property
    def compiler(self) -> Compiler:
        """nvcc, with the host compiler's folders among its own."""
        nvcc, host = cuda_compiler(), host_compiler()
        return Compiler(nvcc.command, f"{nvcc.version} {host.version}", (*nvcc.roots, *host.roots))

    @property
    def identity(self) -> tuple[str, ...]:
        """Flags, architecture and prelude."""
        return (*self._command(), PRELUDE)

    def prepare(self, folder: Path, tier: Tier) -> tuple[Path, ...]:
        """The prelude as plain text, since nvcc precompiles no headers, and as few of CuTe's as the source needs."""
        write_text(folder / PRELUDE_NAME, PRELUDE)
        if suffices((folder / self.source_name).read_text(encoding="utf-8"), self.architecture):
            write_lean_headers(folder)
        write_text(folder / MODULE_ID, MODULE_ID_TEXT)
        return ()

    def edges(self) -> Sequence[Edge]:
        """nvcc's steps, its two front ends side by side, or where that is not known how, nvcc as it is."""
        steps = parallel_edges(self._command(), self.source_name, LIBRARY, search_path(self.compiler))
        return steps or (self.whole(),)

    def whole(self) -> Edge:
        """Compile and link in one go; the object file is kept, to be looked at."""
        return Edge("nvcc", (*self._command(), "--keep", self.source_name, "-o", LIBRARY), (self.source_name,), LIBRARY)

    def read_messages(self, output: str, folder: Path, source: str) -> Messages:
        """nvcc's and ptxas's messages, and what each kernel uses."""
        return Messages(
            diagnostics=parse_nvcc_messages(output, kernel_file=self.source_name, source=source),
            resources=parse_resources(output),
        )

    def _command(self) -> tuple[str, ...]:
        tvm = tvm_ffi_folder() / "lib"
        include = (word for folder in (FOLDER, *headers().include) for word in ("-isystem", str(folder)))
        linking = (f"-L{tvm}", "-ltvm_ffi", "-Xlinker", f"-rpath={tvm}", "-Xlinker", "-z,defs", *_ONLY_WHAT_IS_USED)
        host = ("-ccbin", host_compiler().command[0])
        number = self.architecture.removeprefix("sm_")
        # The short -arch=sm_90a compiles a second time, for compute_90, to what no device here would run.
        generated = ("-gencode", f"arch=compute_{number},code=sm_{number}")
        flags = (*_FLAGS, *generated, "-include", PRELUDE_NAME, "-shared")
        return (*cuda_compiler().command, *host, *flags, *include, *linking)


def cuda_architecture(ordinal: int = 0) -> str:
    """$CUTEGEN_CUDA_ARCH (for example sm_90a), else that GPU's own, else `DEFAULT_ARCHITECTURE`."""
    chosen = os.environ.get("CUTEGEN_CUDA_ARCH")
    if chosen:
        if not re.fullmatch(r"sm_\d{2,3}[af]?", chosen):
            raise UserError(f"CUTEGEN_CUDA_ARCH is {chosen!r}, which is no architecture.", "Write it like sm_90a.")
        return chosen
    gpu = find_gpu(ordinal)
    return gpu.architecture if gpu else DEFAULT_ARCHITECTURE
