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

PIECE = 1 << 16
"""Elements compared at a time: 512 KiB in float64."""
GPU_PIECE = 1 << 26
"""As PIECE, on a GPU: 512 MiB keep it busy, and a handful of such temporaries fit beside any task."""


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
    own, theirs = ruler.measure(got)
    allowed = MULTIPLE * own.largest + FLOOR_EPS * torch.finfo(expected.reference.dtype).eps
    right = theirs.largest <= allowed  # a NaN where the reference is finite makes `largest` NaN, and this False
    wrong = None if right else ruler.wrong(got, allowed)
    return OutputError(
        output=expected.name,
        relative_l2=theirs.relative_l2,
        max_scaled=theirs.largest,
        reference_relative_l2=own.relative_l2,
        reference_max_scaled=own.largest,
        bad_fraction=0.0 if wrong is None else float(wrong.sum()) / wrong.numel(),
        first_bad=None if wrong is None else _first_bad(wrong, got, ruler.wanted()),
        pattern="" if wrong is None else pattern_of(wrong, got),
    )


@dataclass
class _Measured:
    """One result's error, gathered piece by piece. `largest` is scaled; the squares are not."""

    scale: float
    largest: float = 0.0
    squares: float = 0.0
    count: int = 0

    def add(self, error: torch.Tensor, weight: torch.Tensor) -> None:
        self.squares += float(torch.dot(error, error))
        self.count += error.numel()
        worst = float(error.div_(weight).max())
        self.largest = worst if math.isnan(worst) or worst > self.largest else self.largest

    @property
    def relative_l2(self) -> float:
        return math.sqrt(self.squares / self.count) / self.scale


class _Ruler:
    """Measures results against one oracle, a piece at a time: temporaries in float64 then stay in the cache.

    Elements that are infinite or NaN in the reference (or the oracle) have no error: there a result must be the same.
    """

    def __init__(self, expected: Expected) -> None:
        self.oracle, self.reference = expected.oracle, expected.reference
        self._pieces = [*zip(_pieces(self.oracle), _pieces(self.reference), strict=True)]
        self.scale = _rms([oracle for oracle, _ in self._pieces])

    def measure(self, result: torch.Tensor) -> tuple[_Measured, _Measured]:
        """The reference's own error, and the result's."""
        own, theirs = _Measured(self.scale), _Measured(self.scale)
        for (oracle, reference), piece in zip(self._pieces, _pieces(result), strict=True):
            errors = [(reference.double() - oracle).abs_(), (piece.double() - oracle).abs_()]
            if not math.isfinite(float(errors[0].sum()) + float(errors[1].sum())):
                errors = [self._error(reference, oracle, reference), self._error(piece, oracle, reference)]
            weight = self._weight(oracle)
            own.add(errors[0], weight)
            theirs.add(errors[1], weight)
        return own, theirs

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
        special = ~(torch.isfinite(reference) & torch.isfinite(oracle))
        same = (result == reference) | (result.isnan() & reference.isnan())
        error = (result.double() - oracle).abs_()
        return torch.where(special, torch.where(same, 0.0, math.inf), error)

    def _weight(self, oracle: torch.Tensor) -> torch.Tensor:
        return oracle.abs().add_(self.scale).nan_to_num_(nan=1.0)


def _rms(pieces: list[torch.Tensor]) -> float:
    """Root mean square of the finite elements; 1 where they are all zero or there are none."""
    total = sum(float(torch.dot(piece, piece)) for piece in pieces)
    if math.isfinite(total) and total > 1e-280:  # well inside float64's range: nothing overflowed, nothing was lost
        return math.sqrt(total / sum(piece.numel() for piece in pieces))
    values = torch.cat([piece[torch.isfinite(piece)] for piece in pieces])
    peak = float(values.abs().max()) if values.numel() else 0.0
    return peak * float((values / peak).square().mean().sqrt()) if peak else 1.0


def _pieces(tensor: torch.Tensor) -> tuple[torch.Tensor, ...]:
    flat = tensor.reshape(-1)
    size = GPU_PIECE if flat.is_cuda else PIECE
    return tuple(flat[start : start + size] for start in range(0, flat.numel(), size))


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
