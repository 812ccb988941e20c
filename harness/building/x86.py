"""What instructions of x86-64 do, as far as it tells how fast a loop of a kernel can be."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field

from harness.building.disassembly import Instruction

_FMA = re.compile(r"vfn?m(?:add|sub)\w*?(?:132|213|231)(?P<form>[sp])(?P<type>[sdh])")
_FLOAT = re.compile(
    r"v?(?P<operation>h?add|h?sub|addsub|mul|div|sqrt|min|max|u?comi|cmp\w*?|rcp\w*?|rsqrt\w*?|scalef|getexp|getmant"
    r"|rndscale|round|reduce|range)(?P<form>[sp])(?P<type>[sdh])"
)
_CONVERSION = re.compile(r"v?cvt\w+")
_SCALAR_CONVERSION = re.compile(r"v?cvtt?(?:s[sdhi]2\w+|\w+2u?s[sdhi]\w?)")
_INTEGERS = re.compile(r"v?p(?:add|sub|mul|madd|max|min|sll|srl|sra|abs|avg|sad|cmp|dp|rol|ror)\w*")
_MOVE = re.compile(r"v?(?:mov|lddqu|broadcast|pbroadcast|maskmov|pmaskmov)\w*")
_ONLY_MOVES = re.compile(rf"{_MOVE.pattern}|vp?gather\w+|vp?scatter\w+|v(?:insert|extract)\w+|vp?x?or\w*")
_PACKED_MOVE = re.compile(r"v?mov(?:[aunt]+p[sd]|[nt]*dq[au]?\d*)")
_GATHER, _SCATTER = re.compile(r"vp?gather\w+"), re.compile(r"vp?scatter\w+")
_NO_ACCESS = re.compile(r"lea\w?|nop\w?|prefetch\w+|endbr64")
_READS_LAST = re.compile(
    r"cmp[bwlq]?|test[bwlq]?|bt[wlq]?|i?div[bwlq]?|i?mul[bwlq]?|push\w?|call\w?|jmp\w?|v?u?comis[sd]|v?ptest"
)
_KEEPS_LAST = re.compile(r"v?mov\w+|mov[bwlq]?|set\w+|v?p?extr\w+|vextract\w+|vcompress\w+|vcvtps2ph|pop\w?|vpmov\w+")
_MEMORY = re.compile(r"(?P<offset>-?(?:0x)?[0-9a-f]*)\((?P<base>%\w+)?(?:,(?P<index>%\w+))?")
_WIDTHS = {"zmm": 512, "ymm": 256, "xmm": 128}
_REGISTER = re.compile(r"%([xyz]mm)\d")
_BYTES = {"s": 4, "d": 8, "h": 2}
_OPERAND = re.compile(r"(?:[^,(]|\([^)]*\))+")


@dataclass
class Work:
    """What the instructions of one turn of a loop do.

    `bits` is the widest vector that is computed with, `moved_bits` the widest that is only moved; `types` counts the
    vector operations by the bytes of an element. `stack` are accesses of a fixed place in the function's own frame;
    they are in neither `loads` nor `stores`, and constants are not either.
    """

    instructions: int = 0
    bits: int = 0
    moved_bits: int = 0
    fmas: int = 0
    vector_floats: int = 0
    scalar_floats: int = 0
    divisions: int = 0
    loads: int = 0
    stores: int = 0
    stack: int = 0
    gathers: int = 0
    scatters: int = 0
    calls: list[str] = field(default_factory=list)
    types: Counter[int] = field(default_factory=Counter)

    @property
    def floats(self) -> int:
        """Instructions that compute with floats, multiply-adds among them."""
        return self.vector_floats + self.scalar_floats


def work_of(instructions: Iterable[Instruction], *, framed: bool) -> Work:
    """The sum over the instructions. `framed`: %rbp is the function's frame pointer, and no plain register."""
    work = Work()
    frame = {"%rsp", "%rbp"} if framed else {"%rsp"}
    integers = 0
    for each in instructions:
        work.instructions += not each.mnemonic.startswith("nop")
        if each.mnemonic.startswith("call"):
            work.calls.append(_short(each.symbol))
            continue
        _compute(each, work)
        integers = max(integers, _width(each) if _INTEGERS.fullmatch(each.mnemonic) else 0)
        _access(each, work, frame)
    # Scalar code keeps whole numbers in xmm registers, too: where floats are scalar, those alone are no vectors.
    if integers > 128 or not work.scalar_floats:
        work.bits = max(work.bits, integers)
    return work


def has_frame_pointer(instructions: Iterable[Instruction]) -> bool:
    """Whether a function keeps its frame's address in %rbp."""
    return any(each.mnemonic == "mov" and each.operands == "%rsp,%rbp" for each in instructions)


def _compute(each: Instruction, work: Work) -> None:
    fma, plain = _FMA.fullmatch(each.mnemonic), _FLOAT.fullmatch(each.mnemonic)
    found = fma or plain
    if found is None:
        if _CONVERSION.fullmatch(each.mnemonic):
            _count(each, work, vector=not _SCALAR_CONVERSION.fullmatch(each.mnemonic))
        elif not _ONLY_MOVES.fullmatch(each.mnemonic) and _width(each) > 128:
            work.bits = max(work.bits, _width(each))
        return
    work.fmas += fma is not None
    work.divisions += plain is not None and plain["operation"] in ("div", "sqrt")
    _count(each, work, vector=found["form"] == "p")
    if found["form"] == "p":
        work.types[_BYTES[found["type"]]] += 1


def _count(each: Instruction, work: Work, *, vector: bool) -> None:
    if vector:
        work.vector_floats += 1
        work.bits = max(work.bits, _width(each))
    else:
        work.scalar_floats += 1


def _access(each: Instruction, work: Work, frame: set[str]) -> None:
    if _NO_ACCESS.fullmatch(each.mnemonic):
        return
    operands = _OPERAND.findall(each.operands)
    for place, operand in enumerate(operands):
        found = _MEMORY.search(operand)
        if found is None or found["base"] == "%rip":
            continue
        if _GATHER.fullmatch(each.mnemonic):
            work.gathers += 1
            work.moved_bits = max(work.moved_bits, _width(each))
        elif _SCATTER.fullmatch(each.mnemonic):
            work.scatters += 1
            work.moved_bits = max(work.moved_bits, _width(each))
        elif found["base"] in frame and not found["index"]:
            work.stack += 1
        else:
            _move(each, work, last=place + 1 == len(operands))


def _move(each: Instruction, work: Work, *, last: bool) -> None:
    if _PACKED_MOVE.fullmatch(each.mnemonic) or (_MOVE.fullmatch(each.mnemonic) and _width(each) > 128):
        work.moved_bits = max(work.moved_bits, _width(each))
    stores = last and not _READS_LAST.fullmatch(each.mnemonic)
    work.stores += stores
    work.loads += not (stores and _KEEPS_LAST.fullmatch(each.mnemonic))


def _width(each: Instruction) -> int:
    return max((_WIDTHS[name] for name in _REGISTER.findall(each.operands)), default=0)


def _short(symbol: str) -> str:
    """A called function's name without its types; what is called through a pointer has none."""
    name = symbol.replace("(anonymous namespace)::", "")
    plain = re.split(r"[<(]", name, maxsplit=1)[0] if not name.startswith("operator") else name.split("(")[0]
    return plain.rsplit(" ", 1)[-1][:60] if plain else "a function through a pointer"
