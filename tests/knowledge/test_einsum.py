"""Equations of einsum drawn at random: the products that the compiler makes of them are what torch computes."""

from __future__ import annotations

import math

import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from ir_evaluation import meaning
from traced import trace

from knowledge.compiler.ir.verify import verify
from knowledge.compiler.lower import einsum
from knowledge.compiler.passes.staging import staged

SIZES = {"a": 1, "b": 2, "c": 3, "d": 4, "e": 5}


@st.composite
def equations(draw: st.DrawFn) -> str:
    """One operand to four, letters repeated within and between them, the result said or not."""
    words = draw(st.lists(st.text("abcde", min_size=1, max_size=3), min_size=1, max_size=4))
    known = sorted(set("".join(words)))
    kept = draw(st.permutations(known))[: draw(st.integers(0, len(known)))]
    return ",".join(words) + ("->" + "".join(kept) if draw(st.booleans()) else "")


@given(equations())
@settings(max_examples=25, suppress_health_check=[HealthCheck.too_slow])
def test_random_equations_mean_what_torch_computes(equation: str) -> None:
    words = equation.partition("->")[0].split(",")
    x = torch.arange(-70.0, 70.0) / 16

    def function(x: torch.Tensor) -> torch.Tensor:
        operands = (x[: math.prod(SIZES[each] for each in word)].reshape([SIZES[each] for each in word])
                    for word in words)  # fmt: skip
        return torch.einsum(equation, *operands)

    problem = trace(function, x)
    lowered = staged(problem)
    verify(node for _, node in lowered.outputs)
    (got,) = meaning(problem, lowered, {"a": x})
    torch.testing.assert_close(got, function(x), msg=equation)


def test_a_constant_among_the_operands_has_the_shape_that_the_trace_tells() -> None:
    """A state that begins at zero, in the first of a loop's steps."""

    def function(x: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        state = x.new_zeros(2, 3, 4, 5)
        return torch.einsum("bls,bhps->blhp", b, state) + torch.einsum("bhps,ps->bhp", state + 1, x)[:, None]

    given = torch.randn(4, 5), torch.randn(2, 6, 5)
    problem = trace(function, *given)
    (got,) = meaning(problem, staged(problem), dict(zip(("a", "b"), given, strict=True)))
    torch.testing.assert_close(got, function(*given))


def test_what_is_small_is_multiplied_first() -> None:
    extents = {"b": 8, "c": 4, "l": 64, "s": 64, "h": 8, "n": 16, "p": 64}
    words = ("bclhn", "bcshn", "bhcls", "bcshp")
    assert einsum._next(words, "bclhp", extents) == (0, 1)
    assert einsum._next(("ij", "jk", "kl"), "il", {"i": 2, "j": 500, "k": 400, "l": 3}) == (0, 1)
    assert einsum._next(("ij", "jk", "kl"), "il", {"i": 300, "j": 500, "k": 400, "l": 3}) == (1, 2)
