"""Every operation on every element type: what the values say is what torch computes."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from ir_evaluation import meaning
from traced import trace

from knowledge.compiler.passes.fusion import fused
from knowledge.compiler.passes.staging import staged
from knowledge.compiler.problem import Problem

Case = Callable[[torch.Tensor], torch.Tensor | tuple[torch.Tensor, ...]]

ARITHMETIC: dict[str, Case] = {
    "neg": lambda t: -t,
    "abs": lambda t: t.abs(),
    "sum of two": lambda t: t + t,
    "plus a number beyond int8": lambda t: t + 100,
    "plus a fraction": lambda t: t + 0.5,
    "times a fraction": lambda t: t * 2.5,
    "times itself": lambda t: t * t,
    "less itself twice": lambda t: torch.sub(t, t, alpha=2),
    "a number less twice": lambda t: torch.rsub(t, 1, alpha=2),
    "plus twice": lambda t: torch.add(t, t, alpha=2),
    "divided": lambda t: t / 3,
    "divided downwards": lambda t: t // 3,
    "divided downwards by a negative": lambda t: torch.div(t, -3, rounding_mode="floor"),
    "divided towards 0": lambda t: torch.div(t, 3, rounding_mode="trunc"),
    "modulo": lambda t: t % 3,
    "modulo a negative": lambda t: t % -3,
    "remainder towards 0": lambda t: torch.fmod(t, 3),
    "reciprocal": lambda t: t.reciprocal(),
    "square": lambda t: t.square(),
    "root": lambda t: t.sqrt(),
    "power 0": lambda t: t**0,
    "power 2": lambda t: t**2,
    "power 3": lambda t: t**3,
    "power 4": lambda t: t**4,
    "power half": lambda t: t**0.5,
    "power -2": lambda t: t**-2.0,
    "power of a number": lambda t: 2**t,
    "power of a tensor": lambda t: t ** (t * 0 + 2),
    "exp": lambda t: t.exp(),
    "log1p": lambda t: t.abs().log1p(),
    "hypot": lambda t: torch.hypot(t, t),
    "atan2": lambda t: torch.atan2(t, t),
    "addcmul": lambda t: torch.addcmul(t, t, t, value=2),
    "addcdiv": lambda t: torch.addcdiv(t, t, t + 20, value=2),
    "lerp": lambda t: torch.lerp(t, t * 2, 0.3),
    "rounded": lambda t: (t.floor(), t.ceil(), t.round(), t.trunc()),
    "fraction": lambda t: t.frac(),
    "sign": lambda t: t.sign(),
    "number alone": lambda t: torch.full_like(t, 3) * t + torch.ones_like(t),
    "in place": lambda t: (t * 1).add_(1).mul_(t),
}
CHOSEN: dict[str, Case] = {
    "compared": lambda t: (t == 1, t != 1, t > 0.5, t >= 1, t < 0.5, t <= 0),
    "compared in place": lambda t: (t * 1).lt_(1),
    "compared with a tensor": lambda t: t < t.sum(),
    "where": lambda t: torch.where(t > 0, t, 0),
    "where a fraction": lambda t: torch.where(t > 0, t, 0.5),
    "masked": lambda t: t.masked_fill(t > 0, 1),
    "clamped": lambda t: t.clamp(1, 3),
    "clamped to fractions": lambda t: t.clamp(0.5, 2.5),
    "clamped on one side": lambda t: (t.clamp(min=1), t.clamp(max=1), t.clamp_min(2), t.clamp_max(2)),
    "clamped by tensors": lambda t: torch.clamp(t, t * 0 + 1, t * 0 + 3),
    "larger": lambda t: torch.maximum(t, t * 0 + 1),
    "smaller": lambda t: torch.minimum(t, t * 0 + 1),
    "logic": lambda t: (torch.logical_not(t), torch.logical_and(t, t > 0), torch.logical_xor(t, t > 0)),
    "logic of constants": lambda t: torch.logical_and(t, torch.full_like(t, 0.5, dtype=torch.float32)),
    "inverted": lambda t: ~t,
    "bits": lambda t: (t & 3, t | 5, t ^ t),
    "not a number": lambda t: (t.isnan(), t.isinf(), t.isfinite(), t.nan_to_num()),
    "relu": lambda t: F.relu(t),
    "relu6": lambda t: F.relu6(t),
    "hardtanh": lambda t: F.hardtanh(t),
    "threshold": lambda t: F.threshold(t, 1, 2),
    "leaky": lambda t: F.leaky_relu(t, 0.2),
    "gelu": lambda t: F.gelu(t),
    "softplus": lambda t: F.softplus(t),
    "sigmoid": lambda t: t.sigmoid(),
    "xlogy": lambda t: (torch.xlogy(t, 2.0), torch.xlogy(2, t)),
    "logaddexp": lambda t: torch.logaddexp(t, t),
    "logit": lambda t: torch.logit(t, 0.1),
    "to others": lambda t: (
        t.to(torch.uint8),
        t.to(torch.int8),
        t.long(),
        t.double(),
        t.bool(),
        t.half(),
        t.bfloat16(),
    ),
    "there and back": lambda t: t.float().to(t.dtype),
}
REDUCED: dict[str, Case] = {
    "sum": lambda t: (t.sum(), t.sum(-1), t.sum(-1, dtype=torch.float64)),
    "mean": lambda t: (t.mean(1), t.mean()),
    "mean of floats": lambda t: t.mean(-1, dtype=torch.float32),
    "product": lambda t: t[:, :2].prod(1),
    "extrema": lambda t: (t.amax(0), t.amin(1), t.max(), t.min()),
    "extrema and where": lambda t: (*t.max(1), *t.min(0)),
    "where": lambda t: (t.argmax(1), t.argmin()),
    "both": lambda t: torch.aminmax(t, dim=0),
    "any and all": lambda t: (t.any(1), t.all(0)),
    "counted": lambda t: torch.count_nonzero(t, 1),
    "variance": lambda t: (t.var(1), t.std(0)),
    "norms": lambda t: (t.norm(), torch.norm(t, p=3, dim=1), torch.linalg.vector_norm(t, 1, -1)),
    "softmax": lambda t: (F.softmax(t, -1), F.log_softmax(t, 0)),
    "softmax of floats": lambda t: F.softmax(t, -1, dtype=torch.float32),
    "logsumexp": lambda t: t.logsumexp(1),
    "layer norm": lambda t: (F.layer_norm(t, (6,)), F.rms_norm(t, (6,))),
    "pooled": lambda t: (F.max_pool1d(t, 2), F.avg_pool1d(t, 2), F.adaptive_avg_pool1d(t, 3)),
    "losses": lambda t: (F.mse_loss(t, t * 2), F.l1_loss(t, t * 2)),
    "cosine": lambda t: F.cosine_similarity(t, t + 1),
}
GROUPS = {"arithmetic": ARITHMETIC, "chosen": CHOSEN, "reduced": REDUCED}
NUMBERS = torch.arange(-12, 12).view(4, 6)
FRACTIONS = torch.randn(4, 6, generator=torch.Generator().manual_seed(5))
OPERANDS: dict[str, torch.Tensor] = {
    "int64": NUMBERS,
    "int8": (NUMBERS * 10).char(),
    "uint8": (NUMBERS * 10).abs().byte(),
    "bool": NUMBERS % 3 > 0,
    "bfloat16": FRACTIONS.bfloat16(),
    "float32": FRACTIONS,
    "float64": FRACTIONS.double(),
}
TOLERANCE = {torch.float16: 4e-3, torch.bfloat16: 3e-2, torch.float32: 1e-5, torch.float64: 1e-12}


def several(made: torch.Tensor | tuple[torch.Tensor, ...]) -> tuple[torch.Tensor, ...]:
    """One result or more."""
    return (made,) if isinstance(made, torch.Tensor) else tuple(made)


def accepted(case: Case, operand: torch.Tensor) -> bool:
    """Whether torch has this operation for this type."""
    try:
        case(operand)
    except (RuntimeError, TypeError):
        return False
    return True


def agree(problem: Problem, tensors: tuple[torch.Tensor, ...], wanted: dict[str, torch.Tensor]) -> None:
    """The values' outputs are those wanted, one a name."""
    names = [given.name for given in problem.inputs]
    made = meaning(problem, staged(problem), dict(zip(names, tensors, strict=True)))
    for got, (name, expected) in zip(made, wanted.items(), strict=True):
        tolerance = TOLERANCE.get(expected.dtype, 0.0)
        label = f"{name}: {{}}".format
        torch.testing.assert_close(got, expected, rtol=tolerance, atol=tolerance, equal_nan=True, msg=label)


