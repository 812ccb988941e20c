"""The outputs in float64, computed after the candidate has run.

Temporaries in float64 of a large tensor cost more time than the arithmetic. A pointwise forward gives the same values a
few rows at a time, whose temporaries stay in the cache: so it is computed by rows, where those agree with what PyTorch
made of the whole.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import torch
from torch.overrides import TorchFunctionMode

from harness.checks.errors import one_thread, scaled_error
from harness.errors import UserError
from harness.task import OpClass
from harness.worker.reference import Reference, Value

PIECE = 1 << 17
"""Elements a piece has about: 1 MiB in float64."""
AGREES_EPS = 32.0
"""So many units of the type's last place PyTorch's own result on the whole may be away from the rows'."""


class Oracle:
    """A copy of a task's model that computes in float64."""

    def __init__(self, reference: Reference, op_class: OpClass) -> None:
        self._reference, self._model = reference, reference.double()
        self._pointwise = op_class == "elementwise" and reference.place.type == "cpu"
        self._kept: list[torch.Tensor] = []

    def run(
        self, inputs: list[Value], weights: dict[str, torch.Tensor], results: Sequence[torch.Tensor]
    ) -> list[torch.Tensor]:
        """The outputs, valid until the next call; empty where the forward cannot compute in float64.

        `results` are PyTorch's own on the same inputs.
        """
        self._reference.load(self._model, {name: _wide(weight) for name, weight in weights.items()})
        try:
            if self._pointwise and (rows := self._rows(inputs, results)):
                return rows
            return self._whole(inputs)
        except UserError:
            return []

    def forget(self) -> None:
        """Give back what is kept between calls."""
        self._kept = []

    def _whole(self, inputs: list[Value]) -> list[torch.Tensor]:
        wide = [_wide(value) if isinstance(value, torch.Tensor) else value for value in inputs]
        with _Double():
            return [_wide(output) for output in self._reference.run(wide, self._model)]

    def _rows(self, inputs: list[Value], results: Sequence[torch.Tensor]) -> list[torch.Tensor]:
        """The outputs, row by row; empty from the first time on that this cannot be done, or gave something else."""
        if self._kept:
            self._compute(inputs)
            return self._kept
        self._pointwise = _alike(inputs, results)
        if self._pointwise:
            self._kept = [torch.empty(result.shape, dtype=torch.float64) for result in results]
            try:
                self._compute(inputs)
            except (UserError, RuntimeError):  # it asks for the whole shape; a piece of another one does not fit
                self._pointwise = False
            else:
                self._pointwise = all(map(_agree, self._kept, results))
        if not self._pointwise:
            self._kept = []
        return self._kept

    def _compute(self, inputs: list[Value]) -> None:
        rows = self._kept[0].shape[0]
        step = max(1, PIECE * rows // self._kept[0].numel())
        parts = [slice(start, start + step) for start in range(0, rows, step)]
        with one_thread() as threads, ThreadPoolExecutor(threads) as pool:
            for done in [pool.submit(self._compute_some, inputs, parts[first::threads]) for first in range(threads)]:
                done.result()

    def _compute_some(self, inputs: list[Value], parts: Sequence[slice]) -> None:
        """Some of the rows; each thread has parts of its own, so that none waits for another."""
        for part in parts:
            cut = [value[part] if isinstance(value, torch.Tensor) else value for value in inputs]
            for kept, output in zip(self._kept, self._whole(cut), strict=True):
                kept[part] = output


class _Double(TorchFunctionMode):
    """Within a forward, float32 by name is float64: a norm that says `x.float()` would have no oracle otherwise.

    Narrower types stay: who rounds to them means it.
    """

    def __torch_function__(
        self, func: Callable[..., Any], types: object, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        """Called by torch for each function of the forward."""
        named = {name: _doubled(value) for name, value in (kwargs or {}).items()}
        return (torch.Tensor.double if func is torch.Tensor.float else func)(*map(_doubled, args), **named)


def _doubled(argument: Any) -> Any:
    return torch.float64 if argument is torch.float32 else argument


def _alike(inputs: Sequence[Value], results: Sequence[torch.Tensor]) -> bool:
    """Have all tensors one shape, of several pieces, and the results numbers with a fraction?"""
    shape = results[0].shape
    shapes = {value.shape for value in (*inputs, *results) if isinstance(value, torch.Tensor)}
    floating = all(result.is_floating_point() for result in results)
    return shapes == {shape} and floating and shape.numel() > PIECE and shape[0] > 1


def _agree(rows: torch.Tensor, result: torch.Tensor) -> bool:
    return scaled_error(rows, result) <= AGREES_EPS * torch.finfo(result.dtype).eps


def _wide(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.double() if tensor.is_floating_point() else tensor
