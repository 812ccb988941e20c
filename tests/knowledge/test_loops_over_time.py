"""Python loops over steps become one step: what it means, what it compiles to, and how long its source is."""

from __future__ import annotations

import random
from functools import cache

import pytest
import torch
from emulated import emulated
from goldens import Golden
from gpu_kernels import H200
from ir_cases import Case
from ir_evaluation import meaning
from loops_over_time import CASES, STEPS, crf, ctc, growing, lengthened, rwkv, selective_scan
from test_ir_meaning import oracle_of, outputs_of
from torch import Tensor
from traced import Compiler, Kernel, assert_close, call, trace

from knowledge.compiler.ir.verify import verify
from knowledge.compiler.lower import places
from knowledge.compiler.lower.rolling import Loop, rolled
from knowledge.compiler.passes.staging import staged
from knowledge.compiler.plan import MOST_CHARACTERS, Decline, Draft, Plan
from knowledge.compiler.problem import Op, Problem, Ref
from knowledge.compiler.schedule.loops.recipe import LoopsRecipe, compiled
from knowledge.compiler.search import first
from knowledge.compiler.search.first import MOST_OPERATIONS, first_draft
from nodes.turn.answers import MAX_SOURCE_CHARS

TWICE = ("viterbi", "both ways", "in layers")
EMULATED = ("selective scan", "matrix states", "ctc", "in layers", "second order", "ranked", "cells", "table")


def _carrying(x: Tensor, w: Tensor) -> Tensor:
    h = x[:, 0]
    for t in range(x.shape[1]):
        h = torch.sigmoid(x[:, t] @ w) * h + x[:, t]
    return h


def _in_place(x: Tensor, a: Tensor) -> tuple[Tensor, Tensor]:
    """A state that is changed in place, as most spell it."""
    h, seen = torch.zeros_like(x[:, 0]), []
    for t in range(x.shape[1]):
        h.mul_(a[:, t].sigmoid())
        h += x[:, t]
        h.masked_fill_(x[:, t] > 1.5, 0.25).clamp_(min=-1)
        seen.append(h.clone())
    return torch.stack(seen, 1), h


def _seen_later(x: Tensor, a: Tensor) -> Tensor:
    """The same tensor each time, of which all see the last state."""
    h, seen = a[:, 0].exp(), []
    for t in range(x.shape[1]):
        h.mul_(a[:, t]).add_(x[:, t])
        seen.append(h)
    return torch.stack(seen, 1)


LONG = {
    "long selective scan": Case(selective_scan, (torch.rand(2, STEPS, 64), torch.rand(2, STEPS, 64), torch.rand(64, 16),
                                            torch.rand(2, STEPS, 16))),
    "long rwkv": Case(rwkv, (torch.rand(2, STEPS, 64), torch.rand(2, STEPS, 64), torch.rand(64), torch.rand(64))),
    "long crf": Case(crf, (torch.rand(4, STEPS, 12), torch.rand(12, 12), torch.rand(12), torch.rand(12))),
    "long ctc": Case(ctc, (torch.rand(4, STEPS, 32), torch.ones(4, 10, dtype=torch.int64))),
}  # fmt: skip


DRAWN = (
    lambda x, a, b, w: torch.tanh(a + x),
    lambda x, a, b, w: a * 0.5 + b.roll(1, -1),
    lambda x, a, b, w: (a @ w) * 0.3 + x,
    lambda x, a, b, w: torch.where(x > b, a, b * 0.5),
    lambda x, a, b, w: a - a.mean(-1, keepdim=True),
    lambda x, a, b, w: (a + b).softmax(-1),
    lambda x, a, b, w: torch.minimum(a, x) + b.amax(0),
    lambda x, a, b, w: torch.cat((b[:, 1:], x[:, :1]), 1),
    lambda x, a, b, w: (a.cumsum(-1) + x).clamp(-2, 2),
)


def _random(seed: int) -> Case:
    """A recurrence of two states whose step is drawn."""
    draw = random.Random(seed)
    kinds = [draw.randrange(len(DRAWN)) for _ in range(draw.randint(3, 7))]
    steps, first, shows = draw.choice((17, 32)), draw.random() < 0.5, draw.random() < 0.7

    def forward(x: Tensor, w: Tensor) -> tuple[Tensor, ...]:
        a, b, seen = (x[:, 0], x[:, 1], []) if first else (x.new_zeros(x[:, 0].shape), x.new_ones(x[:, 0].shape), [])
        for t in range(x.shape[1]):
            for kind in kinds:
                a, b = DRAWN[kind](x[:, t], a, b, w), a
            seen.append(a + 2 * b)
        return (a, b, torch.stack(seen, 1)) if shows else (a,)

    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(3, steps, 5, generator=generator)
    return Case(forward, (x, torch.randn(5, 5, generator=generator)))


