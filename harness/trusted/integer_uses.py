"""What a forward does with its integers: which values it treats as special, and whether equal ones are ambiguous.

And which of its tensors, integers or not, it takes for sorted.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from itertools import product
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from harness.checks.discrete import MANY
from harness.nouns.aten import ALONG_AN_AXIS

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
_COMPUTING = (
    _ATEN.mul, _ATEN.remainder, _ATEN.fmod, _ATEN.floor_divide, _ATEN.bitwise_and, _ATEN.bitwise_xor,
    _ATEN.bitwise_right_shift, _ATEN.__rshift__, _ATEN.__and__, _ATEN.__xor__,
)  # fmt: skip
_COMPARING = {
    _ATEN.eq: (0,), _ATEN.ne: (0,), _ATEN.remainder: (0,), _ATEN.fmod: (0,), _ATEN.floor_divide: (0,),
    _ATEN.ge: (0, -1), _ATEN.lt: (0, -1), _ATEN.gt: (1, 0), _ATEN.le: (1, 0),
}  # fmt: skip
"""Operators that tell numbers apart by one of their own, and how much more than that the first of another kind is."""
_FOLLOWING = (
    _ATEN.add, _ATEN.add_, _ATEN.sub, _ATEN.sub_, _ATEN.where, _ATEN.clone, _ATEN.abs, _ATEN._to_copy, _ATEN.copy_,
    _ATEN.clamp, _ATEN.clamp_min, _ATEN.clamp_max, _ATEN.maximum, _ATEN.minimum,
)  # fmt: skip
"""Operators whose result is nearly an operand: what it is compared with, the operand is."""
_AS_FRACTIONS = (*_FOLLOWING, _ATEN.div, _ATEN.mul)
"""... and those whose result a logarithm of the operand may be taken of."""
_LOGARITHMS = (_ATEN.log, _ATEN.log2, _ATEN.log10, _ATEN.log1p)
_NEIGHBOURS = (
    _ATEN.slice, _ATEN.select, _ATEN.split, _ATEN.split_with_sizes, _ATEN.unbind, _ATEN._local_scalar_dense,
    _ATEN.unfold, _ATEN.as_strided, _ATEN._embedding_bag, _ATEN._embedding_bag_forward_only, _ATEN.segment_reduce,
    _ATEN.searchsorted, _ATEN.bucketize, _ATEN.unique_consecutive, _ATEN._unique2, _ATEN._pack_padded_sequence,
    _ATEN.cummax,
)  # fmt: skip
"""Operators that may take an element together with the one before it: to them ascending numbers are limits."""
_FOLLOWED = 1 << 20
"""Bytes of such a result at most; they are kept until the run ends, so that no address is used twice."""
_FARTHEST = 1 << 31
_STEERING = (_ATEN._local_scalar_dense, _ATEN.repeat_interleave, _ATEN.bincount, _ATEN.histc)
"""Operators that give numbers a say in sizes and steps: large ones would ask for memory, or for ever."""
_SOUGHT = {_ATEN.searchsorted: "sorted_sequence", _ATEN.bucketize: "boundaries"}
"""Operators that promise nothing unless this argument ascends, and do not look whether it does."""


class IntegerUses(TorchDispatchMode):
    """Watches one run. `own`: by the storage of a tensor of integers the values that operators single out in it.
    `compared`: values on both sides of numbers that it, or what follows from it, is compared with; `turns`: for each
    such number where a counter would come to the other side.

    `extents`: how many places the tables have that a tensor names places of. `computed`: the tensors that are
    multiplied or divided as whole numbers. `steered`: some number decided about sizes or steps. `ordered`: the tensors
    whose rows have to ascend; `limits`: those that may have to. `apart`: by two tensors the numbers that their
    difference is compared with. `logged`: of what follows from these a logarithm is taken.
    """

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.own: defaultdict[int, set[int]] = defaultdict(set)
        self.extents: dict[int, int] = {}
        self.computed: set[int] = set()
        self.steered = False
        self.ordered: set[int] = set()
        self.compared: defaultdict[int, set[int]] = defaultdict(set)
        self.turns: defaultdict[int, set[int]] = defaultdict(set)
        self.apart: defaultdict[tuple[int, ...], set[int]] = defaultdict(set)
        self.limits: set[int] = set()
        self.logged: set[int] = set()
        self._chooses = False
        self._clashes: list[bool | None] = []
        self._differences: dict[int, set[tuple[int, ...]]] = {}
        self._sources: dict[int, frozenset[int]] = {}
        self._kept: list[torch.Tensor] = []

    def __torch_dispatch__(
        self, function: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        """Run the operator and note what it says of its integers."""
        given = {argument.name: argument.default_value for argument in function._schema.arguments}
        given |= dict(zip(given, args, strict=False)) | (kwargs or {})
        self._chooses |= _is_ambiguous(function, given)
        self.steered |= function.overloadpacket in _STEERING
        if (sought := _SOUGHT.get(function.overloadpacket)) and given.get("sorter") is None:
            self.ordered.add(given[sought].untyped_storage().data_ptr())
        for tensor, extent in _named(function.overloadpacket, given):
            at = tensor.untyped_storage().data_ptr()
            self.extents[at] = min(extent, self.extents.get(at, extent))
        special = {given[name] for name in _OWN if isinstance(given.get(name), int)} - {-1}
        for tensor in tree_leaves(given) if special else ():
            if _is_whole(tensor):
                self.own[tensor.untyped_storage().data_ptr()] |= special
        packet = function.overloadpacket
        self._compare(packet, given)
        result = function(*args, **(kwargs or {}))
        if packet in _WRITING and "src" in given and "reduce" not in given:
            self._clashes.append(_clashes(result, given["dim"], given["index"], given["src"]))
        sources = [self._sources_of(each) for each in tree_leaves(given)]
        every = frozenset[int]().union(*sources)
        self.limits |= every if packet in _NEIGHBOURS else frozenset()
        self.logged |= every if packet in _LOGARITHMS else frozenset()
        if packet in (_FOLLOWING if _is_whole(result) else _AS_FRACTIONS) and result.nbytes <= _FOLLOWED:
            self._kept.append(result)
            at = result.untyped_storage().data_ptr()
            self._sources[at] = every | {at} if _is_whole(result) else every
            told = [each for each in sources if each] if packet is _ATEN.sub else []
            self._differences[at] = {*product(*told)} if len(told) == 2 else self._differences_of(given)
        if function.overloadpacket in _COMPUTING and _is_whole(result):
            self.computed |= {each.untyped_storage().data_ptr() for each in tree_leaves(given) if _is_whole(each)}
        return result

    @property
    def ambiguous(self) -> bool:
        """Whether some operator's result depends on which of equal indices comes first, as PyTorch leaves open."""
        return self._chooses or bool(self._clashes)

    @property
    def writes(self) -> bool:
        """Whether that is so for what is scattered alone."""
        return bool(self._clashes) and not self._chooses

    @property
    def agrees(self) -> bool:
        """Whether some of that was written to one place, each time the same value."""
        return self.writes and any(each is not None for each in self._clashes) and not any(self._clashes)

    def _compare(self, packet: Any, given: dict[str, Any]) -> None:
        number, apart = given.get("other"), _COMPARING.get(packet, ())
        if type(number) is int and apart and _is_whole(given["self"]):
            for source in self._sources_of(given["self"]):
                self.compared[source] |= {number + each for each in apart}
                self.turns[source].add(number + apart[0])
            for pair in self._differences_of(given):
                self.apart[pair] |= {number + each for each in apart}

    def _differences_of(self, given: dict[str, Any]) -> set[tuple[int, ...]]:
        tensors = (each for each in tree_leaves(given) if isinstance(each, torch.Tensor))
        return set[tuple[int, ...]]().union(
            *(self._differences.get(each.untyped_storage().data_ptr(), ()) for each in tensors)
        )

    def _sources_of(self, value: object) -> frozenset[int]:
        """The storages of the tensors of integers that one follows from, its own among them."""
        if not isinstance(value, torch.Tensor):
            return frozenset()
        at = value.untyped_storage().data_ptr()
        return self._sources.get(at, frozenset({at}) if _is_whole(value) else frozenset())


