"""In what two kernels differ: their structure, their constants, and their words."""

from __future__ import annotations

import re
from functools import lru_cache
from zlib import crc32

from harness.nouns.frozen import Frozen
from harness.screen.tokens import LexicalError, tokenize
from tools.structure import Structure

WINDOW = 4
"""Tokens in a row that count as one word of a source: enough to tell statements apart, and no line as a whole."""

_CONSTANT = re.compile(r"\bconstexpr\s+\w+\s+(\w+)\s*=\s*(\d+)|\busing\s+(\w+)\s*=\s*(?:cute::)?Int<(\d+)>")


class Features(Frozen):
    """A kernel's place among others. `structure` counts what optimizations are made of, `constants` are its own."""

    structure: tuple[int, ...] = ()
    constants: tuple[tuple[str, int], ...] = ()
    words: frozenset[int] = frozenset()


@lru_cache(maxsize=4096)
def features_of(source: str) -> Features:
    """Of one source; those of a text that is no C++ to the screen are empty."""
    structure = Structure.of(source)
    try:
        texts = [token.text for token in tokenize(source)]
    except LexicalError:
        return Features()
    found = _CONSTANT.findall(source)
    constants = {name or alias: int(value or other) for name, value, alias, other in found}
    windows = range(max(1, len(texts) - WINDOW + 1))
    return Features(
        structure=tuple(structure.model_dump().values()) if structure else (),
        constants=tuple(sorted(constants.items())),
        words=frozenset(crc32("\0".join(texts[at : at + WINDOW]).encode()) for at in windows),
    )


def distance(one: Features, other: Features) -> float:
    """From 0, the same, to 1, nothing in common: the mean of what structure, constants and words are apart."""
    structure = _apart(set(enumerate(one.structure)), set(enumerate(other.structure)))
    constants = _apart(set(one.constants), set(other.constants))
    return (structure + constants + _apart(one.words, other.words)) / 3


def _apart(one: set[tuple[int, int]] | set[tuple[str, int]] | frozenset[int], other: object) -> float:
    """One less what two sets have in common, as a share of both."""
    assert isinstance(other, set | frozenset)
    both = one | other
    return 1 - len(one & other) / len(both) if both else 0.0
