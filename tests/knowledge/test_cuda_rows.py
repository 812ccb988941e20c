"""Row reductions for GPUs: every shape of kernel compiles, the row stays on chip where it fits, moves end."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from goldens import Golden
from gpu_kernels import A100, H200, check_on_gpu, compiled, for_nvcc, traced

from harness.screen.source import screen_source
from knowledge.compiler.plan import Decline, Draft, Plan
from knowledge.compiler.problem import Device, Problem, Ref
from knowledge.compiler.schedule.rows.cuda import LARGEST_SHARE, share
from knowledge.compiler.schedule.rows.recipe import RowRecipe
from knowledge.compiler.search.first import first_draft
from knowledge.compiler.search.moves import next_draft

RECIPE = RowRecipe()
KEEP = {"vector": 1, "keep": 1}
ONLINE = {"vector": 1, "online": 1}
torch.manual_seed(5)


def sums(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
    """Every kind of reduction but those that give places."""
    return x.sum(-1), x.mean(-1), x.amax(-1), x.amin(-1), x.logsumexp(-1), (x > 2).any(-1), x.var(-1), x.prod(-1)


def places(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
    """Where the extrema stand; rounding makes for equal ones."""
    rounded = x.round()
    return rounded.argmax(-1), rounded.argmin(-1), rounded.max(-1)[0]


def softmax(x: torch.Tensor) -> torch.Tensor:
    """Over the last dimension."""
    return F.softmax(x, -1)


def layer_norm(x: torch.Tensor, w: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """Over the last dimension."""
    return F.layer_norm(x, x.shape[-1:], w, b)


def shifted(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
    """A row's maximum and the sum of exponentials below it as results, and both used along the row."""
    largest = x.amax(-1, keepdim=True)
    powers = torch.exp(x - largest)
    return powers / powers.sum(-1, keepdim=True), x - largest, powers.sum(-1), largest.squeeze(-1)


