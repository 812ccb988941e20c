"""Is a task worth judging? Filters on what the reference returns, after robust-kbench, and what they mean here.

A task whose outputs hardly vary rewards kernels that compute nothing. robust-kbench rejects such tasks by absolute
thresholds; this judge scales every error by the output's own magnitude, so that small outputs alone are no defect (a
softmax over 400,000 columns is all below 0.01). So a task is called degenerate only where its variation is also below
the threshold relative to the output's rms.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

import torch

from harness.nouns.task_filters import FilterName, FilterResult

THRESHOLD = 0.01
"""robust-kbench's, on outputs of order one."""
SAMPLED = 1 << 16
"""Elements of a sample of an output."""
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
    return FilterResult(
        name=name, value=variation, relative=relative, rejected=rejected, degenerate=rejected and relative < THRESHOLD
    )


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


def defect_of(first: Outputs, second: Outputs) -> str:
    """Why a task is degenerate, from samples of its outputs on two sets of its own inputs; empty where it is not."""
    results = [
        judge_variation("output range", peak([first, second]), first),
        judge_variation("influence of inputs", spread([first, second]), first),
        judge_variation("output axes", axis_spread(first), first),
    ]
    return next((result.sentence for result in results if result.degenerate), "")


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
