"""What a task is made of, as far as it decides which parts of the guides its authors need."""

from __future__ import annotations

from typing import Literal

from harness.nouns.aten import of_kinds
from harness.nouns.task import OpClass, Task

Topic = Literal["products", "functions"]

_FUNCTIONS = """
    exp exp2 expm1 log log2 log10 log1p pow sin cos tan asin acos atan sinh cosh tanh asinh acosh atanh arcsin arccos
    arctan arcsinh arccosh arctanh atan2 arctan2 erf erfc erfinv special_erf special_erfc special_erfinv special_exp2
    special_expm1 special_log1p lgamma digamma polygamma elu selu celu gelu silu sigmoid mish softplus log_sigmoid
    log_sigmoid_forward logit xlogy logaddexp glu softmax _softmax _safe_softmax log_softmax _log_softmax logsumexp
    logcumsumexp kl_div binary_cross_entropy binary_cross_entropy_with_logits soft_margin_loss poisson_nll_loss
    cross_entropy_loss"""
"""Operations that are calls of a library unless a kernel brings a function of its own."""

_OPERATIONS: dict[Topic, frozenset[str]] = {
    "products": of_kinds("product", "convolution", "attention", "recurrence"),
    "functions": of_kinds("attention", "recurrence") | frozenset(_FUNCTIONS.split()),
}

_OF_A_CLASS: dict[OpClass, frozenset[Topic]] = {
    "gemm": frozenset(("products",)),
    "elementwise": frozenset(("functions",)),
    "reduction": frozenset(("functions",)),
    "other": frozenset(_OPERATIONS),
}


def topics_of(task: Task) -> frozenset[Topic]:
    """The topics of a task's operations; where it was not traced, those of its class."""
    if task.program is None:
        return _OF_A_CLASS[task.op_class]
    names = task.program.names
    return frozenset(topic for topic, operations in _OPERATIONS.items() if names & operations)
