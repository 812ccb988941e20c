"""Where the wrong elements of an output lie: the shape of an error says more than its size."""

from __future__ import annotations

import itertools

import torch

MOSTLY = 0.99
WINDOW = 2048
"""Tiles, diagonals and strides are looked for in this many rows and columns; a pattern shows there or nowhere."""
TILE_EDGES = (128, 64, 32, 16, 8)
MOVING = "moving from one call to the next on the same inputs (a race?)"
STALE = "following what lay in the output before the call"


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
    return _along(flat, first, count, "element")


def _by_axes(wrong: torch.Tensor, count: int) -> str:
    """Whole rows, whole columns, a block of the last two axes, tiles, one side of the diagonal."""
    plane = wrong.reshape(-1, wrong.shape[-1])
    rows, columns = plane.any(1), plane.any(0)
    row_count, column_count = int(rows.sum()), int(columns.sum())
    if count > MOSTLY * row_count * plane.shape[1]:
        return f"whole rows: {row_count} of {plane.shape[0]}, {_along(rows, _first(rows), row_count, 'row')}"
    if count > MOSTLY * column_count * plane.shape[0]:
        where = _along(columns, _first(columns), column_count, "column")
        return f"whole columns: {column_count} of {plane.shape[1]}, {where}"
    if count > MOSTLY * row_count * column_count and _solid(rows, row_count) and _solid(columns, column_count):
        return f"a block of {row_count} rows from {_first(rows)} and {column_count} columns from {_first(columns)}"
    window = _window(wrong)
    telling = _diagonal(window) or _tiles(window)
    return telling or f"scattered over {row_count} rows and {column_count} columns"


def _window(wrong: torch.Tensor) -> torch.Tensor:
    """The top left part of the first matrix that has a wrong element in it."""
    planes = wrong.reshape(-1, *wrong.shape[-2:])[..., :WINDOW, :WINDOW]
    return planes[_first(planes.flatten(1).any(1))]


def _diagonal(window: torch.Tensor) -> str:
    if not window.any() or min(window.shape) < 3:
        return ""
    below, above = bool(window.tril(-1).any()), bool(window.triu(1).any())
    if not (below or above):
        return "on the diagonal only"
    if below and above:
        return ""
    rows, columns = window.shape
    side = torch.ones_like(window).tril(-1) if below else torch.ones_like(window).triu(1)
    share = int((window & side).sum()) / int(side.sum())
    return f"{'below' if below else 'above'} the diagonal of {rows} x {columns}" if share > MOSTLY else ""


def _tiles(window: torch.Tensor) -> str:
    """The largest aligned tiles that are wrong as a whole or not at all."""
    count = int(window.sum())
    for height, width in sorted(itertools.product(TILE_EDGES, repeat=2), key=lambda edges: -edges[0] * edges[1]):
        if height > window.shape[0] or width > window.shape[1]:
            continue
        hit = _cells(window, height, width) > 0
        if count > MOSTLY * int(_cells(torch.ones_like(window), height, width)[hit].sum()):
            row, column = hit.nonzero()[0].tolist()
            return (
                f"whole tiles of {height} x {width}: {int(hit.sum())} of {hit.numel()}, "
                f"the first at ({row * height}, {column * width})"
            )
    return ""


def _cells(mask: torch.Tensor, height: int, width: int) -> torch.Tensor:
    """Marks in each tile; tiles at the far edges are cut off."""
    rows, columns = (-(-extent // edge) for extent, edge in zip(mask.shape, (height, width), strict=True))
    padded = torch.nn.functional.pad(mask, (0, columns * width - mask.shape[1], 0, rows * height - mask.shape[0]))
    return padded.view(rows, height, columns, width).sum((1, 3), dtype=torch.int32)


def _along(mask: torch.Tensor, first: int, count: int, what: str) -> str:
    """How marks lie on one axis."""
    if _solid(mask, count) and what == "element":
        return f"{count} elements in a row from {first}"
    if _solid(mask, count):
        return f"the last {count}" if first + count == mask.numel() and count > 1 else f"from {first}"
    positions = mask[first : first + WINDOW * WINDOW].nonzero().flatten() + first
    gaps = positions.diff()
    if count > 2 and bool((gaps == gaps[0]).all()):
        return f"every {_ordinal(int(gaps[0]))} {what} from {first}"
    return f"{count} {what}s scattered from {first} to {int(positions[-1])}"


def _ordinal(number: int) -> str:
    suffix = "th" if number % 100 in (11, 12, 13) else {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th")
    return f"{number}{suffix}"


def _solid(mask: torch.Tensor, count: int) -> bool:
    """Do the marks follow each other without a gap?"""
    first = _first(mask)
    return bool(mask[first : first + count].all())


def _first(mask: torch.Tensor) -> int:
    return int(mask.to(torch.uint8).argmax())
