"""Products on a GPU touch memory as their operands allow: vectors lie aligned, tiles fit, wherever moves may lead."""

from __future__ import annotations

import re
from itertools import pairwise, product
from math import ceil
from typing import Any

import pytest
import torch
from cuda_gemm_cases import H200, LEVEL1, RECIPE, on_gpu, shaped
from gpu_kernels import A100, traced
from hypothesis import given
from hypothesis import strategies as st

from knowledge.compiler.plan import Decline, Plan
from knowledge.compiler.problem import Device, Problem
from knowledge.compiler.schedule.gemm import cuda_16bit as narrow
from knowledge.compiler.schedule.gemm import cuda_decode as decode
from knowledge.compiler.schedule.gemm import cuda_fused as fused
from knowledge.compiler.schedule.gemm import cuda_hopper as hopper
from knowledge.compiler.schedule.gemm import cuda_short as short
from knowledge.compiler.schedule.gemm import cuda_simt as simt
from knowledge.compiler.schedule.gemm import cuda_tensor as tensor
from knowledge.compiler.schedule.gemm import cuda_wgmma as wgmma
from knowledge.compiler.schedule.gemm.cuda import first_plan
from knowledge.compiler.schedule.gemm.cuda_shares import raster_orders
from knowledge.compiler.schedule.gemm.cuda_text import width
from knowledge.compiler.schedule.gemm.form import A, Axis, B, C, Form
from knowledge.compiler.schedule.gemm.product import form_of

SMALL = Device(architecture="sm_86", multiprocessors=80, shared_bytes=99 << 10)
EXTENTS = st.sampled_from([1, 2, 3, 4, 6, 7, 8, 12, 16, 20, 24])


@st.composite
def problems(draw: st.DrawFn, dtypes: tuple[str, ...] = ("float32",)) -> Problem:
    """A small product whose operands may be transposed, cut out of something wider, or have gaps between batches."""
    m, n, k = draw(EXTENTS), draw(EXTENTS), draw(EXTENTS)
    way = st.sampled_from("NT")
    problem = shaped(m, n, k, draw(way), draw(way), batch=(batch := draw(st.sampled_from([0, 0, 2]))))
    if batch and problem.ops[:-1]:
        problem = shaped(m, n, k, batch=batch)
    inputs = []
    for each in problem.inputs:
        row = each.shape[-1] + draw(st.sampled_from([0, 0, 1, 2, 4, 8]))
        strides = ((each.shape[-2] * row + draw(st.sampled_from([0, 2, 8])),) if batch else ()) + (row, 1)
        inputs.append(each.model_copy(update={"strides": strides}))
    ops = (
        op.model_copy(
            update={
                "results": tuple(each.model_copy(update=_turned(op.target, op.args, inputs)) for each in op.results)
            }
        )
        for op in problem.ops
    )
    problem = problem.model_copy(update={"inputs": tuple(inputs), "ops": tuple(ops)})
    return typed(problem, draw(st.sampled_from(dtypes)))


def _turned(target: str, args: tuple[Any, ...], inputs: list[Any]) -> dict[str, tuple[int, ...]]:
    """The strides of an operand that is transposed."""
    if "aten.t." not in target:
        return {}
    (given,) = (each for each in inputs if each.name == args[0].ref)
    return {"strides": tuple(reversed(given.strides))}


AXES = {A: ("m", "k"), B: ("n", "k"), C: ("m", "n")}


def fits(form: Form, place: int, count: int) -> bool:
    """Whether `count` elements from every count-th place of the operand on are neighbours, aligned, and inside it."""
    if count == 1:
        return True
    axes = [getattr(form, name) for name in AXES[place]]
    lengthwise = [axis for axis in axes if axis.strides[place] == 1 and (place != C or axis is form.n)]
    if not lengthwise:
        return False
    along = next((axis for axis in lengthwise if axis is form.k), lengthwise[0])
    others = [axis for axis in (*axes, *form.batch) if axis is not along]
    starts = [
        first + sum(step * axis.strides[place] for step, axis in zip(steps, others, strict=True))
        for first in range(0, along.extent, count)
        for steps in product(*(range(axis.extent) for axis in others))
    ]
    return along.extent % count == 0 and all(start % count == 0 for start in starts)


