"""Writes expressions as C++ statements, for one element or for a SIMD register of elements."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, field

from knowledge.compiler.ir import dtypes
from knowledge.compiler.ir.expressions import Node
from knowledge.compiler.ir.primitives import COMPARISONS, PRIMITIVES
from knowledge.compiler.ir.sizes import Size

ELEMENT_TYPES = {
    **dict.fromkeys(dtypes.NARROW, "float"), "float32": "float", "float64": "double", "int64": "int64_t",
    "int32": "int32_t", "int16": "int16_t", "int8": "int8_t", "uint8": "uint8_t", "bool": "bool",
}  # fmt: skip
STORED_TYPES = {
    **ELEMENT_TYPES, "float16": "half_t", "bfloat16": "bfloat16_t", **{each: each for each in dtypes.FLOAT8},
}  # fmt: skip
LANE_TYPES = {
    **dict.fromkeys(dtypes.NARROW, "vfloat"), "float32": "vfloat", "float64": "vdouble", "int64": "vlong",
    "int32": "vint", "bool": "vmask", "int16": "vint", "int8": "vint", "uint8": "vint",
}  # fmt: skip
WIDE = ("float64", "int64")
SHORT = ("int16", "int8", "uint8")
"""Types whose lanes are those of int32: what is computed there wraps as the type itself does."""
DIVISIONS = ("floor_divide", "remainder", "int_fmod", "truncated_divide")
"""Of integers by 0 the processor stops: lanes beyond a row's end may hold 0."""


def literal(value: float | int | bool, dtype: str) -> str:
    """A number as C++ spells it in that type."""
    if isinstance(value, Size):
        return f"{ELEMENT_TYPES[dtype]}({value})"
    if dtype == "bool":
        return "true" if value else "false"
    if not dtypes.is_float(dtype):
        if dtype == "int64":
            return f"int64_t{{{value}}}" if value > -(2**63) else "INT64_MIN"
        return f"{ELEMENT_TYPES[dtype]}({value})" if dtype != "int32" or value < 0 else str(value)
    suffix = "" if dtype == "float64" else "f"
    number = float(value)
    if math.isnan(number):
        return f"{ELEMENT_TYPES[dtype]}(NAN)"
    infinite = math.isinf(number) or (suffix and abs(number) > 3.4028235677973366e38)
    size = f"{ELEMENT_TYPES[dtype]}(INFINITY)" if infinite else f"{abs(number)!r}{suffix}"
    # In parentheses: after another minus it would be a decrement.
    return f"(-{size})" if math.copysign(1.0, number) < 0 else size


@dataclass
class Emitter:
    """Collects the statements that compute some nodes. `names` holds what is spelled already.

    `numbers` are the nodes, by identity, that are one number for a whole row. `lanes`: on SIMD registers; `exact`:
    with the playbook's own float32 functions instead of libm, lane by lane.
    """

    lanes: bool = False
    exact: bool = False
    names: dict[int, str] = field(default_factory=dict)
    lines: list[str] = field(default_factory=list)
    numbers: frozenset[int] = frozenset()

    @property
    def types(self) -> dict[str, str]:
        """The C++ type of a value that differs between elements, by element type."""
        return LANE_TYPES if self.lanes else ELEMENT_TYPES

    def single(self, node: Node) -> bool:
        """Whether a value is one number rather than a register of them."""
        return not self.lanes or node.uniform or id(node) in self.numbers

    def type_of(self, node: Node) -> str:
        """The C++ type that holds a node's value."""
        return (ELEMENT_TYPES if self.single(node) else LANE_TYPES)[node.dtype]

    def emit(self, nodes: Iterable[Node]) -> None:
        """Add a statement for every compute node among `nodes` (in dependency order) that has no name yet."""
        for node in nodes:
            if node.kind != "compute" or id(node) in self.names:
                continue
            text = self.spell(node)
            name = f"v{len(self.names)}"
            comment = f"  // {node.origin}" if node.origin else ""
            self.lines.append(f"{self.type_of(node)} const {name} = {text};{comment}")
            self.names[id(node)] = name

    def name(self, node: Node) -> str:
        """How a statement refers to a node."""
        if node.kind == "const":
            return literal(node.payload[0], node.dtype)  # type: ignore[arg-type]
        return self.names[id(node)]

    def value(self, node: Node, lanes: bool) -> str:
        """The name, a uniform number spread over all lanes where the use needs lanes."""
        name = self.name(node)
        return f"all({name})" if lanes and self.single(node) else name

    def spell(self, node: Node) -> str:
        """The right-hand side of a node's statement."""
        text = self._spelled(node)
        if self.single(node) or node.dtype not in SHORT or (node.op == "cast" and node.args[0].dtype == "bool"):
            return text
        return f"wrapped<{ELEMENT_TYPES[node.dtype]}>({text})"

    def _spelled(self, node: Node) -> str:
        lanes = not self.single(node)
        if node.op == "cast":
            return self._cast(node, lanes)
        if _is_below_its_peak(node):
            # A fused multiply-add does not round the product as the peak was rounded: 1e30 apart where both are 1e37.
            each, peak = (self.value(arg, lanes) for arg in node.args)
            return f"math::minimum({each}, {peak}) - {peak}"
        primitive = PRIMITIVES[node.op]
        if not lanes:
            return primitive.element.format(*(self.name(arg) for arg in node.args))
        spread = not primitive.mixes or any(arg.dtype == "bool" for arg in node.args)
        operands = [self.value(arg, spread) for arg in node.args]
        if node.op in DIVISIONS and not dtypes.is_float(node.dtype) and not self.single(node.args[1]):
            operands[1] = f"nonzero({operands[1]})"
        if self.exact and primitive.exact and dtypes.computed_in(node.dtype) == "float32":
            return primitive.exact.format(*operands)
        if not primitive.lanes:
            return self._lanewise(primitive.element, node, operands)
        return self._masked(node, primitive.lanes, operands)

    def _masked(self, node: Node, text: str, operands: list[str]) -> str:
        """Comparisons of 8-byte lanes give 8-byte masks; bool is kept in 4-byte lanes and widened where it selects."""
        if node.op in COMPARISONS and any(arg.dtype in WIDE for arg in node.args):
            return f"narrow({text.format(*operands)})"
        if node.op in COMPARISONS and node.args[0].dtype == "bool":
            return text.format(*operands)
        if node.op == "select" and node.dtype in WIDE:
            operands[0] = f"widen({operands[0]})"
        return text.format(*operands)

    def _lanewise(self, element: str, node: Node, operands: list[str]) -> str:
        parameters = [chr(ord("a") + k) for k in range(len(operands))]
        declared = ", ".join(
            f"{ELEMENT_TYPES[arg.dtype]} {name}" for arg, name in zip(node.args, parameters, strict=True)
        )
        return f"lanewise([]({declared}) {{ return {element.format(*parameters)}; }}, {', '.join(operands)})"

    def _rounded(self, node: Node, lanes: bool, name: str) -> str:
        kind = STORED_TYPES[node.dtype]
        if not lanes:
            return f"static_cast<float>({kind}(static_cast<float>({name})))"
        if node.args[0].dtype in WIDE or node.args[0].dtype in ("bool", "int32"):
            name = f"convert<vfloat>({name}{' & 1' if node.args[0].dtype == 'bool' else ''})"
        if node.dtype in ("float16", "bfloat16"):
            return f"as_{node.dtype}({name})"
        return f"lanewise([](float a) {{ return float({kind}(a)); }}, {name})"

    def _cast(self, node: Node, lanes: bool) -> str:
        (arg,) = node.args
        name = self.value(arg, lanes)
        if node.dtype == "bool":
            zero = literal(0, arg.dtype)
            return f"narrow({name} != {zero})" if lanes and arg.dtype in WIDE else f"{name} != {zero}"
        if node.dtype in dtypes.NARROW:
            return self._rounded(node, lanes, name)
        kind = (LANE_TYPES if lanes else ELEMENT_TYPES)[node.dtype]
        if not lanes:
            return name if ELEMENT_TYPES[arg.dtype] == kind else f"static_cast<{kind}>({name})"
        if arg.dtype == "bool":
            return f"convert<{kind}>({name} & 1)"
        return name if LANE_TYPES[arg.dtype] == kind else f"convert<{kind}>({name})"


