"""Which elements a pointwise or row kernel for a GPU moves: read off its text, each of them once, in whole packs."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from itertools import product
from math import prod
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from gpu_kernels import A100, H200, traced
from hypothesis import given
from hypothesis import strategies as st

from knowledge.compiler.emit import cuda_frame as frame
from knowledge.compiler.emit.cuda_frame import Operand
from knowledge.compiler.ir.strides import Space
from knowledge.compiler.plan import Plan
from knowledge.compiler.problem import Device, Problem, Tensor
from knowledge.compiler.schedule.pointwise.recipe import PointwiseRecipe
from knowledge.compiler.schedule.rows.cuda import LARGEST_SHARE, share
from knowledge.compiler.schedule.rows.recipe import RowRecipe

WIDTHS = {"float64": 8, "float32": 4, "float16": 2, "bfloat16": 2, "bool": 1}


@st.composite
def operands(draw: st.DrawFn) -> tuple[Space, list[Operand]]:
    """Some tensors walked together; their strides are multiples of anything, or 0, or backwards."""
    extents = tuple(draw(st.lists(st.sampled_from([1, 2, 3, 4, 6, 8, 12, 16]), min_size=1, max_size=3)))
    made = []
    for number in range(draw(st.integers(1, 3))):
        first = draw(st.sampled_from([1, 1, 1, 0, 2, -1]))
        rest = tuple(draw(st.sampled_from([0, 1, 2, 3, 4, 8, 16, 24])) for _ in extents[1:])
        tensor = Tensor(name="t", shape=(1,), strides=(1,), dtype=draw(st.sampled_from([*WIDTHS])))
        made.append(Operand(f"T{number}", tensor, (first, *rest)))
    return Space(extents, tuple(each.strides for each in made)), made


def starts(space: Space, operand: Operand, width: int) -> Iterator[int]:
    """Where each of the operand's whole packs begins."""
    firsts = range(0, space.extents[0] - width + 1, width)
    for first, *steps in product(firsts, *map(range, space.extents[1:])):
        yield first * operand.strides[0] + sum(
            step * stride for step, stride in zip(steps, operand.strides[1:], strict=True)
        )


@given(operands(), st.booleans())
def test_packs_are_aligned_whole_and_as_wide_as_that_allows(drawn: tuple[Space, list[Operand]], tail: bool) -> None:
    space, made = drawn
    packed = [each for each in made if each.form == "pack"]

    def possible(width: int) -> bool:
        whole = space.extents[0] % width == 0 or (tail and len(space.extents) == 1)
        aligned = all(start % width == 0 for each in packed for start in starts(space, each, width))
        return space.extents[0] >= width and whole and aligned

    taken = frame.pack_width(space, made, tail=tail)
    if not packed:
        assert taken == 1
        return
    widest = 16 // max(WIDTHS[each.tensor.dtype] for each in packed)
    assert taken <= widest and (taken == 1 or possible(taken))
    assert not any(possible(width) for width in (2, 4, 8, 16) if taken < width <= widest)


def evaluated(text: str, width: int) -> Any:
    """CuTe's static layouts and numbers as nested tuples, for packs of `width`."""
    text = re.sub(r"int64_t\((-?\d+)\)", r"\1", text).replace("/", "//").replace("{}", "")
    text = re.sub(r"\b_(\d+)\b", r"\1", re.sub(r"(?:Int|C)<([^<>]*)>", r"(\1)", text))
    return eval(re.sub(r"(?:Layout|Shape|Stride)<", "(", text).replace(">", ",)"), {"V": width})


def offsets(layout: str, width: int) -> list[int]:
    """Every offset of a layout."""
    extents, steps = map(_flat, evaluated(layout, width))
    places = product(*map(range, extents))
    return [sum(at * step for at, step in zip(place, steps, strict=True)) for place in places]


def _flat(value: Any) -> list[int]:
    return [each for part in value for each in _flat(part)] if isinstance(value, tuple) else [value]


