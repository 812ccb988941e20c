"""The factors of sums of products. Tensor cores take them as they lie in memory."""

from __future__ import annotations

from collections.abc import Iterator

from knowledge.compiler.ir.dtypes import BYTES, is_float
from knowledge.compiler.ir.nodes import Element, Value, reads
from knowledge.compiler.ir.rewriting import Inliner


def factors(value: Value, inliner: Inliner) -> Iterator[Value]:
    """What a sum of products reads directly."""
    if value.kind == "reduce" and value.op == "sum" and (body := inliner.body(value)).op == "mul":
        yield from (each.value for each in reads(body) if each in body.args and each.value is not None)


def computed_factors(value: Value) -> Iterator[Value]:
    """The factors of a product of matrices that have to be computed, looked at through their views.

    Two kinds are left out: a widened 16-bit tensor, which is read as it is, and what is made of fewer bytes than it
    has, such as weights of few bits.
    """
    found = [each for each in reads(value.body) if value.contracts] if value.body is not None else []
    seen = [{axis for axis in value.axes if any(index.uses(axis) for index in each.indices)} for each in found]
    if len(found) != 2 or seen[0] <= seen[1] or seen[1] <= seen[0]:
        return
    for read in found:
        made = read.value
        while made is not None and made.kind == "map" and isinstance(made.body, Element) and made.body.kind == "read":
            made = made.body.value
        if made is None or made.kind != "map" or made.body is None:
            continue
        widened = made.body.op == "cast" and made.dtype == "float32"
        if not widened and _narrowest(made) >= BYTES[made.dtype]:
            yield made


def _narrowest(value: Value) -> int:
    """Bytes of the narrowest tensor that a map is made of; 0 of integers, which may be several packed into one."""
    if value.kind != "map" or value.body is None:
        return BYTES[value.dtype] if is_float(value.dtype) else 0
    return min((_narrowest(each.value) for each in reads(value.body) if each.value is not None), default=8)