def due(turns: Iterable[int]) -> int:
    """A number of steps after which each of these turns has come, or comes round; `MANY` where that is too far."""
    steps = math.lcm(*(each for each in turns if each > 1))
    return steps if 1 < steps <= _FARTHEST else MANY


def _named(packet: Any, given: dict[str, Any]) -> Iterator[tuple[torch.Tensor, int]]:
    """Tensors that name places of a table in an operator, and how many that has."""
    if packet.__name__.removesuffix("_") in ALONG_AN_AXIS and given["self"].ndim:
        yield given["index"], given["self"].shape[given["dim"]]
    elif packet is _ATEN.embedding:
        yield given["indices"], given["weight"].shape[0]
    elif packet is _ATEN.nll_loss_forward:
        yield given["target"], given["self"].shape[-1]
    elif packet is _ATEN._ctc_loss:
        yield given["targets"], given["log_probs"].shape[-1]
    elif packet is _ATEN.index or packet in _PUTTING:
        for axis, index in enumerate(given["indices"]):
            if _is_whole(index):
                yield index, given["self"].shape[axis]


def _is_whole(value: object) -> bool:
    whole = isinstance(value, torch.Tensor) and not value.is_floating_point()
    return whole and value.dtype != torch.bool  # type: ignore[attr-defined]


def _clashes(result: torch.Tensor, dim: int, index: torch.Tensor, src: torch.Tensor) -> bool | None:
    """Whether a scatter wrote different values to one place; None where it wrote to none twice."""
    many = torch.zeros_like(result, dtype=torch.int32).scatter_add_(
        dim, index, torch.ones_like(index, dtype=torch.int32)
    )
    if int(many.max()) < 2:
        return None
    return not torch.equal(result.gather(dim, index), src[tuple(map(slice, index.shape))])


def _is_ambiguous(function: Any, given: dict[str, Any]) -> bool:
    packet = function.overloadpacket
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
