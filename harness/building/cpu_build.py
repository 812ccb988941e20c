"""From a source to a library for this processor: g++ with OpenMP, behind a precompiled header."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from pathlib import Path

from harness.building.compilation import LIBRARY, OBJECT, Messages, Toolchain
from harness.building.gcc import parse_messages
from harness.building.loop_remarks import loop_remarks, missed_loops
from harness.building.machine_code import COMMAND
from harness.building.ninja_file import PRELUDE, PRELUDE_NAME, Edge, run_edges
from harness.building.stack_slots import COMMENTED, LISTED, LISTING, LISTING_BYTES
from harness.building.store import Store, require_room, write_text
from harness.building.toolchain import Compiler, disassembler, headers, host_compiler, tvm_ffi_folder
from harness.isolation.scratch import left_behind
from harness.machine.processor import processor
from harness.nouns.errors import MachineError
from harness.nouns.tier import Tier

PRELUDES = Store("preludes")

# -fno-math-errno and -fno-trapping-math change no value; they let g++ vectorize square roots and conditional stores.
# Each function in a section of its own: what one calls is then written down in the object file (`load_time`).
_FLAGS = (
    "-std=c++17", "-O3", "-march=native", "-fopenmp", "-fPIC", "-fvisibility=hidden", "-ffunction-sections",
    "-fno-math-errno", "-fno-trapping-math", "-Wall", "-Wno-unknown-pragmas", "-fdiagnostics-plain-output",
    "-fno-diagnostics-show-option", "-fmax-errors=10",
)  # fmt: skip
# Line tables beside the code, which they leave as it is; a process that loads the library does not read them. They tell
# loops of the source apart, to remarks and to a profile.
_LINES = "-g1"
_REMARKS, DISASSEMBLY = "remarks.txt", "disassembly.txt"
DISASSEMBLY_BYTES = 32 << 20
"""Ten times what the largest exemplar's takes."""
_PRECOMPILED = f"{PRELUDE_NAME}.gch"
_PRECOMPILED_BYTES = 300 << 20


def compile_flags() -> tuple[str, ...]:
    """The compiler's flags, include folders and all, for the source of a kernel."""
    return (*_FLAGS, *(word for folder in headers().include for word in ("-isystem", str(folder))))


def link_flags() -> tuple[str, ...]:
    """The linker's flags. Undefined symbols are errors here rather than crashes at the load."""
    library = tvm_ffi_folder() / "lib"
    return (
        "-shared",
        "-Wl,-z,defs,--gc-sections,--exclude-libs,ALL",
        "-fopenmp",
        f"-L{library}",
        "-ltvm_ffi",
        f"-Wl,-rpath,{library}",
    )


class CpuToolchain(Toolchain):
    """g++ for the processor at hand."""

    source_name = "kernel.cpp"

    @property
    def compiler(self) -> Compiler:
        """g++, or what $CXX names."""
        return host_compiler()

    @property
    def identity(self) -> tuple[str, ...]:
        """Flags, prelude, and the processor because of -march=native: a cache may be shared between machines."""
        remarks = (_LINES, COMMENTED, LISTED, str(disassembler()))
        return (*compile_flags(), *link_flags(), *remarks, PRELUDE, processor().identity)

    @property
    def flags(self) -> tuple[str, ...]:
        """The compiler's, which prelude and kernel must have in common."""
        return (*compile_flags(), _LINES)

    def prelude_key(self) -> str:
        """The digest of all that the precompiled header depends on: neither linker nor disassembler."""
        return self.digest(*self.flags, PRELUDE, processor().identity)

    def prelude(self) -> Path:
        """The prelude's plain name, present or not; g++ takes the precompiled one beside it."""
        return PRELUDES.entry(self.prelude_key()) / PRELUDE_NAME

    def prepare(self, folder: Path, tier: Tier) -> tuple[Path, ...]:
        """The precompiled header's folder: shared by all builds, which may read it but not write it."""
        return (precompiled_prelude(self, tier).parent,)

    def edges(self) -> Sequence[Edge]:
        """Compile, with the vectorizer's remarks on the side, then link and disassemble.

        The last needs objdump.
        """
        remarks = f"-fopt-info-vec-missed={_REMARKS}"
        compiling = (*self.compiler.command, *self.flags, remarks, COMMENTED, LISTED, "-include", str(self.prelude()))
        linking = (*self.compiler.command, OBJECT, *link_flags())
        found = disassembler()
        return (
            Edge("compile", (*compiling, "-c", self.source_name, "-o", OBJECT), (self.source_name,), OBJECT),
            Edge("link", (*linking, "-o", LIBRARY), (OBJECT,), LIBRARY),
            *([disassembling(found)] if found else []),
        )

    def read_messages(self, output: str, folder: Path, source: str) -> Messages:
        """g++'s messages and, where it got that far, what became of the kernel's loops."""
        return Messages(
            diagnostics=parse_messages(output, kernel_file=self.source_name, source=source),
            remarks=loop_remarks(
                left_behind(folder / DISASSEMBLY, DISASSEMBLY_BYTES),
                kernel_file=self.source_name,
                source=source,
                missed=missed_loops(left_behind(folder / _REMARKS), kernel_file=self.source_name),
                listing=left_behind(folder / LISTING, LISTING_BYTES),
            ),
        )


def disassembling(objdump: Path) -> Edge:
    """The step after the linker's. The build does not fail by it: remarks are all that is lost."""
    command = (
        f"{shlex.join([str(objdump), *COMMAND, OBJECT])} 2>/dev/null | head -c {DISASSEMBLY_BYTES} > {DISASSEMBLY}"
    )
    return Edge("disassemble", ("sh", "-c", command), (OBJECT,), DISASSEMBLY)


def precompiled_prelude(toolchain: CpuToolchain, tier: Tier) -> Path:
    """The prelude's plain name; g++ takes the `.gch` beside it. Built (8 s, 210 MB) by whoever comes first."""
    key, header = toolchain.prelude_key(), toolchain.prelude()
    if header.is_file():
        return header
    with PRELUDES.lock(key):
        if not header.is_file():
            _precompile(toolchain, tier, key)
    return header


def _precompile(toolchain: CpuToolchain, tier: Tier, key: str) -> None:
    compiler = toolchain.compiler
    command = (*compiler.command, *toolchain.flags, "-x", "c++-header", PRELUDE_NAME, "-o", _PRECOMPILED)
    with PRELUDES.staging() as folder:
        require_room(folder, _PRECOMPILED_BYTES)
        write_text(folder / PRELUDE_NAME, PRELUDE)
        edge = Edge("precompile", command, (PRELUDE_NAME,), _PRECOMPILED)
        completed = run_edges([edge], folder, compiler=compiler, tier=tier)
        if completed.exit_code != 0:
            said = (completed.stdout + completed.stderr).decode(errors="replace").strip()[-600:]
            problem = f"{compiler.command[0]} cannot compile the CuTe and tvm-ffi headers ({completed.outcome}): {said}"
            raise MachineError(problem, "Check them with cutegen doctor; g++ 9 or later is needed.")
        PRELUDES.publish(folder, key)
