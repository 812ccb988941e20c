"""What a forward does on its way where its results are choices and steps: seen operation by operation.

An index that was chosen among equals, and a number that was rounded up or down, say little of who is right: a last bit
of the operand decides. Whether that is so is looked at where a result seems wrong, and only there.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from harness.checks.choices import Choice
from harness.checks.errors import explained_error, scale_of
from harness.checks.float8 import FLOAT8

CHOOSING = {"topk": 1, "sort": 1, "kthvalue": 1, "median": 1, "nanmedian": 1, "mode": 1, "max": 1, "min": 1,
            "argmax": 0, "argmin": 0}  # fmt: skip
"""Operations that choose elements along an axis, and which of their results the indices are."""
ROWS = ("topk", "sort")
"""... of these a row names no element twice."""
RESHAPING = ("view", "_unsafe_view", "squeeze", "unsqueeze", "_to_copy", "clone", "alias", "detach")
"""What leaves every index in its place, counted in row-major order."""
STEPPING = ("round", "floor", "ceil", "trunc", "floor_divide", "remainder", "fmod", "frac", "sign", "heaviside",
            "gt", "ge", "lt", "le", "eq", "ne", "bucketize", "searchsorted",
            "fake_quantize_per_tensor_affine_cachemask", "fake_quantize_per_channel_affine_cachemask",
            "quantize_per_tensor", "quantize_per_channel")  # fmt: skip


class MaskRecorder(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Around a forward: which products are by masks, and, for one where that is `known`, without what those hide.

    A mask holds zeros and ones. What it multiplies by zero is zero then, NaN and infinity too.
    """

    def __init__(self, known: Sequence[tuple[bool, bool]] | None = None) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.found: list[tuple[bool, bool]] = []
        self._known = known

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Called by torch for each operation."""
        if func not in _PRODUCTS:
            return func(*args, **(kwargs or {}))
        one, other = args
        if self._known is None:
            self.found.append((_is_mask(one), _is_mask(other)))
            return func(one, other)
        number = len(self.found)
        masks = self._known[number] if number < len(self._known) else (False, False)
        self.found.append(masks)
        pairs = [pair for pair, is_mask in zip(((one, other), (other, one)), masks, strict=True) if is_mask]
        hidden = [(mask == 0) & ~torch.isfinite(torch.as_tensor(held)) for mask, held in pairs]
        result = func(one, other)
        for each in hidden:
            result.masked_fill_(each, 0.0)
        return result


_PRODUCTS = (torch.ops.aten.mul.Tensor, torch.ops.aten.mul_.Tensor)


def _is_mask(operand: Any) -> bool:
    """Whether it holds zeros and ones, numbers with a fraction both of them: a weight may begin with ones alone."""
    if not isinstance(operand, torch.Tensor) or not operand.numel():
        return False
    zeros, ones = operand == 0, operand == 1
    return bool((zeros | ones).all()) and (not operand.is_floating_point() or bool(zeros.any() and ones.any()))


class OpRecorder(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Notes choices and the operands of steps; with `shifts` moves the first operand of each step by one of them."""

    def __init__(self, shifts: Sequence[torch.Tensor | None] = ()) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.steps: list[tuple[torch.Tensor, ...]] = []
        self._shifts = shifts
        self._chosen: dict[int, tuple[torch.Tensor, Choice]] = {}  # the tensor is kept, and so is its number

    def chosen(self, output: torch.Tensor) -> Choice | None:
        """What an output chose; None where it is no choice, or went through more than is followed here."""
        found = self._chosen.get(id(output))
        return found[1] if found else None

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Called by torch for each operation."""
        kwargs = kwargs or {}
        name = func._schema.name.removeprefix("aten::")
        if _steps(name, args, kwargs):
            args = self._stepped(func, args)
        result = func(*args, **kwargs)
        if name in CHOOSING:
            self._note(name, func, args, kwargs, result)
        elif isinstance(result, torch.Tensor) and args and (known := self._chosen.get(id(args[0]))):
            self._follow(name, args, known[1], result)
        return result

    def _stepped(self, func: Any, args: Any) -> Any:
        operands = tuple(each for each in args if isinstance(each, torch.Tensor) and each.is_floating_point())
        number = len(self.steps)
        shift = self._shifts[number] if number < len(self._shifts) else None
        self.steps.append(tuple(each.clone() for each in operands) if func._schema.is_mutable else operands)
        if shift is None or shift.shape != operands[0].shape:
            return args
        first = next(position for position, each in enumerate(args) if each is operands[0])
        moved = operands[0].add_(shift) if func._schema.is_mutable else operands[0] + shift
        return (*args[:first], moved, *args[first + 1 :])

    def _note(self, name: str, func: Any, args: Any, kwargs: Any, result: Any) -> None:
        given = given_to(func, args, kwargs)
        if "dim" not in given and name not in ("argmax", "argmin"):
            return  # the largest of two tensors, or of all elements: no index
        if given.get("stable"):
            return  # which of equals comes first is told
        index = result[CHOOSING[name]] if CHOOSING[name] else result
        operand = args[0].reshape(-1) if given["dim"] is None else args[0]
        if isinstance(index, torch.Tensor) and operand.ndim:
            chosen = Choice(operand, (given["dim"] or 0) % operand.ndim, tuple(index.shape), name in ROWS)
            self._chosen[id(index)] = (index, chosen)

    def _follow(self, name: str, args: Any, chosen: Choice, result: torch.Tensor) -> None:
        """Reshaped as a whole, or cut along the axis that was chosen along."""
        alike = tuple(args[0].shape) == chosen.shape
        cut = name in ("slice", "select") and alike and args[1] % args[0].ndim == chosen.dim
        if cut and len(chosen.shape) == chosen.operand.ndim:
            chosen = replace(chosen, shape=tuple(result.shape))
            self._chosen[id(result)] = (result, chosen)
        elif name in RESHAPING and result.numel() == args[0].numel():
            self._chosen[id(result)] = (result, chosen)


def given_to(func: Any, args: Any, kwargs: Any) -> dict[str, Any]:
    """An operation's arguments by their names, with what it takes where none is given."""
    names = [argument.name for argument in func._schema.arguments]
    given: dict[str, Any] = {argument.name: argument.default_value for argument in func._schema.arguments}
    given.update(zip(names, args, strict=False), **kwargs)
    return given


