"""What a kernel can be called with, and why it cannot take a value."""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch._subclasses.fake_tensor import FakeTensor
from torch._subclasses.functional_tensor import FunctionalTensor

ALIGNMENT = 64
"""Bytes: every tensor that a kernel is given begins at a multiple."""
PLAIN = frozenset({torch.Tensor, torch.nn.Parameter})
NUMBERS = frozenset({int, float, bool})
_TRACED = (FakeTensor, FunctionalTensor)


class View(NamedTuple):
    """Where an output lies within the argument `of`: strides and offset in elements; `detached`: without gradients."""

    of: str
    strides: tuple[int, ...]
    offset: int
    detached: bool


class Tensor(NamedTuple):
    """Shape, strides (in elements) and type that the kernel was made for. An output may be a `view` for its caller.

    An argument of `pairs` is complex for its caller: the kernel has real and imaginary part along the last axis.
    """

    name: str
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    dtype: torch.dtype
    view: View | None = None
    pairs: bool = False

    @property
    def nbytes(self) -> int:
        """Bytes from its first element to its last."""
        steps = ((extent - 1) * step for extent, step in zip(self.shape, self.strides, strict=True))
        return (1 + sum(steps)) * self.dtype.itemsize

    @property
    def repeats(self) -> bool:
        """Whether several of its elements share one place."""
        return any(step == 0 and extent > 1 for extent, step in zip(self.shape, self.strides, strict=True))


class Number(NamedTuple):
    """A number of which the kernel knows these values alone; the first is the one that it was made for."""

    name: str
    values: tuple[float, ...]


Argument = Tensor | Number | None


class Workload(NamedTuple):
    """Inputs and parameters (None for any number), and what the kernel returns."""

    arguments: tuple[Argument, ...]
    outputs: tuple[Tensor, ...]


class Unfit(NamedTuple):
    """Why a call is not the kernel's: a kind, for counting, and a sentence."""

    kind: str
    said: str


def misfit(value: Any, spec: Argument, device: str) -> Unfit | None:
    """Why the kernel cannot take this value, not even as a copy that is laid out for it."""
    if spec is None:
        return None
    if isinstance(spec, Number):
        said = f"the kernel was made for {spec.name}={spec.values[0]!r}, not {value!r}"
        return None if value in spec.values else Unfit("number", said)
    return _no_tensor_of_its_kind(value, spec) or _other_tensor(value, spec, device)


def _no_tensor_of_its_kind(value: Any, spec: Tensor) -> Unfit | None:
    if value is None and spec.pairs:
        return Unfit("dtype", f"{spec.name} is not complex, as the kernel was made for")
    if not isinstance(value, torch.Tensor):
        return Unfit("type", f"{spec.name} is of type {type(value).__name__}; the kernel was made for a tensor")
    if torch.compiler.is_compiling():
        return None
    if type(value) not in PLAIN and not isinstance(value, _TRACED):
        return Unfit("type", f"{spec.name} is of type {type(value).__name__}; the kernel was made for plain tensors")
    if value.layout is not torch.strided or value.is_conj() or value.is_neg():
        return Unfit("layout", f"{spec.name} is sparse, conjugated or negated; the kernel was made for plain memory")
    return None


def _other_tensor(value: torch.Tensor, spec: Tensor, device: str) -> Unfit | None:
    if value.device.type != device:
        return Unfit("device", f"{spec.name} is on {value.device}; the kernel runs on {device}")
    if value.dtype != spec.dtype:
        return Unfit("dtype", f"{spec.name} is {value.dtype}; the kernel was made for {spec.dtype}")
    if tuple(value.shape) != spec.shape:
        return Unfit("shape", f"{spec.name} has shape {tuple(value.shape)}; the kernel was made for {spec.shape}")
    return None


def in_pairs(value: Any) -> Any:
    """Complex numbers as the kernel takes them, over the same memory; None for what else is given in their place."""
    if not isinstance(value, torch.Tensor) or not value.is_complex():
        return None
    return torch.view_as_real(value.resolve_conj())


def empty(spec: Tensor, device: torch.device) -> torch.Tensor:
    """Memory for a tensor like that."""
    return torch.empty_strided(spec.shape, spec.strides, dtype=spec.dtype, device=device)


def laid_out(value: Any, spec: Argument) -> Any:
    """A number, and a tensor whose strides and alignment are the kernel's, itself; else a copy that has them.

    Raises `ValueError` for an expanded tensor's place taken by one that does not repeat its values.
    """
    if not isinstance(spec, Tensor):
        return value
    value = value.detach()
    if value.stride() == spec.strides and value.data_ptr() % ALIGNMENT == 0:
        return value
    copied = empty(spec, value.device)
    if not spec.repeats:
        return copied.copy_(value)
    once = tuple(slice(0, 1) if step == 0 else slice(None) for step in spec.strides)
    copied[once].copy_(value[once])
    if not torch.equal(copied, value):
        raise ValueError(f"{spec.name} must repeat its values: the kernel was made for an expanded tensor")
    return copied


def fitting(out: torch.Tensor, spec: Tensor) -> torch.Tensor:
    """`out` itself where a kernel may write to it, else memory that is laid out as the kernel writes."""
    fits = out.stride() == spec.strides and out.data_ptr() % ALIGNMENT == 0
    return out if fits else empty(spec, out.device)
