"""C++ names for tensors, from the names Python gave them."""

from __future__ import annotations

import re
from collections.abc import Iterable

RESERVED = frozenset((
    "alignas", "alignof", "and", "and_eq", "asm", "auto", "bitand", "bitor", "bool", "break", "case", "catch",
    "char", "char16_t", "char32_t", "class", "compl", "const", "const_cast", "constexpr", "continue", "decltype",
    "default", "delete", "do", "double", "dynamic_cast", "else", "enum", "explicit", "export", "extern", "false",
    "float", "for", "friend", "goto", "if", "inline", "int", "long", "mutable", "namespace", "new", "noexcept",
    "not", "not_eq", "nullptr", "operator", "or", "or_eq", "private", "protected", "public", "register",
    "reinterpret_cast", "return", "short", "signed", "sizeof", "static", "static_assert", "static_cast", "struct",
    "switch", "template", "this", "thread_local", "throw", "true", "try", "typedef", "typeid", "typename", "union",
    "unsigned", "using", "virtual", "void", "volatile", "wchar_t", "while", "xor", "xor_eq", "std", "cute", "tvm",
    "run", "math", "size", "require", "make_tensor", "make_layout", "min", "max", "main", "all", "load", "store",
    "stream", "fill", "convert", "narrow", "widen", "lanewise", "below", "local_tile", "make_coord", "Tensor", "Shape",
    "Stride", "Int", "C", "element", "kLanes", "NAN", "INFINITY", "half_t", "bfloat16_t", "kernels", "rows", "finish",
    "pointwise", "aligned", "packs", "launched", "stream_of", "buffer", "error", "Index", "Pack", "Best",
))  # fmt: skip
# Names that kernels give their own variables and functions: loop counters, mX, gX, rX, pX, kRows, v3, totalSum0.
_OURS = re.compile(r"[cijknrtu]|(?:[mgrvpk]|parts|total|index|part|memory|element|sweep)[A-Z0-9]\w*")


def identifiers(names: Iterable[str]) -> dict[str, str]:
    """One distinct C++ identifier a name: "linear.weight" -> linear_weight; clashes get a number."""
    result: dict[str, str] = {}
    taken: set[str] = set()
    for name in names:
        stem = re.sub(r"_+", "_", re.sub(r"\W", "_", name, flags=re.ASCII)).strip("_") or "value"
        if stem[0].isdigit():
            stem = f"t{stem}"
        if stem in RESERVED or _OURS.fullmatch(stem):
            stem = f"{stem}_"
        chosen, count = stem, 2
        while chosen in taken:
            chosen, count = f"{stem}_{count}", count + 1
        taken.add(chosen)
        result[name] = chosen
    return result


def camel(identifier: str) -> str:
    """linear_weight -> LinearWeight, to stand after CUTLASS's m (memory), g (tile), r (registers)."""
    return "".join(part[:1].upper() + part[1:] for part in identifier.split("_")) or "Value"


def tensor_names(names: dict[str, str]) -> dict[str, str]:
    """The part of a tensor's names that follows m, g or r; distinct where the identifiers are."""
    result: dict[str, str] = {}
    taken: set[str] = set()
    for name, identifier in names.items():
        stem = camel(identifier)
        chosen, count = stem, 2
        while chosen in taken:
            chosen, count = f"{stem}_{count}", count + 1
        taken.add(chosen)
        result[name] = chosen
    return result