def named(cases: dict[str, Case], operand: torch.Tensor) -> dict[str, torch.Tensor]:
    """What torch makes of each case, numbered where that is several."""
    made = {name: several(case(operand)) for name, case in cases.items()}
    return {f"{name} {k}": each for name, results in made.items() for k, each in enumerate(results)}


@pytest.mark.sampled(3)
@pytest.mark.parametrize("dtype", OPERANDS)
@pytest.mark.parametrize("group", GROUPS)
def test_results_and_types_are_torchs(group: str, dtype: str) -> None:
    operand = OPERANDS[dtype]
    cases = {name: case for name, case in GROUPS[group].items() if accepted(case, operand)}
    assert len(cases) > len(GROUPS[group]) // 4
    problem = trace(lambda t: tuple(named(cases, t).values()), operand)
    agree(problem, (operand,), named(cases, operand))


@pytest.mark.parametrize("dtype", OPERANDS)
def test_a_tensor_without_dimensions_gives_way_within_its_kind(dtype: str) -> None:
    def mixed(t: torch.Tensor, number: torch.Tensor, wide: torch.Tensor) -> dict[str, torch.Tensor]:
        whole = number.long()
        return {
            "times": t * number, "plus whole": t + whole, "whole alone": whole * 2, "wide first": wide + t,
            "compared": t >= wide, "compared with whole": whole > t, "where": torch.where(t > 0, t, wide),
            "equal in float64": wide == t, "both": wide * number, "a row of them": wide.expand(6) * t,
        }  # fmt: skip

    operand = OPERANDS[dtype].clone()
    operand[0, 0] = 0.1
    given = (operand, torch.tensor(2.5), torch.tensor(0.1, dtype=torch.float64))
    agree(trace(lambda *each: tuple(mixed(*each).values()), *given), given, mixed(*given))


def test_what_lies_between_kernels_is_rounded_where_torch_rounds() -> None:
    """A mean in bfloat16 has lost an offset's digits before the variance is taken of it."""
    x, weight = torch.randn(7, 48).bfloat16(), torch.randn(64, 48).bfloat16()
    problem = trace(lambda x, weight: F.linear(F.layer_norm(x, (48,)), weight).sigmoid(), x, weight)
    made = fused(problem, staged(problem))
    held = {tensor.shape: tensor.dtype for tensor in made.between}
    assert held == {(7,): "float32", (7, 1): "float32", (7, 48): "bfloat16"}
