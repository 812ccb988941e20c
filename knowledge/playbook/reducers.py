"""How each reduction starts, takes in an element, and joins partial results, in C++."""

from __future__ import annotations

from dataclasses import dataclass

from knowledge.playbook import promotion
from knowledge.playbook.emission import ELEMENT_TYPES
from knowledge.playbook.expressions import Node


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
    if promotion.is_float(node.args[0].dtype):
        return f"{'-' if lowest else ''}{element}(INFINITY)"
    return f"std::numeric_limits<{element}>::{'lowest' if lowest else 'max'}()"
