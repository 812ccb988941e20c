"""Preprocessing directives: what may be included, which pragmas, and no names glued together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from harness.nouns.refusal import Refusal
from harness.screen.rules import DIRECTIVES, GCC_PRAGMAS, HEADERS, LOOSE_OPTIONS, PRAGMAS
from harness.screen.tokens import LexicalError, Token, tokenize


def refuse_directive(tokens: Sequence[Token], at: int) -> Refusal | None:
    """Judge the directive whose "#" is `tokens[at]`."""
    end = next(k for k in range(at, len(tokens)) if tokens[k].kind == "newline")
    words = tokens[at + 1 : end]
    line = tokens[at].line
    if not words:
        return None
    name = words[0].text
    if name == "include":
        return _refuse_include(words[1:], line)
    if name == "pragma":
        return _refuse_pragma(words[1:], line)
    if name not in DIRECTIVES:
        return Refusal(kind="directive", line=line, message=f"#{name} is not allowed in a kernel.")
    return None


def pragma_operator(tokens: Sequence[Token], at: int) -> tuple[Token, ...]:
    """The directive that `_Pragma("...")` at `tokens[at]` stands for. Raises `LexicalError` where it cannot be read."""
    line = tokens[at].line
    following = tokens[at + 1 : at + 4]
    if [token.text for token in following[::2]] != ["(", ")"] or not following[1].text.startswith('"'):
        raise LexicalError(line, "_Pragma needs one plain string in its parentheses.")
    text = following[1].text[1:-1].replace('\\"', '"').replace("\\\\", "\\")
    try:
        return tuple(replace(token, line=line) for token in tokenize(f"#pragma {text}"))
    except LexicalError as error:
        raise LexicalError(line, f"The text of _Pragma: {error.problem}") from error


def refuse_optimize(tokens: Sequence[Token], at: int) -> Refusal | None:
    """Judge `optimize(...)`, an attribute's or a pragma's, at `tokens[at]`: options that change no value are fine."""
    options = []
    for token in map(tokens.__getitem__, range(at + 1, len(tokens))):  # a slice would copy all that follows
        if token.text == ")" or token.kind == "newline":
            break
        options.append(token)
    loose = [o for o in options if o.kind == "identifier" or LOOSE_OPTIONS.search(o.text) or "\\" in o.text]
    if not loose and LOOSE_OPTIONS.search("".join(o.text.strip('"') for o in options)):
        loose = [o for o in options if o.kind == "string"]  # "fa" "st" are one literal
    if not loose:
        return None
    return Refusal(
        kind="fast_math",
        line=tokens[at].line,
        message=f"{loose[0].text} lets the compiler change values; name options that change none, or leave it out.",
    )


def _refuse_include(words: Sequence[Token], line: int) -> Refusal | None:
    if len(words) != 1 or words[0].kind != "header":
        return Refusal(kind="include", line=line, message="#include needs a name in <> or quotes, not a macro.")
    name = words[0].text[1:-1]
    if HEADERS.fullmatch(name) and ".." not in name:
        return None
    return Refusal(
        kind="include",
        line=line,
        message=f"{words[0].text} may not be included. Headers of CuTe, CUTLASS, tvm-ffi, CUDA, blocks and warps of "
        "cub, OpenMP, intrinsics and the C++ library may, less those for threads, clocks, files and processes.",
    )


def _refuse_pragma(words: Sequence[Token], line: int) -> Refusal | None:
    first = words[0].text if words else ""
    second = words[1].text if len(words) > 1 else ""
    if not words or (first in PRAGMAS and (first != "GCC" or second in GCC_PRAGMAS)):
        return refuse_optimize(words, 1) if (first, second) == ("GCC", "optimize") else None
    shown = f"{first} {second}".strip() if first == "GCC" else first
    return Refusal(kind="pragma", line=line, message=f"#pragma {shown} is not allowed; omp, unroll and GCC ivdep are.")
