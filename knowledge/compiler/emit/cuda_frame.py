"""What the pointwise and the row kernels for GPUs share: operands as packs of neighbours, helpers, checks, entry."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable
from dataclasses import dataclass

from knowledge.compiler.emit import cuda_math, source_text
from knowledge.compiler.emit.cpu_functions import helpers
from knowledge.compiler.emit.elements import ELEMENT_TYPES
from knowledge.compiler.emit.source_text import indented, static_int, stored_type
from knowledge.compiler.ir.dtypes import BYTES
from knowledge.compiler.ir.strides import Space
from knowledge.compiler.plan import Plan
from knowledge.compiler.problem import Problem, Tensor

# One instruction moves at most this much for one thread.
PACK_BYTES = 16
# Offsets stay in int below this many elements.
INT_SPAN = 2**31
LINE = 112


@dataclass(frozen=True)
class Operand:
    """A tensor as the kernel walks it: `space.strides[place]` are its strides, `name` follows m, p and r.

    | form | stride along the fastest dimension | a thread holds |
    |---|---|---|
    | pack | 1 | V neighbours, moved at once |
    | spread | 0 | one element, the same for V columns |
    | gather | any other | V elements, moved one by one |
    """

    name: str
    tensor: Tensor
    strides: tuple[int, ...]
    offset: int = 0
    output: bool = False

    @property
    def form(self) -> str:
        """pack, spread or gather."""
        return {1: "pack", 0: "spread"}.get(self.strides[0], "gather")

    @property
    def type(self) -> str:
        """The C++ type of an element in memory."""
        return stored_type(self.tensor)

    @property
    def parameter(self) -> str:
        """The kernel's parameter."""
        return f"{self.type}{'' if self.output else ' const'}* p{self.name}"

    @property
    def held(self) -> str:
        """The type of what a thread holds of it for one step."""
        return self.type if self.form == "spread" else f"Pack<{self.type}, V>"

    def pointer(self, identifier: str) -> str:
        """The declaration of its first element's address, in `run`."""
        const = "" if self.output else " const"
        start = f"static_cast<{self.type}{const}*>({identifier}.data_ptr())"
        return f"auto{const}* p{self.name} = {start}{f' + {self.offset}' if self.offset else ''};"

    def lane(self, slot: str = "", lane: str = "k") -> str:
        """One element of what a thread holds."""
        return f"r{self.name}{slot}" + ("" if self.form == "spread" else f".lane[{lane}]")


def spans(space: Space, place: int) -> int:
    """Elements from an operand's first to its last."""
    return 1 + sum((extent - 1) * abs(step) for extent, step in zip(space.extents, space.strides[place], strict=True))


def pack_width(space: Space, operands: Iterable[Operand], *, tail: bool) -> int:
    """Elements a pack: 16 bytes of the widest type, less where the extents or strides do not divide.

    With `tail` one flat dimension may end in an incomplete pack.
    """
    packed = [each for each in operands if each.form == "pack"]
    if not packed:
        return 1
    width = PACK_BYTES // max(BYTES[each.tensor.dtype] for each in packed)
    flat = len(space.extents) == 1
    while width > 1 and not _divides(width, space, packed, free=tail and flat):
        width //= 2
    return width


def _divides(width: int, space: Space, packed: list[Operand], *, free: bool) -> bool:
    if space.columns < width or (space.columns % width and not free):
        return False
    steps = (
        step for each in packed for extent, step in zip(space.extents[1:], each.strides[1:], strict=True) if extent > 1
    )
    return all(step % width == 0 for step in steps)


def divided(value: int) -> str:
    """A static extent or stride in packs."""
    return f"Int<{value} / V>" if abs(value) < INT_SPAN else f"C<int64_t({value}) / V>"


def pack_layout(extents: tuple[int, ...], operand: Operand, columns: int) -> str:
    """The operand's layout over packs: one mode of the `columns` fastest dimensions, and one of the others.

    One that is gathered has its V lanes before these. With all dimensions among the columns there is one coordinate.
    """
    first, rest = operand.strides[0], operand.strides[1:]
    count = [divided(extents[0]), *map(static_int, extents[1:])]
    steps = ["_1", *map(divided, rest)] if operand.form == "pack" else [_times(first), *map(static_int, rest)]
    shape, stride = _modes(count, columns, "Shape"), _modes(steps, columns, "Stride")
    if operand.form == "gather":
        shape, stride = f"Int<V>, {shape}", f"{static_int(first)}, {stride}"
    elif columns == len(extents) > 1:
        shape, stride = ", ".join(count), ", ".join(steps)
    return f"Layout<Shape<{shape}>, Stride<{stride}>>{{}}"


