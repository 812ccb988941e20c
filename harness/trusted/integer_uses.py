"""What a forward does with its integers: which values it treats as special, and whether equal ones are ambiguous."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

_ATEN = torch.ops.aten
_CHOOSING = (
    _ATEN.sort, _ATEN.argsort, _ATEN.topk, _ATEN.argmax, _ATEN.argmin, _ATEN.median, _ATEN.mode, _ATEN.kthvalue,
    _ATEN._unique2, _ATEN.unique_dim, _ATEN.index_copy, _ATEN.index_copy_, _ATEN.put, _ATEN.put_,
)  # fmt: skip
"""Operators whose results follow from the order of equals."""
_WRITING = (_ATEN.scatter, _ATEN.scatter_)
_PUTTING = (_ATEN.index_put, _ATEN.index_put_, _ATEN._index_put_impl_, _ATEN._unsafe_index_put)
_EXTREME = (_ATEN.max, _ATEN.min)
_OWN = ("ignore_index", "padding_idx")


class IntegerUses(TorchDispatchMode):
    """Watches one run. `own`: by the storage of a tensor of integers the values that operators single out in it.

    `ambiguous`: some operator's result depends on which of equal indices comes first, as PyTorch leaves open.
    """

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.own: defaultdict[int, set[int]] = defaultdict(set)
        self.ambiguous = False

    def __torch_dispatch__(
        self, function: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        """Run the operator and note what it says of its integers."""
        given = {argument.name: argument.default_value for argument in function._schema.arguments}
        given |= dict(zip(given, args, strict=False)) | (kwargs or {})
        self.ambiguous |= _is_ambiguous(function, given)
        special = {given[name] for name in _OWN if isinstance(given.get(name), int)} - {-1}
        for tensor in tree_leaves(given) if special else ():
            if _is_whole(tensor):
                self.own[tensor.untyped_storage().data_ptr()] |= special
        return function(*args, **(kwargs or {}))


def _is_whole(value: object) -> bool:
    whole = isinstance(value, torch.Tensor) and not value.is_floating_point()
    return whole and value.dtype != torch.bool  # type: ignore[attr-defined]


def _is_ambiguous(function: Any, given: dict[str, Any]) -> bool:
    packet = function.overloadpacket
    if packet in _WRITING:
        return "src" in given and "reduce" not in given
    if packet in _PUTTING:
        several = given["values"].numel() > 1
        return several and not given["accumulate"] and any(map(_is_whole, given["indices"]))
    return packet in _CHOOSING or (packet in _EXTREME and "dim" in given)


def watch(run: Callable[[], object]) -> IntegerUses:
    """What a run does with integers; nothing is known of one that fails."""
    uses = IntegerUses()
    try:
        with uses:
            run()
    except Exception:  # noqa: BLE001 (a forward may refuse to be watched in whatever way)
        return IntegerUses()
    return uses
