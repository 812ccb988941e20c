"""Where the wrong elements of an output lie: the shape of an error says more than its size."""

from __future__ import annotations

import torch

MOSTLY = 0.99


def pattern_of(wrong: torch.Tensor, got: torch.Tensor) -> str:
    """A short phrase on a mask with at least one wrong element, the most telling description that fits."""
    phrases = [_unwritten(wrong, got), _extent(wrong)]
    return ", ".join(filter(None, phrases))


def _unwritten(wrong: torch.Tensor, got: torch.Tensor) -> str:
    if not got.is_floating_point():
        return ""
    blank = got.isnan() & wrong
    count = int(blank.sum())
    if count == 0:
        return ""
    share = count / int(wrong.sum())
    return "never written (or NaN)" if share > MOSTLY else f"{share:.0%} of them NaN or never written"


def _extent(wrong: torch.Tensor) -> str:
    count = int(wrong.sum())
    if count > MOSTLY * wrong.numel():
        return "all elements"
    flat = wrong.flatten()
    first = int(flat.to(torch.uint8).argmax())
    if count > MOSTLY * (flat.numel() - first):
        return f"the tail from flat index {first} of {flat.numel()}"
    if wrong.ndim >= 2:
        return _by_axes(wrong, count)
    return _stride(flat, first, count)


def _by_axes(wrong: torch.Tensor, count: int) -> str:
    """Whole rows, whole columns, or a block of the last two axes."""
    plane = wrong.reshape(-1, wrong.shape[-1])
    rows, columns = plane.any(1), plane.any(0)
    row_count, column_count = int(rows.sum()), int(columns.sum())
    if count > MOSTLY * row_count * plane.shape[1]:
        return f"whole rows: {row_count} of {plane.shape[0]}, the first {_first(rows)}"
    if count > MOSTLY * column_count * plane.shape[0]:
        return f"whole columns: {column_count} of {plane.shape[1]}, the first {_first(columns)}"
    if count > MOSTLY * row_count * column_count:
        return f"a block of {row_count} rows from {_first(rows)} and {column_count} columns from {_first(columns)}"
    return f"scattered over {row_count} rows and {column_count} columns"


def _stride(flat: torch.Tensor, first: int, count: int) -> str:
    positions = flat.nonzero().flatten()
    gaps = positions.diff()
    if count > 2 and bool((gaps == gaps[0]).all()) and int(gaps[0]) > 1:
        return f"every {int(gaps[0])}th element from {first}"
    return f"{count} elements scattered from {first} to {int(positions[-1])}"


def _first(mask: torch.Tensor) -> int:
    return int(mask.to(torch.uint8).argmax())
