"""Where the loops of a C++ source are written: the lines from `for`, `while` or `do` to the end of what they repeat."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass

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