def _modes(texts: list[str], columns: int, kind: str) -> str:
    groups = [texts[:columns], texts[columns:]]
    return ", ".join(group[0] if len(group) == 1 else f"{kind}<{', '.join(group)}>" for group in groups if group)


def _times(step: int) -> str:
    return f"Int<{step} * V>" if abs(step) * 16 < INT_SPAN else f"C<int64_t({step}) * V>"


def tensor_lines(operand: Operand, extents: tuple[int, ...], columns: int) -> list[str]:
    """The declaration of `m<name>` in the kernel."""
    start = f"packs<V>(p{operand.name})" if operand.form == "pack" else f"p{operand.name}"
    shape = _modes([f"{extents[0]}/V", *map(str, extents[1:])], columns, "")
    shape = shape.translate(str.maketrans("<>", "()", " "))
    shown = "V," if operand.form == "gather" else ""
    layout, comment = pack_layout(extents, operand, columns), f"  // ({shown}{shape})"
    head = f"Tensor m{operand.name} = make_tensor(make_gmem_ptr({start}),"
    whole = f"{head} {layout});{comment}"
    return [whole] if len(whole) < LINE else [f"{head}{comment}", f"    {layout});"]


def load_lines(operand: Operand, slot: str, at: str, once: str) -> list[str]:
    """The statements that load one step."""
    if operand.form != "gather":
        hint = once if operand.form == "pack" else "false"
        return [f"r{operand.name}{slot} = load<{hint}>(&m{operand.name}({at}));"]
    return [
        "UNROLL",
        f"for (int k = 0; k < V; ++k) {{ r{operand.name}{slot}.lane[k] = m{operand.name}(k, {at}); }}",
    ]


def store_lines(operand: Operand, at: str, once: str) -> list[str]:
    """The statements that store one step."""
    if operand.form == "pack":
        return [f"store<{once}>(&m{operand.name}({at}), r{operand.name});"]
    return ["UNROLL", f"for (int k = 0; k < V; ++k) {{ m{operand.name}(k, {at}) = r{operand.name}.lane[k]; }}"]


def converted(operand: Operand, dtype: str, text: str) -> str:
    """A value read from memory in the type that arithmetic uses."""
    return text if ELEMENT_TYPES[dtype] == operand.type else f"static_cast<{ELEMENT_TYPES[dtype]}>({text})"


def stored(operand: Operand, dtype: str, text: str) -> str:
    """A value in the type that memory holds."""
    return text if ELEMENT_TYPES[dtype] == operand.type else f"{operand.type}({text})"


def device_helpers(functions: str) -> str:
    """The math helpers that the arithmetic calls, for the device."""
    return helpers(functions, "", 1, cuda_math.HELPERS).replace("> inline ", "> __device__ inline ")


def alignment_test(operands: Iterable[Operand], width: str) -> str:
    """The condition under which packs of `width` elements may be moved."""
    return f"aligned<{width}>({', '.join(f'p{each.name}' for each in operands if each.form == 'pack')})"


def header(comment: Iterable[str], plan: Plan) -> str:
    """The comment at the file's top, and the plan."""
    return "\n".join([*(f"// {line}".rstrip() for line in comment), plan.comment()])


def entry(problem: Problem, names: dict[str, str], body: list[str]) -> str:
    """`run` with its checks, and the export."""
    return source_text.entry(problem, names, body).rstrip("\n")


def stream(problem: Problem, names: dict[str, str]) -> str:
    """The caller's stream."""
    return f"cudaStream_t const stream = stream_of({names[problem.outputs[0].name]});"


def function(head: str, body: list[str]) -> list[str]:
    """A C++ function."""
    wrapped = textwrap.wrap(f"{head} {{", LINE, subsequent_indent="    ", break_long_words=False)
    return [*wrapped, *indented(body), "}"]
