"""The parts that every kernel of the playbook has: header comment, includes, checks, tensors and the entry."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import prod

from knowledge.compiler.emit.elements import STORED_TYPES
from knowledge.compiler.ir.dtypes import BYTES, DLPACK
from knowledge.compiler.ir.expressions import Node
from knowledge.compiler.ir.index import Axis
from knowledge.compiler.ir.sizes import Size
from knowledge.compiler.ir.strides import Space
from knowledge.compiler.kernels.source import load as exemplar
from knowledge.compiler.lower.lowering import Lowered
from knowledge.compiler.passes.row_program import RowProgram
from knowledge.compiler.plan import Plan
from knowledge.compiler.problem import Problem, Scalar, Tensor, base_name

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
    "Stride", "Int", "C", "element", "kLanes", "NAN", "INFINITY", "half_t", "bfloat16_t", "Float8",
    "float8_e4m3fn", "float8_e5m2", "kernels", "rows", "finish", "pointwise", "aligned", "packs", "launched",
    "stream_of", "buffer", "error", "Index", "Pack", "Best",
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


SCALAR_TYPES = {"float": "double", "int": "int64_t", "bool": "bool"}


def integers(values: tuple[int, ...]) -> str:
    """`{2, 3}`; extents beyond 32 bits need no suffix in an initializer list."""
    return "{" + ", ".join(map(str, values)) + "}"


def static_int(value: int) -> str:
    """A compile-time integer of CuTe's."""
    return f"Int<{value}>" if abs(value) < 2**31 else f"C<int64_t({value})>"


def nested(values: tuple[int, ...], kind: str) -> str:
    """`Shape<Int<2>, Int<3>>`."""
    return f"{kind}<{', '.join(static_int(value) for value in values)}>"


@dataclass(frozen=True)
class LayoutText:
    """A static CuTe layout's modes, each flat or nested: C++ shape, C++ strides, and the extents for the comment."""

    shape: str
    strides: str
    extents: str


def _mode(extents: tuple[int, ...], strides: tuple[int, ...]) -> LayoutText:
    if len(extents) == 1:
        return LayoutText(static_int(extents[0]), static_int(strides[0]), str(extents[0]))
    shown = ",".join(map(str, extents))
    return LayoutText(nested(extents, "Shape"), nested(strides, "Stride"), f"({shown})")


def flat_layout(space: Space, operand: int) -> LayoutText:
    """The fastest dimension, then all others as one nested mode."""
    extents, strides = space.extents, space.strides[operand]
    modes = [_mode(extents[:1], strides[:1])]
    return _joined(modes + ([_mode(extents[1:], strides[1:])] if len(extents) > 1 else []))


def row_layout(columns: Space, rows: Space, operand: int) -> LayoutText:
    """Two modes: columns, rows."""
    spaces = (columns, rows)
    return _joined([_mode(space.extents, space.strides[operand]) for space in spaces])


def _joined(modes: list[LayoutText]) -> LayoutText:
    shape = ", ".join(mode.shape for mode in modes)
    strides = ", ".join(mode.strides for mode in modes)
    return LayoutText(f"Shape<{shape}>", f"Stride<{strides}>", ",".join(mode.extents for mode in modes))


def tensor(
    name: str, argument: Tensor, names: dict[str, str], layout: LayoutText, offset: int = 0, *, const: bool = False
) -> list[str]:
    """The declaration of `m<name>` over an argument's memory."""
    pointer = f"static_cast<{stored_type(argument)}{' const' if const else ''}*>({names[argument.name]}.data_ptr())"
    head = f"Tensor m{name} = make_tensor("
    start = f"{pointer} + {offset}" if offset else pointer
    made = f"make_layout({layout.shape}{{}}, {layout.strides}{{}})"
    return [f"{head}{start},", f"{' ' * len(head)}{made});  // ({layout.extents})"]


def row_operations(program: RowProgram) -> int:
    """Arithmetic operations on all columns of all rows, a call of a function counted as one."""
    each = sum(1 for node in program.nodes if node.kind in ("compute", "reduce") and not program.flat(node))
    return each * prod(program.shape)


def load_names(loads: tuple[Node, ...], stems: dict[str, str]) -> list[str]:
    """One name a load: the tensor's, numbered where a tensor is read through several views."""
    seen: Counter[str] = Counter()
    names = []
    for load in loads:
        seen[load.op] += 1
        names.append(stems[load.op] + (f"_{seen[load.op]}" if seen[load.op] > 1 else ""))
    return names


def truth(value: object) -> str:
    """A condition as C++ spells it; what is spelled already as it is."""
    return value if isinstance(value, str) else str(bool(value)).lower()


