"""The same kernel compiled for a sanitizer: slower, and every access watched."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from harness.building.compilation import LIBRARY, Messages
from harness.building.cpu_build import CpuToolchain, compile_flags, link_flags
from harness.building.cuda_build import CudaToolchain
from harness.building.gcc import parse_messages
from harness.building.ninja_file import Edge
from harness.nouns.build import StaticData

# Unoptimized CuTe is a hundred times slower; above -O1 the lines of a report begin to blur. Zones around every variable
# on the stack would make a CuTe product compile five times as long (23 s), the rest of UBSan longer still: arrays there
# are watched by their bounds instead.
_UNDEFINED = "signed-integer-overflow,integer-divide-by-zero,shift,bounds,float-cast-overflow"
_FLAGS = (
    "-O1", "-g1", "-fno-omit-frame-pointer", f"-fsanitize=address,{_UNDEFINED}", "--param", "asan-stack=0",
)  # fmt: skip


class SanitizedCpuToolchain(CpuToolchain):
    """g++ with AddressSanitizer and UndefinedBehaviorSanitizer, behind a precompiled header of its own.

    As text the prelude takes 4 s of a 5 s build; precompiling it takes 10 s, once.
    """

    @property
    def identity(self) -> tuple[str, ...]:
        """The plain build's, and the sanitizers' flags."""
        return (*super().identity, *_FLAGS)

    @property
    def flags(self) -> tuple[str, ...]:
        """The sanitizers' after the plain build's: of two levels of optimization the last one counts."""
        return (*compile_flags(), *_FLAGS)

    def edges(self) -> Sequence[Edge]:
        """Compile and link in one go."""
        command = (*self.compiler.command, *self.flags, "-include", str(self.prelude()), self.source_name)
        return (Edge("compile", (*command, *link_flags(), "-o", LIBRARY), (self.source_name,), LIBRARY),)

    def read_messages(self, output: str, folder: Path, source: str) -> Messages:
        """g++'s messages."""
        return Messages(diagnostics=parse_messages(output, kernel_file=self.source_name, source=source))

    def load_time(self, folder: Path) -> tuple[str, ...]:
        """The sanitizer's own code runs then. Whoever asks for this build has been judged by another one."""
        return ()

    def static_data(self, folder: Path) -> tuple[StaticData, ...]:
        """As for what runs at load time."""
        return ()


class LineInfoCudaToolchain(CudaToolchain):
    """nvcc as for speed, with the source's lines beside the machine code: reports can name them."""

    def _command(self) -> tuple[str, ...]:
        return (*super()._command(), "-lineinfo")
