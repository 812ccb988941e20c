"""Is a task worth judging? Filters on what the reference returns, after robust-kbench, and what they mean here.

A task whose outputs hardly vary rewards kernels that compute nothing. robust-kbench rejects such tasks by absolute
thresholds on the file's own inputs. This judge draws other inputs as well, so a task is degenerate only where a
constant would pass all trials: a mean loss over random values varies little, and yet no constant is right on wide ones.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

import torch

from harness.checks.errors import Expected, allowed, likely_error, scale_of
from harness.nouns.task_filters import FilterName, FilterResult

THRESHOLD = 0.01
"""robust-kbench's, on outputs of order one."""
SAMPLED = 1 << 16
"""Elements of a sample of an output."""
BOTH = 2.0
"""A constant between two results is off from each by half of their distance."""
PIECE = 1 << 20
"""Elements looked at together."""
WHOLE = 1 << 24
"""Of an output with more elements a sample shows how it varies along its axes."""

Outputs = Sequence[torch.Tensor]


def judge_variation(name: FilterName, variation: float, outputs: Outputs) -> FilterResult:
    """One filter's result; `outputs` give the scale."""
    scale = max(map(_rms, outputs))
    relative = variation / scale if scale else 0.0
    rejected = variation < THRESHOLD
    return FilterResult(name=name, value=variation, relative=relative, rejected=rejected)


def peak(runs: Sequence[Outputs]) -> float:
    """The largest magnitude in any output of any run; that of the finite ones."""
    pieces = (piece for run in runs for output in run for piece in _pieces(output))
    return max(float(_finite(piece).abs().max()) for piece in pieces)


def spread(runs: Sequence[Outputs]) -> float:
    """The largest standard deviation that any element of any output has over the runs."""
    return max(_spread(versions) for versions in zip(*runs, strict=True))


def axis_spread(outputs: Outputs) -> float:
    """How much the outputs vary along the axis along which they vary least: its largest standard deviation.

    Axes of one element are none. Infinity where there is no axis: a single number has nothing to be constant along.
    """
    blocks = (output if output.numel() <= WHOLE else sample(output) for output in outputs)
    return max(min((_along(block, axis) for axis in _axes(block)), default=math.inf) for block in blocks)


def sample(output: torch.Tensor) -> torch.Tensor:
    """A corner block with some extent along every axis, about SAMPLED elements, as a copy in float64."""
    if not output.ndim:
        return output.double().clone()
    edge = max(2, int(SAMPLED ** (1 / output.ndim)))
    for axis, extent in enumerate(output.shape):
        output = output.narrow(axis, 0, min(extent, edge))
    return output.double().clone()


class Influence:
    """Which family of inputs shows that outputs depend on them: the first on which a constant would be wrong.

    `family` is empty until there is one. Elements that are not finite show nothing: a NaN passes through `x - x`, too.
    """

    def __init__(self) -> None:
        self.family = ""
        self._first: list[torch.Tensor] = []

    def see(self, family: str, expected: Sequence[Expected]) -> None:
        """Compare what a family's outputs should be with the first that were seen."""
        if self.family:
            return
        samples = [_scattered(wanted.reference) for wanted in expected]
        self._first = self._first or samples
        if any(map(_differ, self._first, samples, expected)):
            self.family = family

    def shown_by(self, own: str, outputs: Outputs) -> str:
        """The family: `own` where these outputs, on more of the file's inputs, vary by a hundredth of their size."""
        pairs = [_both_finite(*pair) for pair in zip(self._first, map(_scattered, outputs), strict=True)]
        off = max((float((first - now).abs().max()) for first, now in pairs if now.numel()), default=0.0)
        scale = max((_rms(now) for _, now in pairs if now.numel()), default=0.0)
        return own if off >= THRESHOLD * scale > 0 else self.family


def _differ(first: torch.Tensor, now: torch.Tensor, wanted: Expected) -> bool:
    """Whether no constant is within tolerance of both."""
    first, now = _both_finite(first, now)
    if not wanted.reference.is_floating_point():
        return not torch.equal(first, now)
    if not now.numel():
        return False
    scaled = (first - now).abs() / (now.abs() + scale_of(now))
    return float(scaled.max()) > BOTH * allowed(wanted, likely_error(wanted))


def _both_finite(first: torch.Tensor, now: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    both = torch.isfinite(first) & torch.isfinite(now)
    return first[both], now[both]


def _scattered(output: torch.Tensor) -> torch.Tensor:
    """Up to SAMPLED elements from all over an output, the same of each of its shape, as a copy in float64."""
    flat = output.reshape(-1)
    if flat.numel() > SAMPLED:
        generator = torch.Generator(flat.device).manual_seed(SAMPLED)
        flat = flat[torch.randint(flat.numel(), (SAMPLED,), generator=generator, device=flat.device)]
    return flat.double().clone()


def _spread(versions: tuple[torch.Tensor, ...]) -> float:
    flat = [version.reshape(-1) for version in versions]
    starts = range(0, flat[0].numel(), PIECE)
    stacks = (torch.stack([_finite(version[start : start + PIECE]) for version in flat]) for start in starts)
    return max(float(stack.std(dim=0).max()) for stack in stacks)


def _axes(output: torch.Tensor) -> list[int]:
    return [axis for axis, extent in enumerate(output.shape) if extent > 1]


def _along(output: torch.Tensor, axis: int) -> float:
    return float(_finite(output).std(dim=axis).max())


def _finite(output: torch.Tensor) -> torch.Tensor:
    return output.double().nan_to_num_(nan=0.0, posinf=0.0, neginf=0.0)


def _pieces(output: torch.Tensor) -> Iterator[torch.Tensor]:
    flat = output.reshape(-1)
    return (flat[start : start + PIECE] for start in range(0, flat.numel(), PIECE))


def _rms(output: torch.Tensor) -> float:
    squares = sum(float(_finite(piece).square().sum()) for piece in _pieces(output))
    return math.sqrt(squares / output.numel())
