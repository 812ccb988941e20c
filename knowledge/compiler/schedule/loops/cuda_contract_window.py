"""Convolutions on Hopper that keep a box of the image for all taps of the window (contract_window.cu).

A box of places is one block's; its rim, what the taps reach around it, is read once for each channel. What it takes:
float32, places that move along the image with the loops of the results, the fastest of them with neighbours in memory,
and channels that no window moves over. The knobs are those of `schedule/loops/cuda_contract_wgmma.py`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from math import prod
from typing import Any

from knowledge.compiler.emit.source_text import indented
from knowledge.compiler.emit.spelling import spelled
from knowledge.compiler.ir.index import Axis, Index
from knowledge.compiler.passes.loops import count
from knowledge.compiler.problem import Problem
from knowledge.compiler.schedule.loops.contraction import STEPPED, Contraction, Stepped
from knowledge.compiler.schedule.loops.cuda_contract import no_data, products_of
from knowledge.compiler.schedule.loops.cuda_contract_wgmma import BUSY, SHARED_BYTES, TILES, BackgroundText

# Channels at a time.
K = 8
# What eight warps hold of their results on the way to memory: 32 rows of 20.
PIECES_BYTES = 8 * 32 * 20 * 4
# Sums that a consumer's thread holds: of its 216 registers, those left beside operands and addresses.
MOST_SUMS = 128
# Shared memory for the boxes of all stages, and of a stage of weights: the rings hold what both warpgroups work on.
BOXES_BYTES, STAGE_BYTES = 96 << 10, 20 << 10
LEAST_STAGES, MOST_STAGES = 2, 12
# Taps from which on reading an element once pays, and up to which they are written one by one.
TAPS = (2, 64)
GROUPS = (4, 2, 1)
WIDTHS = (8, 16, 32, 64, 128, 256)
# Columns that one instruction takes, of the few that are used.
COLUMNS = (8, 16, 32, 64, 96, 128)
# Channels out up to which three products pay: with more, weights in two parts take the time (on an H100, 64 channels
# 0.97 to 1.1 times as long as tiles of neighbouring places, 128 and 256 1.4 to 1.7).
MOST_EXACT = 32
# How much a box may waste, beside tiles of neighbouring places: the deeper K is, the more it is worth to read each
# element once. On an H100, K of 144 paid at 1.0 and not at 1.1, 256 at 1.4 and not at 1.8, 576 at 1.5, 1600 not at 2.2.
FREE_K, MOST_FREE = 600, 0.75
# Tiles have at least 64 channels out, so they waste products on fewer. A box may waste up to this many times more then:
# more was not measured.
MOST_VAIN = 1.4


@dataclass(frozen=True)
class Dimension:
    """One that windows move over, the fastest first: the results' loop, its steps, and what the taps reach."""

    places: int
    step: int
    stride: int
    low: int
    high: int

    def rim(self, box: int) -> int:
        """Elements that a box of so many places reads."""
        return (box - 1) * self.step + self.high - self.low + 1


