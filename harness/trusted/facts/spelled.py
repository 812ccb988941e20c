"""Functions that look at values before they compute, as what they compute where those are in order.

A check of values is a branch that no tracer follows. The judge runs the real function, on values that pass.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from itertools import combinations, combinations_with_replacement
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional
from torch.overrides import TorchFunctionMode

FEW = 64
"""Places that a program spells out."""


class Spelled(TorchFunctionMode):
    """While a forward is traced."""

    def __init__(self) -> None:
        super().__init__()
        self._lists: dict[int, tuple[Tensor, int, list[Any]]] = {}
        """By its identity a tensor that the forward makes of a list, and its version then; it is held, so that no other
        has that identity."""

    def __torch_function__(
        self, func: Callable[..., Any], types: Iterable[type], args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        named = kwargs or {}
        if func in (torch.Tensor.__getitem__, torch.tensor_split, torch.Tensor.tensor_split):
            plain = self._plain if func is torch.Tensor.__getitem__ else self._list
            return func(args[0], *map(plain, args[1:]), **{name: plain(each) for name, each in named.items()})
        written = _WRITTEN.get(func)
        found = written(*args, **named) if written else None
        found = func(*args, **named) if found is None else found
        if func is torch.tensor and args and isinstance(args[0], list | tuple):
            self._lists[id(found)] = found, found._version, list(args[0])
        return found

    def _list(self, given: Any) -> Any:
        """The numbers that it was made of, where the forward spells them out."""
        made, version, told = self._lists.get(id(given), (None, 0, given))
        return given if made is None or made._version != version else told

    def _plain(self, index: Any) -> Any:
        """An index with the places that a mask sets, where the forward makes that of a list."""
        if isinstance(index, tuple):
            return tuple(map(self._plain, index))
        if not isinstance(index, Tensor) or index.dtype != torch.bool or index.dim() != 1:
            return index
        told = self._list(index)
        return [place for place, is_set in enumerate(told) if is_set] if isinstance(told, list) else index


def _gaussian_nll(
    input: Tensor,  # noqa: A002 (PyTorch's name, which calls may use)
    target: Tensor,
    var: Tensor | float,
    full: bool = False,
    eps: float = 1e-6,
    reduction: str = "mean",
) -> Tensor | None:
    """Half of the variance's logarithm and of the square by it, with a variance of at least `eps`."""
    if not isinstance(var, Tensor) or reduction not in ("none", "mean", "sum"):
        return None
    if var.shape != input.shape:
        if input.shape[:-1] == var.shape:
            var = var.unsqueeze(-1)
        elif input.dim() != var.dim() or sum(b for a, b in zip(input.shape, var.shape, strict=True) if a != b) != 1:
            return None
    held = var.clone()
    with torch.no_grad():
        held.clamp_(min=eps)
    loss = 0.5 * (torch.log(held) + (input - target) ** 2 / held)
    loss = loss + 0.5 * math.log(2 * math.pi) if full else loss
    return loss if reduction == "none" else loss.mean() if reduction == "mean" else loss.sum()


def _cov(
    input: Tensor,  # noqa: A002 (as above)
    *,
    correction: int = 1,
    fweights: Tensor | None = None,
    aweights: Tensor | None = None,
) -> Tensor | None:
    """Products of what rows have over their means, by weights."""
    if input.dim() > 2 or input.is_complex() or not input.is_floating_point():
        return None
    rows = input.reshape(1, -1) if input.dim() < 2 else input
    weights = aweights if fweights is None else fweights if aweights is None else fweights * aweights
    if weights is None:
        left = rows - rows.sum(1, keepdim=True) / rows.shape[1]
        return ((left @ left.t()) / max(rows.shape[1] - correction, 0)).squeeze()
    total = weights.sum()
    left = rows - (rows * weights).sum(1, keepdim=True) / total
    taken = correction * (weights * aweights).sum() / total if aweights is not None and correction else correction
    return ((left @ (left * weights).t()) / (total - taken).clamp_min(0)).squeeze()


def _corrcoef(input: Tensor) -> Tensor | None:  # noqa: A002 (as above)
    found = _cov(input)
    if found is None or not found.dim():
        return None if found is None else found / found
    spread = found.diagonal().sqrt()
    return (found / spread[:, None] / spread[None, :]).clamp(-1, 1)


def _combinations(input: Tensor, r: int = 2, with_replacement: bool = False) -> Tensor | None:  # noqa: A002 (as above)
    """Columns of picked elements: pairs, or as many as a program spells out."""
    if r == 2 and len(input) > 1:
        first, second = torch.triu_indices(len(input), len(input), 0 if with_replacement else 1, device=input.device)
        return torch.stack((input[first], input[second]), 1)
    chosen = [*(combinations_with_replacement if with_replacement else combinations)(range(len(input)), r)]
    if not chosen or len(chosen) > FEW or not r:
        return None
    return torch.stack([input[list(places)] for places in zip(*chosen, strict=True)], 1)


