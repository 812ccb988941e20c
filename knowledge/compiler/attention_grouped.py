"""Query heads that read the same keys become rows of one head, where rows are few: a block reads the keys once for all.

Decoding is bound by the bytes of K and V. With a block for each query head, 32 heads of 8 brought each key four times
from the L2 cache: 16 x 32 heads of 128 columns, 4096 keys, took 0.188 ms on an H200, 5.7e12 bytes a second of that
cache, while the 268e6 bytes that memory holds take 0.056 ms at its 4.8e12.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

from knowledge.compiler.attention_form import Attention, Operand
from knowledge.compiler.index import Axis, Index, Quotient, along, number
from knowledge.compiler.seen import Band

MOST_ROWS = 64
"""Rows together: with more, products take longer than what is read."""


def grouped(form: Attention) -> Attention:
    """The same attention with as many query heads of a key head as rows as there is room for."""
    for axis in form.heads:
        for count in sorted(_counts(form, axis), reverse=True):
            made = _gathered(form, axis, count)
            if made is not None:
                return made
    return form


def _counts(form: Attention, axis: Axis) -> Iterator[int]:
    """How many neighbours of an axis of heads may have the same keys."""
    atoms = [*form.k.start.atoms(), *form.v.start.atoms()]
    found = {atom.by for atom in atoms if isinstance(atom, Quotient) and atom.of.uses(axis)} | {axis.extent}
    parts = {part for each in found for part in range(2, MOST_ROWS // form.row.extent + 1) if each % part == 0}
    return (each for each in parts if axis.extent % each == 0)


def _gathered(form: Attention, axis: Axis, count: int) -> Attention | None:
    """`count` neighbours of that axis as rows; None where keys, values or a mask by position tell them apart."""
    rows = form.row.extent
    first, last = form.band
    seen = (first is None or first <= 1 - rows) and (last is None or last >= form.key.extent - 1)
    head, row = Axis(axis.name, axis.extent // count), Axis("c3", count * rows)
    places = {axis: along(head) * count + along(row) // rows, form.row: along(row) % rows}
    k, v = (replace(each, start=_at(each.start, places)) for each in (form.k, form.v))
    q, output = (_with_rows(each, form.row, row, places) for each in (form.q, form.output))
    if not seen or k.start.uses(row) or v.start.uses(row) or q is None or output is None:
        return None
    score = form.score and form.graph.rewritten(form.score, places, lambda inner: inner)
    heads = tuple(head if each == axis else each for each in form.heads)
    return replace(form, heads=heads, row=row, q=q, k=k, v=v, output=output, score=score, band=Band())


def _at(start: Index, places: Mapping[Axis, Index]) -> Index:
    return start.at(places, lambda data: data)


def _with_rows(operand: Operand, old: Axis, row: Axis, places: Mapping[Axis, Index]) -> Operand | None:
    """q or the result over the new rows, where one step leads from each to the next."""
    address = _at(operand.start + along(old) * operand.row, places)
    step = address.times(row)
    return None if step is None else replace(operand, start=_at(address, {row: number(0)}), row=step)