RANDOM = {f"seed {seed}": _random(seed) for seed in range(4)}
OTHERS = {
    "gated": Case(_carrying, (torch.rand(2, 30, 8), torch.rand(8, 8))),
    "growing": Case(growing, (torch.rand(2, 9, 3),)),
    "in place": Case(_in_place, (torch.randn(2, 30, 8), torch.randn(2, 30, 8))),
    "seen later": Case(_seen_later, (torch.randn(2, 30, 8), torch.rand(2, 30, 8))),
}
KNOWN = CASES | LONG | RANDOM | OTHERS


@cache
def traced_once(name: str) -> Problem:
    case = KNOWN[name]
    return trace(case.function, *case.inputs)


def posed(name: str, target: str = "cpu") -> Problem:
    machine = {"device": H200} if target == "cuda" else {}
    return traced_once(name).model_copy(update={"target": target, **machine})


def means_the_same(name: str) -> None:
    case, problem = KNOWN[name], posed(name)
    lowered = staged(problem)
    verify(node for _, node in lowered.outputs)
    given = dict(zip((each.name for each in problem.inputs), case.inputs, strict=True))
    wanted = outputs_of(case.function(*case.inputs))
    for got, theirs, oracle in zip(meaning(problem, lowered, given), wanted, oracle_of(case), strict=True):
        assert_close(got, theirs, oracle, name)


def written(problem: Problem) -> str:
    draft = first_draft(problem)
    assert isinstance(draft, Draft), draft
    return draft.source


def agrees(name: str, kernel: Kernel) -> None:
    case = KNOWN[name]
    got = call(kernel, posed(name), case.inputs)
    for mine, theirs, oracle in zip(got, outputs_of(case.function(*case.inputs)), oracle_of(case), strict=True):
        assert_close(mine, theirs, oracle, name)


@pytest.mark.sampled(8)
@pytest.mark.parametrize("name", CASES)
def test_a_loop_is_rolled_and_means_what_pytorch_computes(name: str) -> None:
    loops = [each for each in rolled(posed(name)) if isinstance(each, Loop)]
    assert len(loops) == 1 + (name in TWICE)
    means_the_same(name)


@pytest.mark.sampled(4)
@pytest.mark.parametrize("part", range(4))
def test_compiled_kernels_compute_what_pytorch_does(golden: Golden, compiler: Compiler, part: int) -> None:
    names = [*CASES][part::4]
    sources = [written(posed(name)) for name in names]
    if not golden.holds(sources, *compiler.flags):
        for name, kernel in zip(names, compiler.build_all(sources), strict=True):
            agrees(name, kernel)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("name", EMULATED)
def test_a_gpu_s_kernel_computes_the_same(golden: Golden, compiler: Compiler, name: str) -> None:
    source = emulated(written(posed(name, "cuda")))
    if not golden.holds([source], *compiler.flags):
        agrees(name, compiler.build(source))


@pytest.mark.sampled(16)
@pytest.mark.parametrize("target", ["cpu", "cuda"])
@pytest.mark.parametrize("name", LONG)
def test_a_thousand_steps_take_no_more_source_than_few(name: str, target: str) -> None:
    few = posed(name, target)
    many = lengthened(few, STEPS, 1024)
    assert len(many.ops) > 50 * len(few.ops)
    assert len(written(many)) < min(20_000, len(written(few)) + 2000)


def test_a_step_of_ctc_is_one_kernel_that_stores_its_score_alone() -> None:
    """The three that a logarithm of a sum is taken of are stacked by the forward, and no tensor here."""
    made = compiled(lengthened(posed("long ctc"), STEPS, 1024))
    (loop,) = made.loops
    (step,) = (made.nests[number] for number in loop.numbers)
    assert not step.totals and len(step.stores) == 1


def test_what_needs_no_step_before_it_is_made_for_all_steps_at_once() -> None:
    made = compiled(posed("windows"))
    assert not made.loops
    made = compiled(posed("gated"))
    sums = [nest for nest in made.nests if nest.totals]
    assert [nest.stepped for nest in sums] == [None], "the product with a weight waits for no step"
    assert len(made.loops) == 1


def test_a_state_that_is_changed_in_place_is_a_loop_s() -> None:
    assert any(op.target.split(".")[1].endswith("_") for op in posed("in place").ops)
    (loop,) = (each for each in rolled(posed("in place")) if isinstance(each, Loop))
    assert loop.count == 30
    means_the_same("in place")