def product(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """With a vector on either side."""
    return a @ b


CASES: dict[str, tuple[Callable[..., Any], list[torch.Tensor], dict[str, int]]] = {
    "plain": (sums, [torch.randn(33, 500)], {}),
    "one warp a row": (softmax, [torch.randn(1023, 1000)], {**KEEP, "items": 32, "group": 32, "rows": 4}),
    "eight threads a row": (softmax, [torch.randn(1021, 24)], {**KEEP, "items": 4, "group": 8, "rows": 32}),
    "a cluster, odd columns": (softmax, [torch.randn(13, 10001)], {**KEEP, "items": 20, "group": 256, "cluster": 2}),
    "the next row ahead": (softmax, [torch.randn(37, 50000)],
                           {**KEEP, "items": 52, "group": 256, "cluster": 4, "staged": 1, "chain": 4, "once": 1}),
    "the next row in parts": (softmax, [torch.randn(137, 40000)],
                              {**KEEP, "items": 48, "group": 256, "cluster": 4, "staged": 1, "chain": 5, "parts": 4}),
    "blocks without a share": (softmax, [torch.randn(123, 16404)],
                               {**KEEP, "items": 8, "group": 512, "cluster": 8, "staged": 1, "chain": 5, "parts": 2}),
    "two blocks a multiprocessor": (softmax, [torch.randn(123, 40004)],
                                    {**KEEP, "items": 40, "group": 64, "cluster": 16, "blocks": 2, "staged": 1,
                                     "chain": 3, "parts": 2, "exact": 1}),
    "kept sums": (sums, [torch.randn(33, 5000)], {**KEEP, "items": 20, "group": 256}),
    "streamed sums": (sums, [torch.randn(9, 200_000)], {"vector": 1, "items": 4, "group": 512, "cluster": 8}),
    "places": (places, [torch.randn(65, 4001)], {**KEEP, "items": 16, "group": 256}),
    "norm": (layer_norm, [torch.randn(65, 4096), torch.randn(4096), torch.randn(4096)],
             {**KEEP, "items": 16, "group": 256, "staged": 1, "chain": 8}),
    "half norm": (layer_norm, [each.half() for each in (torch.randn(65, 512), torch.randn(512), torch.randn(512))],
                  {**KEEP, "items": 8, "group": 64}),
    "neighbouring rows": (lambda x: (x.sum(1), F.softmax(x, 1)[:, 0:300]), [torch.randn(5, 300, 34)],
                          {"across": 1, "rows": 32, "group": 8, "items": 4}),
    "long sums in neighbouring rows": (lambda x: (x.sum(0), x.var(0)), [torch.randn(3000, 70)],
                                       {"across": 1, "rows": 32, "group": 32, "items": 4}),
    "matrix and vector": (product, [torch.randn(1030, 5000), torch.randn(5000, 1)],
                          {"vector": 1, "each": 8, "items": 2, "cluster": 4, "once": 1}),
    "vector and matrix": (product, [torch.randn(3001), torch.randn(3001, 70)],
                          {"across": 1, "rows": 32, "group": 16, "items": 4}),
    "doubles": (softmax, [torch.randn(65, 777, dtype=torch.float64)], {**KEEP, "items": 8, "group": 128}),
    "a row for many blocks": (lambda x, y: (torch.dot(x, y), (x - y).abs().amax(), x.argmax()),
                              [torch.randn(300_001), torch.randn(300_001)], {"split": 50, "items": 4}),
    "online": (softmax, [torch.randn(13, 70_001)], {**ONLINE, "items": 4, "group": 512, "once": 1}),
    "online, less than a block": (lambda x: F.log_softmax(x, -1), [torch.randn(70, 33)], {**ONLINE, "group": 64}),
    "online in neighbouring rows": (lambda x: F.softmax(x, 1), [torch.randn(5, 3000, 34)],
                                    {**ONLINE, "across": 1, "rows": 32, "group": 8, "items": 4, "vector": 0}),
    "online halves": (softmax, [torch.randn(9, 70_000).half()], {**ONLINE, "items": 2}),
    "online and all its parts": (shifted, [torch.randn(19, 70_002).double()], {**ONLINE, "items": 2}),
    "everything": (lambda x: (x.sum(), x.amax(), (x * x).mean()), [torch.randn(7, 9, 1001)],
                   {"vector": 1, "items": 4, "group": 1024, "cluster": 8}),
}  # fmt: skip


def rendered(problem: Problem, knobs: dict[str, int]) -> str:
    """The kernel under some knobs."""
    plan = RECIPE.first_plan(problem)
    assert isinstance(plan, Plan), plan
    return RECIPE.render(problem, plan.with_knobs(**knobs))


def walk(problem: Problem) -> list[tuple[str, Plan]]:
    """The moves from the first kernel on, and the plan after each."""
    draft, steps = first_draft(problem), []
    while isinstance(draft, Draft):
        plan = Plan.read(draft.source)
        assert plan is not None and plan not in [each for _, each in steps]
        assert RECIPE.render(problem, plan) == draft.source
        assert screen_source(draft.source, frozenset({"float16", "float32", "float64", "ieee"})) is None
        steps.append((draft.move, plan))
        draft = next_draft(problem, draft.source, (), max_sweep=1)
    return steps


@pytest.mark.parametrize("device", [A100, H200], ids=lambda device: device.architecture)
def test_every_kind_of_kernel_compiles(golden: Golden, tmp_path: Path, device: Device) -> None:
    sources = [
        rendered(traced(function, *given), knobs)
        for function, given, knobs in CASES.values()
        if ("cluster" in knobs or "staged" in knobs) is (device is H200)
    ]
    assert len(sources) > 5
    if not golden.holds(for_nvcc(sources, device.architecture)):
        assert compiled(tmp_path, sources, device.architecture) == ""


def test_long_rows_are_read_once_by_a_cluster_and_staged() -> None:
    problem = traced(softmax, torch.empty(4096, 393_216, device="meta"))
    plan = walk(problem)[0][1]
    assert plan.knobs["cluster"] == 8 and plan.knobs["items"] == LARGEST_SHARE and plan.knobs["staged"] == 1
    assert "kStaged = 196608;" in RECIPE.render(problem, plan)


def test_on_hopper_two_clusters_of_16_share_multiprocessors_and_their_memory() -> None:
    problem = traced(softmax, torch.empty(4096, 393_216, device="meta"))
    first = walk(problem)[0][1]
    (move,) = [each for each in RECIPE.moves(problem, first) if each.name == "clusters of 16"]
    wide = {**first.knobs, "cluster": 16, "group": 256, "blocks": 2}
    assert not move.sure and move.plan.knobs == wide
    source = RECIPE.render(problem, move.plan)
    assert "__launch_bounds__(kThreads, 2) __cluster_dims__(16)" in source and "kStaged = 98304;" in source
    assert "NonPortableClusterSizeAllowed" in source and "NonPortable" not in RECIPE.render(problem, first)
    later = problem.model_copy(update={"device": problem.device.model_copy(update={"architecture": "sm_100a"})})
    assert "clusters of 16" not in [each.name for each in RECIPE.moves(later, first)]


def test_rows_in_turn_are_swept_and_a_sum_of_exponentials_is_divided_by_once_a_row() -> None:
    problem = traced(softmax, torch.empty(4096, 393_216, device="meta"))
    first = first_draft(problem)
    assert isinstance(first, Draft)
    swept = next_draft(problem, first.source, ("clusters of 16", "cache hints", "block size", "cheaper exact math"))
    assert isinstance(swept, Draft) and swept.move == "rows in turn"
    assert "kChain = 12;  // sweep: 6, 16, 32, 64" in swept.source
    cheaper = next_draft(problem, first.source, ("clusters of 16", "cache hints", "block size"))
    assert isinstance(cheaper, Draft) and cheaper.move == "cheaper exact math"
    assert "= rKept0 * (1.0f / vSum1);" in cheaper.source
    half = traced(lambda x: x / x.sum(-1, keepdim=True), torch.empty(4096, 393_216, device="meta"))
    plan = RECIPE.first_plan(half)
    assert isinstance(plan, Plan) and "cheaper exact math" not in [each.name for each in RECIPE.moves(half, plan)]


def test_a_staged_row_comes_in_whole_packs() -> None:
    for columns in (98_304, 122_880, 147_456):
        for _, plan in walk(traced(softmax, torch.empty(4096, columns, device="meta"))):
            if plan.knobs.get("staged"):
                assert int(plan.knobs["items"]) // 4 % int(plan.knobs["parts"]) == 0


def test_moves_do_not_mix_what_cannot_be_mixed() -> None:
    tall = walk(traced(lambda x: x.sum(0), torch.empty(100_000, 64, device="meta")))
    assert tall[0][1].knobs["across"] == 1, "from the first kernel on"
    for _, plan in tall:
        assert not (plan.knobs.get("across") and int(plan.knobs.get("split", 1)) > 1)


def test_without_clusters_long_rows_are_read_twice_by_an_online_softmax() -> None:
    for function in (softmax, lambda x: F.log_softmax(x * 2 + 1, -1), shifted):
        problem = traced(function, torch.empty(4096, 393_216, device="meta"), device=A100)
        (_, (move, plan), *more) = walk(problem)
        assert move == "online softmax" and "one pass over memory" not in [name for name, _ in more]
        assert all("cluster" not in each.knobs for _, each in more)
        source = RECIPE.render(problem, plan)
        assert source.count("for (Index base") == 2 and "base -= kPacks * kStep" in source
        assert "read from memory 2 times" in source


def test_only_sums_below_their_own_maximum_are_taken_online() -> None:
    def plain(x: torch.Tensor) -> torch.Tensor:
        return torch.exp(x - x.amax(-1, keepdim=True) / 2).sum(-1)

    for function in (plain, lambda x: x.logsumexp(-1), lambda x: (x - x.mean(-1, keepdim=True)).exp().sum(-1)):
        steps = walk(traced(function, torch.empty(4096, 393_216, device="meta"), device=A100))
        assert "online softmax" not in [move for move, _ in steps]
    short = walk(traced(softmax, torch.empty(4096, 4096, device="meta"), device=A100))
    assert "online softmax" not in [move for move, _ in short]


def test_other_long_rows_are_streamed() -> None:
    steps = walk(traced(lambda x: F.layer_norm(x, x.shape[-1:]), torch.empty(64, 393_216, device="meta"), device=A100))
    assert not any(plan.knobs.get("keep") for _, plan in steps)
    assert steps[0][1].knobs["vector"] == 1


def test_many_narrow_operands_are_no_reason_for_more_threads() -> None:
    found = share(1152, 8, 5, clusters=True, words=2.5)
    assert found is not None
    assert (found.group, found.cluster) == (128, 1), "144 packs would leave 3,952 threads of 4,096 idle"


def test_rows_of_few_are_left_to_loops() -> None:
    problem = traced(lambda x: x.prod(-1), torch.empty(4096, 3), device=H200)
    assert isinstance(RowRecipe().first_plan(problem), Decline)


def test_rows_beyond_every_register_are_not_kept() -> None:
    assert share(393_216, 4, 1, clusters=False, words=1) is None
    assert share(393_216, 4, 2, clusters=True, words=2) is None


@pytest.mark.sampled(4)
@pytest.mark.parametrize("name", CASES)
def test_moves_end_and_plans_come_back(name: str) -> None:
    function, given, _ = CASES[name]
    assert 1 <= len(walk(traced(function, *given))) <= 8


def test_products_with_a_vector_are_sums_and_others_are_not() -> None:
    wide = traced(product, torch.empty(2048, 1_048_576, device="meta"), torch.empty(1_048_576, 1, device="meta"))
    (_, (move, plan), *_) = walk(wide)
    assert move == "register blocking" and plan.knobs["each"] == 4
    assert "using Index = int64_t;" in RECIPE.render(wide, plan)
    refused = RECIPE.first_plan(traced(product, torch.randn(8, 9), torch.randn(9, 7)))
    assert isinstance(refused, Decline) and "aten" in refused.reason


@pytest.mark.parametrize(
    ("function", "device", "bottleneck", "expected"),
    [
        (lambda x: F.layer_norm(x, x.shape[-1:]), H200, "latency", "next row ahead"),
        (lambda x: F.layer_norm(x, x.shape[-1:]), H200, "occupancy", "block size"),
        (lambda x: F.layer_norm(x, x.shape[-1:]), H200, "memory", "cache hints"),
        (lambda x: x.sum(-1), A100, "latency", "block size"),
    ],
)
def test_a_profile_chooses_among_the_moves(
    function: Callable[..., Any], device: Device, bottleneck: str, expected: str
) -> None:
    problem = traced(function, torch.empty(8192, 16_384, device="meta"), device=device)
    first = first_draft(problem)
    assert isinstance(first, Draft)
    second = next_draft(problem, first.source, (), bottleneck)
    assert isinstance(second, Draft) and second.move == expected


def test_rows_that_stream_get_more_loads_in_flight() -> None:
    problem = traced(lambda x: x.sum(-1), torch.empty(4096, 1 << 20, device="meta"))
    text = rendered(problem, {"vector": 1, "items": 4})
    moved = next_draft(problem, text, ("cache hints", "block size"), "latency")
    assert isinstance(moved, Draft) and moved.move == "loads in flight" and "kItems = 8;" in moved.source
    assert isinstance(next_draft(problem, moved.source, ("cache hints", "block size"), "latency"), Decline)


def test_few_rows_are_split_over_blocks() -> None:
    steps = walk(traced(lambda x, y: F.mse_loss(x, y), torch.randn(512, 4096), torch.randn(512, 4096)))
    assert int(steps[0][1].knobs["split"]) > 100, "from the first kernel on"
    many = walk(traced(lambda x: x.sum(-1), torch.randn(4096, 512)))
    assert all(plan.knobs.get("split", 1) == 1 for _, plan in many)
    alone = traced(lambda x: x / x.norm(), torch.empty(1 << 22, device="meta"))
    assert isinstance(RECIPE.first_plan(alone), Decline), "one row, gone along twice: two kernels"
    assert isinstance(RECIPE.first_plan(traced(softmax, torch.empty(16, 1 << 22, device="meta"))), Decline)
    assert isinstance(RECIPE.first_plan(traced(softmax, torch.empty(256, 1 << 22, device="meta"))), Plan)
    first = first_draft(alone)
    plan = Plan.read(first.source) if isinstance(first, Draft) else None
    assert plan is not None and int(plan.knobs["1.split"]) > 100


def test_arguments_named_like_the_kernel_s_own_names_are_renamed() -> None:
    problem = traced(softmax, torch.randn(4, 8))
    (given,) = problem.inputs
    for name in ("rows", "pOutput", "aligned", "kRows", "stream", "launched"):
        ops = tuple(
            op.model_copy(
                update={"args": (Ref(ref=name), *op.args[1:])} if op.args[:1] == (Ref(ref=given.name),) else {}
            )
            for op in problem.ops
        )
        renamed = problem.model_copy(update={"inputs": (given.model_copy(update={"name": name}),), "ops": ops})
        assert f"TensorView {name}_," in rendered(renamed, {})


def test_empty_tensors_are_declined() -> None:
    outcome = RECIPE.first_plan(traced(lambda x: x.sum(-1), torch.randn(4, 0)))
    assert isinstance(outcome, Decline) and "without elements" in outcome.reason


@pytest.mark.gpu
@pytest.mark.parametrize("name", CASES)
def test_right_on_the_gpu(tmp_path: Path, name: str) -> None:
    function, given, knobs = CASES[name]
    problem = traced(function, *given)
    check_on_gpu(tmp_path, problem, rendered(problem, knobs), function)