@given(problems())
def test_an_access_is_as_wide_as_every_place_allows_and_no_wider(problem: Problem) -> None:
    form = form_of(problem)
    for place in (A, B, C):
        for counts in ((4, 2), (8, 2)):
            taken = width(form, place, counts)
            assert fits(form, place, taken), (form, place)
            assert not any(fits(form, place, count) for count in counts if count > taken) or _still(form, place)


def _still(form: Form, place: int) -> bool:
    """A loop of one step may have any stride, which the rule does not look into."""
    return any(axis.extent == 1 for axis in (form.m, form.n, form.k, *form.batch))


def knobs_of(source: str) -> dict[str, int]:
    """The whole numbers in the section `knobs`."""
    section = source[source.index("// begin knobs") : source.index("// end knobs")]
    return {name: int(value) for name, value in re.findall(r"(\w+) = (?:Int<)?(-?\d+)", section)}


def plans_of(problem: Problem) -> list[Plan]:
    """The first plan of every kernel of the family that the problem has, and what follows each."""
    first = RECIPE.first_plan(problem)
    assert isinstance(first, Plan)
    found, waiting = [first], [first]
    while waiting:
        for move in RECIPE.moves(problem, waiting.pop()):
            if all(move.plan != plan for plan in found) and len(found) < 400:
                found.append(move.plan)
                waiting.append(move.plan)
    return found


def kernels_of(problem: Problem) -> dict[str, Plan]:
    """Each of the family's kernels that moves lead to, with the first plan for it; 16-bit copies by vectors."""
    first = RECIPE.first_plan(problem)
    assert isinstance(first, Plan)
    found, waiting = {}, [first]
    while waiting:
        plan = waiting.pop()
        if plan.knobs["kernel"] not in found:
            found[str(plan.knobs["kernel"])] = plan.with_knobs(vectors=1) if "vectors" in plan.knobs else plan
            waiting += [move.plan for move in RECIPE.moves(problem, plan)]
    return found


@given(problems(("float32", "float16", "bfloat16")))
def test_every_kernel_s_accesses_are_ones_that_its_operands_allow(problem: Problem) -> None:
    form = form_of(problem)
    for plan in kernels_of(problem).values():
        source = RECIPE.render(problem, plan)
        knobs = knobs_of(source)
        asked = dict(re.findall(r'product::aligned\(\w+, "(\w+)", (\d)\)', source))
        for place, knob in ((A, "CopyA"), (B, "CopyB"), (C, "StoreC")):
            taken = knobs.get(knob, 1)
            assert fits(form, place, taken), (plan, knob)
            if taken > 1 and place != C:
                along_k = form.k.strides[place] == 1
                assert along_k or "wgmma" not in str(plan.knobs["kernel"]), "threads split neighbours along K"
            assert int(asked[form.operands[place]]) % taken == 0, "the entry lets pass what the kernel cannot read"


def typed(problem: Problem, dtype: str) -> Problem:
    """The same in another element type."""
    update = {"dtype": dtype}
    ops = (
        op.model_copy(update={"results": tuple(each.model_copy(update=update) for each in op.results)})
        for op in problem.ops
    )
    inputs, outputs = (
        tuple(each.model_copy(update=update) for each in group) for group in (problem.inputs, problem.outputs)
    )
    return problem.model_copy(update={"inputs": inputs, "outputs": outputs, "ops": tuple(ops)})


LARGE = {
    "level 1": list(LEVEL1.values()),
    "16 bits": [typed(LEVEL1[number], "float16") for number in (1, 8, 18)] + [typed(shaped(16, 4096, 4096), "float16")],
    "odd": [shaped(1664, 1664, 4096), shaped(130, 1003, 70_001), shaped(64, 40_000, 64), shaped(4096, 960, 64)],
}


