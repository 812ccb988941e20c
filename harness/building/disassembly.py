"""What objdump prints of an object file with line tables, as functions of instructions that know their source lines."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

COMMAND = ("-d", "-r", "-C", "-l", "--inlines", "--no-show-raw-insn")
"""objdump's options. `--inlines`, of binutils 2.36 or later, names the callers of code that was inlined."""

_X86_64 = "file format elf64-x86-64"
_HEADER = re.compile(r"^[0-9a-f]{8,16} <(?P<name>.*)>:$")
_INSTRUCTION = re.compile(r"^\s+(?P<address>[0-9a-f]+):\t(?P<text>.*)$")
_RELOCATION = re.compile(r"^\s+[0-9a-f]+: R_\w+\s+(?P<symbol>.*?)(?:[-+]0x[0-9a-f]+)?$")
_PLACE = re.compile(r"^(?P<caller>inlined by )?(?P<file>\S.*):(?P<line>\d+)(?: \(.*\))?$")
_PREFIXES = frozenset({"lock", "rep", "repz", "repnz", "bnd", "notrack", "data16", "cs", "ds", "es", "fs", "gs", "ss"})
_COMMENT = re.compile(r"\s+[#<].*$")


@dataclass
class Instruction:
    """One machine instruction in AT&T's order of operands, the destination last.

    `lines` are the kernel's own: where it stands, then the calls that it was inlined through, the innermost first;
    none where all of it is other files'. `foreign`: it was inlined from another file. `symbol` is what its relocation
    names, if it has one.
    """

    address: int
    mnemonic: str
    operands: str
    lines: tuple[int, ...]
    foreign: bool = False
    symbol: str = ""


@dataclass
class Function:
    """One function's instructions, in the order of their addresses."""

    name: str
    instructions: list[Instruction] = field(default_factory=list)


def read_functions(text: str, *, kernel_file: str) -> list[Function]:
    """The functions of x86-64 code; none of another machine's, whose instructions nobody here knows."""
    if _X86_64 not in text[:1000]:
        return []
    return list(_Reader(kernel_file).functions(text))


class _Reader:
    """Goes through the lines. objdump repeats an instruction's own place only where it changes, its callers always."""

    def __init__(self, kernel_file: str) -> None:
        self.kernel_file = kernel_file
        self.place: int | None = None
        self.callers: list[int] = []

    def functions(self, text: str) -> Iterator[Function]:
        function: Function | None = None
        for line in text.splitlines():
            if header := _HEADER.match(line):
                if function is not None:
                    yield function
                function, self.place, self.callers = Function(header["name"]), None, []
            elif function is not None:
                self._read(line, function)
        if function is not None:
            yield function

    def _read(self, line: str, function: Function) -> None:
        if found := _INSTRUCTION.match(line):
            function.instructions.append(self._instruction(found))
            self.callers = []
        elif (found := _RELOCATION.match(line)) and function.instructions:
            function.instructions[-1].symbol = found["symbol"]
        elif found := _PLACE.match(line):
            number = int(found["line"]) if self._is_kernel(found["file"]) else None
            if not found["caller"]:
                self.place = number
            elif number is not None:
                self.callers.append(number)

    def _is_kernel(self, file: str) -> bool:
        return file == self.kernel_file or file.endswith(f"/{self.kernel_file}")

    def _instruction(self, found: re.Match[str]) -> Instruction:
        words = _COMMENT.sub("", found["text"]).split()
        while len(words) > 1 and words[0] in _PREFIXES:
            words = words[1:]
        own = [] if self.place is None else [self.place]
        return Instruction(
            address=int(found["address"], 16),
            mnemonic=words[0] if words else "",
            operands=" ".join(words[1:]),
            lines=tuple(dict.fromkeys([*own, *self.callers])),
            foreign=not own,
        )
