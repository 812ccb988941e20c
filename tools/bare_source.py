"""Kernels without their authors' words: for whoever is to judge what a kernel does by itself."""

from __future__ import annotations

import re
from difflib import unified_diff

CONTEXT_LINES = 6

# Texts are matched first, so that what looks like a comment within one stays.
_RAW = r'(?:u8|[uUL])?R"(?P<mark>[^ ()\\\t\v\f\n"]{0,16})\(.*?\)(?P=mark)"'
_TEXT = r'"(?:[^"\\\n]|\\.)*"|\'(?:[^\'\\\n]|\\.)+\''
_NUMBER = r"\b[0-9](?:'?[0-9A-Za-z_.])*"
_COMMENT = r"//(?:[^\\\n]|\\[ \t]*\n|\\)*|/\*.*?(?:\*/|\Z)"
_PART = re.compile(f"(?P<text>{_RAW}|{_NUMBER}|{_TEXT})|{_COMMENT}", re.DOTALL)


def without_comments(source: str) -> str:
    """The source with its comments gone and its lines where they were."""
    bare = _PART.sub(lambda found: found["text"] or _lines_of(found[0]), source)
    return "\n".join(line.rstrip() for line in bare.split("\n"))


def bare_diff(old: str, new: str) -> str:
    """What turns one source into the other, comments and empty lines aside; empty where that is all."""
    before, after = _said(old), _said(new)
    lines = list(unified_diff(before, after, n=CONTEXT_LINES, lineterm=""))
    return "\n".join(lines[2:])  # without the names of the files


def _lines_of(comment: str) -> str:
    return "\n" * comment.count("\n") or " "


def _said(source: str) -> list[str]:
    return [line for line in without_comments(source).split("\n") if line]