def constants(
    tiles: Mapping[str, object], numbers: Mapping[str, object], flags: Mapping[str, object] | None = None
) -> str:
    """Static integers, numbers, and what is true or not, one a line."""
    lines = [f"using {name} = Int<{value}>;" for name, value in tiles.items()]
    lines += [f"constexpr int {name} = {value};" for name, value in numbers.items()]
    lines += [f"constexpr bool {name} = {truth(value)};" for name, value in (flags or {}).items()]
    return "\n".join(lines)


def stored_type(tensor: Tensor) -> str:
    """The C++ type of the tensor's elements in memory."""
    return STORED_TYPES[tensor.dtype]


def parameter_list(problem: Problem, names: dict[str, str]) -> str:
    """The entry point's parameters in the order of the call."""
    return ", ".join(
        f"{SCALAR_TYPES[each.type]} {names[each.name]}"
        if isinstance(each, Scalar)
        else f"tvm::ffi::TensorView {names[each.name]}"
        for each in problem.arguments
    )


def argument_names(problem: Problem) -> dict[str, str]:
    """The C++ identifier of each argument."""
    return identifiers(each.name for each in problem.arguments)


def sizes_of(problem: Problem) -> dict[str, tuple[str, int, int]]:
    """Each size that is known only in the call: an argument, a dimension of it, and how many times the size that is."""
    found: dict[str, tuple[str, int, int]] = {}
    for each in problem.arguments:
        for dim, extent in enumerate(each.shape if isinstance(each, Tensor) else ()):
            if isinstance(extent, Size) and len(extent.names) == 1:
                found.setdefault(extent.names[0], (each.name, dim, extent.times))
    return found


def checks(problem: Problem, names: dict[str, str]) -> list[str]:
    """The sizes that differ from call to call, then one check a tensor."""
    lines = []
    for size, (argument, dim, times) in sizes_of(problem).items():
        name = names[argument]
        lines.append(
            f"int64_t const {size} = {name}.ndim() > {dim} ? {name}.size({dim}) / {times} : 0;".replace(" / 1 ", " ")
        )
    for each in problem.arguments:
        if isinstance(each, Tensor):
            code, bits = DLPACK[each.dtype]
            lines.append(
                f'require({names[each.name]}, "{names[each.name]}", {integers(each.shape)}, {integers(each.strides)}, '
                f"{code}, {bits});"
            )
    return lines


def bytes_moved(problem: Problem) -> int:
    """Bytes of all arguments, once each."""
    return sum(prod(each.shape) * BYTES[each.dtype] for each in problem.arguments if isinstance(each, Tensor))


def summary(lowered: Lowered) -> str:
    """The traced operations in words: "abs, add x2, div"."""
    counts = Counter(base_name(target) for target in lowered.operations)
    return ", ".join(name if count == 1 else f"{name} x{count}" for name, count in counts.items())


def kernel(comment: list[str], plan: Plan, helpers: str, functions: str, entry_text: str) -> str:
    """The whole file: header comment, plan line, includes, helpers, arithmetic, entry."""
    headers = [
        *(["immintrin.h"] if "_mm" in helpers + entry_text else []), "cmath", "cstdint", "initializer_list",
        "limits", "type_traits", "utility", "cute/tensor.hpp", "tvm/ffi/container/tensor.h", "tvm/ffi/error.h",
        "tvm/ffi/function.h",
    ]  # fmt: skip
    lines = [f"// {line}".rstrip() for line in comment]
    lines += [plan.comment(), "", *(f"#include <{header}>" for header in headers), "", "using namespace cute;", ""]
    # The check of a GPU's kernels: what it asks of a tensor is the same for every target.
    require = exemplar("pointwise").section("require")
    body = f"namespace {{\n{helpers}\n{functions}\n{require}}}  // namespace\n\n{entry_text}"
    return "\n".join(lines) + "\n" + body


def entry(problem: Problem, names: dict[str, str], body: list[str]) -> str:
    """`run` with its checks, and the export."""
    lines = [f"void run({parameter_list(problem, names)}) {{"]
    lines += [f"  {line}".rstrip() for line in (*checks(problem, names), "", *body)]
    return "\n".join([*lines, "}", "TVM_FFI_DLL_EXPORT_TYPED_FUNC(run, run);", ""])


def indented(lines: list[str], by: int = 2) -> list[str]:
    """The lines, `by` spaces further right."""
    return [(" " * by + line).rstrip() for line in lines]


def decoded(axes: Sequence[Axis], task: str, tiles: int = 1, kind: str = "int64_t") -> Iterator[str]:
    """The loops' steps from a task's number."""
    step = tiles
    lines = []
    for position, axis in reversed(list(enumerate(axes))):
        text = f"{task} / {step}" if step > 1 else task
        if axis.extent != 1:
            lines.append(f"{kind} const {axis.name} = {text}{f' % {axis.extent}' if position else ''};")
        step *= axis.extent
    return reversed(lines)