@dataclass(frozen=True)
class Window:
    """A convolution by boxes: how it moves, and the shape of a box."""

    made: Contraction
    channels: tuple[Axis, ...]
    taps: tuple[Axis, ...]
    dims: tuple[Dimension, ...]
    products: int
    box: tuple[int, ...] = ()

    @property
    def apart(self) -> int | None:
        """Elements between channels; None where that is not always the same."""
        step, size, first = self.made.address.step, 1, None
        for axis in reversed(self.channels):
            first = step.times(axis) if first is None else first
            if first is None or step.times(axis) != first * size:
                return None
            size *= axis.extent
        return first or 0

    @property
    def phases(self) -> int:
        """Neighbouring rows whose results lie between each other."""
        store, last = self.made.nest.stores[0].address, self.made.m[-1:]
        return 2 if last and last[0].extent == 2 and store.times(last[0]) == 1 else 1

    @property
    def columns(self) -> int:
        """Channels out of a tile: all of them where wgmma takes them, at most 128."""
        rows, most = self.made.sizes[1], 64 if self.products == 3 else 128
        return next(each for each in COLUMNS if each >= min(rows, most))

    @property
    def groups(self) -> int:
        """Products of 64 places of a warpgroup, at most: as its registers hold their sums."""
        each = self.columns // 2 * (3 if self.products == 3 else 1)
        return next(size for size in GROUPS if size == 1 or size * each <= MOST_SUMS)

    @property
    def rim(self) -> tuple[int, ...]:
        """The box with what the taps reach around it."""
        return tuple(each.rim(size) for each, size in zip(self.dims, self.box, strict=True))

    @property
    def box_bytes(self) -> int:
        """One stage of eight channels; channels lie 8 more than a multiple of 32 words apart."""
        rim = prod(self.rim)
        return K * (rim + (40 - rim % 32) % 32) * 4

    @property
    def boxes(self) -> int:
        """In all images and batches, with the tiles of channels out."""
        batches, m, n, _ = self.made.sizes
        inside = prod(-(-each.places // size) for each, size in zip(self.dims, self.box, strict=True))
        return batches * -(-m // self.columns) * inside * (n // prod(each.places for each in self.dims))

    @property
    def box_stages(self) -> int:
        """Of boxes."""
        return min(4, BOXES_BYTES // self.box_bytes)

    @property
    def tap_bytes(self) -> int:
        """Weights of a tap and eight channels."""
        return self.columns * K * 4 * (2 if self.products == 3 else 1)

    @property
    def taps_at_once(self) -> int:
        """Taps in a stage of weights."""
        taps = count(self.taps)
        return max(each for each in range(1, taps + 1) if taps % each == 0 and each * self.tap_bytes <= STAGE_BYTES)

    @property
    def weight_stages(self) -> int:
        """As many as shared memory holds."""
        left = SHARED_BYTES - PIECES_BYTES - self.box_stages * self.box_bytes - 16 * (4 + MOST_STAGES)
        return min(left // (self.taps_at_once * self.tap_bytes), MOST_STAGES)

    @property
    def cost(self) -> float:
        """Of a box, beside tiles of 128 neighbouring places: what is multiplied and read in vain, and short stores.

        A row of a box is stored apart from its neighbours: on an H100 rows of 16 places took 2.7 times as long as rows
        of 256, of 32 1.6 times, of 64 1.3 times, where rows of the image are not aligned.
        """
        places = prod(each.places for each in self.dims)
        padded = prod(-(-each.places // size) * size for each, size in zip(self.dims, self.box, strict=True))
        read = prod(self.rim) / prod(self.box)
        row = self.dims[0].places
        stored = (1 + 16 / min(self.box[0], row)) / (1 + 16 / min(128, row))
        return padded / places * (1 + 0.1 * read) / 1.1 * stored


def fitting(problem: Problem, made: Contraction, knobs: Mapping[str, object]) -> Window | None:
    """The convolution by boxes; None where it is none, or would leave multiprocessors without work."""
    device, blocks = problem.device, problem.device.multiprocessors
    taken = "bm" in knobs or knobs.get("wgmma") == 0
    if taken or not device.has.wgmma or not blocks:
        return None
    if made.left.dtype != "float32" or made.right.dtype != "float32" or made.total.dtype != "float32":
        return None
    return next(filter(None, (_taken(problem, each, knobs) for each in (made.interleaved, made) if each)), None)


def _taken(problem: Problem, made: Contraction, knobs: Mapping[str, object]) -> Window | None:
    products, blocks = products_of(problem, made, knobs), problem.device.multiprocessors
    moved = _moved(made, products) if products == 1 or made.sizes[1] <= MOST_EXACT else None
    if moved is None:
        return None
    sizes = [128 * size for size in GROUPS if size <= moved.groups]
    found = (min(_fits(moved, blocks, places), key=lambda each: each.cost, default=None) for places in sizes)
    best = next(filter(None, found), None)
    rows = made.sizes[1]
    vain = min(-(-rows // tile.bm) * tile.bm for tile in TILES) / (-(-rows // moved.columns) * moved.columns)
    return best if best and best.cost < (1 + min(made.sizes[3] / FREE_K, MOST_FREE)) * min(vain, MOST_VAIN) else None


def _fits(moved: Window, blocks: int, places: int) -> Iterator[Window]:
    """Boxes of so many places whose rings fit into shared memory, and that all multiprocessors have one of."""
    for box in _boxes(len(moved.dims), places):
        made = replace(moved, box=box)
        if made.box_stages >= LEAST_STAGES and made.weight_stages >= LEAST_STAGES and made.boxes >= BUSY * blocks:
            yield made


def _boxes(dims: int, places: int) -> Iterator[tuple[int, ...]]:
    """Shapes of a box, the fastest dimension first."""
    powers = [1 << each for each in range(places.bit_length())]
    for width in WIDTHS:
        for others in product(powers, repeat=dims - 1):
            if width * prod(others) == places:
                yield width, *others
    if dims == 1:
        yield (places,)


def _moved(made: Contraction, products: int) -> Window | None:
    """How windows move over the right operand; None where some loop does not move along one dimension of it."""
    read = made.right
    if read.value is None or made.guards:
        return None
    along = [(index, extent) for index, extent in zip(read.indices, read.value.shape, strict=True)]
    own = {axis: [each for each in along if each[0].uses(axis)] for axis in (*made.n, *made.k)}
    if any(len(dims) != 1 or own[axis][0][0].times(axis) is None for axis, dims in own.items()):
        return None
    moving = [axis for axis in made.n if any(own[axis][0][0].uses(k) for k in made.k)]
    if not moving:
        return None
    inner = made.n[made.n.index(moving[0]) :]
    dims, stepped, taps = [], [], []
    for axis in inner:
        index, extent = own[axis][0]
        reach = [k for k in made.k if index.uses(k)]
        stride, step = made.address.row.times(axis) or 0, index.times(axis) or 0
        if sum(index.uses(n) for n in made.n) != 1 or step < 1 or stride % step:
            return None
        if any(made.address.step.times(k) != (index.times(k) or 0) * (stride // step) for k in reach):
            return None
        moved = Index(tuple(term for term in index.terms if term[0] in reach))
        stepped.append(Stepped(index - moved, moved, extent))
        dims.append(Dimension(axis.extent, step, stride // step, *moved.bounds))
        taps += reach
    channels = tuple(k for k in made.k if k not in taps)
    known = Window(
        replace(made, stepped=tuple(stepped)),
        channels,
        tuple(k for k in made.k if k in taps),
        tuple(dims[::-1]),
        products,
    )
    few = len(dims) <= STEPPED and TAPS[0] <= count(known.taps) <= TAPS[1]
    return known if few and dims[-1].stride == 1 and known.apart is not None else None


class WindowText(BackgroundText):
    """One kernel of this schedule: what its engine is told of it."""

    exemplar = "contract_window"
    space = "window"

    def __init__(self, name: str, window: Window, problem: Problem, *others: Any) -> None:
        super().__init__(name, window.made, problem, *others)
        self.window = window

    def _own(self) -> list[str]:
        window = self.window
        shapes = {
            "Box": window.box,
            "Rim": window.rim,
            "Image": [each.places for each in window.dims],
            "Strides": [each.step for each in window.dims],
        }
        return [
            f"using BLK_N = Int<{window.columns}>;",
            *(f"using {name} = Shape<{', '.join(f'Int<{size}>' for size in _padded(sizes, 1))}>;  // (x,y,z)"
              for name, sizes in shapes.items()),
            f"static constexpr int Channels = {count(window.channels)}, ChannelStride = {window.apart}, "
            f"Taps = {count(window.taps)};",
            f"static constexpr int Phases = {window.phases};",
            f"static constexpr int TapsAtOnce = {window.taps_at_once}, BoxStages = {window.box_stages}, "
            f"WeightStages = {window.weight_stages}, Blocks = {self.problem.device.multiprocessors};",
            *self._geometry(),
        ]  # fmt: skip

    def _geometry(self) -> Iterator[str]:
        """Where an element of the rim lies, where a tap begins in it, and which k a channel and a tap are."""
        window, names = self.window, "xyz"
        moved = [
            Index(((Axis(name, each.places), 1),), each.low) for name, each in zip(names, window.dims, strict=False)
        ]
        address = Index(((Axis("channel", 0), window.apart or 0),))
        for at, each in zip(moved, window.dims, strict=True):
            address = address + at * each.stride
        words = [spelled(each, no_data) for each in (address, *moved[::-1])]
        given = ", ".join(f"[[maybe_unused]] int {name}" for name in names)
        yield f"CUTE_DEVICE static int4 reached(int channel, {given}) {{"
        yield f"  return make_int4({', '.join(_padded(words, '0', 4))});"
        yield "}"
        offset, wide = Index(), 1
        for each, size, stepped in zip(window.dims, window.rim, self.made.stepped[::-1], strict=True):
            offset, wide = offset + (stepped.step - each.low) * wide, wide * size
        yield "CUTE_HOST_DEVICE static constexpr int tap(int tap) {"
        yield from indented([*self._decoded(("tap", window.taps)), f"return {spelled(offset, no_data)};"])
        yield "}"
        k, size = Index(), 1
        for axis in reversed(self.made.k):
            k, size = k + Index(((axis, size),)), size * axis.extent
        yield "CUTE_HOST_DEVICE static constexpr int k_of(int channel, int tap) {"
        loops = (("channel", window.channels), ("tap", window.taps))
        yield from indented([*self._decoded(*loops), f"return {spelled(k, no_data)};"])
        yield "}"

    @property
    def _budget(self) -> str:
        window = self.window
        boxes = window.box_stages * window.box_bytes
        weights = window.weight_stages * window.taps_at_once * window.tap_bytes
        barriers = 16 * (window.box_stages + window.weight_stages)
        return (
            f"boxes {boxes}, weights {weights}, results {PIECES_BYTES}, barriers {barriers}: "
            f"{boxes + weights + PIECES_BYTES + barriers} bytes"
        )


def _padded(values: Sequence[Any], more: Any, size: int = 3) -> list[Any]:
    return [*values, *[more] * (size - len(values))]
