"""C++ source to tokens, cut where g++ cuts them.

Line splices are undone everywhere but in raw strings; digraphs become the punctuators that they stand for; comments
vanish. Trigraphs are no part of C++17. Nothing is preprocessed: code under `#if 0` gives tokens like any other. What
compilers, or this reader and a compiler, could cut differently is an error rather than a guess.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal, cast

Kind = Literal["identifier", "number", "string", "character", "header", "punctuator", "directive", "newline"]


@dataclass(frozen=True, slots=True)
class Token:
    """One token and the line, from 1, that it begins on.

    A `directive` is the `#` that opens a preprocessing directive, a `newline` what ends it. A `header` is the name
    after `#include`, with its brackets or quotes.
    """

    kind: Kind
    text: str
    line: int


class LexicalError(ValueError):
    """The source cannot be cut into tokens without guessing. `problem` is a sentence about `line`."""

    def __init__(self, line: int, problem: str) -> None:
        super().__init__(f"line {line}: {problem}")
        self.line = line
        self.problem = problem


# g++ takes a backslash for a splice even where blanks follow it.
_SPLICE = re.compile(r"\\[ \t\v\f]*\n")
_BLANK = re.compile(r"[ \t\v\f]+|//[^\n]*|/\*.*?\*/", re.DOTALL)
_HEADER = re.compile(r'<[^>\n]*>|"[^"\n]*"')
_RAW_PREFIX = re.compile(r'(?:u8|[uUL])?R(?=")')
# `"a"sv` is a string and a word, whatever the compiler makes of the two; not so where the word opens a raw string.
_AMBIGUOUS, _WORD = re.compile(r'(?:u8|[uUL])?R"'), re.compile(r"[A-Za-z0-9_$]")
_RAW_REST = re.compile(r'"([^ ()\\\t\v\f\n"]{0,16})\(.*?\)\1"', re.DOTALL)
# A digit separator is looked at, not taken, so that the letter after it can still begin a signed exponent.
_TOKEN = re.compile(
    r"""
    (?P<string> (?:u8|[uUL])?"(?:[^"\\\n]|\\[^\n])*" )
  | (?P<character> (?:u8|[uUL])?'(?:[^'\\\n]|\\[^\n])+' )
  | (?P<number> \.?[0-9](?:[eEpP][+-]|'(?=[A-Za-z0-9_$])|[A-Za-z0-9_.$])* )
  | (?P<identifier> [A-Za-z_$][A-Za-z0-9_$]* )
  | (?P<punctuator> %:%: | \.\.\. | ->\* | <<= | >>= | <(?=::(?![:>])) | <: | :> | <% | %> | %: | :: | -> | \.\* | \+\+
      | -- | << | >> | <= | >= | == | != | && | \|\| | [-+*/%&|^]= | \#\# | [][{}().;:?~!+\-*/%^&|=<>,#] )
    """,
    re.VERBOSE,
)
_DIGRAPHS = {"%:%:": "##", "%:": "#", "<:": "[", ":>": "]", "<%": "{", "%>": "}"}
_TAKES_HEADER = frozenset({"include", "include_next", "import", "embed"})
_OUTSIDE_ASCII = "Outside comments and strings only printable ASCII is allowed, found {found!r}."


def tokenize(source: str) -> tuple[Token, ...]:
    """All tokens of a source. Raises `LexicalError` at what no compiler takes or what they may read differently."""
    return tuple(_Scanner(source.replace("\r\n", "\n")).tokens())


class _Scanner:
    """Walks over the spliced text and knows where the source has each of its characters."""

    def __init__(self, source: str) -> None:
        self.source = source
        self.newlines = [match.start() for match in re.finditer("\n", source)]
        self.text, self.origins = _without_splices(source)
        self.at = 0
        self.words: list[str] | None = None
        """What the present directive has said so far; None outside directives."""

    def tokens(self) -> Iterator[Token]:
        for character in "\r\0":
            if character in self.source:
                raise LexicalError(self._line(self.source.index(character)), "A stray carriage return or NUL.")
        first = True
        while self._skip_blanks() < len(self.text):
            if self.text[self.at] == "\n":
                yield from self._end_directive()
                first = True
                self.at += 1
                continue
            token = self._next()
            if first and token.text == "#":
                token, self.words = Token("directive", "#", token.line), []
            elif self.words is not None:
                self.words.append(token.text)
            yield token
            first = False
        yield from self._end_directive()

    def _end_directive(self) -> Iterator[Token]:
        if self.words is not None:
            yield Token("newline", "\n", self._line())
        self.words = None

    def _skip_blanks(self) -> int:
        while blank := _BLANK.match(self.text, self.at):
            self.at = blank.end()
        if self.text.startswith("/*", self.at):
            raise LexicalError(self._line(), "A comment that never ends.")
        return self.at

    def _next(self) -> Token:
        line = self._line()
        including = self.words is not None and len(self.words) == 1 and self.words[0] in _TAKES_HEADER
        if including and (header := _HEADER.match(self.text, self.at)):
            return self._take("header", header, line)
        if prefix := _RAW_PREFIX.match(self.text, self.at):
            return self._raw_string(prefix.end(), line)
        found = _TOKEN.match(self.text, self.at)
        if found is None:
            raise LexicalError(line, self._why_not())
        kind = cast(Kind, found.lastgroup)  # the pattern's groups are named after kinds
        token = self._take(kind, found, line)
        if kind in ("string", "character"):
            self._refuse_suffix(line, _AMBIGUOUS if kind == "string" else _WORD)
        return token

    def _take(self, kind: Kind, found: re.Match[str], line: int) -> Token:
        self.at = found.end()
        return Token(kind, _DIGRAPHS.get(found[0], found[0]), line)

    def _raw_string(self, quote: int, line: int) -> Token:
        """The splices inside are text: read from the source itself."""
        rest = _RAW_REST.match(self.source, self.origins[quote])
        if rest is None:
            raise LexicalError(line, "A raw string that never ends.")
        if self.words is not None and "\n" in rest[0]:
            raise LexicalError(line, "A raw string over several lines inside a directive.")
        token = Token("string", self.text[self.at : quote] + rest[0], line)
        self.at = bisect_left(self.origins, rest.end())
        self._refuse_suffix(line)
        return token

    def _refuse_suffix(self, line: int, suffixes: re.Pattern[str] = _AMBIGUOUS) -> None:
        """Whether the word right behind a literal is its suffix depends on the macros: `"a"R"(..."`."""
        if suffixes.match(self.text, self.at):
            raise LexicalError(line, "A string or character with a suffix; put a blank between it and the next word.")

    def _why_not(self) -> str:
        found = self.text[self.at]
        return "A quote that is not closed on its line." if found in "\"'" else _OUTSIDE_ASCII.format(found=found)

    def _line(self, origin: int | None = None) -> int:
        """The source's line of an offset in the source, or of the place where the scanner stands."""
        if origin is None:
            origin = self.origins[self.at] if self.at < len(self.origins) else len(self.source)
        return 1 + bisect_right(self.newlines, origin - 1)


def _without_splices(source: str) -> tuple[str, list[int]]:
    """The text with its splices undone, and each character's offset in the source."""
    pieces: list[str] = []
    origins: list[int] = []
    start = 0
    for splice in _SPLICE.finditer(source):
        pieces.append(source[start : splice.start()])
        origins.extend(range(start, splice.start()))
        start = splice.end()
    pieces.append(source[start:])
    origins.extend(range(start, len(source)))
    return "".join(pieces), origins