def test_a_state_that_others_see_stays_one_that_is_written() -> None:
    means_the_same("seen later")


def test_only_the_last_steps_lie_in_memory() -> None:
    made = compiled(lengthened(posed("long crf"), STEPS, 1024))
    assert max(each.numel for each in made.fused.between) < 4 * 12 * 12 * 4


@pytest.mark.sampled(4)
@pytest.mark.parametrize("name", RANDOM)
def test_random_recurrences_mean_what_pytorch_computes(name: str) -> None:
    assert any(isinstance(each, Loop) for each in rolled(posed(name)))
    means_the_same(name)


@pytest.mark.parametrize("seed", range(6))
def test_places_written_in_any_order_and_read_between_mean_what_pytorch_computes(seed: int) -> None:
    """All are joined but where a write, or a read, is of a part of another's places."""
    draw = random.Random(seed)
    width = draw.choice((1, 2))
    spans = draw.sample(range(0, 24, width), 10) + [7] * (seed == 5)

    def forward(x: Tensor) -> tuple[Tensor, Tensor]:
        out, last = x * 2, x[:, :width]
        for number, at in enumerate(spans):
            last = torch.tanh(last + x[:, at : at + width])
            out = out.slice_scatter(last, 1, at, at + width)
            at = spans[draw.randrange(number + 2)] if number < 9 and seed != 4 else number
            last = last + out[:, at : at + width]
        return out, last

    state = draw.getstate()
    x = torch.randn(2, 24, 3, generator=torch.Generator().manual_seed(seed))
    problem = trace(forward, x)
    draw.setstate(state)
    wanted = forward(x)
    draw.setstate(state)
    got = meaning(problem, staged(problem), {problem.inputs[0].name: x})
    for mine, theirs, oracle in zip(got, wanted, forward(x.double()), strict=True):
        assert_close(mine, theirs, oracle, str(seed))


def test_places_beside_one_another_are_one_operation() -> None:
    posed_ops = posed("written out").ops
    ops = places.joined(posed_ops, posed("written out").returns)
    assert sum("scatter" in op.target for op in posed_ops) == 80
    assert not any("scatter" in op.target for op in ops) and ops[-1].target == "aten.stack.default"
    targets = [op.target for op in places.joined(posed("table").ops, posed("table").returns)]
    assert not any("scatter" in each for each in targets)
    assert targets[-4:] == ["aten.cat.default", "aten.slice.Tensor", "aten.slice.Tensor", "aten.cat.default"]


def test_a_forward_too_long_is_declined_before_it_is_handed_on(monkeypatch: pytest.MonkeyPatch) -> None:
    assert MOST_CHARACTERS == MAX_SOURCE_CHARS
    monkeypatch.setattr(first, "MOST_CHARACTERS", 5_000)
    draft = first_draft(posed("growing"))
    assert isinstance(draft, Decline)
    assert "characters of source" in draft.reason and "each iteration is the same operations" in draft.reason


def test_a_recipe_that_takes_too_long_a_source_leaves_the_turn_to_the_next(monkeypatch: pytest.MonkeyPatch) -> None:
    def forward(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
        return (torch.softmax(x @ weight, -1) @ weight.t()).relu() @ weight

    problem = trace(forward, torch.rand(64, 48), torch.rand(48, 96), device=H200)
    problem = problem.model_copy(update={"target": "cuda"})
    draft, short = first_draft(problem), LoopsRecipe().render(problem, Plan("loops"))
    assert isinstance(draft, Draft) and "stages" in draft.why and len(short) < len(draft.source)
    monkeypatch.setattr(first, "MOST_CHARACTERS", len(short))
    assert (draft := first_draft(problem)) and isinstance(draft, Draft) and "loops" in draft.why


def test_what_no_loop_holds_is_counted_before_it_is_lowered(monkeypatch: pytest.MonkeyPatch) -> None:
    draw, begun = random.Random(0), trace(torch.relu, torch.rand(3))
    (result,), ops = begun.ops[0].results, [begun.ops[0]]
    for number in range(MOST_OPERATIONS + 20):
        target = draw.choice(("aten.tanh.default", "aten.relu.default", "aten.sin.default"))
        made = result.model_copy(update={"name": f"x{number}"})
        ops.append(Op(target=target, args=(Ref(ref=ops[-1].results[0].name),), results=(made,)))
    monkeypatch.setattr("knowledge.compiler.lower.front.lower", lambda problem: pytest.fail("lowered"))
    draft = first_draft(begun.model_copy(update={"ops": tuple(ops), "returns": (ops[-1].results[0].name,)}))
    assert isinstance(draft, Decline) and "that no loop over steps holds" in draft.reason
