"""From a source to a library for an NVIDIA GPU: nvcc, with or without a device at hand."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from harness.building.compilation import LIBRARY, Messages, Toolchain
from harness.building.lean_headers import FOLDER, suffices, write_lean_headers
from harness.building.ninja_file import Edge
from harness.building.nvcc import parse_nvcc_messages, parse_resources
from harness.building.nvcc_steps import MODULE_ID, MODULE_ID_TEXT, parallel_edges
from harness.building.prelude import PRELUDE, PRELUDE_NAME
from harness.building.runner import LIMITS, search_path
from harness.building.store import write_text
from harness.building.toolchain import Compiler, cuda_compiler, headers, host_compiler, tvm_ffi_folder
from harness.machine.gpu import find_gpu
from harness.nouns.errors import UserError
from harness.nouns.tier import Tier

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
