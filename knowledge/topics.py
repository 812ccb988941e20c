"""What a task is made of, as far as it decides which parts of the guides its authors need."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from typing import Literal

from harness.nouns.aten import of_kinds
from harness.nouns.task import OpClass, Program, Task, TensorSpec, TracedOp

Topic = Literal[
    "products", "functions", "erf", "windows", "selection", "attention", "scans", "narrow weights"
]  # fmt: skip

_ERF = frozenset(("erf", "erfc", "special_erf", "special_erfc", "gelu"))
_SOFTMAX = frozenset(("softmax", "_softmax", "_safe_softmax", "log_softmax", "_log_softmax"))
_OTHERS = """
    exp exp2 expm1 log log2 log10 log1p pow sin cos tan asin acos atan sinh cosh tanh asinh acosh atanh arcsin arccos
    arctan arcsinh arccosh arctanh atan2 arctan2 erfinv special_erfinv special_exp2 special_expm1 special_log1p lgamma
    digamma polygamma elu selu celu silu sigmoid mish softplus log_sigmoid log_sigmoid_forward logit xlogy logaddexp
    glu logsumexp logcumsumexp kl_div binary_cross_entropy binary_cross_entropy_with_logits soft_margin_loss
    poisson_nll_loss cross_entropy_loss"""
_FUNCTIONS = _ERF | _SOFTMAX | frozenset(_OTHERS.split())
"""Operations that are calls of a library unless a kernel brings a function of its own."""

_PRODUCTS = of_kinds("product")
_CONVOLUTIONS = of_kinds("convolution")
_OPERATIONS: dict[Topic, frozenset[str]] = {
    "products": _PRODUCTS | of_kinds("attention", "recurrence"),
    "functions": of_kinds("attention", "recurrence") | _FUNCTIONS,
    "erf": _ERF,
    "windows": of_kinds("window"),
    "selection": of_kinds("sort"),
    "attention": of_kinds("attention"),
    "scans": of_kinds("scan"),
}
_FEW = 4
"""So many outputs of each group of a convolution, or fewer, are no product worth a tile."""

_OF_A_CLASS: dict[OpClass, frozenset[Topic]] = {
    "gemm": frozenset(("products",)),
    "elementwise": frozenset(("functions",)),
    "reduction": frozenset(("functions",)),
    "other": frozenset(("products", "functions")),
}
_IN_SOURCES: dict[Topic, re.Pattern[str]] = {
    "erf": re.compile(r"\berfc?\b|\bgelu\b", re.IGNORECASE),
    "windows": re.compile(r"\bgroups\s*=|depthwise|pool[123]d\b", re.IGNORECASE),
    "selection": re.compile(r"\b(topk|arg|m)?sort\b|\btopk\b|\bkthvalue\b|\b(nan)?median\b"),
    "attention": re.compile(r"attention", re.IGNORECASE),
    "scans": re.compile(r"\b(log)?cum(sum|prod|max|min|sumexp)\b"),
}
"""What tells these topics where a task was not traced."""


def topics_of(task: Task) -> frozenset[Topic]:
    """The topics of a task's operations; where it was not traced, those of its class and those its source names."""
    if task.program is None:
        named = (topic for topic, pattern in _IN_SOURCES.items() if pattern.search(task.source))
        return _OF_A_CLASS[task.op_class].union(named)
    found = {topic for op in task.program.ops for topic in _topics(op)}
    more: tuple[tuple[Topic, bool], ...] = (
        ("attention", _attends(task.program)), ("narrow weights", _multiplies_bytes(task, task.program)),
    )  # fmt: skip
    return frozenset(found | {topic for topic, there in more if there})


def functions_of(program: Program | None) -> Mapping[str, int]:
    """The functions that a traced task computes, each with the elements of its results; empty where not traced."""
    found: dict[str, int] = {}
    for op in program.ops if program else ():
        name = _name(op)
        if name in _FUNCTIONS:
            found[name] = found.get(name, 0) + math.prod(op.results[0].shape)
    return found


def _topics(op: TracedOp) -> set[Topic]:
    name = _name(op)
    topics = {topic for topic, operations in _OPERATIONS.items() if name in operations}
    if name in _CONVOLUTIONS:
        topics.add("windows" if _is_depthwise(op) else "products")
    if name == "gelu" and op.kwargs.get("approximate") == "tanh":
        topics.discard("erf")
    return topics


def _name(op: TracedOp) -> str:
    return op.target.split(".")[1]


def _is_depthwise(op: TracedOp) -> bool:
    """Whether each group of a convolution's channels makes but a few of its outputs."""
    at = 8 if _name(op) == "convolution" else 6
    groups = op.args[at] if len(op.args) > at else op.kwargs.get("groups", 1)
    if not isinstance(groups, int) or groups == 1:
        return False
    shape = op.results[0].shape
    dimensions = int(_name(op)[-2]) if _name(op).endswith("d") else len(shape) - 2
    return shape[-1 - dimensions] <= _FEW * groups


def _attends(program: Program) -> bool:
    """Whether a softmax stands between two products, as where attention is written out."""
    names = [_name(op) for op in program.ops]
    at = next((place for place, name in enumerate(names) if name in _SOFTMAX), len(names))
    return bool(_PRODUCTS.intersection(names[:at]) and _PRODUCTS.intersection(names[at:]))


def _multiplies_bytes(task: Task, program: Program) -> bool:
    """Whether matrices of bytes, or of pairs of four bits, stand beside a product."""
    tensors = (spec for spec in (*task.signature.inputs, *task.signature.parameters) if isinstance(spec, TensorSpec))
    bytes_of = any(spec.dtype in ("int8", "uint8") and len(spec.shape) > 1 for spec in tensors)
    return bytes_of and not _PRODUCTS.isdisjoint(program.names)
