"""The IR as text, for pages: one value a line, its body as a formula; and what fusion makes of it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from knowledge.compiler.ir.expressions import Node
from knowledge.compiler.ir.index import Atom, Axis, Data, Index, Quotient
from knowledge.compiler.ir.nodes import Element, Value, values
from knowledge.compiler.passes.fusion import Fused

_INFIX = {"add": "+", "sub": "-", "mul": "*", "div": "/", "lt": "<", "le": "<=", "gt": ">", "ge": ">=", "eq": "==",
          "ne": "!=", "and": "&", "or": "|"}  # fmt: skip


def shown(roots: Iterable[Node]) -> str:
    """Every value under `roots`, those that are read before those that read them."""
    names: dict[int, str] = {}
    lines = []
    for value in values(*(root for root in roots if isinstance(root, Value))):
        names[id(value)] = value.op if value.kind == "source" else f"t{len(names)}"
        lines.append(f"{names[id(value)]}: {value.dtype}{list(value.shape)} = {_definition(value, names)}")
    return "\n".join(lines)


def shown_kernels(made: Fused) -> str:
    """Every kernel: its loops, what it reduces or scans, and what it stores where. `?` marks a read that may miss."""
    lines = []
    for number, kernel in enumerate(made.kernels):
        names = {key: tensor.name for key, tensor in kernel.memory.items()}
        steps = f", at every step of {_loops((kernel.stepped,))}" if kernel.stepped else ""
        lines.append(f"kernel {number}: for {_loops(kernel.axes)}{steps}")
        for name, total in kernel.totals:
            assert total.body is not None
            what = (
                f"{total.op} along i{total.dim}"
                if not kernel.reduced
                else f"{total.op} along i{total.dim} of {_loops(kernel.reduced)}"
                if kernel.scans
                else f"{total.op} over {_loops(kernel.reduced)}"
            )
            lines.append(f"  {name} = {what}: {formula(total.body, names)}")
        for store in kernel.stores:
            at = ", ".join(place(index, names) for index in store.indices)
            lines.append(f"  {store.tensor.name}[{at}] = {formula(store.body, names)}")
    held = [f"{each.name} from byte {made.places[each.name]}" for each in made.between]
    return "\n".join([*lines, *([f"between them: {made.nbytes} bytes; {', '.join(held)}"] if held else [])])


def _loops(axes: Iterable[Axis]) -> str:
    return ", ".join(f"{axis.name}<{axis.extent}" for axis in axes)


def _definition(value: Value, names: Mapping[int, str]) -> str:
    if value.region is not None:
        return f"made at every step of {_loops((value.region.axis,))}"
    if value.kind == "source" or value.body is None:
        return "argument"
    over = _loops(value.reduced or value.axes)
    what = f"along i{value.dim} {value.op}" if value.kind == "scan" else f"{value.op or value.kind} over {over}"
    origin = f"  # {value.origin}" if value.origin else ""
    if value.kind == "steps":
        sums = "; ".join(f"s{place} = {formula(each, names)}" for place, each in enumerate(value.sums))
        what = f"steps along i1 with sums over {_loops(value.reduced)}: {sums}"
    return f"{what}: {formula(value.body, names)}{origin}"


def formula(node: Node, names: Mapping[int, str]) -> str:
    """An element as a formula. `names` are those of the values that it reads."""
    if isinstance(node, Element):
        indices = ", ".join(place(index, names) for index in node.indices)
        if node.kind == "read":
            return f"{names[id(node.value)]}[{indices}]" + ("?" if node.partial else "")
        if node.kind == "before":
            return f"before[{indices}]"
        return f"({indices} in 0..{node.extent})" if node.kind == "within" else node.op or f"({indices})"
    if node.kind == "const":
        return str(node.payload[0])
    args = [formula(arg, names) for arg in node.args]
    if node.op in _INFIX:
        return f"({args[0]} {_INFIX[node.op]} {args[1]})"
    return f"{node.dtype if node.op == 'cast' else node.op}({', '.join(args)})" if args else node.op


def place(index: Index, names: Mapping[int, str]) -> str:
    """An index as a formula."""
    parts = [_times(atom, times, names) for atom, times in index.terms]
    if index.offset or not parts:
        parts.append(str(index.offset))
    return " + ".join(parts).replace("+ -", "- ")


def _times(atom: Atom, times: int, names: Mapping[int, str]) -> str:
    if isinstance(atom, Axis):
        text = atom.name
    elif isinstance(atom, Data):
        text = formula(atom.value, names)
    else:
        text = f"({place(atom.of, names)}) {'//' if isinstance(atom, Quotient) else '%'} {atom.by}"
        text = f"({text})" if times != 1 else text
    return text if times == 1 else f"-{text}" if times == -1 else f"{times} {text}"
