"""What a forward does while it runs once: its FLOPs, the element types it computes in, whether it draws at random."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import ExitStack
from math import prod
from typing import Any, ClassVar

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves
from torch.utils.flop_counter import FlopCounterMode, flop_registry, shape_wrapper

from harness.nouns.task import DType
from harness.trusted.facts.causal import Hidden
from harness.trusted.reference import DTYPES

_ATEN = torch.ops.aten
_OFF = {"p": 0, "dropout_p": 0, "dropout": 0, "train": False, "training": False}
"""With such an argument an operation that could draw at random does not."""
_STATISTICS = (_ATEN.native_batch_norm.default, _ATEN.cudnn_batch_norm.default)
"""Operations that write running statistics in training, and count no write to them: here they do."""
_STRANGE_SEED = 0x5EED_CAFE


def _recurrent(steps: tuple[int, ...], inner: tuple[int, ...], hidden: tuple[int, ...], *_: Any, **__: Any) -> int:
    """One layer in one direction: both products of each step. `steps` is (time, batch, features)."""
    return 2 * steps[0] * steps[1] * (prod(inner) + prod(hidden))


def _distances(one: tuple[int, ...], other: tuple[int, ...], **_: Any) -> int:
    """Of P points to R others, as a product of matrices."""
    return 2 * prod(one) * other[-2]


def _attention(
    query: tuple[int, ...],
    key: tuple[int, ...],
    value: tuple[int, ...],
    _dropout: float = 0.0,
    is_causal: bool = False,
    **_: Any,
) -> int:
    """Both products of attention; causal ones without the keys behind a query, which nobody need look at."""
    queries, keys = query[-2], key[-2]
    triangle = min(queries, keys)
    pairs = triangle * (triangle + 1) // 2 + (queries - triangle) * keys if is_causal else queries * keys
    return 2 * prod(query[:-2]) * pairs * (query[-1] + value[-1])


def _biased_attention(
    query: tuple[int, ...],
    key: tuple[int, ...],
    value: tuple[int, ...],
    _bias: tuple[int, ...] | None,
    _keeps_sums: bool,
    _dropout: float = 0.0,
    is_causal: bool = False,
    **_: Any,
) -> int:
    return _attention(query, key, value, is_causal=is_causal)


FORMULAS: dict[Any, Callable[..., int]] = {
    _ATEN.mkldnn_rnn_layer: _recurrent,
    _ATEN._scaled_dot_product_flash_attention_for_cpu: _attention,
    _ATEN._scaled_dot_product_flash_attention: _attention,
    _ATEN._scaled_dot_product_efficient_attention: _biased_attention,
    _ATEN._scaled_dot_product_cudnn_attention: _biased_attention,
    _ATEN.mv: lambda matrix, _vector, **_: 2 * prod(matrix),
    _ATEN.addmv: lambda _added, matrix, _vector, **_: 2 * prod(matrix),
    _ATEN.dot: lambda vector, _other, **_: 2 * prod(vector),
    _ATEN._euclidean_dist: _distances,
}
"""Products that torch's own counter knows nothing of, or not in every form (keys for several query heads each, causal
ones). A multiply-add counts as two."""


def _unfailing(formula: Callable[..., int]) -> Callable[..., int]:
    """What a formula cannot follow counts as nothing: no count is worth the run that it is made in."""

    def count(*args: Any, **kwargs: Any) -> int:
        try:
            return formula(*args, **kwargs)
        except Exception:  # noqa: BLE001 (formulas assert, unpack and index)
            return 0

    count._get_raw = True  # type: ignore[attr-defined]  # it has its wrapper already
    return count


_OWN = {operation: shape_wrapper(formula) for operation, formula in FORMULAS.items()}  # type: ignore[no-untyped-call]
_COUNTED = {operation: _unfailing(formula) for operation, formula in (flop_registry | _OWN).items()}


def flop_counter() -> FlopCounterMode:
    """Around a forward, or one operation: counts the FLOPs of its products, convolutions and attention."""
    return FlopCounterMode(display=False, custom_mapping=_COUNTED)


class Watch:
    """Around a forward: `with watch: ...`, then the rest tells what it did."""

    def __init__(self) -> None:
        # The fused operations for attention in evaluation mode are one each: their parts can be counted, and traced.
        torch.backends.mha.set_fastpath_enabled(False)
        self._counter = flop_counter()
        self._counter.mod_tracker = _OneModule()  # type: ignore[assignment]
        self._operations = _Operations()
        self._seeds_itself = False

    def __enter__(self) -> Watch:
        torch.manual_seed(_STRANGE_SEED)
        self._held = ExitStack()
        self._held.enter_context(self._counter)
        self._held.enter_context(self._operations)
        return self

    def __exit__(self, *failure: Any) -> None:
        self._held.__exit__(*failure)
        self._seeds_itself = torch.initial_seed() != _STRANGE_SEED

    @property
    def flops(self) -> int:
        """Of products, convolutions and attention, without what a mask of the forward's own throws away."""
        return int(self._counter.get_total_flops()) - self._operations.hidden.flops

    @property
    def dtypes(self) -> tuple[DType, ...]:
        """Of everything that an operation gave, in the order of their names."""
        return tuple(sorted(DTYPES[dtype] for dtype in self._operations.dtypes if dtype in DTYPES))

    @property
    def drawn(self) -> str:
        """An operation that drew random numbers under nobody's seed; empty where there was none."""
        return "" if self._seeds_itself else self._operations.drawn


class _OneModule:
    """Tells no modules apart: the counter's own way hooks into gradients, and fails where they are asked of leaves."""

    parents: ClassVar = {"Global"}

    def __enter__(self) -> None: ...

    def __exit__(self, *failure: object) -> None: ...


class _Operations(TorchDispatchMode):  # type: ignore[no-untyped-call]
    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.dtypes: set[torch.dtype] = set()
        self.drawn = ""
        self.hidden = Hidden()

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        """Called by torch for each operation."""
        named = kwargs or {}
        result = func(*args, **named)
        self.hidden.see(func, args, named, result)
        if func in _STATISTICS and args[5]:
            torch.autograd.graph.increment_version([each for each in args[3:5] if each is not None])
        self.dtypes.update(part.dtype for part in tree_leaves(result) if isinstance(part, torch.Tensor))
        if not self.drawn and torch.Tag.nondeterministic_seeded in func.tags and draws(func, args, named):
            self.drawn = str(func._schema.name).removeprefix("aten::")
        return result


def draws(func: Any, args: tuple[Any, ...], named: Mapping[str, Any]) -> bool:
    """Whether an operation that can draws random numbers with these arguments, under nobody's generator."""
    declared = func._schema.arguments
    unsaid = {argument.name: argument.default_value for argument in declared if argument.has_default_value()}
    given = unsaid | dict(zip((argument.name for argument in declared), args, strict=False)) | dict(named)
    if given.get("generator") is not None:
        return False
    return all(given.get(name, None) != off for name, off in _OFF.items())
