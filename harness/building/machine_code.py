"""The loops of a function's machine code: what its jumps repeat, and how deep each lies in others."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from harness.building.stack_slots import Slots, slot
from harness.building.toolchain import host_compiler, line_finder
from harness.isolation.policy import Access, Limits
from harness.isolation.process import run_isolated
from harness.isolation.scratch import scratch_folder
from harness.nouns.tier import Tier

# -- What objdump prints of an object file with line tables, as functions of instructions that know their source li ---


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


# -- The loops of a function's machine code: what its jumps repeat, and how deep each lies in others ------------------


MAX_INSTRUCTIONS = 20_000
"""Of one function; the largest exemplar's has 3,000. Beyond it nobody reads remarks, and the walk takes seconds."""

_ENDS = frozenset({"ret", "jmp", "ud2", "hlt"})


@dataclass(frozen=True)
class MachineLoop:
    """A loop, with the `instructions` that are in none inside of it, of which an `innermost` one has none.

    `turns` are the jumps that go round or leave it; `depth` counts it and the loops around it. `branches`: no turn goes
    through all of its instructions.
    """

    function: str
    instructions: tuple[Instruction, ...]
    turns: tuple[Instruction, ...]
    depth: int
    branches: bool
    innermost: bool = True


@dataclass(frozen=True)
class _Graph:
    """Basic blocks by number, in the order of their addresses; `ends` are their last instructions."""

    blocks: list[list[Instruction]]
    successors: list[list[int]]


def innermost_loops(function: Function) -> list[MachineLoop]:
    """The loops with no other in them."""
    return [loop for loop in machine_loops(function) if loop.innermost]


def machine_loops(function: Function) -> list[MachineLoop]:
    """The natural loops: a jump back to a block that every way to the jump leads through."""
    if not 0 < len(function.instructions) <= MAX_INSTRUCTIONS:
        return []
    graph = _graph(function.instructions)
    bodies = _bodies(graph)
    found = []
    for head, body in bodies.items():
        inside = [bodies[other] for other in bodies if other != head and other in body]
        ordered = sorted(body.difference(*inside))
        found.append(
            MachineLoop(
                function=function.name,
                instructions=tuple(each for block in ordered for each in graph.blocks[block]),
                turns=tuple(
                    graph.blocks[block][-1] for block in ordered if _turns(graph.successors[block], head, body)
                ),
                depth=sum(head in around for around in bodies.values()),
                branches=any(len(set(graph.successors[block]) & body) > 1 for block in ordered),
                innermost=not inside,
            )
        )
    return found


def _graph(instructions: Sequence[Instruction]) -> _Graph:
    addresses = {each.address: at for at, each in enumerate(instructions)}
    targets = {at: _target(each, addresses) for at, each in enumerate(instructions) if each.mnemonic.startswith("j")}
    starts = {0, *(to for to in targets.values() if to is not None)}
    starts |= {at + 1 for at, each in enumerate(instructions) if at in targets or each.mnemonic in _ENDS}
    cuts = sorted(start for start in starts if start < len(instructions))
    blocks = [list(instructions[a:b]) for a, b in zip(cuts, [*cuts[1:], len(instructions)], strict=True)]
    successors = []
    for number, block in enumerate(blocks):
        last = cuts[number] + len(block) - 1
        to = targets.get(last)
        follows = [] if block[-1].mnemonic in _ENDS or number + 1 == len(blocks) else [number + 1]
        successors.append(follows + ([bisect_right(cuts, to) - 1] if to is not None else []))
    return _Graph(blocks, successors)


def _turns(successors: Sequence[int], head: int, body: set[int]) -> bool:
    return len(successors) > 1 and (head in successors or not body.issuperset(successors))


def _target(jump: Instruction, addresses: dict[int, int]) -> int | None:
    """The place that a jump leads to; None out of the function, where a relocation says so, or through a register."""
    first = jump.operands.split(" ", 1)[0].split(",")[-1]
    try:
        return None if jump.symbol else addresses.get(int(first, 16))
    except ValueError:
        return None


def _bodies(graph: _Graph) -> dict[int, set[int]]:
    """The blocks of each loop, by its head."""
    order = _reverse_postorder(graph)
    before: dict[int, list[int]] = {block: [] for block in order}
    for block in order:
        for after in graph.successors[block]:
            before[after].append(block)
    above = _dominators(order, before)
    bodies: dict[int, set[int]] = {}
    for block in order:
        for head in graph.successors[block]:
            if _dominates(head, block, above):
                _gather(bodies.setdefault(head, {head}), block, before)
    return bodies


def _gather(body: set[int], latch: int, before: dict[int, list[int]]) -> None:
    """Add what reaches the latch without passing the head, which is in `body` from the start."""
    waiting = [latch]
    while waiting:
        block = waiting.pop()
        if block not in body:
            body.add(block)
            waiting += before[block]


def _reverse_postorder(graph: _Graph) -> list[int]:
    done: list[int] = []
    seen = {0}
    stack = [(0, iter(graph.successors[0]))]
    while stack:
        block, rest = stack[-1]
        after = next((each for each in rest if each not in seen), None)
        if after is None:
            done.append(block)
            stack.pop()
        else:
            seen.add(after)
            stack.append((after, iter(graph.successors[after])))
    return done[::-1]


def _dominators(order: Sequence[int], before: dict[int, list[int]]) -> dict[int, int]:
    """Each block's immediate dominator, by the iteration of Cooper, Harvey and Kennedy; the entry's is itself."""
    rank = {block: at for at, block in enumerate(order)}
    above = {order[0]: order[0]}
    changed = True
    while changed:
        changed = False
        for block in order[1:]:
            known = [each for each in before[block] if each in above]
            common = known[0]
            for other in known[1:]:
                common = _common(common, other, above, rank)
            changed |= above.get(block) != common
            above[block] = common
    return above


