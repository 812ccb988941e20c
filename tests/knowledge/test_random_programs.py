"""Random forwards of views, arithmetic and reductions: what the playbook makes of them is what torch computes."""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from evaluation import evaluate
from hypothesis import HealthCheck, assume, event, given, settings
from hypothesis import strategies as st
from ir_evaluation import meaning, of_kernels
from traced import scaled_error, trace

from knowledge.compiler.ir.cost import WORTH_MEMORY
from knowledge.compiler.ir.expressions import UnwritableError
from knowledge.compiler.lower.front import traced
from knowledge.compiler.passes.fusion import fused
from knowledge.compiler.passes.pooling import pooled
from knowledge.compiler.passes.staging import staged
from knowledge.compiler.schedule.strided_reading import lower_problem

Step = Callable[[list[torch.Tensor]], torch.Tensor]
UNARY: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "neg": torch.neg,
    "abs": torch.abs,
    "relu": torch.relu,
    "sigmoid": torch.sigmoid,
    "tanh": torch.tanh,
    "scale": lambda x: 0.5 * x + 1,
    "leaky": torch.nn.functional.leaky_relu,
    "hardtanh": torch.nn.functional.hardtanh,
    "square": torch.square,
}
BINARY: dict[str, Callable[[torch.Tensor, torch.Tensor], torch.Tensor]] = {
    "add": torch.add,
    "sub": torch.sub,
    "mul": torch.mul,
    "maximum": torch.maximum,
    "where": lambda x, y: torch.where(x > 0, x, y),
}
REDUCTIONS: dict[str, Callable[[torch.Tensor, int, bool], torch.Tensor]] = {
    "sum": lambda x, dim, keep: x.sum(dim, keepdim=keep),
    "mean": lambda x, dim, keep: x.mean(dim, keepdim=keep),
    "amax": lambda x, dim, keep: x.amax(dim, keepdim=keep),
    "amin": lambda x, dim, keep: x.amin(dim, keepdim=keep),
}


class Drawn(torch.nn.Module):
    """A forward made of drawn steps, each on the values so far. The last value is returned, and one before it."""

    def __init__(self, steps: list[Step], also: int) -> None:
        super().__init__()
        self.steps = steps
        self.also = also

    def forward(self, x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, ...]:
        values = [x, y]
        for step in self.steps:
            values.append(step(values))
        return values[-1] + 0.0, values[self.also] * 1.0


def _viewed(draw: st.DrawFn, value: torch.Tensor, position: int) -> Step:
    dim = draw(st.integers(0, value.dim() - 1))
    kind = draw(
        st.sampled_from(
            ("permute", "slice", "select", "unsqueeze", "flatten", "chunk", "expand", "reshape", "flip", "repeat")
        )
    )
    if kind == "permute":
        order = draw(st.permutations(range(value.dim())))
        return lambda values: values[position].permute(order)
    if kind == "slice":
        start, step = draw(st.integers(0, value.shape[dim] - 1)), draw(st.integers(1, 3))
        return lambda values: values[position][(slice(None),) * dim + (slice(start, None, step),)]
    if kind == "select" and value.dim() > 1:
        index = draw(st.integers(-value.shape[dim], value.shape[dim] - 1))
        return lambda values: values[position].select(dim, index)
    if kind == "chunk" and value.shape[dim] > 1:
        return lambda values: values[position].chunk(2, dim)[1]
    if kind == "expand":
        return lambda values: values[position].unsqueeze(dim).expand(*_stretched(values[position].shape, dim))
    if kind == "flip":
        return lambda values: values[position].flip(dim)
    if kind == "repeat":
        return lambda values: values[position].repeat_interleave(2, dim).repeat(2, *(1,) * value.dim())
    if kind == "flatten":
        return lambda values: values[position].contiguous().flatten()
    if kind == "reshape":
        last = draw(st.sampled_from([k for k in range(1, value.numel() + 1) if value.numel() % k == 0]))
        return lambda values: values[position].reshape(-1, last)
    return lambda values: values[position].unsqueeze(dim)


def _stretched(shape: torch.Size, dim: int) -> tuple[int, ...]:
    return (*shape[:dim], 2, *shape[dim:])


