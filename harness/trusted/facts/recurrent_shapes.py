"""Shapes and products of recurrent layers, without their steps: what tracing, and counting FLOPs, need of them.

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
from torch._dispatch.python import enable_python_dispatcher
from torch._subclasses.fake_tensor import FakeTensor


@contextmanager
def without_steps() -> Iterator[None]:
    """While it lasts, layers of tensors without data are made of shapes alone, products of all steps at once."""
    walked: Callable[..., tuple[torch.Tensor, Any]] = decompositions._rnn_helper

    def helper(x: torch.Tensor, hidden: Any, *rest: Any) -> tuple[torch.Tensor, Any]:
        """`rest` are weights, biased, layers, dropout, train, both ways, batch first, and a layer's function."""
        weights, layers, ways, batch_first = rest[0], rest[2], 2 if rest[5] else 1, rest[6]
        if not isinstance(x, FakeTensor):
            return walked(x, hidden, *rest)
        first = hidden[0][0] if isinstance(hidden[0], tuple) else hidden[0]
        # Steps and batch, in either order, or both as one where the batch is packed.
        places: tuple[int, ...] = x.shape[:-1]
        if batch_first:
            places = (places[1], places[0])
        for layer in range(layers):
            for way in range(ways):
                _multiply(x, places, weights[layer * ways + way])
            x = x.new_empty((*places, first.shape[-1] * ways))
        return x.transpose(0, 1) if batch_first else x, list(hidden)

    with patch.object(decompositions, "_rnn_helper", helper):
        yield


@contextmanager
def by_shapes() -> Iterator[None]:
    """The same for operations that are called outside of a trace, all of them on tensors without data."""
    with without_steps(), enable_python_dispatcher():
        yield


def _multiply(like: torch.Tensor, places: tuple[int, ...], weights: tuple[torch.Tensor, ...]) -> None:
    """The products of one layer in one direction, of inputs and of states; biases are no products."""
    for weight in weights:
        if weight.ndim > 1:
            torch.nn.functional.linear(like.new_empty((*places, weight.shape[1])), weight)
