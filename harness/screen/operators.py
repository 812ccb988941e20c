"""The operators that a task is about, by all the names under which PyTorch offers them."""

from __future__ import annotations

import ast
from functools import lru_cache

from harness.nouns.task import Task
from harness.screen.rules import words_of

# What moves, makes or describes tensors computes nothing; arithmetic is as free as its signs are.
_MOVES = words_of("""
    view reshape transpose permute t mt contiguous expand expandas unsqueeze squeeze flatten unflatten empty emptylike
    zeros zeroslike ones oneslike full fulllike to clone detach size shape slice select narrow cat stack chunk split
    unbind arange copy fill alias module parameter tensor float double int long item numel dim stride device dtype
    init super forward register registerbuffer buffer data nn functional f torch rand randn list range len sequential
    add sub mul div neg rsub subtract multiply divide
    modulelist getitem lift liftfresh detachcopy viewas scalartensor emptystrided newempty newzeros asstrided
    """)
_SYNONYMS = (
    # What computes with products inside stands in for one.
    "matmul mm bmm mv dot einsum addmm addmv baddbmm addbmm linear tensordot inner vdot vecdot multidot chainmatmul "
    "outer ger unsafematmul bilinear cdist kron cov corrcoef matrixpower scaleddotproductattention multiheadattention "
    "multiheadattentionforward lstm gru rnn lstmcell grucell rnncell conv1d conv2d conv3d convolution",
    "softmax softmin safesoftmax sparsesoftmax gumbelsoftmax logsoftmax safelogsoftmax logsumexp crossentropy "
    "crossentropyloss",
    "relu threshold clamp clip clampmin relu6 hardtanh",
    "sigmoid logsigmoid expit",
    "silu swish",
    "gelu",
    "sum nansum cumsum mean nanmean",
    "prod cumprod",
    "norm vectornorm matrixnorm linalgvectornorm frobeniusnorm normalize renorm",
    "max amax aminmax argmax cummax topk sort msort argsort kthvalue",
    "min amin aminmax argmin cummin topk sort msort argsort kthvalue",
    "var std varmean stdmean",
    "layernorm nativelayernorm",
    "rmsnorm fusedrmsnorm",
    "batchnorm batchnorm1d batchnorm2d batchnorm3d nativebatchnorm",
    "groupnorm nativegroupnorm",
    "instancenorm instancenorm1d instancenorm2d instancenorm3d",
    "conv1d conv2d conv3d convolution convtranspose1d convtranspose2d convtranspose3d",
    "scaleddotproductattention multiheadattention",
)
_GROUPS = tuple(frozenset(group.split()) for group in _SYNONYMS)


def plain(name: str) -> str:
    """A name without case and underscores: `LogSoftmax`, `log_softmax_` and `_log_softmax` are one."""
    return name.lower().replace("_", "")


def operators_of(task: Task) -> frozenset[str]:
    """Plain names of what the reference computes with, from its trace and from its own text, synonyms included."""
    traced = (op.target.split(".")[1] for op in task.program.ops if op.target.count(".")) if task.program else ()
    found = {plain(name) for name in traced} | _written(task.source)
    found -= _MOVES
    return frozenset(found.union(*(group for group in _GROUPS if group & found)))


@lru_cache(maxsize=64)
def _written(source: str) -> frozenset[str]:
    """Names of attributes and constructors in the reference's classes."""
    classes = [node for node in ast.parse(source).body if isinstance(node, ast.ClassDef)]
    inside = [node for each in classes for node in ast.walk(each)]
    products = {"matmul"} if any(isinstance(node, ast.MatMult) for node in inside) else set()
    called = (node.func.attr for node in inside if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute))
    return frozenset({plain(name) for name in called} | products)
