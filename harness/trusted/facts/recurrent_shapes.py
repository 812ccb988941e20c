"""Shapes of recurrent layers, without their steps: what tracing needs of them.

PyTorch finds them by walking all layers and steps in Python, 3072 of them for 6 layers and 512 steps. PyTorch 2.11 also
finds a dimension of 1 too many in the last states of an lstm on a GPU.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

import torch
from torch._decomp import decompositions
from torch._subclasses.fake_tensor import FakeTensor


@contextmanager
def without_steps() -> Iterator[None]:
    """While it lasts, layers of tensors without data are made of their shapes alone."""
    walked: Callable[..., tuple[torch.Tensor, Any]] = decompositions._rnn_helper

    def helper(x: torch.Tensor, hidden: Any, *rest: Any) -> tuple[torch.Tensor, Any]:
        """`rest` are parameters, biased, layers, dropout, train, both ways, batch first, and a layer's function."""
        both, batch_first = rest[5], rest[6]
        if not isinstance(x, FakeTensor):
            return walked(x, hidden, *rest)
        first = hidden[0][0] if isinstance(hidden[0], tuple) else hidden[0]
        steps, batch = (x.shape[1], x.shape[0]) if batch_first else x.shape[:2]
        out = x.new_empty((steps, batch, first.shape[-1] * (2 if both else 1)))
        return out.transpose(0, 1) if batch_first else out, list(hidden)

    with patch.object(decompositions, "_rnn_helper", helper):
        yield
