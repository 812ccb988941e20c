"""The GEMM recipe on a GPU: every form has a plan and moves that end, and what it writes compiles."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import pytest
import torch
from cuda_gemm_cases import H200, LEVEL1, RECIPE, build, on_gpu, shaped, tensor_plan
from gemm_cases import PLAIN, STEPS, rand, trace_fx
from gpu_kernels import A100, for_nvcc

from harness.building.toolchain import cuda_compiler
from harness.nouns.errors import MachineError
from harness.screen.source import screen_source
from knowledge.compiler.plan import Decline, Draft, Plan
from knowledge.compiler.problem import Device, Problem, Tensor
from knowledge.compiler.schedule.gemm import cuda_fused as fused
from knowledge.compiler.schedule.gemm import cuda_tensor as tensor
from knowledge.compiler.schedule.gemm.cuda_text import width
from knowledge.compiler.schedule.gemm.form import A, B, C
from knowledge.compiler.schedule.gemm.product import form_of
from knowledge.compiler.search.first import first_draft
from knowledge.compiler.search.moves import next_draft


def drafts(problem: Problem) -> list[Draft]:
    """The first kernel, and what follows where every move is kept once."""
    draft, tried = first_draft(problem), ()
    written = []
    while isinstance(draft, Draft):
        written.append(draft)
        tried = (*tried, draft.move)
        draft = next_draft(problem, draft.source, tried)
    assert isinstance(draft, Decline)
    return written


@pytest.mark.parametrize("number", LEVEL1)
def test_level_1_begins_on_tensor_cores_and_ends(number):
    written = drafts(LEVEL1[number])
    assert written[0].move == "first kernel" and "tensor cores, 3xTF32" in written[0].why
    assert (number == 6) == ("K shared" in written[0].why)
    assert 2 <= len(written) <= 16
    for draft in written:
        plan = Plan.read(draft.source)
        assert plan is not None
        assert "// sweep:" in draft.source or RECIPE.render(LEVEL1[number], plan) == draft.source
    for before, after in pairwise(written):
        assert before.source != after.source


@pytest.mark.parametrize("case", [*PLAIN, *STEPS])
def test_every_product_has_a_kernel_that_the_screen_lets_pass(case):
    problem = on_gpu(trace_fx(*(PLAIN | STEPS)[case]))
    plan = RECIPE.first_plan(problem)
    assert isinstance(plan, Plan)
    for each in (plan, tensor_plan(problem)):
        assert screen_source(RECIPE.render(problem, each), frozenset({"float32", "ieee"})) is None


@pytest.mark.parametrize("target", ["cpu", "cuda"])
def test_what_is_not_read_may_be_of_any_type(target):
    """As a batch norm's counter: checked as the product's operands are, no call would ever pass."""
    counter = Tensor(name="counter", shape=(), strides=(), dtype="int64")
    problem = shaped(64, 64, 64).model_copy(update={"target": target, "parameters": (counter,)})
    source = RECIPE.render(problem, RECIPE.first_plan(problem))
    assert "TensorView counter" in source and "require(counter" not in source and "require(A" in source


def test_other_types_and_older_devices_are_told():
    wide = on_gpu(trace_fx(lambda a, b: a @ b, (rand(4, 5, dtype=torch.float64), rand(5, 6, dtype=torch.float64))))
    answer = RECIPE.first_plan(wide)
    assert isinstance(answer, Decline) and "float64" in answer.reason
    old = on_gpu(shaped(64, 64, 64), device=Device(architecture="sm_75", multiprocessors=40))
    assert RECIPE.moves(old, RECIPE.first_plan(old)) == ()


def test_one_product_under_tf32():
    rounded = shaped(64, 64, 64).model_copy(update={"precision": "tf32"})
    assert tensor_plan(rounded).knobs["products"] == 1
    assert "Products = 1;" in RECIPE.render(rounded, tensor_plan(rounded))
    assert tensor_plan(shaped(64, 64, 64)).knobs["products"] == 3


def test_accesses_are_as_wide_as_strides_and_extents_allow():
    widths = {number: [width(form_of(problem), place) for place in (A, B, C)] for number, problem in LEVEL1.items()}
    assert widths.pop(8) == [1, 1, 1]
    assert set(map(tuple, widths.values())) == {(4, 4, 4)}
    assert [width(form_of(shaped(6, 10, 8)), place) for place in (A, B, C)] == [4, 2, 2]
    cut = shaped(8, 8, 8).model_copy(
        update={"inputs": (Tensor(name="A", shape=(8, 8), strides=(9, 1), dtype="float32"), shaped(8, 8, 8).inputs[1])}
    )
    assert width(form_of(cut), A) == 1


def test_k_is_shared_where_tiles_are_few():
    problem = LEVEL1[6]
    whole = tensor.first_plan(problem, form_of(problem))
    shared = next(move for move in RECIPE.moves(problem, whole) if move.name == "split K")
    tiles = 256 * 256 // int(shared.plan.knobs["bm"]) // int(shared.plan.knobs["bn"])
    slots = 132 * int(shared.plan.knobs["blocks"])
    assert slots - tiles < tiles * int(shared.plan.knobs["splits"]) <= slots
    for number in (1, 8):
        assert "split K" not in [move.name for move in RECIPE.moves(LEVEL1[number], tensor_plan(LEVEL1[number]))]


@pytest.mark.parametrize(("device", "kernel", "splits", "others"), [
    (H200, tensor.CLUSTER, 8, "2, 4, 6"), (A100, tensor.KERNEL, 25, "12, 18, 50"),
])  # fmt: skip
def test_a_small_product_begins_on_tensor_cores_and_sweeps_its_shares(device, kernel, splits, others):
    small = on_gpu(shaped(64, 128, 1600), device=device)
    draft = first_draft(small)
    assert isinstance(draft, Draft)
    plan = Plan.read(draft.source)
    assert plan is not None and (plan.knobs["kernel"], plan.knobs["splits"]) == (kernel, splits)
    moves = {move.name: move for move in RECIPE.moves(small, plan)}
    assert ("wgmma" in moves) == (device is H200)
    swept = next_draft(small, draft.source, ("wgmma",))
    assert isinstance(swept, Draft) and f"Splits = {splits};  // sweep: {others}" in swept.source
    after = Plan.read(swept.source.replace(f"Splits = {splits};", "Splits = 12;"))
    assert after is not None and after.knobs["splits"] == 12
    assert "shares of K" not in [move.name for move in RECIPE.moves(small, after)]
    # Many tiles, or little to share.
    for other in (shaped(1024, 1024, 1600), shaped(64, 128, 32)):
        first = first_draft(on_gpu(other, device=device))
        assert isinstance(first, Draft) and "K shared" not in first.why


def test_a_cluster_shares_k_where_that_needs_no_second_launch():
    def first(m: int, n: int, k: int, **changes: object) -> dict[str, int | str]:
        draft = first_draft(on_gpu(shaped(m, n, k, "N", "T"), **changes))
        assert isinstance(draft, Draft)
        plan = Plan.read(draft.source)
        assert plan is not None
        return plan.knobs

    assert first(64, 10, 128)["kernel"] == first(64, 4096, 128)["kernel"] == tensor.CLUSTER
    assert first(64, 10, 128)["splits"] == 4, "as many as there are tiles of K"
    assert first(64, 10, 128, device=A100)["kernel"] == tensor.KERNEL
    assert first(512, 512, 512)["splits"] == 2, "more would not run at once"
    assert first(128, 1000, 4096)["kernel"] == fused.KERNEL
    assert first(64, 10, 4096)["kernel"] == tensor.KERNEL, "16 tiles of K a block take longer than a second launch"
    (more,) = (move for move in RECIPE.moves(shaped(64, 128, 1600), Plan("gemm", first(64, 128, 1600)))
               if move.name == "K shared through memory")  # fmt: skip
    assert (more.plan.knobs["kernel"], more.plan.knobs["splits"]) == (tensor.KERNEL, 25)


def test_only_triangles_look_for_empty_ranges():
    moves = {number: RECIPE.moves(LEVEL1[number], tensor_plan(LEVEL1[number])) for number in (1, 14, 15)}
    assert [moves[number][0].name == "empty ranges" for number in moves] == [False, True, True]
    upper, lower = (RECIPE.render(LEVEL1[number], moves[number][0].plan) for number in (14, 15))
    assert "Triangle = 1;" in upper and "Triangle = -1;" in lower and "SkipZeros = true;" in lower


def test_tiles_fit_the_device():
    small = Device(architecture="sm_86", multiprocessors=80, shared_bytes=99 << 10)
    form = form_of(LEVEL1[1])
    assert all(tile.shared_bytes <= 99 << 10 for tile in tensor.tiles(small, form))
    assert len(tensor.tiles(small, form)) > 1


def test_kernels_compile_and_link_for_old_and_new_architectures(golden, tmp_path: Path):
    try:
        cuda_compiler()
    except MachineError as failure:
        pytest.skip(str(failure))
    steps = [on_gpu(trace_fx(*(PLAIN | STEPS)[case])) for case in ("activations", "attention scores")]
    plans = [(problem, tensor_plan(problem)) for problem in (*steps, *(LEVEL1[number] for number in (6, 8, 14)))]
    plans += [(problem, RECIPE.first_plan(problem)) for problem in steps[:1]]
    plans[2] = (LEVEL1[6], plans[2][1].with_knobs(splits=33))
    plans[4] = (LEVEL1[14], plans[4][1].with_knobs(spans=1))
    sources = [RECIPE.render(*each) for each in plans]
    if golden.holds(for_nvcc(sources, "sm_80", "sm_90a")):
        return
    built = build(sources, tmp_path, ("80", "90a"))
    assert len(built.spilled()) >= 2 * len(plans) and max(built.spilled()) <= 160


def test_past_the_gate_moves_against_the_bottleneck_come_first():
    problem = LEVEL1[8]
    source = RECIPE.render(problem, tensor_plan(problem))
    moves = RECIPE.moves(problem, tensor_plan(problem))
    named = {bottleneck: next_draft(problem, source, (), bottleneck).move for bottleneck in ("memory", "on_chip", "")}
    assert named["memory"] == "raster order 16"
    assert named["on_chip"] == next(move.name for move in moves if "on_chip" in move.against)
    assert named[""] == next_draft(problem, source, ()).move == moves[0].name
