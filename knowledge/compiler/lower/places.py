"""Places of a tensor that a forward writes one after the other, as what is stacked or joined.

`out[:, t] = h` for all t is, in a trace without writes, a `select_scatter` of the one before for each t, and
`out[:, a:b] = h` a `slice_scatter`. All of them together are a `cat` of what is before, the pieces, and what is behind.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import NamedTuple

from knowledge.compiler.ir.strides import packed_strides
from knowledge.compiler.problem import Argument, Op, Ref, Tensor, reads, refs

LEAST = 8
"""Fewer writes stay as they are."""
_READS = {"aten.select_scatter.default": "aten.select.int", "aten.slice_scatter.default": "aten.slice.Tensor"}


def joined(ops: Sequence[Op], returns: Sequence[str]) -> tuple[Op, ...]:
    """The operations, with writes of all places along a dimension as one operation."""
    if sum(op.target in _READS for op in ops) < LEAST:
        return tuple(ops)
    made = {result.name: op for op in ops for result in op.results}
    asked: dict[str, list[Op]] = {}
    for op in ops:
        for name in reads(op):
            asked.setdefault(name, []).append(op)
    renamed: dict[str, str] = {}
    replaced: dict[int, list[Op]] = {}
    for last in (op for op in ops if op.target in _READS):
        name = last.results[0].name
        if name not in returns and any(_writes_on(op, last) for op in asked.get(name, ())):
            continue
        chain = _chain(last, made)
        if len(chain) < LEAST or any(each.results[0].name in returns for each in chain[:-1]):
            continue
        between = _reads(chain, asked)
        pieces = _pieces(chain, made)
        if between is None or pieces is None:
            continue
        renamed |= between.written
        replaced |= between.others | {id(each): [] for each in chain} | {id(last): pieces}
    if not replaced:
        return tuple(ops)
    found = (each for op in ops for each in replaced.get(id(op), [op]) if not _gone(op, renamed))
    return tuple(_renamed(op, renamed) for op in found)


def _gone(op: Op, renamed: Mapping[str, str]) -> bool:
    return bool(op.results) and op.results[0].name in renamed


def _writes_on(op: Op, before: Op) -> bool:
    """Whether it writes to what another has written, along the same dimension."""
    base = op.args[0] if op.args else None
    same = op.target == before.target and isinstance(base, Ref) and base.ref == before.results[0].name
    return same and _dim(op) == _dim(before)


def _dim(op: Op) -> int:
    """The dimension that a write is along."""
    dim = op.args[2] if len(op.args) > 2 else op.kwargs.get("dim", 0)
    return (dim if isinstance(dim, int) else 0) % len(op.results[0].shape)


def _chain(last: Op, made: Mapping[str, Op]) -> list[Op]:
    """The writes that end with one, first to last."""
    chain = [last]
    while isinstance(base := chain[0].args[0], Ref) and (op := made.get(base.ref)) and _writes_on(chain[0], op):
        chain.insert(0, op)
    return chain


def _span(op: Op, extent: int) -> tuple[int, int] | None:
    """The first place that a write, or a read, is at, and the one behind its last."""
    place = 3 if op.target in _READS else 2
    if op.target in ("aten.select_scatter.default", "aten.select.int"):
        at = op.args[place] if len(op.args) > place else None
        return (at % extent, at % extent + 1) if isinstance(at, int) else None
    bounds = [*op.args[place : place + 3], *(None, None, None)[len(op.args[place : place + 3]) :]]
    first, end, step = (0 if bounds[0] is None else bounds[0]), bounds[1], bounds[2]
    end = extent if end is None else end
    if not isinstance(first, int) or not isinstance(end, int) or step not in (None, 1) or op.kwargs:
        return None
    first, end = (min(max(each + extent * (each < 0), 0), extent) for each in (first, end))
    return (first, end) if first < end else None


class _Reads(NamedTuple):
    """What is read between writes: of what was written its name and that of what it is; others read the first tensor.

    Those are by the operation's identity.
    """

    written: dict[str, str]
    others: dict[int, list[Op]]


def _reads(chain: Sequence[Op], asked: Mapping[str, list[Op]]) -> _Reads | None:
    """All reads between some writes; None where one is of something else."""
    extent = chain[-1].results[0].shape[_dim(chain[-1])]
    found = _Reads({}, {})
    written: dict[tuple[int, int], str] = {}
    for place, op in enumerate(chain):
        span, source = _span(op, extent), op.args[1]
        if span is None or not isinstance(source, Ref):
            return None
        if any(span[0] < b and a < span[1] for a, b in written.keys() - {span}):
            return None
        written[span] = source.ref
        after = chain[place + 1] if place + 1 < len(chain) else None
        for reader in asked.get(op.results[0].name, ()) if after else ():
            if reader is after and [*refs(reader.args)].count(op.results[0].name) == 1:
                continue
            along = reader.target == _READS[op.target] and _is_along(reader, op)
            place_of = _span(reader, extent) if along else None
            if place_of in written:
                found.written[reader.results[0].name] = written[place_of]
            elif place_of and all(place_of[1] <= a or b <= place_of[0] for a, b in written):
                first = reader.model_copy(update={"args": (chain[0].args[0], *reader.args[1:])})
                found.others[id(reader)] = [first]
            else:
                return None
    return found


def _is_along(reader: Op, op: Op) -> bool:
    """Whether a read is of places along the dimension that a write is of."""
    dim = reader.args[1] if len(reader.args) > 1 else reader.kwargs.get("dim", 0)
    return isinstance(dim, int) and dim % len(op.results[0].shape) == _dim(op)


def _pieces(chain: Sequence[Op], made: Mapping[str, Op]) -> list[Op] | None:
    """The operations that join all that is written with what is around it; None where something lies between."""
    (result,) = chain[-1].results
    dim, base, is_select = _dim(chain[-1]), chain[0].args[0], chain[0].target == "aten.select_scatter.default"
    extent = result.shape[dim]
    written = {span: op.args[1] for op in chain if (span := _span(op, extent))}
    spans = sorted(written)
    if any(one[1] != other[0] for one, other in pairwise(spans)) or not isinstance(base, Ref):
        return None
    (first, _), (_, end) = spans[0], spans[-1]
    whole = (first, end) == (0, extent)
    inner = result if whole else _of(result, f"{result.name} pieces", dim, end - first)
    sources = tuple(source for span in spans if isinstance(source := written[span], Ref))
    joins = [Op(target=f"aten.{'stack' if is_select else 'cat'}.default", args=(sources, dim), results=(inner,))]
    if whole:
        return joins
    parts: list[Ref] = []
    for a, b in ((0, first), (first, end), (end, extent)):
        if a == first:
            parts.append(Ref(ref=inner.name))
        elif a < b:
            part = _of(result, f"{result.name} from {a}", dim, b - a)
            joins.append(Op(target="aten.slice.Tensor", args=(base, dim, a, b), results=(part,)))
            parts.append(Ref(ref=part.name))
    return [*joins, Op(target="aten.cat.default", args=(tuple(parts), dim), results=(result,))]


def _of(like: Tensor, name: str, dim: int, extent: int) -> Tensor:
    """A part of a tensor along a dimension, of its own memory."""
    shape = (*like.shape[:dim], extent, *like.shape[dim + 1 :])
    return like.model_copy(update={"name": name, "shape": shape, "strides": packed_strides(shape)})


def _renamed(op: Op, renamed: Mapping[str, str]) -> Op:
    if not renamed.keys() & set(reads(op)):
        return op

    def named(argument: Argument) -> Argument:
        if isinstance(argument, tuple):
            return tuple(map(named, argument))  # type: ignore[arg-type]
        while isinstance(argument, Ref) and argument.ref in renamed:
            argument = Ref(ref=renamed[argument.ref])
        return argument

    kwargs = {name: named(each) for name, each in op.kwargs.items()}
    return op.model_copy(update={"args": tuple(map(named, op.args)), "kwargs": kwargs})