def choice_of(exact: Choice | None, rounded: Choice | None, tolerance: float) -> Choice | None:
    """What an output chose in float64, with what rounding may have done to the operand; None where it is no choice."""
    if exact is None or rounded is None or not exact.fits or exact.operand.shape != rounded.operand.shape:
        return None
    if not exact.operand.is_floating_point():
        return exact
    allowed = tolerance * explained_error(rounded.operand, exact.operand)
    return replace(exact, allowed=allowed, scale=scale_of(exact.operand))


def shifts_of(
    exact: Sequence[tuple[torch.Tensor, ...]], rounded: Sequence[tuple[torch.Tensor, ...]], tolerance: float
) -> list[torch.Tensor | None]:
    """For each step how far rounding may have moved its first operand; None where it did not.

    `exact` are the operands in float64, `rounded` PyTorch's own.
    """
    if len(exact) != len(rounded):
        return []
    return [shift_of(*pair, tolerance) for pair in zip(exact, rounded, strict=True)]


def shift_of(
    exact: tuple[torch.Tensor, ...], rounded: tuple[torch.Tensor, ...], tolerance: float, most: float = math.inf
) -> torch.Tensor | None:
    """How far rounding may have moved the first of an operation's operands against the others; None where it did not.

    Of no operand it is more than `most` units of the type's last place.
    """
    if [each.shape for each in exact] != [each.shape for each in rounded]:
        return None
    explained = (explained_error(*pair) for pair in zip(rounded, exact, strict=True))
    limits = (most * torch.finfo(each.dtype).eps for each in rounded)
    errors = [tolerance * min(pair) for pair in zip(explained, limits, strict=True)]
    if not any(errors):
        return None
    own = (exact[0].abs() + scale_of(exact[0])).mul_(errors[0])
    others = (
        error * (float(each.abs().max()) + scale_of(each)) for error, each in zip(errors[1:], exact[1:], strict=True)
    )
    return own.add_(sum(others)).nan_to_num_(nan=0.0, posinf=0.0)


def _steps(name: str, args: Any, kwargs: Any) -> bool:
    """Is it an operation of numbers with a fraction whose result jumps?"""
    if not any(isinstance(each, torch.Tensor) and each.is_floating_point() for each in args):
        return False
    if name == "_to_copy":
        kind = kwargs.get("dtype")
        return kind is not None and (kind in FLOAT8 or not (kind.is_floating_point or kind.is_complex))
    return name.rstrip("_") in STEPPING or (name.rstrip("_") == "div" and kwargs.get("rounding_mode") is not None)