@given(operands(), st.integers(1, 3))
def test_a_layout_over_packs_goes_to_each_of_the_operand_s_elements(
    drawn: tuple[Space, list[Operand]], columns: int
) -> None:
    space, made = drawn
    columns = min(columns, len(space.extents))
    for operand in made:
        for width in (1, 2, 4):
            if space.extents[0] % width or (operand.form == "pack" and any(s % width for s in operand.strides[1:])):
                continue
            found = offsets(frame.pack_layout(space.extents, operand, columns), width)
            if operand.form == "pack":  # counted in packs
                found = [start * width for start in found]
            expected = sorted(starts(space, operand, width))
            if operand.form == "gather":
                expected = sorted(start + k * operand.strides[0] for start in expected for k in range(width))
            assert sorted(found) == expected, (operand, width)


@given(st.integers(-(2**36), 2**36))
def test_numbers_beyond_an_int_are_spelled_as_64_bits(value: int) -> None:
    for text, largest in ((frame.divided(value), abs(value)), (frame._times(value), abs(value) * 16)):
        assert evaluated(text, 1) == value
        assert text.startswith("Int<") is (largest < 2**31)
    assert evaluated(frame.divided(8 * value), 4) == 2 * value and evaluated(frame._times(value), 4) == 4 * value


def constants(source: str) -> dict[str, int]:
    """The kernel's whole constants."""
    return {name: int(value) for name, value in re.findall(r"constexpr int (k\w+) = (\d+);", source)}


def launches(source: str, name: str) -> list[tuple[int, int]]:
    """Of each launch of a kernel its elements a pack and its blocks."""
    known = constants(source) | {"V": 1}
    found = []
    for vector, grid in re.findall(rf"\b{name}<(\w+)><<<(.+), kThreads, \w+, stream>>>", source):
        grid = re.sub(r"std::min<int64_t>\((.*)\)", r"min(\1)", grid).replace("/", "//")
        found.append((int(vector) if vector.isdigit() else known[vector], eval(grid, {"min": min, **known})))
    return found


@pytest.mark.parametrize("knobs", [
    {}, {"vector": 1}, {"vector": 1, "packs": 4}, {"vector": 1, "threads": 512, "packs": 2}, {"grid": 2},
    {"vector": 1, "grid": 3, "packs": 2},
], ids=str)  # fmt: skip
@pytest.mark.parametrize("count", [1, 3, 4, 127, 128, 129, 512, 4096, 4099, 100_003])
def test_a_grid_moves_every_element_once(count: int, knobs: dict[str, int]) -> None:
    problem = traced(torch.relu, torch.empty(count, device="meta"))
    source = PointwiseRecipe().render(problem, Plan("pointwise", knobs))
    known, resident = constants(source), "tile += gridDim.x" in source
    assert resident == ("grid" in knobs)
    for width, blocks in launches(source, "pointwise"):
        packs, tile = count // width, known["kThreads"] * known["kPacks"]
        # A block's packs begin at a multiple of its tile; one that stays goes on by the whole grid.
        walked = [first for block in range(blocks) for first in _firsts(block, blocks, tile, packs, resident)]
        assert sorted(walked) == list(range(0, packs, tile)) or (packs == 0 and blocks == 1)
        left = re.search(r"threadIdx.x < (\d+)\) \{  // the incomplete pack", source)
        begin = re.search(r"Index\((\d+)ll\) \+ threadIdx.x", source)
        rest = (int(left[1]), int(begin[1])) if left and begin and width > 1 else (0, packs * width)
        assert rest[1] == packs * width and rest[0] == count - packs * width <= known["kThreads"]
        assert not resident or blocks <= knobs["grid"] * H200.multiprocessors


def _firsts(block: int, blocks: int, tile: int, packs: int, resident: bool) -> list[int]:
    if resident:
        return list(range(block * tile, packs, blocks * tile))
    return [block * tile] if block * tile < packs else []


