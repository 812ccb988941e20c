"""Weights in fewer bits made 16 bits wide two at a time: their bits are placed in a number's fraction.

An int8 becomes a number by an instruction of a quarter of the rate, and its arithmetic takes one instruction an
element. Of two fields that lie 16 bits apart in a word, one instruction each cuts both out, makes numbers of them, and
computes with them; so the k's of a thread are taken in the order of such pairs.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from knowledge.compiler.emit.elements import STORED_TYPES
from knowledge.compiler.ir.dtypes import BYTES, HALVES
from knowledge.compiler.ir.expressions import Node
from knowledge.compiler.ir.index import Axis, Index, number
from knowledge.compiler.ir.nodes import Element
from knowledge.compiler.problem import Tensor

LANES = 16
WORD = 32
# bfloat16 holds all integers up to here, and float16 more.
EXACT = 256
SPELLED = {"add": "add", "sub": "sub", "mul": "mul"}


class Kept(Protocol):
    """What a thread holds of a tensor: as `narrow_weights.Held`."""

    @property
    def tensor(self) -> Tensor: ...
    @property
    def place(self) -> Index: ...
    @property
    def lanes(self) -> int: ...


@dataclass(frozen=True)
class Field:
    """Bits of what a thread holds: of the read `held`, from bit `at` on."""

    held: int
    at: int
    width: int
    signed: bool


@dataclass(frozen=True)
class Pairs:
    """The statements that fill `w`, and which k's half `j` of its registers is of."""

    order: str
    lines: list[str]


def paired(weight: Node, held: Mapping[int, Kept], inner: Axis, names: Mapping[int, str]) -> Pairs | None:
    """The weights of a thread's 16 k's by pairs; None where they are no sums and products of such numbers."""
    writer = _Writer(held, inner, names)
    value = writer.value(weight)
    if value is None or writer.shape is None:
        return None
    _, step = writer.shape
    # Pair j's fields lie `step` bits after those of the pair before, in the word's two halves.
    lanes = WORD // step
    order = f"j / {lanes} * {lanes} + j % {lanes} / 2 + j % 2 * {lanes // 2}"
    lines = ["UNROLL", "for (int j = 0; j < 8; ++j) {", *(f"  {line}" for line in writer.lines), f"  w[j] = {value};"]
    return Pairs(order, [*lines, "}"])


class _Writer:
    """Writes one pair, number `j`. `shape` is what all its fields share: pairs a word, and bits between them."""

    def __init__(self, held: Mapping[int, Kept], inner: Axis, names: Mapping[int, str]) -> None:
        self.held, self.inner, self.names = held, inner, names
        self.shape: tuple[int, int] | None = None
        self.lines: list[str] = []
        self.done: dict[int, str] = {}

    def value(self, node: Node) -> str | None:
        """The name of both halves' value; None where they have none."""
        if id(node) not in self.done:
            text = self._text(node)
            if text is None:
                return None
            name = self.done[id(node)] = f"v{len(self.lines)}"
            self.lines.append(f"uint32_t const {name} = {text};{f'  // {node.origin}' * bool(node.origin)}")
        return self.done[id(node)]

    def _text(self, node: Node) -> str | None:
        kept = self.held.get(id(node))
        if node.dtype not in HALVES:
            return None
        if kept is not None:
            return None if kept.lanes else f"both(raw.{self.names[id(node)]})"
        if node.kind == "const":
            return f"both(T({float(node.payload[0])}f))"
        if node.kind != "compute":
            return None
        if node.op == "cast":
            return self._integers(node.args[0], 0)
        less = self._less(node)
        if less:
            return self._integers(node.args[0].args[0], less)
        operands = [self.value(each) for each in node.args] if node.op in SPELLED else [None]
        return None if None in operands else f"{node.op}<T>({', '.join(map(str, operands))})"

    def _less(self, node: Node) -> int:
        """A small number that is subtracted from integers: they are exact before and after."""
        if node.op != "sub" or node.args[0].op != "cast" or node.args[1].kind != "const":
            return 0
        less = float(node.args[1].payload[0])
        fields = self._fields(node.args[0].args[0])
        small = fields is not None and fields[0].width < 8
        return int(less) if small and less == int(less) and 0 < less <= EXACT // 2 else 0

    def _integers(self, node: Node, less: int) -> str | None:
        fields = self._fields(node)
        shape = self._shape(fields) if fields else None
        if fields is None or shape is None or self.shape not in (None, shape):
            return None
        self.shape = shape
        each, step = shape
        first = fields[0]
        word = f"raw.{self.names[first.held]}.words.lane[{'j' if each == 1 else f'j / {each}'}]"
        at = "0" if each == 1 else f"j % {each} * {step}"
        return f"integers<T, {first.width}, {str(first.signed).lower()}, {less}>({word}, {at})"

    @staticmethod
    def _shape(fields: list[Field]) -> tuple[int, int] | None:
        """Pairs a word and bits between them, where fields follow each other without gaps."""
        first, step = fields[0], fields[1].at - fields[0].at
        same = all((each.held, each.width, each.signed) == (first.held, first.width, first.signed) for each in fields)
        dense = all(each.at == place * step for place, each in enumerate(fields))
        kinds = first.width == 8 or (first.width < 8 and not first.signed)
        return (16 // step, step) if same and dense and kinds and step in (2, 4, 8, 16) else None

    def _fields(self, node: Node) -> list[Field] | None:
        found = [self._field(node, lane) for lane in range(LANES)]
        fields = [each for each in found if isinstance(each, Field)]
        return fields if len(fields) == LANES else None

    def _field(self, node: Node, lane: int) -> Field | int | None:
        """An integer of lane `lane`: bits of what is held, a number that is known now, or something else."""
        kept = self.held.get(id(node))
        if kept is not None:
            bits = 8 * BYTES[node.dtype]
            integers = kept.lanes and STORED_TYPES[node.dtype].endswith(f"int{bits}_t")
            at = self._known(kept.place, lane)
            return Field(id(node), at * bits, bits, node.dtype != "uint8") if integers and at is not None else None
        if node.kind == "const":
            return int(node.payload[0]) if isinstance(node.payload[0], int) else None
        if isinstance(node, Element) and node.kind in ("position", "within"):
            at = self._known(node.indices[0], lane)
            return at if at is None or node.kind == "position" else int(0 <= at < node.extent)
        if node.kind != "compute":
            return None
        return self._computed(node, [self._field(each, lane) for each in node.args])

    def _known(self, index: Index, lane: int) -> int | None:
        at = index.at({self.inner: number(lane)}, lambda data: data)
        return None if at.terms else at.offset

    @staticmethod
    def _computed(node: Node, given: list[Field | int | None]) -> Field | int | None:
        match node.op, given:
            case "select", [int(chosen), one, other]:
                return one if chosen else other
            case "and", [int(one), int(other)]:
                return one & other
            case "shift_right", [Field() as field, int(by)] if 0 <= by < field.width:
                return Field(field.held, field.at + by, field.width - by, field.signed)
            case "and", ([Field() as field, int(mask)] | [int(mask), Field() as field]) if (
                mask > 0 and not mask & mask + 1
            ):
                # Masked, its sign is one of its bits; a wider mask than an unsigned field has changes nothing.
                width = mask.bit_length()
                narrow = Field(field.held, field.at, width, False) if width <= field.width else None
                return narrow or (None if field.signed else field)
            case "cast", [int(known)]:
                return known
            case _:
                return None
