"""The front door: what is written first, which moves follow, what is declined and with which words."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from goldens import Golden
from traced import Compiler, assert_close, call, trace

from knowledge.compiler.ir.cost import SURELY_WORTH_THREADS
from knowledge.compiler.plan import Decline, Draft, Plan
from knowledge.compiler.problem import Device, Problem
from knowledge.compiler.search.first import first_draft, writable_ops
from knowledge.compiler.search.moves import next_draft

SMALL_CACHE = Device(threads=2, simd_floats=16, l3_bytes=64 << 10)


def moves_from(problem: Problem, draft: Draft, *, keep: bool) -> list[Draft]:
    """All drafts that follow when every move is kept (or, from the first kernel, when none is)."""
    drafts, tried = [draft], ()
    while True:
        following = next_draft(problem, drafts[-1].source if keep else draft.source, tried)
        if isinstance(following, Decline):
            return drafts
        drafts.append(following)
        tried = () if keep else (*tried, following.move)


def written(problem: Problem) -> Draft:
    """The first kernel."""
    draft = first_draft(problem)
    assert isinstance(draft, Draft), draft
    return draft


def test_pointwise_moves_come_one_a_depth_and_each_kernel_is_right(golden: Golden, compiler: Compiler) -> None:
    def swish(x: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        return x * torch.sigmoid(x) + b

    x, b = torch.randn(41, 1021), torch.randn(1021)
    problem = trace(swish, x, b, device=SMALL_CACHE)
    drafts = moves_from(problem, written(problem), keep=True)
    assert [draft.move for draft in drafts] == [
        "first kernel",
        "threads",
        "unroll",
    ]
    sources = [draft.source for draft in drafts]
    if golden.holds(sources, *compiler.flags):
        return
    for draft, kernel in zip(drafts, compiler.build_all(sources), strict=True):
        (got,) = call(kernel, problem, [x, b])
        assert_close(got, swish(x, b), swish(x.double(), b.double()), draft.move)


def test_row_moves_come_one_a_depth_and_each_kernel_is_right(golden: Golden, compiler: Compiler) -> None:
    x = torch.randn(67, 517)
    problem = trace(lambda x: F.softmax(x * 2, -1), x, device=SMALL_CACHE)
    drafts = moves_from(problem, written(problem), keep=True)
    assert [draft.move for draft in drafts] == [
        "first kernel",
        "threads",
    ]
    sources = [draft.source for draft in drafts]
    if golden.holds(sources, *compiler.flags):
        return
    for draft, kernel in zip(drafts, compiler.build_all(sources), strict=True):
        (got,) = call(kernel, problem, [x])
        assert_close(got, F.softmax(x * 2, -1), F.softmax(x.double() * 2, -1), draft.move)


def test_an_infinite_constant_arrives_in_the_kernel(golden: Golden, compiler: Compiler) -> None:
    def scores(x: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        return F.softmax(x.masked_fill(mask, float("-inf")) / 8, -1)

    x, mask = torch.randn(3, 33, 33), torch.ones(33, 33).triu(1).bool()
    problem = trace(scores, x, mask)
    if golden.holds([source := written(problem).source], *compiler.flags):
        return
    kernel = compiler.build(source)
    (got,) = call(kernel, problem, [x, mask])
    assert_close(got, scores(x, mask), scores(x.double(), mask), "masked softmax")


def test_sums_of_doubles_compile_and_are_right(golden: Golden, compiler: Compiler) -> None:
    def reduced(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return torch.logsumexp(x.double() * 3, -1, keepdim=True), x.double().sum(-1, keepdim=True)

    x = torch.randn(5, 103)
    problem = trace(reduced, x)
    if golden.holds([source := written(problem).source], *compiler.flags):
        return
    kernel = compiler.build(source)
    for got, wanted in zip(call(kernel, problem, [x]), reduced(x), strict=True):
        assert torch.allclose(got, wanted, rtol=1e-12, atol=1e-12)


def test_one_move_changes_one_thing_and_a_tried_one_does_not_come_back() -> None:
    problem = trace(F.softsign, torch.randn(1 << 20), device=SMALL_CACHE)
    first = written(problem)
    drafts = moves_from(problem, first, keep=False)
    names = [draft.move for draft in drafts]
    assert len(names) == len(set(names)) >= 3
    plan = Plan.read(first.source)
    assert plan is not None
    for draft in drafts[1:]:
        after = Plan.read(draft.source)
        assert after is not None and len(after.knobs) == len(plan.knobs) + 1 and draft.why


def test_a_first_kernel_has_what_surely_gains_and_leaves_the_rest_to_trials() -> None:
    def knobs(elements: int, threads: int = 2) -> dict[str, int | str]:
        device = Device(threads=threads, simd_floats=16, l3_bytes=1 << 20)
        plan = Plan.read(written(trace(F.gelu, torch.empty(elements), device=device)).source)
        assert plan is not None
        return plan.knobs

    inside = {"lanes": 16, "exact": 1}
    assert knobs(SURELY_WORTH_THREADS - 1) == inside, "whether threads pay for so few, a trial tells"
    assert knobs(SURELY_WORTH_THREADS) == inside | {"threads": 1}
    assert knobs(SURELY_WORTH_THREADS, threads=1) == inside
    assert knobs(1 << 18) == inside | {"threads": 1}, "the cache may hold what is written"
    assert knobs((1 << 18) + 1) == inside | {"threads": 1, "streaming": 1}
    assert "threads, cheaper exact math" in written(trace(F.gelu, torch.empty(1 << 17))).why
    assert written(trace(torch.neg, torch.empty(7))).why == "plain and correct, by the pointwise recipe"


def test_a_first_product_is_blocked_and_packed_where_that_pays() -> None:
    def knobs(m: int, n: int, k: int) -> dict[str, int | str]:
        problem = trace(torch.mm, torch.empty(m, k), torch.empty(k, n), device=SMALL_CACHE)
        plan = Plan.read(written(problem).source)
        assert plan is not None
        return plan.knobs

    assert knobs(256, 256, 256) | {"pack": "B", "threads": 1, "mr": 6, "nv": 4, "lanes": 16} == knobs(256, 256, 256)
    assert knobs(8, 8, 8)["pack"] == "none" and knobs(8, 8, 8)["threads"] == 0, "over before a thread has woken"
    assert knobs(4096, 16, 1024)["pack"] == "none", "no element of A is used often"
    assert knobs(256, 512, 512)["bn"] == 256 and knobs(512, 256, 512)["bm"] < 512, "the longer side is shared out"


def test_a_stored_kernel_is_all_that_the_next_move_needs() -> None:
    problem = trace(torch.tanh, torch.randn(1 << 16))
    draft = next_draft(problem, written(problem).source, ())
    assert isinstance(draft, Draft)
    assert Plan.read(draft.source) is not None
    assert first_draft(problem) == first_draft(Problem.model_validate(problem.model_dump()))


def test_the_refusal_names_the_operation_what_can_be_written_and_how_to_set_a_model() -> None:
    problem = trace(lambda x: torch.linalg.det(F.relu(x)), torch.randn(4, 4))
    outcome = first_draft(problem)
    assert isinstance(outcome, Decline)
    assert "cannot write aten.linalg_det.default" in outcome.reason
    assert "relu" not in outcome.reason
    assert "elementwise" in outcome.reason and "--model openai:" in outcome.reason


def test_what_the_recipes_for_single_kernels_decline_is_written_as_loop_nests() -> None:
    def pooled(x: torch.Tensor) -> torch.Tensor:
        return torch.cat((F.max_pool2d(x, 3, 2, 1), F.conv2d(x, x[:, :, :1, :1], stride=2)), 1)

    problem = trace(pooled, torch.randn(2, 2, 6, 6))
    for target, moves in {"cpu": [], "cuda": ["block size"]}.items():
        posed = problem.model_copy(update={"target": target})
        first, *following = moves_from(posed, written(posed), keep=True)
        assert first.why == "plain and correct, by the loops recipe"
        assert [draft.move for draft in following] == moves
    assert set(writable_ops()) >= {"max_pool2d", "conv2d", "cat", "scaled_dot_product_attention"}


def test_on_a_processor_rows_whose_columns_lie_apart_are_loop_nests_unless_products_stand_beside_them() -> None:
    x, w = torch.randn(8, 30, 40), torch.randn(40, 64)
    apart = trace(lambda x: F.softmax(x, 1), x, device=SMALL_CACHE)
    assert "by the loops recipe" in written(apart).why
    assert "by the rows recipe" in written(trace(lambda x: F.softmax(x, -1), x, device=SMALL_CACHE)).why
    assert "by the rows recipe" in written(apart.model_copy(update={"target": "cuda"})).why
    masked = trace(lambda x: F.normalize(x.relu().sum(1), dim=-1), x, device=SMALL_CACHE)
    assert "by the loops recipe" in written(masked).why
    product = trace(lambda x, w: F.softmax(x @ w, 1), x, w, device=SMALL_CACHE)
    assert "by the stages recipe" in written(product).why


def test_a_known_operation_in_an_unwritable_place_is_explained() -> None:
    def through_a_view(x: torch.Tensor) -> torch.Tensor:
        doubled = x * 2
        doubled.t().relu_()
        return doubled.sum(0)

    outcome = first_draft(trace(through_a_view, torch.randn(4, 4)))
    assert isinstance(outcome, Decline)
    assert "cannot write an in-place write that other values may see (aten.relu_" in outcome.reason


def test_a_foreign_kernel_is_not_optimized() -> None:
    outcome = next_draft(trace(torch.tanh, torch.randn(8)), "void run() {}", ())
    assert isinstance(outcome, Decline)
    assert "only kernels that it wrote" in outcome.reason


@pytest.mark.parametrize("name", ["softsign", "gelu", "mm", "softmax", "where", "linear", "layer_norm"])
def test_writable_ops_lists_all_families(name: str) -> None:
    expected = {"softsign": "abs"}.get(name, name)
    assert expected in writable_ops()
    assert list(writable_ops()) == sorted(set(writable_ops()))
