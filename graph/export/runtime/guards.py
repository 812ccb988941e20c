"""Whether a call's tensors are like those of an earlier one: asked of PyTorch's own guards, in half a microsecond."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch._C._dynamo import guards

_TENSOR_GUARDS: Any = getattr(guards, "TensorGuards", None)
Guard = Callable[..., bool]


def make_guard(tensors: Sequence[torch.Tensor]) -> Guard | None:
    """Called with other tensors: whether they have the same classes, types, shapes, strides, devices and wish for
    gradients, and whether the same modes are on (inference, autocast, dispatch modes, function transforms).

    None where PyTorch has no such guards: then each call is looked at anew.
    """
    if _TENSOR_GUARDS is None or not tensors:
        return None
    sizes, strides = [list(each.shape) for each in tensors], [list(each.stride()) for each in tensors]
    try:
        check: Guard = _TENSOR_GUARDS(*tensors, dynamic_dims_sizes=sizes, dynamic_dims_strides=strides).check
    except TypeError:
        return None
    return check if check(*tensors) else None