def _ctc_loss(
    log_probs: Tensor,
    targets: Tensor,
    input_lengths: Tensor | Sequence[int],
    target_lengths: Tensor | Sequence[int],
    blank: int = 0,
    reduction: str | int = "mean",
    zero_infinity: bool = False,
) -> Tensor | None:
    """The sum over all paths, step by step, over labels with blanks between them; each row stops at its own length."""
    if not log_probs.is_floating_point() or not len(log_probs) or not targets.numel():
        return None
    logs = log_probs if log_probs.dim() == 3 else log_probs.unsqueeze(1)
    frames, counts = (torch.as_tensor(each, device=logs.device).reshape(-1) for each in (input_lengths, target_lengths))
    if targets.dim() == 1:
        longest = len(targets) if isinstance(target_lengths, Tensor) else max(target_lengths)
        taken = (counts.cumsum(0) - counts)[:, None] + torch.arange(max(longest, 1), device=logs.device)
        targets = targets[taken.clamp(max=len(targets) - 1)]
    labels = torch.where(torch.arange(targets.shape[1], device=logs.device) < counts[:, None], targets.long(), blank)
    wide = functional.pad(torch.stack((torch.full_like(labels, blank), labels), -1).flatten(1), (0, 1), value=blank)
    skips = functional.pad(wide[:, 2:] != wide[:, :-2], (2, 0))
    steps = logs.gather(2, wide.expand(len(logs), *wide.shape)).unbind(0)
    goes_on = (torch.arange(len(logs), device=logs.device)[:, None, None] < frames[:, None]).unbind(0)
    score = torch.where(torch.arange(wide.shape[1], device=logs.device) < 2, steps[0], -math.inf)
    for step, live in zip(steps[1:], goes_on[1:], strict=True):
        one, two = (functional.pad(score, (by, -by), value=-math.inf) for by in (1, 2))
        ways = torch.stack((score, one, torch.where(skips, two, -math.inf)))
        score = torch.where(live, ways.logsumexp(0) + step, score)
    last, earlier = (score.gather(1, (2 * counts - by).clamp(min=0).long()[:, None]) for by in (0, 1))
    loss = -torch.cat((last, torch.where(counts[:, None] > 0, earlier, -math.inf)), 1).logsumexp(1)
    loss = torch.where(frames > 0, loss, torch.where(counts > 0, math.inf, 0.0))
    loss = torch.where(loss == math.inf, 0.0, loss) if zero_infinity else loss
    kind = reduction if isinstance(reduction, str) else ("none", "mean", "sum")[reduction]
    if kind == "none":
        return loss if log_probs.dim() == 3 else loss[0]
    return loss.sum() if kind == "sum" else (loss / counts.clamp(min=1)).mean()


def _segment_reduce(
    data: Tensor,
    reduce: str,
    *,
    lengths: Tensor | None = None,
    indices: Tensor | None = None,
    offsets: Tensor | None = None,
    axis: int = 0,
    unsafe: bool = False,
    initial: float | None = None,
) -> Tensor | None:
    """Of each segment along an axis what a mask of its places leaves, beginning at `initial`."""
    kinds = {"sum": 0.0, "mean": 0.0, "prod": 1.0, "max": -math.inf, "min": math.inf}
    if reduce not in kinds or indices is not None or (lengths is None) == (offsets is None):
        return None
    axis %= data.dim()
    ends = lengths.cumsum(-1) if lengths is not None else offsets[..., 1:]  # type: ignore[index]
    starts = ends - lengths if lengths is not None else offsets[..., :-1]  # type: ignore[index]
    at = torch.arange(data.shape[axis], device=data.device)
    mine = (starts[..., None] <= at) & (at < ends[..., None])
    mine = mine.reshape(*mine.shape, *[1] * (data.dim() - axis - 1))
    held = torch.where(mine, data.unsqueeze(axis), kinds[reduce])
    start = kinds[reduce] if initial is None else float(initial)
    if reduce == "max":
        return held.amax(axis + 1).clamp(min=start)
    if reduce == "min":
        return held.amin(axis + 1).clamp(max=start)
    if reduce == "prod":
        return held.prod(axis + 1) * start
    found = held.sum(axis + 1) + start
    if reduce == "sum":
        return found
    counts = mine.sum(axis + 1)
    return torch.where(counts > 0, found / counts.clamp(min=1), math.nan if initial is None else start)


def _histc(
    input: Tensor,  # noqa: A002 (as above)
    bins: int = 100,
    min: float = 0,  # noqa: A002 (as above)
    max: float = 0,  # noqa: A002 (as above)
) -> Tensor | None:
    """How many elements lie in each of equal parts of a range; of all there are where none is given."""
    if not input.is_floating_point() or min > max or (min == max and not input.numel()):
        return None
    x = input.flatten()
    low, high = x.aminmax() if min == max else (x.new_full((), min), x.new_full((), max))
    flat = (low == high).to(x.dtype)
    low, high = low - flat, high + flat
    part = ((x - low) * bins / (high - low)).nan_to_num(nan=-1.0).clamp(max=bins - 1).floor()
    part = torch.where((x >= low) & (x <= high), part, -1.0)
    return (part[:, None] == torch.arange(bins, device=x.device)).sum(0).to(x.dtype)


_WRITTEN: dict[Any, Callable[..., Any]] = {
    functional.ctc_loss: _ctc_loss, torch.ctc_loss: _ctc_loss,
    functional.gaussian_nll_loss: _gaussian_nll,
    torch.cov: _cov, torch.Tensor.cov: _cov,
    torch.corrcoef: _corrcoef, torch.Tensor.corrcoef: _corrcoef,
    torch.combinations: _combinations,
    torch.segment_reduce: _segment_reduce,
    torch.histc: _histc, torch.Tensor.histc: _histc,
}  # fmt: skip
