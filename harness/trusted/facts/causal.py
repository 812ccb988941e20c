"""What a forward's products compute of scores that its own mask then throws away, as a causal mask does.

PyTorch spells both products of attention out in full. A mask that the forward makes itself, of no argument, is known to
a kernel's author, who leaves out what it hides; nobody can of a mask that comes with the inputs.
"""

from __future__ import annotations

from contextlib import suppress
from typing import Any, NamedTuple

import torch
from torch.utils._pytree import tree_leaves
from torch.utils.weak import WeakIdKeyDictionary

_ATEN = torch.ops.aten
_PRODUCTS = (_ATEN.bmm.default, _ATEN.mm.default)
_SOFTMAX, _EXP = (_ATEN._softmax.default,), (_ATEN.exp.default, _ATEN.exp_.default)
_FILLED = (_ATEN.masked_fill.Scalar, _ATEN.masked_fill.Tensor, _ATEN.masked_fill_.Scalar, _ATEN.masked_fill_.Tensor)
_ADDED = (_ATEN.add.Tensor, _ATEN.add_.Tensor)
_CHOSEN = (_ATEN.where.self, _ATEN.where.ScalarOther)
_TIMES = (_ATEN.mul.Tensor, _ATEN.mul_.Tensor)
_CUT = {_ATEN.tril.default: torch.tril, _ATEN.triu.default: torch.triu}
_SHAPED_LIKE = {name for kind in ("ones", "zeros", "full", "empty") for name in (f"{kind}_like", f"new_{kind}")}
_BIASED = (_ATEN._scaled_dot_product_efficient_attention.default, _ATEN._scaled_dot_product_cudnn_attention.default)
ATTENTION = (_ATEN._scaled_dot_product_flash_attention_for_cpu.default, *_BIASED)
"""Those that take a mask; all are counted in full where one is given."""
HIDDEN = -1e4
"""What is added to a score, or put in its place, hides it from here on."""


class _Scores(NamedTuple):
    """Of a product's result, and what was made of it element by element: its FLOPs, and what a mask has kept.

    `zero`: what is hidden is 0 by now, so that a product with it needs none of that.
    """

    flops: int
    kept: torch.Tensor | None = None
    zero: bool = False

    @property
    def hidden(self) -> float:
        """The share that was thrown away."""
        return 0.0 if self.kept is None else 1.0 - float(self.kept.float().mean())


class Hidden:
    """Sees a forward's operations as they run; `flops` are those that masks of its own make needless."""

    def __init__(self) -> None:
        self.flops = 0
        self._scores: Any = WeakIdKeyDictionary()
        self._free: Any = WeakIdKeyDictionary()

    def see(self, func: Any, args: tuple[Any, ...], named: dict[str, Any], result: Any) -> None:
        """One operation, which has just been run. What cannot be followed hides nothing: no count is worth a run."""
        with suppress(Exception):
            self._see(func, args, named, result)

    def _see(self, func: Any, args: tuple[Any, ...], named: dict[str, Any], result: Any) -> None:
        result = result[0] if isinstance(result, tuple) else result
        if not isinstance(result, torch.Tensor):
            return
        given = [each for each in tree_leaves((args, named)) if isinstance(each, torch.Tensor)]
        if func._opname in _SHAPED_LIKE or all(each in self._free for each in given):
            self._free[result] = True
        elif func in _PRODUCTS:
            self._multiply(given[0], given[1], result)
        elif func in ATTENTION:
            self._attend(given, named.get("attn_mask", args[3] if func in _BIASED else None))
        else:
            self._follow(func, args, given, result)

    def _multiply(self, left: torch.Tensor, right: torch.Tensor, result: torch.Tensor) -> None:
        flops = 2 * result.numel() * left.shape[-1]
        before = next((held for held in map(self._scores.get, (left, right)) if held and held.zero), None)
        if before is not None:
            self.flops += round(flops * before.hidden)
        self._scores[result] = _Scores(flops)

    def _attend(self, given: list[torch.Tensor], mask: torch.Tensor | None) -> None:
        query, key, value = given[:3]
        if mask is None or mask not in self._free:
            return
        kept = mask if mask.dtype == torch.bool else mask > HIDDEN
        flops = 2 * query[..., 0].numel() * key.shape[-2] * (query.shape[-1] + value.shape[-1])
        self.flops += round(flops * _Scores(0, kept).hidden)

    def _follow(self, func: Any, args: tuple[Any, ...], given: list[torch.Tensor], result: torch.Tensor) -> None:
        held = [self._scores[each] for each in given if each in self._scores]
        alike = len(held) == 1 and result.numel() == max(each.numel() for each in given)
        if not alike or result.ndim < 2:
            return
        (scores,) = held
        if scores.kept is None and (mask := self._mask(func, args, result)):
            kept, zero = mask
            scores = _Scores(scores.flops, kept, zero)
            self.flops += round(scores.flops * scores.hidden)
        elif func in _EXP or (func in _SOFTMAX and args[1] in (-1, result.ndim - 1)):
            scores = scores._replace(zero=scores.kept is not None)
        self._scores[result] = scores

    def _mask(self, func: Any, args: tuple[Any, ...], result: torch.Tensor) -> tuple[torch.Tensor, bool] | None:
        """What a mask of the forward's own keeps, and whether it puts zeros in the place of the rest."""
        if func in _CUT:
            return _CUT[func](torch.ones(result.shape[-2:], dtype=torch.bool), *args[1:2]), True
        first, *others = args[:3] if len(args) > 1 else (None,)
        if func in _FILLED and others[0] in self._free:
            return self._put(~others[0].bool(), others[1])
        if func in _CHOSEN and first in self._free:
            at = 0 if isinstance(others[0], torch.Tensor) and others[0] in self._scores else 1
            return self._put(first if at == 0 else ~first, others[1 - at])
        if func in _ADDED and others[0] in self._free and len(args) == 2:
            return (others[0] > HIDDEN, False) if bool((others[0] <= HIDDEN).any()) else None
        if func in _TIMES and isinstance(others[0], torch.Tensor) and others[0] in self._free:
            return others[0] != 0, True
        return None

    def _put(self, kept: torch.Tensor, value: Any) -> tuple[torch.Tensor, bool] | None:
        if isinstance(value, torch.Tensor):
            if value not in self._free or value.numel() != 1:
                return None
            value = value.item()
        return (kept, value == 0) if value == 0 or value <= HIDDEN else None
