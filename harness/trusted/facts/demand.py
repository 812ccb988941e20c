"""Which inputs a forward provably reads as a whole, told from its traced program.

From the outputs backwards: where all is needed that an operation on the lists below gives, so is all that it takes.
Any other may leave a share of its operands unread: a choice of rows, one side of a `where`, gaps between windows.
"""

from __future__ import annotations

from typing import Any

import torch

from harness.nouns.task import Argument, Program, Ref, Signature, TensorSpec, TracedOp

_READS_ALL = frozenset({
    "view", "reshape", "unsqueeze", "squeeze", "permute", "transpose", "t", "alias", "clone", "contiguous", "detach",
    "flatten", "_unsafe_view", "expand", "movedim", "numpy_T", "unflatten", "to", "_to_copy", "lift_fresh_copy",
    "flip", "roll", "repeat", "cat", "stack", "chunk", "split", "split_with_sizes", "unbind", "diag_embed",
    "mm", "bmm", "mv", "dot", "matmul", "addmm", "addmv", "baddbmm", "linear", "outer", "einsum",
    "sum", "mean", "var", "var_mean", "std", "std_mean", "norm", "linalg_vector_norm", "logsumexp", "cumsum",
    "amax", "amin", "max", "min", "argmax", "argmin", "sort", "topk", "prod", "cumprod",
    "softmax", "_softmax", "log_softmax", "_log_softmax", "layer_norm", "native_layer_norm", "rms_norm", "group_norm",
    "instance_norm", "_native_batch_norm_legit_no_training", "mse_loss", "smooth_l1_loss", "huber_loss",
    "adaptive_avg_pool1d", "adaptive_avg_pool2d", "adaptive_avg_pool3d",
})  # fmt: skip
"""Operations whose every result depends on every element of every operand, or moves it somewhere."""
_PICKS = frozenset({"where", "masked_fill", "tril", "triu", "dropout", "native_dropout", "fill", "copy"})
"""Pointwise by torch's account, and yet they leave elements out."""
_STATISTICS = ("native_layer_norm", "native_group_norm")
"""Where only their means and deviations are needed, as in a backward, nobody reads weight and bias."""
_APART = frozenset({"chunk", "split", "split_with_sizes", "unbind"})
"""Each of their results is a part of the operand: it is read whole where all are needed."""


def whole_reads(program: Program, signature: Signature, *, one_shape: bool) -> tuple[str, ...]:
    """Names of the inputs and parameters of which no kernel can leave a part unread.

    Windows are told by their sizes: unless there is but `one_shape`, nothing is told of what they read.
    """
    given = {spec.name: spec for spec in (*signature.inputs, *signature.parameters) if isinstance(spec, TensorSpec)}
    shapes = given | {result.name: result for op in program.ops for result in op.results}
    taken = {ref for op in program.ops for ref in _refs(op)} | {*program.outputs}
    needed = set(program.outputs)
    for op in reversed(program.ops):
        mattering = {result.name for result in op.results} & (shapes.keys() if _name(op) in _APART else taken)
        if mattering and mattering <= needed:
            read = _read(op, shapes if one_shape else {})
            needed.update(read[:1] if _name(op) in _STATISTICS and op.results[0].name not in taken else read)
    return tuple(name for name in given if name in needed)


def _read(op: TracedOp, shapes: dict[str, TensorSpec]) -> list[str]:
    """What of its operands an operation reads whole, where all that it gives is needed."""
    name, given = _name(op), _bound(op)
    if name in ("where", "masked_fill"):
        mask = given.get("condition", given.get("mask"))
        return [mask.ref] if isinstance(mask, Ref) else []
    if name.startswith(("conv", "max_pool", "avg_pool")):
        return _windowed(given, shapes) if "transpose" not in name and not given.get("transposed") else []
    if name == "batch_norm":
        return [] if given["training"] else _refs(op)
    return _refs(op) if name in _READS_ALL or (name not in _PICKS and _is_pointwise(op)) else []


def _windowed(given: dict[str, Argument], shapes: dict[str, TensorSpec]) -> list[str]:
    """The input of a convolution or a pool where no window skips or leaves an element out, and all weights are met."""
    source, weight = (given.get(name) for name in ("input" if "input" in given else "self", "weight"))
    if not isinstance(source, Ref) or source.ref not in shapes:
        return []
    window = shapes[weight.ref].shape[2:] if isinstance(weight, Ref) else _numbers(given["kernel_size"], 0)
    axes = len(window)
    extents = shapes[source.ref].shape[-axes:]
    strides = _numbers(given.get("stride") or (window if weight is None else (1,)), axes)
    padding = (0,) if given.get("padding") in (None, "valid") else given["padding"]
    paddings = _numbers(padding, axes)
    plain = set(_numbers(given.get("dilation", (1,)), axes)) == {1}
    if not (plain and len(extents) == len(strides) == len(paddings) == axes):
        return []
    met = all(map(_meets, extents, window, strides))
    covers = all(map(_covers, extents, window, strides, paddings))
    weights = [each.ref for each in (weight, given.get("bias")) if isinstance(each, Ref)]
    return [source.ref] * covers + weights * met


def _covers(extent: int, window: int, stride: int, padding: int) -> bool:
    """Whether every element along an axis lies in some window."""
    return stride <= window and (extent + 2 * padding - window) % stride <= padding


def _meets(extent: int, window: int, stride: int) -> bool:
    """Whether some window lies inside as a whole."""
    return extent - window + 1 >= stride


def _numbers(argument: Argument, axes: int) -> tuple[int, ...]:
    values = argument if isinstance(argument, tuple) else (argument,) * axes
    numbers = tuple(value for value in values if isinstance(value, int))
    return numbers * axes if len(numbers) == 1 and axes else numbers


def _bound(op: TracedOp) -> dict[str, Argument]:
    """The arguments by their names in the operation's schema."""
    return dict(zip((each.name for each in _overload(op)._schema.arguments), op.args, strict=False)) | op.kwargs


def _refs(op: TracedOp) -> list[str]:
    atoms = [each if isinstance(each, tuple) else (each,) for each in (*op.args, *op.kwargs.values())]
    return [atom.ref for several in atoms for atom in several if isinstance(atom, Ref)]


def _overload(op: TracedOp) -> Any:
    _, name, overload = op.target.split(".")
    return getattr(getattr(torch.ops.aten, name), overload)


def _is_pointwise(op: TracedOp) -> bool:
    return torch.Tag.pointwise in _overload(op).tags


def _name(op: TracedOp) -> str:
    return op.target.split(".")[1].rstrip("_")