def _common(one: int, other: int, above: dict[int, int], rank: dict[int, int]) -> int:
    while one != other:
        if rank[one] > rank[other]:
            one = above[one]
        else:
            other = above[other]
    return one


def _dominates(head: int, block: int, above: dict[int, int]) -> bool:
    while block != head and above[block] != block:
        block = above[block]
    return block == head


# -- What instructions of x86-64 do, as far as it tells how fast a loop of a kernel can be ----------------------------


_FMA = re.compile(r"vfn?m(?:add|sub)\w*?(?:132|213|231)(?P<form>[sp])(?P<type>[sdh])")
_FLOAT = re.compile(
    r"v?(?P<operation>h?add|h?sub|addsub|mul|div|sqrt|min|max|u?comi|cmp\w*?|rcp\w*?|rsqrt\w*?|scalef|getexp|getmant"
    r"|rndscale|round|reduce|range)(?P<form>[sp])(?P<type>[sdh])"
)
_CONVERSION = re.compile(r"v?cvt\w+")
_SCALAR_CONVERSION = re.compile(r"v?cvtt?(?:s[sdhi]2\w+|\w+2u?s[sdhi]\w?)")
_INTEGERS = re.compile(r"v?p(?:add|sub|mul|madd|max|min|sll|srl|sra|abs|avg|sad|cmp|dp|rol|ror)\w*")
_SHUFFLE = re.compile(
    r"v?(?:p?shuf|p?unpck|punpck|perm|p?align|insert|extract|movhl|movlh|movs[hl]dup|movddup|pack)\w*"
)
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
    vector operations by the bytes of an element. `stack` are accesses of a fixed place in the function's own frame,
    `spills` and `own` of them those known to be of spilled registers, or of what the kernel itself keeps there; they
    are in neither `loads` nor `stores`, and constants are not either.
    """

    instructions: int = 0
    bits: int = 0
    moved_bits: int = 0
    fmas: int = 0
    vector_floats: int = 0
    scalar_floats: int = 0
    vector_integers: int = 0
    shuffles: int = 0
    conversions: int = 0
    scalar_conversions: int = 0
    divisions: int = 0
    loads: int = 0
    stores: int = 0
    stack: int = 0
    spills: int = 0
    own: int = 0
    gathers: int = 0
    scatters: int = 0
    calls: list[str] = field(default_factory=list)
    types: Counter[int] = field(default_factory=Counter)

    @property
    def floats(self) -> int:
        """Instructions that compute with floats, multiply-adds among them."""
        return self.vector_floats + self.scalar_floats


def work_of(instructions: Iterable[Instruction], *, framed: bool, slots: Slots) -> Work:
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
        _access(each, work, frame, slots)
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
        work.shuffles += _SHUFFLE.fullmatch(each.mnemonic) is not None
        work.vector_integers += _INTEGERS.fullmatch(each.mnemonic) is not None
        if _CONVERSION.fullmatch(each.mnemonic):
            scalar = _SCALAR_CONVERSION.fullmatch(each.mnemonic) is not None
            work.conversions += 1
            work.scalar_conversions += scalar
            _count(each, work, vector=not scalar)
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


def _access(each: Instruction, work: Work, frame: set[str], slots: Slots) -> None:
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
            kept = slots.get((each.address, slot(int(found["offset"] or "0", 16), found["base"])))
            work.stack += 1
            work.spills += kept == "spill"
            work.own += kept == "own"
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


# -- Which source lines the code of a library comes from, by its line table -------------------------------------------


_LIMITS = Limits(wall_s=10.0, memory_bytes=2 << 30, output_bytes=8 << 20)
MOST_ADDRESSES = 4000
_ADDRESS = re.compile(r"^0x[0-9a-f]{16}$")
_LINE_PLACE = re.compile(r"^(?P<file>.*):(?P<line>\d+)(?: \(.*\))?$")


def kernel_lines(library: Path, offsets: Sequence[int], *, kernel_file: str, tier: Tier) -> dict[int, tuple[int, ...]]:
    """The kernel's own lines at these offsets of a library with lines, at most `MOST_ADDRESSES`.

    Of each: where the code stands, then the calls that it was inlined through, the innermost first; none where all of
    it is other files'. Nothing at all where there is no addr2line, or it fails.
    """
    program = line_finder()
    if program is None or not offsets:
        return {}
    asked = [hex(offset) for offset in offsets[:MOST_ADDRESSES]]
    readable = (str(library), str(program), *map(str, host_compiler().roots))
    with scratch_folder() as folder:
        done = run_isolated(
            [str(program), "--addresses", "--inlines", "--exe", str(library), *asked],
            cwd=folder,
            access=Access(read=readable),
            limits=_LIMITS,
            environment={"LC_ALL": "C"},
            tier=tier,
        )
    return read_places(done.stdout.decode(errors="replace"), kernel_file) if done.exit_code == 0 else {}


def read_places(text: str, kernel_file: str) -> dict[int, tuple[int, ...]]:
    """What addr2line prints: an address, then `file:line` where it stands and for each of its callers."""
    found: dict[int, list[int]] = {}
    address: int | None = None
    for line in text.splitlines():
        if _ADDRESS.match(line):
            address = int(line, 16)
            found[address] = []
        elif address is not None and (place := _LINE_PLACE.match(line)) and Path(place["file"]).name == kernel_file:
            found[address].append(int(place["line"]))
    return {at: tuple(dict.fromkeys(lines)) for at, lines in found.items()}
