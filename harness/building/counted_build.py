"""The same kernel with a counter at each label of its machine code: how often loops turn."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from harness.building.compilation import LIBRARY, OBJECT, Messages
from harness.building.cpu_build import DISASSEMBLY, DISASSEMBLY_BYTES, CpuToolchain, disassembling, link_flags
from harness.building.gcc import parse_messages
from harness.building.loop_remarks import Copy, placed, source_loops
from harness.building.machine_code import Function, has_frame_pointer, machine_loops, read_functions
from harness.building.ninja_file import Edge
from harness.building.stack_slots import COMMENTED, LISTED, LISTING, LISTING_BYTES, stack_slots
from harness.building.toolchain import disassembler
from harness.isolation.scratch import left_behind
from harness.nouns.build import Diagnostic, StaticData
from harness.nouns.profile import Loop

COUNTER = "cutegen_count_"
"""A counter's name, before the number of its label."""
_ASSEMBLY, _COUNTED = "kernel.s", "counted.s"
# Neither flags nor what lies below the stack's end are touched: g++ may keep something in either across a label. Labels
# outside of functions are those of tables of jumps.
_DATA = r"/^\s+\.(section\s+\.(rodata|debug|gcc_except|data|bss|tbss|tdata)|data|bss)/,/^\s+\.(text|section\s+\.text)/b"
_COUNT = (
    "&", rf".comm {COUNTER}\1,8,8", "leaq -128(%rsp), %rsp", "pushq %rax", rf"movq {COUNTER}\1(%rip), %rax",
    "leaq 1(%rax), %rax", rf"movq %rax, {COUNTER}\1(%rip)", "popq %rax", "leaq 128(%rsp), %rsp",
)  # fmt: skip
_LABEL = r"s/^\.L([0-9]+):/" + r"\n".join(_COUNT) + "/"
_NAME = re.compile(rf"{COUNTER}(\d+)")
_BEFORE, _AFTER = 2, 5
"""Of the instructions that count, those before the one that names the counter first, and from it on."""


class CountedCpuToolchain(CpuToolchain):
    """g++ as for speed; what it writes is counted at each label, assembled, and told by the loops' labels."""

    @property
    def identity(self) -> tuple[str, ...]:
        """The plain build's, and what is put in."""
        return (*super().identity, _DATA, _LABEL)

    def edges(self) -> Sequence[Edge]:
        """Compile to assembly, put counters in, assemble, link and disassemble."""
        compiling = (*self.compiler.command, *self.flags, COMMENTED, "-include", str(self.prelude()), "-S")
        counting = f"{shlex.join(['sed', '-E', '-e', _DATA, '-e', _LABEL, _ASSEMBLY])} > {_COUNTED}"
        assembling = (*self.compiler.command, LISTED, "-c", _COUNTED, "-o", OBJECT)
        linking = (*self.compiler.command, OBJECT, *link_flags(), "-Wl,-Bsymbolic", "-o", LIBRARY)
        found = disassembler()
        return (
            Edge("compile", (*compiling, self.source_name, "-o", _ASSEMBLY), (self.source_name,), _ASSEMBLY),
            Edge("count", ("sh", "-c", counting), (_ASSEMBLY,), _COUNTED),
            Edge("assemble", assembling, (_COUNTED,), OBJECT),
            Edge("link", linking, (OBJECT,), LIBRARY),
            *([disassembling(found)] if found else []),
        )

    def read_messages(self, output: str, folder: Path, source: str) -> Messages:
        """g++'s messages; of each loop, as a remark, its line, its label in place of a column, and what a turn does."""
        text, listing = (
            left_behind(folder / name, most)
            for name, most in ((DISASSEMBLY, DISASSEMBLY_BYTES), (LISTING, LISTING_BYTES))
        )
        return Messages(
            diagnostics=parse_messages(output, kernel_file=self.source_name, source=source),
            remarks=tuple(loops_in(text, kernel_file=self.source_name, source=source, listing=listing)),
        )

    def load_time(self, folder: Path) -> tuple[str, ...]:
        """Whoever asks for this build has been judged by another one."""
        return ()

    def static_data(self, folder: Path) -> tuple[StaticData, ...]:
        """As for what runs at load time."""
        return ()


def loops_in(disassembly: str, *, kernel_file: str, source: str, listing: str = "") -> Iterator[Diagnostic]:
    """Of each loop of the counted code, what one turn does without the counting. Its words are a `Loop` as JSON."""
    written, slots = source_loops(source), stack_slots(listing)
    for function in read_functions(disassembly, kernel_file=kernel_file):
        if not any(each.lines for each in function.instructions):
            continue
        framed, counting = has_frame_pointer(function.instructions), _counting(function)
        for loop in machine_loops(function):
            label = next((int(found[1]) for each in loop.instructions if (found := _NAME.fullmatch(each.symbol))), None)
            own = tuple(each for each in loop.instructions if each.address not in counting)
            if label is not None and any(each.lines for each in own):
                copy = placed(replace(loop, instructions=own), written, framed, slots)
                yield Diagnostic(
                    severity="note",
                    file="kernel",
                    line=copy.line,
                    column=label,
                    message=_turn(copy).model_dump_json(),
                )


def _counting(function: Function) -> set[int]:
    """The addresses of the instructions that count."""
    code = function.instructions
    reads = (at for at, each in enumerate(code) if _NAME.fullmatch(each.symbol) and each.operands.endswith("%rax"))
    return {each.address for at in reads for each in code[max(0, at - _BEFORE) : at + _AFTER]}


def _turn(copy: Copy) -> Loop:
    work = copy.work
    return Loop(
        line=copy.line,
        caller=copy.callers[0] if copy.callers else None,
        instructions=work.instructions,
        vector=work.vector_floats + work.vector_integers - (work.conversions - work.scalar_conversions),
        scalar=work.scalar_floats - work.scalar_conversions,
        loads=work.loads + work.gathers,
        stores=work.stores + work.scatters,
        stack=work.stack - work.spills - work.own,
        spills=work.spills,
        own=work.own,
        shuffles=work.shuffles,
        conversions=work.conversions,
        calls=len(work.calls),
    )
