"""A file's inputs with another number of rows: fewer of what it gives, or those of several draws."""

from __future__ import annotations

from collections.abc import Callable

import torch

from harness.nouns.errors import UserError

Value = torch.Tensor | float | int | bool


def rows_of(
    values: list[Value], batch: int, again: Callable[[int], list[Value]], error: Callable[[str], UserError]
) -> list[Value]:
    """The values, those with as many rows as the first tensor with `batch` of them, laid out in the same order of axes.

    `again` gives the next draws, by their number. Raises what `error` makes of a sentence where rows share memory.
    """
    first = next((each for each in values if isinstance(each, torch.Tensor) and each.dim()), None)
    if first is None:
        return values
    own = first.shape[0]
    draws = [values, *(again(more) for more in range(1, -(-batch // own)))]
    return [_rows([draw[k] for draw in draws], own, batch, error) for k in range(len(values))]


def _rows(draws: list[Value], own: int, batch: int, error: Callable[[str], UserError]) -> Value:
    first = draws[0]
    if not isinstance(first, torch.Tensor) or not first.dim() or first.shape[0] != own:
        return first
    if any(stride == 0 and extent > 1 for stride, extent in zip(first.stride(), first.shape, strict=True)):
        raise error("an input is expanded: rows of it are one")
    rows = torch.cat([each for each in draws if isinstance(each, torch.Tensor)])[:batch]
    order = sorted(range(first.dim()), key=first.stride, reverse=True)
    back = sorted(range(first.dim()), key=order.__getitem__)
    return rows.permute(order).contiguous().permute(back)
