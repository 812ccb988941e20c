"""What became of a kernel's loops: one remark a loop, counted in its machine code."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from harness.building.machine_code import (
    Instruction,
    MachineLoop,
    Work,
    has_frame_pointer,
    innermost_loops,
    read_functions,
    work_of,
)
from harness.building.stack_slots import Slots, stack_slots
from harness.nouns.build import Diagnostic

# -- Where the loops of a C++ source are written: the lines from `for`, `while` or `do` to the end of what they rep ---


# All that tells where a statement ends. What is cut wrong here costs the name of a loop, not a kernel's life: that
# hangs on the screen's own reader, which refuses what this one guesses.
_TOKEN = re.compile(
    r"""
    //[^\n]* | /\*.*?(?:\*/|\Z) | R"(?P<raw>[^\s()\\"]{0,16})\(.*?(?:\)(?P=raw)"|\Z)
  | "(?:[^"\\\n]|\\.)*" | '(?:[^'\\\n]|\\.)+'
  | [0-9](?:[\w.]|'(?=\w))*
  | ^[ \t]*\#[ \t]*(?P<directive>\w*)(?:[^\n\\]|\\.)*
  | (?P<word>[A-Za-z_]\w*)
  | (?P<mark>[][(){};])
    """,
    re.VERBOSE | re.DOTALL | re.MULTILINE,
)
_OPENS, _CLOSES = frozenset("([{"), frozenset(")]}")
_LOOPS = ("for", "while", "do")
MAX_LOOPS = 300
"""More are left out: each is looked for in each loop of the machine code."""


@dataclass(frozen=True)
class _Token:
    """A word, a bracket or a semicolon, and the line that it stands on."""

    text: str
    line: int


@dataclass(frozen=True)
class SourceLoop:
    """One written loop. `first` is above `line` where pragmas stand in front of it; `last` is the end of its body.

    `control` are the lines of what is in its parentheses, its keyword and its pragmas.
    """

    line: int
    first: int
    last: int
    control: frozenset[int]

    def holds(self, line: int) -> bool:
        """Whether that line is one of its own."""
        return self.first <= line <= self.last


def source_loops(source: str) -> tuple[SourceLoop, ...]:
    """The loops as written, in the order of the lines."""
    code, pragmas = _cut(source)
    closing = _closing(code)
    starts = [at for at, token in enumerate(code) if token.text in _LOOPS][:MAX_LOOPS]
    return tuple(_loop(code, at, closing, _first_pragma(code[at].line, pragmas)) for at in starts)


def _cut(source: str) -> tuple[list[_Token], set[int]]:
    """The code's words and marks, and the lines that pragmas begin on."""
    newlines = [found.start() for found in re.finditer("\n", source)]
    code: list[_Token] = []
    pragmas: set[int] = set()
    for found in _TOKEN.finditer(source):
        line = 1 + bisect_left(newlines, found.start())
        if found["directive"] == "pragma":
            pragmas.add(line)
        elif found["word"] or found["mark"]:
            code.append(_Token(found[0], line))
    return code, pragmas


def _loop(code: Sequence[_Token], at: int, closing: dict[int, int], first: int) -> SourceLoop:
    end = _end_of_statement(code, at, closing)
    # Of `do`, the parentheses stand at the end.
    head = [closing.get(end - 1, end), end] if code[at].text == "do" else [at, closing.get(at + 1, at)]
    control = {*range(first, code[at].line + 1), *range(code[head[0]].line, code[head[1]].line + 1)}
    return SourceLoop(line=code[at].line, first=first, last=code[end].line, control=frozenset(control))


def _closing(code: Sequence[_Token]) -> dict[int, int]:
    """The place of the bracket that closes each one that opens; brackets left open end with the source."""
    stack: list[int] = []
    closing: dict[int, int] = {}
    for at, token in enumerate(code):
        if token.text in _OPENS:
            stack.append(at)
        elif token.text in _CLOSES and stack:
            closing[stack.pop()] = at
    return closing | dict.fromkeys(stack, len(code) - 1)


def _end_of_statement(code: Sequence[_Token], at: int, closing: dict[int, int]) -> int:
    """The last token of the statement that begins at `at`: its semicolon, or the brace that closes its block."""
    while at < len(code):
        text = code[at].text
        after = closing.get(at, at)
        if text == ";":
            return at
        if text == "{" and _next(code, after) not in ("else", "while"):
            return after
        at = after + 1
    return len(code) - 1


def _next(code: Sequence[_Token], at: int) -> str:
    return code[at + 1].text if at + 1 < len(code) else ""


def _first_pragma(line: int, pragmas: set[int]) -> int:
    while line - 1 in pragmas:
        line -= 1
    return line


# -- What became of a kernel's loops: one remark a loop, counted in its machine code ----------------------------------


MAX_REMARKS = 8
_UNTOLD = "(spills or variables, which cannot be told)"
_MAX_COPIES = 2
"""So many remarks on one line at most: templates and inlining make copies of a loop."""
_INSIDE = 0.8
"""This share of a machine loop's instructions lies in the source loop that it comes from. The rest is what g++ moved
in from around it."""


@dataclass(frozen=True)
class Copy:
    """One machine loop with its place: the line of its `for`, or the line that it was inlined into from a header."""

    line: int
    source: SourceLoop | None
    function: str
    callers: tuple[int, ...]
    depth: int
    branches: bool
    work: Work

    @property
    def weight(self) -> tuple[int, int, int]:
        """Orders the copies of one loop: the widest vectors are what most of its turns run in."""
        return self.work.bits, self.work.moved_bits, self.work.instructions


def loop_remarks(
    disassembly: str, *, kernel_file: str, source: str, missed: Mapping[int, str] | None = None, listing: str = ""
) -> tuple[Diagnostic, ...]:
    """What each innermost loop of the kernel computes and touches in one turn, the deepest ones, in the lines' order.

    `disassembly` is objdump's; `missed` says by line why g++'s vectorizer left a loop alone, and is repeated only where
    no copy of that loop computes with vectors. The assembler's `listing` tells spills from arrays on the stack.
    """
    written, slots = source_loops(source), stack_slots(listing)
    copies = []
    for function in read_functions(disassembly, kernel_file=kernel_file):
        if any(each.lines for each in function.instructions):
            framed = has_frame_pointer(function.instructions)
            copies += [
                placed(loop, written, framed, slots) for loop in innermost_loops(function) if _lines(loop.instructions)
            ]
    groups: dict[tuple[object, ...], list[Copy]] = defaultdict(list)
    for copy in copies:
        if _counts(copy):
            groups[copy.line, copy.function, copy.callers].append(copy)
    said = [(max(group, key=lambda each: each.weight), _say(group, written, missed or {})) for group in groups.values()]
    return _selected(said)


def _selected(said: Sequence[tuple[Copy, str]]) -> tuple[Diagnostic, ...]:
    """The deepest and busiest, each sentence once, sorted by lines."""
    ranked = sorted(said, key=lambda each: (-each[0].depth, -each[0].work.floats, each[0].line))
    kept: dict[tuple[int, str], None] = {}
    times: Counter[int] = Counter()
    for copy, message in ranked:
        if (copy.line, message) not in kept and times[copy.line] < _MAX_COPIES:
            kept[copy.line, message] = None
            times[copy.line] += 1
    chosen = sorted(list(kept)[:MAX_REMARKS])
    return tuple(Diagnostic(severity="note", file="kernel", line=line, message=message) for line, message in chosen)


def _counts(copy: Copy) -> bool:
    """Whether the loop works on data at all: some only count, wait, multiply a shape, or put a message together."""
    work = copy.work
    touches = work.stores or work.scatters or work.gathers or (copy.source and work.loads and work.bits)
    return bool(work.floats or (touches and (work.bits or work.moved_bits or work.loads)))


def _lines(instructions: Iterable[Instruction]) -> list[tuple[int, ...]]:
    return [each.lines for each in instructions if each.lines]


def placed(loop: MachineLoop, written: Sequence[SourceLoop], framed: bool, slots: Slots) -> Copy:
    """The loop with its place and its work; some instruction of it has a line of the kernel's."""
    lines = _lines(loop.instructions)
    turns = [each for each in loop.turns if each.lines]
    foreign = bool(turns) and all(each.foreign for each in turns)
    source = _source_of(lines, _lines(turns), written, foreign=foreign)
    around = next(iter(_lines(turns)), lines[0])
    line = source.line if source else around[0]
    callers = tuple(each for each in around if each != line and not (source and source.holds(each)))
    work = work_of(loop.instructions, framed=framed, slots=slots)
    return Copy(line, source, loop.function, callers, loop.depth, loop.branches, work)


def _source_of(
    lines: Sequence[tuple[int, ...]],
    turns: Sequence[tuple[int, ...]],
    written: Sequence[SourceLoop],
    *,
    foreign: bool,
) -> SourceLoop | None:
    """The innermost written loop that the instructions lie in or were inlined into, and that the jumps round belong to.

    `foreign` jumps are of a header's code: a condition, or a loop of its own. That lies in written ones, but nothing of
    it in their parentheses; it has no written loop.
    """
    named = {line for chain in lines for line in chain}
    fitting = []
    for loop in written:
        inside = [depth for chain in lines if (depth := _depth(loop, chain)) is not None]
        around = [depth for chain in turns or lines if (depth := _depth(loop, chain)) is not None]
        controlled = not foreign or not named.isdisjoint(loop.control)
        if around and controlled and len(inside) >= _INSIDE * len(lines):
            # The jump tells the loop: code that was inlined into it may stand inside of another one's lines.
            fitting.append((min(around), loop.last - loop.first, loop.line, loop))
    return min(fitting, key=lambda each: each[:3])[-1] if fitting else None


def _depth(loop: SourceLoop, chain: Sequence[int]) -> int | None:
    """Through how many calls code at these lines was inlined into the loop; None where it was not."""
    return next((depth for depth, line in enumerate(chain) if loop.holds(line)), None)


def _say(group: Sequence[Copy], written: Sequence[SourceLoop], missed: Mapping[int, str]) -> str:
    """The copy that most turns run in, and whether scalar ones stand beside it."""
    main = max(group, key=lambda each: each.weight)
    where = f" (called in line {main.callers[0]})" if main.callers else ""
    words = f"{_kind(main.work)}{where}: {_amounts(main.work)} in {main.work.instructions} instructions"
    words += ", over all ways through it" if main.branches else " a turn"
    if main.work.bits and any(not copy.work.bits for copy in group):
        words += "; a scalar copy beside it, for the rest or for memory that overlaps"
    reason = "" if main.work.bits or main.source is None else _reason(main.source, written, missed)
    return f"{words}; g++ on vectors: {reason}" if reason else words


def _kind(work: Work) -> str:
    if work.bits:
        names = {4: "floats", 8: "doubles", 2: "halves"}
        ((size, _),) = work.types.most_common(1) or [(0, 0)]
        elements = f" of {work.bits // 8 // size} {names[size]}" if size else ""
        return f"loop in {work.bits}-bit vectors{elements}"
    if work.scalar_floats:
        return "scalar loop, no vectors"
    return f"loop that moves {work.moved_bits} bits at a time" if work.moved_bits else "scalar loop, no vectors"


def _amounts(work: Work) -> str:
    others = work.floats - work.fmas - work.divisions
    scalar = f" ({work.scalar_floats} of them scalar)" if work.scalar_floats and work.bits else ""
    amounts = (
        _amount(work.fmas, "FMA"),
        _amount(work.divisions, "division or root", "divisions or roots"),
        _amount(others, "other float operation" if work.fmas or work.divisions else "float operation"),
    )
    floats = [each for each in amounts if each]
    memory = (
        _amount(work.loads, "load"),
        _amount(work.stores, "store"),
        _amount(work.gathers, "gather"),
        _amount(work.scatters, "scatter"),
        _amount(work.spills, "access of a spilled register", "accesses of spilled registers"),
        _amount(work.own, "access of variables on the stack", "accesses of variables on the stack"),
        _amount(
            work.stack - work.spills - work.own, f"access of the stack {_UNTOLD}", f"accesses of the stack {_UNTOLD}"
        ),
        f"calls of {', '.join(dict.fromkeys(work.calls))}" if work.calls else "",
    )
    return ", ".join([*floats[:-1], *(f"{each}{scalar}" for each in floats[-1:]), *filter(None, memory)]) or "no data"


def _amount(number: int, one: str, many: str = "") -> str:
    return f"{number} {one if number == 1 else many or one + 's'}" if number else ""


def _reason(loop: SourceLoop, written: Sequence[SourceLoop], missed: Mapping[int, str]) -> str:
    """Why the vectorizer left this loop alone, where it spoke of a line that is in no loop further in."""
    inner = [each for each in written if each is not loop and loop.first <= each.first and each.last <= loop.last]
    own = (line for line in sorted(missed) if loop.holds(line) and not any(each.holds(line) for each in inner))
    return next((missed[line] for line in own), "")


# -- Why g++'s vectorizer left loops of a kernel alone, out of the thousands of lines that it writes ------------------


_LINE = re.compile(r"^(?P<file>[^:]+):(?P<line>\d+):(?P<column>\d+): missed:\s+(?P<text>.*)$")
_MISSED_LOOP = "couldn't vectorize loop"
_REASON = "not vectorized: "

# g++ speaks of its own intermediate code; the left side is how its sentence begins, the right what to change.
_IN_PLAIN_WORDS = {
    "no vectype for stmt": "a value there has no vector form (often a call that is not inlined, or a dependence)",
    "control flow in loop": "a branch, a break or a call keeps its body from being straight-line code",
    "number of iterations cannot be computed": "the trip count is unknown before it starts (a call or an early exit)",
    "possible dependence between data-refs": "one iteration may read what another wrote",
    "statement clobbers memory": "a call inside may write any memory",
    "relevant stmt not supported": "a statement there has no vector instruction",
    "unsupported use in stmt": "a value carried between iterations is not a plain reduction",
    "value used after loop": "a value carried out of the loop is not a plain reduction",
    "unsupported data-type": "a type there does not fit vector registers",
    "complicated access pattern": "the addresses are not a plain stride",
}
_UNINTERESTING = ("multiple nested loops", "loop nest containing two or more consecutive inner loops")


def missed_loops(text: str, *, kernel_file: str) -> dict[int, str]:
    """Why a loop was left alone, by the line that g++ places it on: that of the loop, of its pragma, or one inside.

    `text` is what -fopt-info-vec-missed wrote. g++ speaks of each copy that it makes of a loop, of those that it takes
    up in the end, too: which loops have vectors only the machine code tells.
    """
    missed: dict[int, str] = {}
    loop: re.Match[str] | None = None
    for match in filter(None, map(_LINE.match, text.splitlines())):
        if match["text"].startswith(_MISSED_LOOP):
            loop = match
        elif loop is not None and match["text"].startswith(_REASON):
            # A loop whose condition was inlined from a header is said to lie there; its body tells where it is.
            place = loop if loop["file"] == kernel_file else match
            reason = _vector_reason(int(place["line"]), match)
            if place["file"] == kernel_file and not reason.startswith(_UNINTERESTING):
                missed.setdefault(int(place["line"]), reason)
            loop = None
    return missed


def _vector_reason(loop_line: int, match: re.Match[str]) -> str:
    said = match["text"].removeprefix(_REASON)
    known = next((plain for start, plain in _IN_PLAIN_WORDS.items() if said.startswith(start)), None)
    # What follows a colon names g++'s temporaries, which nobody can find in the source.
    reason = known or said.split(":")[0].rstrip(". ")
    elsewhere = match["file"].startswith("/") or int(match["line"]) == loop_line
    return reason if elsewhere else f"{reason} (line {match['line']})"
