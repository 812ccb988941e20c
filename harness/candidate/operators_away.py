"""PyTorch's operators, taken away from a foreign module in PyTorch's own dispatcher.

There it does not matter by what name, from which language or through which handle one is called. It holds against what
the screen misses, as long as the module does not turn its own process inside out: then a clock, a comparison and an
answer that are elsewhere still tell whether the result is right, not who computed it.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Collection
from typing import Any

import torch

_DEVICES = ("CPU", "CUDA")
_LAYOUTS = tuple(
    layout + device
    for layout in ("Mkldnn", "Quantized", "Sparse", "SparseCsr", "NestedTensor")
    for device in _DEVICES
    if layout + device != "MkldnnCUDA"
)
"""Tensors of other layouts have products and all else of their own, dispatched beside those of plain ones."""
_HARMLESS = ("profiler",)


class OperatorTakenError(RuntimeError):
    """A module called an operator that it may not reach."""


class Operators:
    """PyTorch's own, as they were before anything foreign was imported; those that modules register stay theirs."""

    def __init__(self) -> None:
        self._names = [name.split("::", 1) for name in torch._C._dispatch_get_all_op_names()]
        self._held: list[Any] = []  # what is registered lasts as long as these
        self.refused = ""
        """The operator that was asked for in vain, the last one: an extension's error may no longer tell."""

    def take_away(self, kept: Collection[str]) -> None:
        """From here on all raise `OperatorTakenError`, but for those of these plain names on plain tensors."""
        libraries: dict[tuple[str, str], Any] = {}
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of kernels that are replaced: that is what this is for
            for space, name in self._names:
                base = name.partition(".")[0]
                if space in _HARMLESS:
                    continue
                taken = space != "aten" or base.lower().replace("_", "") not in kept
                for key in (*(_DEVICES if taken else ()), *_elsewhere(f"{space}::{name}")):
                    if (space, key) not in libraries:
                        libraries[space, key] = torch._C._dispatch_library("IMPL", space, key)
                    libraries[space, key].impl(name, key, self._refusal(f"{space}::{base}"))
        self._held += libraries.values()

    def _refusal(self, name: str) -> Callable[..., Any]:
        def refuse(*_: Any, **__: Any) -> Any:
            self.refused = name
            raise OperatorTakenError(
                f"{name} is PyTorch's own operator, and not among the elementary ones that a module may call."
            )

        return refuse


def _elsewhere(operator: str) -> list[str]:
    """The dispatch keys of other layouts for which an operator has a kernel of its own."""
    return [key for key in _LAYOUTS if torch._C._dispatch_has_kernel_for_dispatch_key(operator, key)]
