"""What a source leaves out that would be too long: comments, long names, and functions that differ in numbers alone.

Deep models repeat their layers at other sizes. Functions of one text but for whole numbers become one template.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

_NUMBER = re.compile(r"(?<![\w.])(?<![eE][+-])\d+(?![\w.])")
"""A whole number that is no part of a name, of a real number, or of one with a suffix."""
_BEGINS = ("__global__ void __launch_bounds__(kThreads) ", "struct Contract", "void ")
_APART = re.compile(r"__cluster_dims__|\basm\b|^\s*#\s*pragma\s+unroll", re.MULTILINE)
"""What takes a number that is spelled, and no template's."""


def plain(text: str) -> str:
    """C++ without its comments; no string here has two slashes."""
    return re.sub(r"^[ \t]*//[^\n]*\n|[ \t]*//[^\n]*", "", text, flags=re.MULTILINE)


def merged(functions: Mapping[str, str]) -> tuple[dict[str, str], dict[str, str]]:
    """Functions and structures by their names: the texts of those to write, and how each of all is called."""
    kinds: dict[str, list[tuple[str, list[str]]]] = {}
    called = {name: name for name in functions}
    texts: dict[str, str] = {}
    for name, whole in functions.items():
        text = plain(whole)
        if _is_alone(text) and all(int(each) < 1 << 31 for each in _NUMBER.findall(text)):
            skeleton = _NUMBER.sub("0", _renamed(text, name, "function"))
            kinds.setdefault(skeleton, []).append((name, _NUMBER.findall(text)))
        texts[name] = text
    for alike in kinds.values():
        first = alike[0][0]
        columns = [*zip(*(numbers for _, numbers in alike), strict=True)]
        moving = [*dict.fromkeys(column for column in columns if len(set(column)) > 1)]
        if len(alike) < 2:
            continue
        own = {column: f"z{place}" for place, column in enumerate(moving)}
        spelled = iter(own.get(column, column[0]) for column in columns)
        text = _NUMBER.sub(lambda _: next(spelled), texts[first])  # noqa: B023 (called here)
        head = f"template <{', '.join(f'int {name}' for name in own.values())}>\n" if own else ""
        texts[first] = head + text
        for place, (name, _) in enumerate(alike):
            numbers = ", ".join(column[place] for column in moving)
            called[name] = f"{first}<{numbers}>" if own else first
            if name != first:
                del texts[name]
    return texts, called


def with_names(statement: str, called: Mapping[str, str]) -> str:
    """A statement that starts functions, with what each is called now."""
    return re.sub(r"\b(?:loops|Contract)\w+", lambda found: called.get(found[0], found[0]), statement)


def short(names: Sequence[str], letter: str) -> dict[str, str]:
    """A letter and a number each."""
    return {name: f"{letter}{place}" for place, name in enumerate(names)}


def _is_alone(text: str) -> bool:
    """Whether it is one definition, and none that needs its numbers spelled."""
    return text.startswith(_BEGINS) and len(re.findall(r"^\S", text, re.MULTILINE)) == 2 and not _APART.search(text)


def _renamed(text: str, name: str, other: str) -> str:
    return re.sub(rf"\b{name}\b", other, text)
