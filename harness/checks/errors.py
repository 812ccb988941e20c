"""How far an output is from the float64 oracle, beside how far PyTorch's own result is, in the same measure.

An element's error is scaled: |got - oracle| / (|oracle| + rms(oracle)), the rms over the output's finite elements. So
elements of cancelled sums are judged by the size of the terms around them, and outputs of any magnitude alike: a
softmax over 400,000 columns is as strict as a matrix product.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import torch

from harness.checks.pattern import pattern_of
from harness.verdict import FirstBad, OutputError

MULTIPLE = 4.0
"""A candidate may be this many times as far off as the reference: another order of summation, another exp()."""
FLOOR_EPS = 8.0
"""... plus this many units of the output type's epsilon, for references that happen to be exact."""

PIECE = 1 << 18
"""Elements compared at a time: 2 MiB in float64."""


@dataclass(frozen=True)
class Expected:
    """What one output should be: `oracle` in float64 (integers: as in the reference), `reference` as PyTorch has it."""

    name: str
    oracle: torch.Tensor
    reference: torch.Tensor


def compare(got: torch.Tensor, expected: Expected) -> OutputError:
    """The error of one output; `bad_fraction` above 0 is a wrong output. Shapes and types agree by construction."""
    if not expected.reference.is_floating_point():
        return _compare_exact(got, expected)
    with _one_thread():
        return _compare_rounded(got, expected)


@contextmanager
def _one_thread() -> Iterator[None]:
    """Small pieces on one thread: two would meet at a barrier per operation, and on a busy machine wait there."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)


def _compare_rounded(got: torch.Tensor, expected: Expected) -> OutputError:
    ruler = _Ruler(expected)
    reference_max, reference_l2 = ruler.measure(expected.reference)
    largest, relative_l2 = ruler.measure(got)
    allowed = MULTIPLE * reference_max + FLOOR_EPS * torch.finfo(expected.reference.dtype).eps
    right = largest <= allowed  # a NaN where the reference is finite makes `largest` NaN, and this False
    wrong = None if right else ruler.wrong(got, allowed)
    return OutputError(
        output=expected.name,
        relative_l2=relative_l2,
        max_scaled=largest,
        reference_relative_l2=reference_l2,
        reference_max_scaled=reference_max,
        bad_fraction=0.0 if wrong is None else float(wrong.sum()) / wrong.numel(),
        first_bad=None if wrong is None else _first_bad(wrong, got, ruler.wanted()),
        pattern="" if wrong is None else pattern_of(wrong, got),
    )


class _Ruler:
    """Measures results against one oracle, a piece at a time: temporaries in float64 then stay in the cache.

    Elements that are infinite or NaN in the reference (or the oracle) have no error: there a result must be the same.
    """

    def __init__(self, expected: Expected) -> None:
        self.oracle, self.reference = expected.oracle, expected.reference
        self._pieces = [*zip(_pieces(self.oracle), _pieces(self.reference), strict=True)]
        self.scale = self._rms()

    def measure(self, result: torch.Tensor) -> tuple[float, float]:
        """Largest scaled error (infinite where an infinity or a NaN is missing or amiss) and relative L2 error."""
        largest, squares = 0.0, 0.0
        for (oracle, reference), piece in zip(self._pieces, _pieces(result), strict=True):
            error = self._error(piece, oracle, reference)
            squares += float(error.square().sum())
            worst = float(error.div_(self._weight(oracle)).max())
            largest = worst if math.isnan(worst) or worst > largest else largest
        return largest, math.sqrt(squares / result.numel()) / self.scale

    def wrong(self, result: torch.Tensor, allowed: float) -> torch.Tensor:
        """Which elements are off by more than allowed, in the shape of the result."""
        masks = [
            ~(self._error(piece, oracle, reference) <= allowed * self._weight(oracle))
            for (oracle, reference), piece in zip(self._pieces, _pieces(result), strict=True)
        ]
        return torch.cat(masks).reshape(result.shape)

    def wanted(self) -> torch.Tensor:
        """What to show as expected: the oracle, or the reference where that is not finite."""
        return torch.where(torch.isfinite(self.reference), self.oracle, self.reference.double())

    def _error(self, result: torch.Tensor, oracle: torch.Tensor, reference: torch.Tensor) -> torch.Tensor:
        error = (result.double() - oracle).abs_()
        special = ~(torch.isfinite(reference) & torch.isfinite(oracle))
        if special.any():
            same = (result == reference) | (result.isnan() & reference.isnan())
            error = torch.where(special, torch.where(same, 0.0, math.inf), error)
        return error

    def _weight(self, oracle: torch.Tensor) -> torch.Tensor:
        return oracle.abs().add_(self.scale).nan_to_num_(nan=1.0)

    def _rms(self) -> float:
        """Root mean square of the oracle's finite elements; 1 where they are all zero or there are none."""
        peak, squares, count = 0.0, 0.0, 0
        for oracle, _ in self._pieces:
            values = oracle[torch.isfinite(oracle)] if not torch.isfinite(oracle.sum()) else oracle
            if values.numel():
                top = float(values.abs().max())
                rescale = peak / top if top > peak else 1.0  # squares of 1e200 overflow even in float64
                peak = max(peak, top)
                squares = squares * rescale**2 + (float((values / peak).square().sum()) if peak else 0.0)
                count += values.numel()
        return peak * math.sqrt(squares / count) if squares else 1.0


def _pieces(tensor: torch.Tensor) -> tuple[torch.Tensor, ...]:
    return tensor.reshape(-1).split(PIECE)


def _compare_exact(got: torch.Tensor, expected: Expected) -> OutputError:
    wrong = got != expected.reference
    bad = int(wrong.sum())
    share = bad / wrong.numel()
    return OutputError(
        output=expected.name,
        relative_l2=math.sqrt(share),
        max_scaled=float(bad > 0),
        reference_relative_l2=0.0,
        reference_max_scaled=0.0,
        bad_fraction=share,
        first_bad=_first_bad(wrong, got, expected.reference) if bad else None,
        pattern=pattern_of(wrong, got) if bad else "",
    )


def _first_bad(wrong: torch.Tensor, got: torch.Tensor, expected: torch.Tensor) -> FirstBad:
    flat = int(wrong.flatten().to(torch.uint8).argmax())
    index = tuple(int(i) for i in torch.unravel_index(torch.tensor(flat), wrong.shape))
    return FirstBad(index=index, expected=float(expected[index]), got=float(got[index]))
