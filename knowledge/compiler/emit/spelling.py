"""C++ for what every schedule needs: tensors over a kernel's axes, indices, and the statements of an element."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

from knowledge.compiler.emit.elements import ELEMENT_TYPES, STORED_TYPES, Emitter
from knowledge.compiler.emit.source_text import static_int
from knowledge.compiler.ir.expressions import Node
from knowledge.compiler.ir.index import Atom, Axis, Data, Index, Quotient
from knowledge.compiler.ir.nodes import Element, elements
from knowledge.compiler.ir.sizes import Size
from knowledge.compiler.passes.loops import Nest
from knowledge.compiler.problem import Tensor

Named = Callable[[Node], str]


def spelled(index: Index, data: Named) -> str:
    """An index as a C++ expression; `data` names the computed numbers in it."""
    parts = [_times(_spelled(atom, data), times) for atom, times in index.terms]
    if index.offset or not parts:
        parts.append(str(index.offset))
    return " + ".join(parts).replace("+ -", "- ")


def _times(text: str, times: int) -> str:
    return (
        text
        if times == 1
        else f"-{text}"
        if times == -1
        else f"{text} * {times}"
        if times > 0
        else f"-{text} * {-times}"
    )


def _spelled(atom: Atom, data: Named) -> str:
    if isinstance(atom, Axis):
        return atom.name
    if isinstance(atom, Data):
        return data(atom.value)
    # C++ rounds towards zero: what may be negative is moved up by whole divisors first.
    up = max(0, -(atom.of.bounds[0] // atom.by))
    inner = spelled(atom.of + up * atom.by, data)
    if isinstance(atom, Quotient):
        return f"(({inner}) / {atom.by} - {up})" if up else f"(({inner}) / {atom.by})"
    return f"(({inner}) % {atom.by})"


@dataclass(frozen=True)
class View:
    """A tensor over the axes that its address runs along; one that is not a sum of axes has one mode for all memory."""

    name: str
    tensor: Tensor
    axes: tuple[Axis, ...]
    strides: tuple[int, ...]
    offset: int

    @classmethod
    def of(cls, name: str, tensor: Tensor, address: Index) -> View:
        """The view under which an address is a coordinate."""
        if not all(isinstance(atom, Axis) for atom, _ in address.terms):
            return cls(name, tensor, (), (), 0)
        used = tuple(atom for atom, _ in address.terms if isinstance(atom, Axis))
        return cls(name, tensor, used, tuple(times for _, times in address.terms), address.offset)

    def layout(self) -> str:
        """Its CuTe layout, shapes first."""
        if not self.axes:
            return "Layout<_1, _1>{}"
        extents = [axis.extent for axis in self.axes]
        if any(isinstance(each, Size) for each in (*extents, *self.strides)):
            return f"make_layout(make_shape({_in_the_call(extents)}), make_stride({_in_the_call(self.strides)}))"
        shape = ", ".join(map(static_int, extents))
        stride = ", ".join(map(static_int, self.strides))
        return f"Layout<Shape<{shape}>, Stride<{stride}>>{{}}"

    def comment(self) -> str:
        """The shape, by the axes' names."""
        return "(" + ", ".join(f"{axis.name}:{axis.extent}" for axis in self.axes) + ")"

    def at(self, address: Index, data: Named) -> str:
        """One element's coordinates."""
        if self.axes or not address.terms:
            return ", ".join(axis.name for axis in self.axes) or "0"
        return spelled(address, data)


def _in_the_call(numbers: Iterable[int]) -> str:
    """Numbers as CuTe takes them as values: those that are known now by their types."""
    return ", ".join(f"int64_t({each})" if isinstance(each, Size) else f"{static_int(each)}{{}}" for each in numbers)


@dataclass
class Views:
    """The views of one kernel, one for each way that it reads or writes a tensor."""

    stems: Mapping[str, str]
    made: dict[tuple[object, ...], View] = field(default_factory=dict)

    def of(self, tensor: Tensor, address: Index) -> View:
        """The view of a tensor under an address."""
        view = View.of("", tensor, address)
        key = (tensor.name, view.axes, view.strides, view.offset)
        if key not in self.made:
            stem = self.stems[tensor.name]
            count = sum(each.tensor.name == tensor.name for each in self.made.values()) + 1
            self.made[key] = View(
                stem if count == 1 else f"{stem}_{count}", tensor, view.axes, view.strides, view.offset
            )
        return self.made[key]


class Statements:
    """Writes elements as statements, for one element or for a register along `lane`.

    Subclasses say how a register is read. `n` is the number of lanes that count.
    """

    def __init__(self, nest: Nest, views: Views, scalars: Mapping[str, str], lane: Axis | None, exact: bool) -> None:
        self.nest = nest
        self.views = views
        self.lane = lane
        self.varying = nest.varying(lane) if lane else frozenset()
        self.emitter = Emitter(lanes=lane is not None, exact=exact)
        self.scalars = scalars
        self.names: dict[str, int] = {}

    def write(self, bodies: Iterable[Node]) -> list[str]:
        """The statements for some bodies; what is named already is not written again."""
        bodies = tuple(bodies)
        emitter = self.emitter
        emitter.numbers = frozenset(id(node) for node in elements(*bodies) if id(node) not in self.varying)
        start = len(emitter.lines)
        for node in elements(*bodies):
            if node.kind == "scalar":
                emitter.names[id(node)] = self.scalars[node.op]
            elif isinstance(node, Element):
                if id(node) not in emitter.names:
                    self._element(node)
            else:
                emitter.emit((node,))
        return emitter.lines[start:]

    def _element(self, node: Element) -> None:
        if node.kind == "total":
            self.emitter.names[id(node)] = node.op
            return
        stem = f"r{self.views.stems[self.nest.tensor(node).name]}" if node.kind == "read" else "at"
        self.names[stem] = self.names.get(stem, 0) + 1
        name = stem if self.names[stem] == 1 else f"{stem}_{self.names[stem]}"
        kind = self.emitter.types[node.dtype] if id(node) in self.varying else ELEMENT_TYPES[node.dtype]
        text = self.register(node, kind) if id(node) in self.varying else self.single(node)
        self.emitter.lines.append(f"{kind} const {name} = {text};")
        self.emitter.names[id(node)] = name

    def register(self, node: Element, kind: str) -> str:
        """An element that differs along the lanes."""
        raise NotImplementedError

    def loaded(self, node: Element, place: str) -> str:
        """What reads an element where it lies."""
        return place

    def single(self, node: Element, data: Named | None = None) -> str:
        """One number."""
        data = data or self.emitter.name
        if node.kind == "position":
            return f"int64_t({spelled(node.indices[0], data)})"
        if node.kind == "within":
            return within(node.indices[0], node.extent, data)
        address = self.nest.address(node)
        view = self.views.of(self.nest.tensor(node), address)
        text = self.loaded(node, f"m{view.name}({view.at(address, data)})")
        if STORED_TYPES[node.dtype] != ELEMENT_TYPES[node.dtype]:
            text = f"{ELEMENT_TYPES[node.dtype]}({text})"
        guards = [within(index, extent, data) for index, extent in self.nest.guards(node)]
        return f"{' && '.join(guards)} ? {text} : {ELEMENT_TYPES[node.dtype]}(0)" if guards else text


def within(index: Index, extent: int, data: Named) -> str:
    """Whether an index is 0 to extent - 1, as one comparison."""
    end = f"uint64_t({extent})" if isinstance(extent, Size) else extent
    return f"uint64_t({spelled(index, data)}) < {end}"
