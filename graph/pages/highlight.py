"""Source text with its words coloured: C++ and CUDA, and the reference's Python."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from typing import Any

from markupsafe import Markup, escape
from pygments.lexer import Lexer
from pygments.lexers.c_cpp import CppLexer
from pygments.lexers.python import PythonLexer
from pygments.token import Comment, Keyword, Literal, Number, String

CLASSES: tuple[tuple[Any, str], ...] = (
    (Comment.Preproc, "p"),
    (Comment.PreprocFile, "s"),
    (Comment, "c"),
    (Keyword.Type, "t"),
    (Keyword, "k"),
    (String, "s"),
    (Number, "n"),
    (Literal, "n"),
)
"""Kinds of words and their CSS classes, the narrower ones first. Names, operators and signs stay as they are."""
MOST_CHARS = 200_000
"""A longer source stays plain: colouring it would take as long as all the rest."""


def cpp_lines(source: str) -> tuple[Markup, ...]:
    """Each line of a kernel, escaped; as many as `splitlines` has."""
    if len(source) > MOST_CHARS:
        return tuple(map(escape, source.splitlines()))
    return tuple(line for part in _parts(source.splitlines()) for line in _coloured(part, CppLexer))


def python_lines(source: str) -> tuple[Markup, ...]:
    """The same of a Python file."""
    if not source or len(source) > MOST_CHARS:
        return tuple(map(escape, source.splitlines()))
    return _coloured("\n".join(source.splitlines()), PythonLexer)


def _parts(lines: list[str]) -> Iterator[str]:
    """The source cut into what can be read by itself, mostly lines: the kernels of a run have most in common."""
    held = ""
    for line in lines:
        held = f"{held}\n{line}" if held else line
        if held.count("/*") <= held.count("*/") and 'R"' not in held and not held.endswith("\\"):
            yield held
            held = ""
    if held:
        yield held


@lru_cache(maxsize=16384)
def _coloured(text: str, lexer: type[Lexer]) -> tuple[Markup, ...]:
    """The lines of a text whose lines end in one way. The lexers know a comment by its line's end."""
    lines: list[list[str]] = [[]]
    for _, kind, words in lexer().get_tokens_unprocessed(f"{text}\n"):
        first, *others = words.split("\n")
        lines[-1].append(_word(kind, first))
        lines += [[_word(kind, other)] for other in others]
    return tuple(Markup("".join(parts)) for parts in lines[:-1])


def _word(kind: Any, text: str) -> str:
    name = next((name for group, name in CLASSES if kind in group), "")
    return f'<i class="{name}">{escape(text)}</i>' if name and text.strip() else str(escape(text))
