"""Element types by name: their codes and bytes, and in which one torch computes, by its promotion rules."""

from __future__ import annotations

from collections.abc import Iterable
from functools import reduce

INTEGERS = ("uint8", "int8", "int16", "int32", "int64")
HALVES = ("float16", "bfloat16")
FLOAT8 = ("float8_e4m3fn", "float8_e5m2")
NARROW = (*FLOAT8, *HALVES)
FLOATS = (*NARROW, "float32", "float64")
_CATEGORY = {"bool": 0, **dict.fromkeys(INTEGERS, 1), **dict.fromkeys(FLOATS, 2)}
_RANK = {"bool": 0, "uint8": 1, "int8": 1, "int16": 2, "int32": 3, "int64": 4, **dict.fromkeys(NARROW, 5), "float32": 6,
         "float64": 7}  # fmt: skip
# DLPack's codes for element types: the code of the kind, then bits.
DLPACK = {
    "float16": ("kDLFloat", 16), "float32": ("kDLFloat", 32), "float64": ("kDLFloat", 64),
    "bfloat16": ("kDLBfloat", 16), "int8": ("kDLInt", 8), "int16": ("kDLInt", 16), "int32": ("kDLInt", 32),
    "int64": ("kDLInt", 64), "uint8": ("kDLUInt", 8), "bool": ("kDLBool", 8),
    "float8_e4m3fn": ("kDLFloat8_e4m3fn", 8), "float8_e5m2": ("kDLFloat8_e5m2", 8),
}  # fmt: skip
BYTES = {dtype: bits // 8 for dtype, (_, bits) in DLPACK.items()}


def is_float(dtype: str) -> bool:
    """Whether the type holds floating-point numbers."""
    return dtype in FLOATS


def computed_in(dtype: str) -> str:
    """The type arithmetic on `dtype` happens in: narrow ones are computed in float32, as torch does within one op."""
    return "float32" if dtype in NARROW else dtype


def pair(left: str, right: str) -> str:
    """The common type of two tensors."""
    if left == right:
        return left
    if {left, right} == {"uint8", "int8"}:
        return "int16"
    if {left, right} == {"float16", "bfloat16"}:
        return "float32"
    return left if _RANK[left] >= _RANK[right] else right


def promote(tensors: Iterable[str], zero_dim: Iterable[str], numbers: Iterable[float | int | bool]) -> str:
    """The common type of tensors, tensors with no dimension, and Python numbers.

    The lesser groups count only where their category (bool, integer, float) is above the one before.
    """
    groups = [list(tensors), list(zero_dim), [_number(value) for value in numbers]]
    result = ""
    for group in groups:
        if not group:
            continue
        common = reduce(pair, group)
        if not result or _CATEGORY[common] > _CATEGORY[result]:
            result = common
    return result


def _number(value: float | int | bool) -> str:
    if isinstance(value, bool):
        return "bool"
    return "int64" if isinstance(value, int) else "float32"
