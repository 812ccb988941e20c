"""The brackets of a source, what each pair of braces holds, and which parts are conditional.

Nothing is expanded. Where macros or conditions could move a bracket the outline is not `sound`, and tells nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Literal

from harness.screen.rules import words_of
from harness.screen.tokens import Token
from harness.wire.entry import KEYWORDS

FAR = 400
"""No head of a definition has more tokens: looking further from each of many places takes too long."""
_OPENS, _CLOSES = {"(": ")", "[": "]", "{": "}"}, {")": "(", "]": "[", "}": "{"}
_CONDITIONS, _OTHERWISE = words_of("if ifdef ifndef"), words_of("else elif elifdef elifndef")
_CLASS_KEYS = words_of("class struct union")
_BEFORE_CLASSES = words_of("typedef static const constexpr inline")
_ENDS_A_HEAD = words_of("; { } ( [") | {"\n"}
NOWHERE = -2
"""The opening bracket of what stands in a directive; -1 is that of what stands in none."""

BlockKind = Literal["class", "namespace", "enum", "linkage", "block"]


@dataclass(frozen=True)
class Block:
    """What a pair of braces is. `bases` are a class's, `owner` is the class that a function's body belongs to."""

    kind: BlockKind
    name: str = ""
    bases: tuple[str, ...] = ()
    owner: str = ""


@dataclass
class Outline:
    """Brackets by the places of their tokens: `parents` is the innermost one open at each place."""

    tokens: Sequence[Token]
    parents: list[int] = field(default_factory=list)
    closes: dict[int, int] = field(default_factory=dict)
    opens: dict[int, int] = field(default_factory=dict)
    regions: list[int] = field(default_factory=list)
    outer_regions: list[int] = field(default_factory=lambda: [-1])
    macros: set[str] = field(default_factory=set)
    sound: bool = True
    _blocks: dict[int, Block] = field(default_factory=dict)

    def __post_init__(self) -> None:
        stack: list[int] = []
        within, at = [0], 0
        while at < len(self.tokens):
            if self.tokens[at].kind == "directive":
                at = self._directive(at, within)
                continue
            text = self.text(at)
            if text in _CLOSES:
                self._close(stack, at, within[-1])
            self._place(stack[-1] if stack else -1, within[-1])
            if text in _OPENS:
                stack.append(at)
            at += 1
        self.sound &= not stack and self.macros.isdisjoint(KEYWORDS)

    def text(self, at: int) -> str:
        """The token's text; empty outside of the source."""
        return self.tokens[at].text if 0 <= at < len(self.tokens) else ""

    def sees(self, declared: int, used: int) -> bool:
        """Whether what stands at `declared` is compiled wherever what stands at `used` is."""
        region = self.regions[used]
        while region > self.regions[declared]:
            region = self.outer_regions[region]
        return region == self.regions[declared]

    def around(self, at: int) -> Iterator[int]:
        """The brackets that a place lies in, from the inside out."""
        opening = self.parents[at]
        for _ in range(FAR):
            if opening < 0:
                return
            yield opening
            opening = self.parents[opening]

    def block(self, opening: int) -> Block:
        """What the braces that open there are."""
        if opening not in self._blocks:
            self._blocks[opening] = _read(self.head(opening))
        return self._blocks[opening]

    def head(self, at: int) -> list[str]:
        """What stands in front of a place, from the statement's beginning on; of brackets the opening one alone."""
        words: list[str] = []
        at -= 1
        while at >= 0 and len(words) < FAR and self.text(at) not in _ENDS_A_HEAD:
            at = self.opens.get(at, at)
            words.append(self.text(at))
            at -= 1
        return words[::-1]

    def _place(self, parent: int, region: int) -> None:
        self.parents.append(parent)
        self.regions.append(region)

    def _close(self, stack: list[int], at: int, region: int) -> None:
        opening = stack.pop() if stack else -1
        fits = opening >= 0 and self.text(opening) == _CLOSES[self.text(at)] and self.regions[opening] == region
        self.sound &= fits
        self.closes[opening], self.opens[at] = at, opening

    def _directive(self, at: int, within: list[int]) -> int:
        """Note what a directive does to the source; returns the place behind it."""
        end = next(k for k in range(at, len(self.tokens)) if self.tokens[k].kind == "newline") + 1
        for _ in range(at, end):
            self._place(NOWHERE, within[-1])
        name = self.text(at + 1)
        if name == "define":
            self.macros.add(self.text(at + 2))
            self.sound &= _balanced(self.text(k) for k in range(at + 3, end))
        if name in _OTHERWISE or name == "endif":
            self.sound &= len(within) > 1
            del within[max(1, len(within) - 1) :]
        if name in _OTHERWISE or name in _CONDITIONS:
            self.outer_regions.append(within[-1])
            within.append(len(self.outer_regions) - 1)
        return end


def _balanced(words: Iterator[str]) -> bool:
    stack: list[str] = []
    for word in words:
        if word in _OPENS:
            stack.append(_OPENS[word])
        elif word in _CLOSES and (not stack or stack.pop() != word):
            return False
    return not stack


def _read(head: list[str]) -> Block:
    if head[:1] == ["extern"] and head[1:2] and head[1].startswith('"'):
        return Block("linkage")
    words = _without_template([word for word in head if word != "inline"])
    if words[:1] == ["namespace"]:
        return Block("namespace", words[-1] if len(words) > 1 else "")
    while words[:1] and words[0] in _BEFORE_CLASSES:
        words = words[1:]
    if words[:1] == ["enum"]:
        return Block("enum")
    if words[:1] and words[0] in _CLASS_KEYS:
        return _class(words[1:])
    return Block("block", owner=owner_of(head))


def _class(words: list[str]) -> Block:
    """A class by what stands behind `struct`; a function that returns one has parentheses behind its name."""
    colon = words.index(":") if ":" in words else len(words)
    named = [word for k, word in enumerate(words[:colon]) if word != "final" and word != "alignas"]
    while len(named) > 1 and (named[0] in "([" or named[0].startswith("__")):
        named = named[1:]
    if "(" in named:
        return Block("block", owner=owner_of(words))
    bases = tuple(word for word in words[colon + 1 :] if word.isidentifier() and word not in KEYWORDS)
    return Block("class", named[0] if named and named[0].isidentifier() else "", bases)


def _without_template(words: list[str]) -> list[str]:
    while words[:2] == ["template", "<"]:
        depth = 0
        for k, word in enumerate(words):
            depth += (word == "<") - word.count(">") * (set(word) == {">"})
            if depth == 0 and k:
                words = words[k + 1 :]
                break
        else:
            return []
    return words


def owner_of(head: list[str]) -> str:
    """The class that a function's head names in front of its own name: A in `int A<T>::f(`; empty where none is."""
    first = head.index("(") if "(" in head else 0
    name = first - 1 - (head[first - 2] == "~" if first > 1 else 0)
    if name < 2 or head[name - 1] != "::":
        return ""
    at = name - 2
    if head[at] == ">":
        while at > 0 and head[at] != "<":
            at -= 1
        at -= 1
    return head[at] if at >= 0 and head[at].isidentifier() else ""