# A GPU with clusters whose blocks have less shared memory than a Hopper's.
SMALL = Device(architecture="sm_120a", multiprocessors=170, shared_bytes=99 << 10, l2_bytes=96 << 20)
ROWS: dict[str, tuple[Callable[..., Any], tuple[int, ...]]] = {
    "softmax": (lambda x: F.softmax(x, -1), (4096, 393_216)),
    "a few rows": (lambda x: F.softmax(x, -1), (37, 50_000)),
    "short rows": (lambda x: F.softmax(x, -1), (1021, 24)),
    "odd": (lambda x: F.layer_norm(x, x.shape[-1:]), (1023, 1001)),
    "sums": (lambda x: x.sum(-1), (4096, 1 << 20)),
    "columns": (lambda x: x.sum(0), (3001, 1000)),
    "one": (lambda x: (x.sum(), x.amax()), (7, 9, 1001)),
}  # fmt: skip


def reachable(problem: Problem) -> list[Plan]:
    """Every plan that moves lead to, whichever are kept."""
    recipe = RowRecipe()
    first = recipe.first_plan(problem)
    assert isinstance(first, Plan)
    found, waiting = [first], [first]
    while waiting and len(found) < 60:
        for move in recipe.moves(problem, waiting.pop()):
            if move.plan not in found:
                found.append(move.plan)
                waiting.append(move.plan)
    return found


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
@pytest.mark.parametrize("device", [A100, H200, SMALL], ids=lambda device: device.architecture)
@pytest.mark.parametrize("name", ROWS)
def test_wherever_moves_lead_rows_are_covered_and_blocks_fit(name: str, device: Device, dtype: torch.dtype) -> None:
    function, shape = ROWS[name]
    problem = traced(function, torch.empty(*shape, device="meta", dtype=dtype), device=device)
    numel = prod(shape)
    for plan in reachable(problem):
        source = RowRecipe().render(problem, plan)
        known, knob = constants(source), {key: int(value) for key, value in plan.knobs.items()}
        (told,) = re.findall(r"(\d+) rows of (\d+), read", source)
        count, columns = map(int, told)
        assert count * columns == numel
        threads = known["kGroup"] * known["kRows"]
        assert threads <= 1024 and known["kShares"] == known["kCluster"] * knob.get("split", 1)
        largest = {A100: 1, H200: 16}.get(device, 8)  # 16 are more than every GPU with clusters promises
        assert known["kCluster"] <= largest
        for width, blocks in launches(source, "rows"):
            taken = known["kRows"] * known.get("kEach", 1) * known.get("kChain", 1)
            clusters, rest = divmod(blocks, known["kShares"])
            assert rest == 0 and (clusters - 1) * taken < count <= clusters * taken, plan
            assert columns % width == 0
            if knob.get("keep"):
                assert known["kItems"] % width == 0
                assert known["kItems"] * known["kGroup"] * known["kCluster"] >= columns, plan
        if "kStaged" in known:
            assert (
                known["kItems"] * known["kGroup"] * dtype.itemsize
                == known["kStaged"]
                <= device.shared_bytes - (4 << 10)
            )
            assert known["kItems"] // known["kVector"] % known["kParts"] == 0 and known["kRows"] == 1


@given(st.integers(1, 600_000), st.sampled_from([1, 2, 4, 8]), st.integers(1, 3), st.booleans())
def test_a_share_holds_a_row_in_registers_with_the_fewest_blocks(
    columns: int, width: int, live: int, clusters: bool
) -> None:
    columns -= columns % width
    found = share(max(columns, width), width, live, clusters, words=live)
    most = LARGEST_SHARE // live // width * width * 512 * (8 if clusters else 1)
    if found is None:
        assert columns > most
        return
    assert found.items % width == 0 and found.items * live <= LARGEST_SHARE
    assert found.items * found.group * found.cluster >= columns
    assert (found.items - width) * found.group * found.cluster < max(columns, width), "a pack less would do"
    assert found.group * found.rows <= 1024 and (found.rows == 1 or found.group <= 32)
    assert found.cluster == 1 or (clusters and columns * live > 512 * 32 * found.cluster // 2 - width * 512 * live)