@dataclass(frozen=True)
class Reducer:
    """`join` combines two partial results `{0}` and `{1}`; `clause` is OpenMP's name for it, "" where it has none.

    `padded` says that lanes which repeat an element would change the result.
    """

    join: str
    clause: str
    padded: bool = False
    lanes: bool = True


REDUCERS: dict[str, Reducer] = {
    "sum": Reducer("{0} + {1}", "+", padded=True),
    "prod": Reducer("{0} * {1}", "*", padded=True),
    "amax": Reducer("math::maximum({0}, {1})", "nan_max"),
    "amin": Reducer("math::minimum({0}, {1})", "nan_min"),
    "any": Reducer("{0} | {1}", "||"),
    "all": Reducer("{0} & {1}", "&&"),
    "argmax": Reducer("", "", lanes=False),
    "argmin": Reducer("", "", lanes=False),
}

DECLARATIONS = {
    "nan_max": """
#pragma omp declare reduction(nan_max : float, double, bool, uint8_t, int8_t, int16_t, int32_t, int64_t \\
                              : omp_out = math::maximum(omp_out, omp_in)) initializer(omp_priv = omp_orig)
""",
    "nan_min": """
#pragma omp declare reduction(nan_min : float, double, bool, uint8_t, int8_t, int16_t, int32_t, int64_t \\
                              : omp_out = math::minimum(omp_out, omp_in)) initializer(omp_priv = omp_orig)
""",
}


def _is_below_its_peak(node: Node) -> bool:
    """Is this x - max(x) of a product x, which compilers would compute anew as one multiply-add?"""
    match node.op, node.args:
        case "sub", (Node(op="mul" | "div") as each, Node(kind="gathered", args=(Node(op="amax", args=(reduced,)),))):
            return reduced is each
    return False


def total_type(node: Node) -> str:
    """The type a row's result is accumulated in: sums of floats one size up, so that long rows lose nothing."""
    element = ELEMENT_TYPES[node.args[0].dtype]
    if node.op in ("sum", "prod"):
        # The type is also called like a function, which C++ allows for one word only: `long double(x)` does not parse.
        return {"float": "double", "double": "std::common_type_t<long double>"}.get(element, "int64_t")
    return element


def identity(node: Node, element: str) -> str:
    """The value that changes nothing, as a number of C++ type `element`."""
    if node.op in ("sum", "prod"):
        return f"{element}({0 if node.op == 'sum' else 1})"
    if node.op in ("any", "all"):
        return "false" if node.op == "any" else "true"
    lowest = node.op.endswith("max")
    if dtypes.is_float(node.args[0].dtype):
        return f"{'-' if lowest else ''}{element}(INFINITY)"
    return f"std::numeric_limits<{element}>::{'lowest' if lowest else 'max'}()"
