"""Which of a processor's or a GPU's features a source asks for while it runs: it may do something else elsewhere."""

from __future__ import annotations

import re
from collections.abc import Sequence

from harness.screen.rules import words_of
from harness.screen.tokens import LexicalError, Token, tokenize

_ASKS = words_of(
    "__builtin_cpu_supports __builtin_cpu_is __cpuid __cpuid_count __cpuidex __get_cpuid __get_cpuid_count "
    "__get_cpuid_max _xgetbv _may_i_use_cpu_feature target_clones __target_clones__ "
    "cudaDevAttrComputeCapabilityMajor cudaDevAttrComputeCapabilityMinor"
)
_ASSEMBLY = re.compile(r"\b(?:cpuid|xgetbv)\b", re.IGNORECASE)
_PROPERTIES = "cudaGetDeviceProperties"
_CAPABILITY = words_of("major minor")


def features_asked(source: str) -> tuple[str, ...]:
    """What the source asks for and where, a phrase each; nothing where it cannot be read.

    What is chosen by the preprocessor is chosen when the source is compiled, for the processor that it is compiled on.
    """
    try:
        tokens = tokenize(source)
    except LexicalError:
        return ()
    has_properties = any(token.text == _PROPERTIES for token in tokens)
    return tuple(
        f"line {token.line} asks for {_what(tokens, at)}"
        for at, token in enumerate(tokens)
        if _asks(tokens, at, has_properties=has_properties)
    )


def _asks(tokens: Sequence[Token], at: int, *, has_properties: bool) -> bool:
    token = tokens[at]
    if token.kind == "identifier":
        member = at > 0 and tokens[at - 1].text in (".", "->")
        return token.text in _ASKS or (has_properties and member and token.text in _CAPABILITY)
    return token.kind == "string" and _ASSEMBLY.search(token.text) is not None


def _what(tokens: Sequence[Token], at: int) -> str:
    """The name, and its argument where that is a word."""
    said = tokens[at].text
    if [token.text for token in tokens[at + 1 : at + 4 : 2]] == ["(", ")"]:
        said += f"({tokens[at + 2].text})"
    return said
