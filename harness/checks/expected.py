"""What an output should be, and which of its elements say so."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import torch

from harness.checks.choices import Choice

Scope = Literal["all", "defined", "reduced", "finite"]
"""What is compared: all elements; or those on which reference and oracle agree in kind (NaN, an infinity, finite) and
roughly in size; or the same for reductions, where a NaN may be an infinity instead, and the other way round: a running
mean of inf is NaN, the sum over the count is inf; or those that are finite, for products, where 0 * inf depends on
which terms are left out, and a result may be NaN: sums and differences of blocks, made first, spread it."""


@dataclass(frozen=True)
class Further:
    """What else is right about an output: any indices that `choice` accepts, and what `others` say.

    Those are the oracle's with each rounding on the way, to a whole number for instance, taken to the other side where
    float error may have done that. `explained`, asked where they do not tell, are the oracle's with each of those taken
    as PyTorch has, and as the candidate has.
    """

    choice: Choice | None = None
    others: tuple[torch.Tensor, ...] = ()
    explained: Callable[[], tuple[torch.Tensor, ...]] | None = None


@dataclass(frozen=True)
class Expected:
    """What one output should be: `oracle` by a forward in float64, `reference` as PyTorch has it.

    Without an oracle the reference stands in its place, and `noise` says how far off (scaled) it may be; with one, how
    far PyTorch's results on such inputs are, where that is known of more than this one. `tolerance`:
    errors so many times as large as the reference's own allow are right. `further` is asked where a result seems wrong.
    `reached` says of a result that is finite where the reference is not: where is it wrong for what is not finite
    among the inputs?
    """

    name: str
    oracle: torch.Tensor
    reference: torch.Tensor
    scope: Scope = "all"
    noise: float = 0.0
    tolerance: float = 1.0
    further: Callable[[], Further] | None = None
    reached: Callable[[torch.Tensor], torch.Tensor] | None = None