def footprint(plan: Plan) -> tuple[int, int]:
    """Threads and bytes of shared memory of a block, from what the exemplars declare."""
    knob = {name: int(value) for name, value in plan.knobs.items() if name != "kernel"}
    match plan.knobs["kernel"]:
        case simt.KERNEL:
            return 256, (knob["bm"] + knob["bn"] + 8) * knob["bk"] * 4
        case tensor.KERNEL:
            warps = (knob["bm"] // knob["wm"]) * (knob["bn"] // knob["wn"])
            return warps * 32, (knob["bm"] + knob["bn"]) * knob["bk"] * knob["stages"] * 4
        case narrow.KERNEL:
            return knob["wm"] * knob["wn"] * 32, (knob["bm"] + knob["bn"]) * 64 * 2 * knob["stages"]
        case hopper.KERNEL:
            return 384, (knob["bm"] + knob["bn"]) * 64 * 2 * knob["stages"] + 2 * knob["panels"] * 64 * 64 * 2
        case decode.KERNEL:
            return 160, (64 + knob["bn"]) * 64 * 2 * knob["stages"] + 64 * knob["bn"] * 4
        case short.KERNEL:
            return 384, 128 * 64 * 8 + knob["bn"] * 32 * 8 * knob["stages"] + 4 * 64 * 32 * 4
        case wgmma.KERNEL:
            return 384, (128 + knob["bn"]) * 32 * 8 * knob["stages"]
    return 256 + knob["producers"], (128 + knob["bn"]) * 32 * 8 * knob["stages"]


@pytest.mark.parametrize("device", [SMALL, A100, H200], ids=lambda device: device.architecture)
@pytest.mark.parametrize("name", LARGE)
def test_wherever_moves_lead_a_block_fits_the_device(name: str, device: Device) -> None:
    for problem in (on_gpu(each, device=device) for each in LARGE[name]):
        plans = plans_of(problem)
        assert 4 <= len(plans) < 400, "moves lead in circles, or nowhere"
        for plan in plans:
            threads, used = footprint(plan)
            assert 128 <= threads <= 1024 and threads % 32 == 0, plan
            # Barriers and what one block reserves for the system take a little more.
            limit = 48 << 10 if plan.knobs["kernel"] == simt.KERNEL else device.shared_bytes
            assert used + 256 * ("wgmma" in str(plan.knobs["kernel"])) <= limit, plan
            blocks = 1 if "wgmma_fused" in str(plan.knobs["kernel"]) else int(plan.knobs.get("blocks", 1))
            assert blocks * threads <= (1536 if device is SMALL else 2048), plan
            assert device is not H200 or blocks * (used + 1024) <= 228 << 10, plan


TILE = ("kernel", "bm", "bn", "bk", "wm", "wn", "stages", "vectors", "spans", "splits")


@pytest.mark.parametrize("name", LARGE)
def test_wherever_moves_lead_tiles_are_whole(name: str) -> None:
    """What the exemplars' static assertions and loops ask of their knobs."""
    for problem in LARGE[name]:
        # The order of the tiles and the rest of the knobs change nothing here.
        tiles = {tuple(plan.knobs.get(name) for name in TILE): plan for plan in plans_of(problem)}
        for plan in tiles.values():
            knob = {key: int(value) for key, value in plan.knobs.items() if key != "kernel"}
            kernel, threads = plan.knobs["kernel"], footprint(plan)[0]
            assert knob.get("stages", 2) >= 2 or kernel == wgmma.KERNEL, "a ring of one tile copies over what is read"
            if kernel in (tensor.KERNEL, narrow.KERNEL, simt.KERNEL):
                knobs = knobs_of(RECIPE.render(problem, plan)) if kernel != simt.KERNEL else {}
                for rows, copy in (("bm", "CopyA"), ("bn", "CopyB")):
                    size, taken = knob[rows] * knob.get("bk", 64), knobs.get(copy, 1)
                    assert size % (taken * threads) == 0, "every thread copies as much"
            if kernel == tensor.KERNEL:
                assert knob["bm"] % knob["wm"] == knob["bn"] % knob["wn"] == 0
                assert knob["wm"] % 32 == knob["wn"] % 32 == knob["bk"] % 16 == 0
                assert knob["splits"] == 1 or not knob["spans"]
                assert knob["wm"] * knob["wn"] // 32 <= 128, "more of C than a thread's registers hold"


@given(st.integers(1, 5000), st.integers(1, 5000), st.integers(1, 300_000))
def test_shares_of_k_have_work_for_every_block_and_none_is_empty(m: int, n: int, k: int) -> None:
    problem = shaped(m, n, k)
    form = form_of(problem)
    for plan, slots in ((tensor.first_plan(problem, form), 264), (fused.first_plan(problem, form), 132)):
        if plan.knobs["kernel"] == tensor.KERNEL:
            plan = tensor.sharing_k(H200, form, plan)
            slots = 132 * int(plan.knobs["blocks"])
        rows, columns, depth = (
            int(plan.knobs.get(name, size)) for name, size in (("bm", 128), ("bn", 128), ("bk", 32))
        )
        tiles, splits = ceil(form.m.extent / rows) * ceil(form.n.extent / columns), int(plan.knobs["splits"])
        deep = ceil(form.k.extent / depth)
        assert splits == 1 or tiles * splits <= slots
        bounds = [deep * split // splits for split in range(splits + 1)]
        assert bounds[0] == 0 and bounds[-1] == deep and all(a < b for a, b in pairwise(bounds))
        if 2 * tiles <= 132 and deep >= 32:
            assert splits > 1, "multiprocessors stay idle while K is long enough to share"


def test_blocks_of_stream_k_all_have_a_share() -> None:
    for shape in ((1664, 1664, 4096), (300, 300, 96), (128, 128, 32), (129, 257, 65)):
        problem = shaped(*shape)
        form, plan = form_of(problem), Plan("gemm", {"kernel": fused.STREAM_K, "bn": 128, "stages": 3, "group": 8,
                                                     "producers": 256})  # fmt: skip
        blocks = knobs_of(RECIPE.render(problem, plan))["Blocks"]
        tiles = ceil(form.m.extent / 128) * ceil(form.n.extent / 128) * ceil(form.k.extent / 32)
        assert 1 <= blocks <= min(132, tiles) and (blocks == 132 or blocks == tiles)


@pytest.mark.parametrize(
    ("architecture", "kernel"),
    [
        ("sm_75", simt.KERNEL), ("sm_80", tensor.KERNEL), ("sm_90a", fused.KERNEL), ("sm_100a", tensor.KERNEL),
        ("sm_120f", tensor.KERNEL), ("", tensor.KERNEL),
    ],
)  # fmt: skip
def test_the_second_kernel_is_one_that_the_architecture_has(architecture: str, kernel: str) -> None:
    device = Device(architecture=architecture, multiprocessors=108, shared_bytes=163 << 10)
    problem = on_gpu(LEVEL1[1], device=device)
    first = RECIPE.first_plan(problem)
    assert isinstance(first, Plan) and first.knobs["kernel"] == simt.KERNEL
    following = [move.plan.knobs["kernel"] for move in RECIPE.moves(problem, first)]
    assert (following[0] if following else simt.KERNEL) == kernel
    assert fused.suits(problem) is (architecture == "sm_90a")


def test_tiles_of_the_plain_kernel_are_small_where_large_ones_would_idle_or_not_fill() -> None:
    sizes = {(4096, 4096, 64): (128, 128), (512, 512, 512): (64, 64), (64, 40_000, 64): (64, 128)}
    for size, tile in sizes.items():
        knobs = simt.first_plan(form_of(shaped(*size)), H200).knobs
        assert (knobs["bm"], knobs["bn"]) == tile


def test_under_tf32_one_product_is_enough_and_the_exact_ways_are_left_out() -> None:
    problem = on_gpu(LEVEL1[1], precision="tf32")
    first = RECIPE.first_plan(problem)
    assert isinstance(first, Plan)
    (move,) = RECIPE.moves(problem, first)
    assert move.name == "tensor cores" and move.plan.knobs["products"] == 1


def test_a_product_of_doubles_is_declined() -> None:
    axis = Axis(4, (4, 1, 1))
    problem = traced(torch.matmul, torch.empty(4, 4), torch.empty(4, 4))
    form = Form("float64", ("a", "b", "c"), axis, axis, Axis(1, (0, 0, 0)), (), (), None)
    answer = first_plan(problem, form)
    assert isinstance(answer, Decline) and "float64" in answer.reason


def test_orders_are_those_that_the_plan_has_not() -> None:
    plan = Plan("gemm", {"group": 4, "bn": 128})
    moves = raster_orders(plan, (8, 4, 16), "clusters")
    assert [move.plan.knobs for move in moves] == [{"group": 8, "bn": 128}, {"group": 16, "bn": 128}]
    assert all(f"{move.plan.knobs['group']} rows of clusters" in move.why for move in moves)


@pytest.mark.parametrize(("room", "fitting"), [(48, 1), (64, 3), (80, 4), (0, 5), (227, 5)])
def test_only_tiles_that_have_room_are_tried(room: int, fitting: int) -> None:
    """A device that does not tell has the 99 KiB that all since Ampere have."""
    device = Device(architecture="sm_80", multiprocessors=108, shared_bytes=room << 10)
    tiles = tensor.tiles(device, form_of(LEVEL1[1]))
    assert len(tiles) == fitting and all(tile.shared_bytes <= (room or 99) << 10 for tile in tiles)
