"""One kernel for several sizes: right at those that it was traced at, and at others; on both targets."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from emulated import emulated
from goldens import Golden
from gpu_kernels import H200
from hypothesis import given
from hypothesis import strategies as some
from traced import Compiler, assert_close, call, trace

from knowledge.compiler.ir.sizes import STAND_INS, Size, common_divisor, stands_in
from knowledge.compiler.plan import Decline, Draft
from knowledge.compiler.problem import Problem
from knowledge.compiler.search.first import first_draft
from knowledge.compiler.search.moves import next_draft

torch.manual_seed(5)
TRACED_AT = ((64, 48), (128, 96), (40, 256))
CALLED_AT = ((64, 48), (40, 256), (1, 7), (33, 1), (19, 131))
Made = Callable[[int, int], list[torch.Tensor]]


def rows(n: int, m: int) -> list[torch.Tensor]:
    return [torch.randn(n, m)]


def weighted(n: int, m: int) -> list[torch.Tensor]:
    return [torch.randn(n, m), torch.randn(m), torch.randn(m)]


CASES: dict[str, tuple[Callable[..., Any], Made]] = {
    "softsign": (lambda x: x / (1 + x.abs()), rows),
    "gelu of a sum": (lambda x, w, b: F.gelu(x * w + b), weighted),
    "softmax": (lambda x: torch.softmax(x, -1), rows),
    "layer norm": (lambda x, w, b: F.layer_norm(x, x.shape[1:], w, b), weighted),
    "rms norm": (lambda x, w, b: x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + b.abs().amax()) * w, weighted),
    "columns": (lambda x: (x.sum(0), x.amax(0)), rows),
    "one mean": (lambda x: x.mean(), rows),
    "places": (lambda x: x.argmax(1), rows),
    "product": (lambda x, y: F.relu(x @ y + 1), lambda n, m: [torch.randn(n, m), torch.randn(m, n + 5)]),
    "linear": (F.linear, lambda n, m: [torch.randn(n, m), torch.randn(24, m), torch.randn(24)]),
    "batched": (torch.matmul, lambda n, m: [torch.randn(3, n, m), torch.randn(3, m, 7)]),
    "running sums": (lambda x: x.cumsum(1), rows),
    "loss": (F.cross_entropy, lambda n, m: [torch.randn(n, m), torch.randint(0, m, (n,))]),
    "convolution": (lambda x, w: F.conv2d(x, w, padding=1),
                    lambda n, m: [torch.randn(2, 4, n, m), torch.randn(6, 4, 3, 3)]),
    "pool": (lambda x: F.max_pool2d(x, 3, 1, 1), lambda n, m: [torch.randn(2, 3, n, m)]),
    "flattened": (lambda x, w: F.linear(x.flatten(1), w), lambda n, m: [torch.randn(n, 3, m), torch.randn(5, 3 * m)]),
    "turned": (lambda x: x.t().contiguous() + 1, rows),
    "joined": (lambda x, y: torch.cat([x, y], 1), lambda n, m: [torch.randn(n, m), torch.randn(n, 3)]),
    "halves": (lambda x: F.silu(x.chunk(2, -1)[0]) * x.chunk(2, -1)[1], lambda n, m: [torch.randn(n, 2 * m)]),
}  # fmt: skip


def posed(name: str, target: str) -> Problem:
    """The problem at the first sizes, the same at others beside it."""
    function, made = CASES[name]
    device = {"target": target, **({"device": H200} if target == "cuda" else {})}
    first, *others = (trace(function, *made(*sizes)).model_copy(update=device) for sizes in TRACED_AT)
    return first.model_copy(update={"others": tuple(others)})


def written(name: str, target: str) -> Draft:
    draft = first_draft(posed(name, target))
    assert isinstance(draft, Draft), draft
    return draft


@pytest.mark.sampled(2)
@pytest.mark.parametrize("target", ["cpu", "cuda"])
def test_loops_over_whatever_sizes_come_are_right_at_other_sizes(
    target: str, compiler: Compiler, golden: Golden
) -> None:
    texts = {name: written(name, target).source for name in CASES}
    texts = {name: emulated(text) if target == "cuda" else text for name, text in texts.items()}
    if golden.holds(texts.values(), *compiler.flags):
        return
    for (name, text), kernel in zip(texts.items(), compiler.build_all([*texts.values()]), strict=True):
        assert not stands_in(text), name
        function, made = CASES[name]
        for sizes in CALLED_AT:
            given = made(*sizes)
            problem = trace(function, *given)
            found = call(kernel, problem, given)
            expected, exact = (_listed(function(*each)) for each in (given, [_wide(one) for one in given]))
            for got, reference, oracle in zip(found, expected, exact, strict=True):
                assert_close(got, reference, oracle, f"{name} at {sizes}")


def test_a_case_for_each_workload_is_a_move_and_other_sizes_still_go_by_the_loops(
    compiler: Compiler, golden: Golden
) -> None:
    names = ("softmax", "linear")
    texts = {}
    for name in names:
        problem, loops = posed(name, "cpu"), written(name, "cpu")
        fixed = next_draft(problem, loops.source, ())
        assert isinstance(fixed, Draft) and fixed.move == "fixed sizes"
        assert fixed.source.count("::run(") == len(TRACED_AT) + 1
        after = next_draft(problem, fixed.source, ())
        assert isinstance(after, Draft) == (name == "linear"), "a softmax begins with all that it has"
        texts[name] = [each.source for each in (fixed, after) if isinstance(each, Draft)]
    if golden.holds([each for pair in texts.values() for each in pair], *compiler.flags):
        return
    for name, pair in texts.items():
        function, made = CASES[name]
        for kernel in compiler.build_all(pair):
            for sizes in (*TRACED_AT, (19, 131)):
                given = made(*sizes)
                (got,) = call(kernel, trace(function, *given), given)
                assert_close(got, function(*given), function(*map(_wide, given)), f"{name} at {sizes}")


def test_sizes_that_agree_in_all_workloads_are_told_apart_by_one_more_trace(compiler: Compiler) -> None:
    square, larger, apart = (
        trace(lambda x: x.softmax(1), *rows(*sizes)) for sizes in ((64, 64), (128, 128), (128, 192))
    )
    draft = first_draft(square.model_copy(update={"others": (larger,), "apart": (apart,)}))
    assert isinstance(draft, Draft)
    kernel = compiler.build(draft.source)
    for sizes in ((64, 64), (19, 131)):
        given = rows(*sizes)
        (got,) = call(kernel, trace(lambda x: x.softmax(1), *given), given)
        assert_close(got, given[0].softmax(1), given[0].double().softmax(1), f"softmax at {sizes}")


@pytest.mark.parametrize(
    ("function", "made", "why"),
    [
        (lambda x: x * (2.5 if x.shape[0] == 64 else 3.5), rows, "differs between workloads"),
        (lambda x: x + 1 if x.shape[0] == 64 else x.sum(1), rows, "other operations|in the place of another|ranks"),
        (lambda x: x.bfloat16() if x.shape[0] == 64 else x.half(), rows, "differs between workloads|element types"),
        (lambda x: x[: x.shape[0] ** 2 // 100], rows, "follows from no size"),
    ],
)
def test_what_no_kernel_of_several_sizes_can_do_is_declined_by_name(
    function: Callable[..., Any], made: Made, why: str
) -> None:
    first, *others = (trace(function, *made(*sizes)) for sizes in TRACED_AT)
    declined = first_draft(first.model_copy(update={"others": tuple(others)}))
    assert isinstance(declined, Decline)
    assert any(part in declined.reason for part in why.split("|")), declined.reason


NUMBERS = some.recursive(
    some.one_of(some.integers(0, 2).map(lambda k: ("n", k)), some.integers(1, 9).map(lambda k: ("c", k))),
    lambda parts: some.tuples(some.sampled_from("+-*/%"), parts, parts), max_leaves=6,
)  # fmt: skip


@given(NUMBERS)
def test_a_size_is_an_int_and_its_text_says_the_same_of_any_sizes(expression: Any) -> None:
    made = _evaluated(expression, [Size.named(k) for k in range(3)])
    for sizes in ([*STAND_INS[:3]], [64, 48, 3], [1, 7, 1]):
        told = eval(str(made), _WORDS | {f"n{k}": size for k, size in enumerate(sizes)})
        assert told == _evaluated(expression, sizes)
    if isinstance(made, Size):
        assert type(made + 1) is Size and f"{made}" == str(made) == repr(made)


_WORDS = {"floor_div": lambda a, b: a // b, "floor_mod": lambda a, b: a % b}


def _evaluated(expression: Any, sizes: list[int]) -> int:
    kind, *parts = expression
    if kind in "nc":
        return sizes[parts[0]] if kind == "n" else parts[0]
    one, other = (_evaluated(each, sizes) for each in parts)
    if kind in "/%":
        by = other if isinstance(other, Size) or other else 1
        return one // by if kind == "/" else one % by
    return one + other if kind == "+" else one - other if kind == "-" else one * other


def test_what_two_sizes_share_is_what_both_name() -> None:
    n, m = Size.named(0), Size.named(1)
    assert str(common_divisor(n * m * 6, n * 4)) == "(n0 * 2)" and common_divisor(n * 6, 4) == 2
    assert common_divisor(n + 1, n) == 1 and common_divisor(12, 18) == 6
    assert str(n * m // n) == "n1" and n * 8 % 4 == 0 and n % 8 and (n + 1) % 8


def test_a_stand_in_that_got_into_a_text_is_seen() -> None:
    assert not stands_in("x * 0.7071067811865476f + 256 * 4096 - n0")
    for number in (STAND_INS[0], STAND_INS[1] * 4, STAND_INS[2] - 1):
        assert stands_in(f"for (int i = 0; i < {number}; ++i)") and stands_in(f"x / {number}.0f")


def _listed(result: Any) -> list[torch.Tensor]:
    return list(result) if isinstance(result, tuple) else [result]


def _wide(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.double() if tensor.is_floating_point() else tensor