def _step(draw: st.DrawFn, values: list[torch.Tensor]) -> Step:
    position = draw(st.integers(0, len(values) - 1))
    value = values[position]
    kind = draw(st.sampled_from(("unary", "binary", "view", "view", "reduce", "normalize", "groups")))
    partners = [k for k, other in enumerate(values) if _broadcasts(value, other)]
    if kind == "binary" and partners:
        other, function = draw(st.sampled_from(partners)), BINARY[draw(st.sampled_from(sorted(BINARY)))]
        return lambda values: function(values[position], values[other])
    if kind == "view" and 0 < value.dim() < 5:
        return _viewed(draw, value, position)
    if kind == "groups" and value.dim() > 1 and value.shape[1:].numel() > 1:
        groups = draw(st.sampled_from([k for k in range(1, value.shape[1] + 1) if value.shape[1] % k == 0]))
        return lambda values: torch.group_norm(values[position], groups, eps=0.1)
    if kind in ("reduce", "normalize") and value.dim():
        dim = draw(st.integers(-value.dim(), value.dim() - 1))
        reduction = REDUCTIONS[draw(st.sampled_from(sorted(REDUCTIONS)))]
        if kind == "normalize":
            return lambda values: values[position] - reduction(values[position], dim, True)
        keep = draw(st.booleans()) or value.dim() == 1
        return lambda values: reduction(values[position], dim, keep)
    one = UNARY[draw(st.sampled_from(sorted(UNARY)))]
    return lambda values: one(values[position])


def _broadcasts(one: torch.Tensor, other: torch.Tensor) -> bool:
    try:
        return 0 < torch.broadcast_shapes(one.shape, other.shape).numel() <= 4096
    except RuntimeError:
        return False


@st.composite
def programs(draw: st.DrawFn) -> tuple[Drawn, torch.Tensor, torch.Tensor]:
    """A forward of up to six steps and its two inputs, whose second one's memory is not in row-major order."""
    shape = draw(st.lists(st.integers(1, 6), min_size=1, max_size=3))
    generator = torch.Generator().manual_seed(draw(st.integers(0, 2**31)))
    x = torch.randn(shape, generator=generator)
    order = draw(st.permutations(range(len(shape))))
    back = [order.index(dim) for dim in range(len(shape))]
    y = torch.randn([shape[dim] for dim in order], generator=generator).permute(back)
    values, steps = [x, y], []
    for _ in range(draw(st.integers(1, 6))):
        steps.append(_step(draw, values))
        values.append(steps[-1](values))
        assume(0 < values[-1].numel() <= 4096)
    return Drawn(steps, draw(st.integers(0, len(values) - 1))), x, y


@settings(suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much])
@given(programs())
def test_what_is_lowered_is_what_torch_computes(program: tuple[Drawn, torch.Tensor, torch.Tensor]) -> None:
    module, x, y = program
    problem = trace(module, x, y)
    try:
        tensors = dict(zip((given.name for given in problem.inputs), (x, y), strict=True))
        try:
            mine = evaluate(problem, lower_problem(problem), tensors)
            event("over strides")
        except UnwritableError as refusal:
            event(f"over indices: {str(refusal).split('(')[0]}")
            mine = meaning(problem, staged(problem), tensors)
    except UnwritableError as refusal:
        event(f"declined: {str(refusal).split('(')[0]}")
        return
    for got, wanted, oracle in zip(mine, module(x, y), module(x.double(), y.double()), strict=True):
        assert got.shape == wanted.shape
        assert got.dtype == wanted.dtype
        assert scaled_error(got, oracle) <= 4 * scaled_error(wanted, oracle) + 1e-6


@settings(suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much])
@given(programs(), st.sampled_from(("cpu", "cuda")), st.sampled_from((0.0, WORTH_MEMORY, math.inf)))
def test_every_pass_keeps_what_the_values_are(
    program: tuple[Drawn, torch.Tensor, torch.Tensor], target: str, worth: float
) -> None:
    """Values as traced, in stages, as kernels that repeat much, little or nothing, and with pools in these."""
    module, x, y = program
    problem = trace(module, x, y).model_copy(update={"target": target})
    tensors = dict(zip((given.name for given in problem.inputs), (x, y), strict=True))
    try:
        lowered = staged(problem)
    except UnwritableError as refusal:
        event(f"declined: {str(refusal).split('(')[0]}")
        return
    kernels = fused(problem, lowered, worth)
    event(f"{len(kernels.kernels)} kernels")
    joined = pooled(kernels, lowered.graph, {each.name for each in problem.outputs})
    stages = {
        "traced": meaning(problem, traced(problem), tensors),
        "staged": meaning(problem, lowered, tensors),
        "fused": of_kernels(problem, kernels.kernels, tensors),
        "pooled": of_kernels(problem, joined.kernels, tensors),
    }
    for name, made in stages.items():
        for got, wanted, oracle in zip(made, module(x, y), module(x.double(), y.double()), strict=True):
            assert scaled_error(got, oracle) <= 4 * scaled_error(wanted, oracle) + 1e-6, name
