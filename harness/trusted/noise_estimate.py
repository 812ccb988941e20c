"""How far off a result is, where nothing more exact can be computed: the forward again, each rounding another one.

Each number that an operation gives, and each input, is moved by up to one unit of its type's last place, which is what
rounding, or another order of a sum, may do to it. How far that moves the outputs is how well they are determined.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from harness.trusted.reference import Value

RUNS = 3
LOOKED_AT = 1 << 16
"""Elements of an output that tell how far two results are apart."""
WIDE = (torch.float64, torch.float32)
_MOVED = (*WIDE, torch.float16, torch.bfloat16)


def estimate_noise(
    run: Callable[[list[Value]], list[torch.Tensor]],
    inputs: list[Value],
    results: Sequence[torch.Tensor],
    types: Sequence[torch.dtype] = _MOVED,
) -> list[float]:
    """For each result of `run` how far (scaled) the disturbed ones are away from it; above 0 for `types`.

    Numbers of `types` are moved, others are as exact as they are.
    """
    found = [torch.finfo(result.dtype).eps if result.dtype in types else 0.0 for result in results]
    for others in _others(run, inputs, results[0].device, types):
        found = [max(most, _largest(*pair)) for most, *pair in zip(found, others, results, strict=True)]
    return found


def spread_of(
    run: Callable[[list[Value]], list[torch.Tensor]], inputs: list[Value], results: Sequence[torch.Tensor]
) -> list[torch.Tensor]:
    """For each result of `run` how far each element of the disturbed ones is away from it, in float64; 0 for integers
    and where either is not finite."""
    found = [torch.zeros(result.shape, dtype=torch.float64, device=result.device) for result in results]
    for others in _others(run, inputs, results[0].device):
        for most, other, result in zip(found, others, results, strict=True):
            if result.is_floating_point():
                torch.maximum(most, (other.double() - result.double()).abs().nan_to_num_(0.0, 0.0, 0.0), out=most)
    return found


def _others(
    run: Callable[[list[Value]], list[torch.Tensor]],
    inputs: list[Value],
    place: torch.device,
    types: Sequence[torch.dtype] = _MOVED,
) -> Iterator[list[torch.Tensor]]:
    generator = torch.Generator(place).manual_seed(0)
    for _ in range(RUNS):
        moved = [
            _moved(value.clone(), generator, types) if isinstance(value, torch.Tensor) else value for value in inputs
        ]
        with _Perturbed(generator, types):
            others = run(moved)
        yield others


def distance(result: torch.Tensor, exact: torch.Tensor) -> float:
    """How far (rms, over the larger rms) a result is from the exact one, by a sample of what is finite in both.

    Where some of it overflowed, zeros may be numbers over an infinity, and say nothing either. Nor do subnormals: a
    sigmoid of -100 is zero in float32, since its exponential overflows, and a subnormal in float64.
    """
    if not result.is_floating_point():
        return 0.0
    step = max(1, exact.numel() // LOOKED_AT)
    one, other = (tensor.reshape(-1)[::step].double() for tensor in (result, exact))
    finite = torch.isfinite(one) & torch.isfinite(other)
    if not finite.all():
        finite &= (one != 0) | (other == 0)
    finite &= torch.maximum(one.abs(), other.abs()) >= torch.finfo(result.dtype).smallest_normal
    off = torch.where(finite, one - other, 0.0)
    scale = max(float(torch.linalg.vector_norm(torch.where(finite, each, 0.0))) for each in (one, other))
    return float(torch.linalg.vector_norm(off)) / scale if scale > 0 else 0.0


def _largest(result: torch.Tensor, exact: torch.Tensor) -> float:
    """The largest error of an output, scaled as `compare` does, where both are finite."""
    if not result.is_floating_point():
        return 0.0
    one, other = result.double(), exact.double()
    finite = torch.isfinite(one) & torch.isfinite(other)
    off, size = torch.where(finite, one - other, 0.0).abs(), torch.where(finite, other, 0.0).abs()
    scale = float(size.square().mean().sqrt())
    return float((off / (size + (scale or 1.0))).max())


class _Perturbed(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Moves each number that an operation computes from numbers with a fraction; views and constants stay."""

    def __init__(self, generator: torch.Generator, types: Sequence[torch.dtype]) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._generator, self._types = generator, types

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Called by torch for each operation."""
        result = func(*args, **(kwargs or {}))
        computed = any(isinstance(each, torch.Tensor) and each.is_floating_point() for each in _flat(args))
        if computed and not any(each.alias_info and not each.alias_info.is_write for each in func._schema.returns):
            for tensor in _flat((result,)):
                if isinstance(tensor, torch.Tensor):
                    _moved(tensor, self._generator, self._types)
        return result


def _moved(tensor: torch.Tensor, generator: torch.Generator, types: Sequence[torch.dtype]) -> torch.Tensor:
    """The same tensor, each element times 1 and up to one unit of the last place, more or less."""
    if tensor.dtype not in types:
        return tensor
    units = torch.rand(tensor.shape, generator=generator, device=tensor.device, dtype=torch.float32)
    step = units.mul_(2).sub_(1).double().mul_(torch.finfo(tensor.dtype).eps)
    return tensor.copy_(tensor.double().mul_(step.add_(1)))


def _flat(values: Iterable[Any]) -> Iterable[Any]:
    for value in values:
        if isinstance(value, list | tuple):
            yield from _flat(value)
        else:
            yield value
