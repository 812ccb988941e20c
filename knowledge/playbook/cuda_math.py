"""Cheaper spellings of float32 arithmetic for GPUs: one or two roundings more, right at the special values.

| arithmetic | spelled | why that is right |
|---|---|---|
| x / c | x * (1 / c) | two roundings instead of one; 1 / c is a normal number |
| x / y, y >= 1 | x * reciprocal(y) | the special function unit is right to 1 ulp, and 1 / y cannot overflow |
| 1 / y, y >= 1 | reciprocal(y) | the same |

IEEE division takes eight instructions and a branch instead, which a kernel bound by memory hides only in part.
"""

from __future__ import annotations

from knowledge.playbook.emission import Emitter, literal
from knowledge.playbook.expressions import Node

HELPERS = {
    "reciprocal": """
// 1 / y for y >= 1, to one unit of the last place (beyond 2^126, where it is denormal, to four).
__device__ inline float reciprocal(float y) {
  float result;
  asm("rcp.approx.f32 %0, %1;" : "=f"(result) : "f"(y));
  return result;
}
"""
}
# Divisors whose reciprocal is a normal number, with room for what is multiplied.
LARGEST_DIVISOR = 2.0**100


class CheaperEmitter(Emitter):
    """Spells divisions in the cheaper way where there is one."""

    def spell(self, node: Node) -> str:
        """The right-hand side of a node's statement."""
        return _cheaper(node, self) or super().spell(node)


def has_cheaper(node: Node) -> bool:
    """Whether the node's statement has a cheaper spelling."""
    return node.op == "div" and node.dtype == "float32" and (_near(node.args[1]) or _at_least_one(node.args[1]))


def _cheaper(node: Node, emitter: Emitter) -> str:
    if not has_cheaper(node):
        return ""
    above, below = node.args
    if below.kind == "const":
        inverse = literal(1 / float(below.payload[0]), node.dtype)
    else:
        inverse = f"math::reciprocal({emitter.name(below)})"
    one = above.kind == "const" and above.payload[0] == 1
    return inverse if one else f"{emitter.name(above)} * {inverse}"


def _near(node: Node) -> bool:
    """Whether it is a number with a reciprocal that loses nothing."""
    return node.kind == "const" and 1 / LARGEST_DIVISOR <= abs(float(node.payload[0])) <= LARGEST_DIVISOR


def _at_least_one(node: Node) -> bool:
    """Whether a value is 1 or more wherever it is a number."""
    if node.kind == "const":
        return float(node.payload[0]) >= 1
    grows = node.op == "maximum" or (node.op == "add" and all(map(_never_negative, node.args)))
    return grows and any(map(_at_least_one, node.args))


def _never_negative(node: Node) -> bool:
    """Whether a value is 0 or more wherever it is a number."""
    if node.kind == "const":
        return float(node.payload[0]) >= 0
    if node.op == "mul" and node.args[0] is node.args[1]:
        return True
    grows = node.op == "add" and all(map(_never_negative, node.args))
    return grows or node.op in ("exp", "exp2", "abs", "sqrt")
