"""Random products of viewed operands, with what follows them: the loops that are found compute what torch does."""

from __future__ import annotations

import re
from collections.abc import Callable
from itertools import product
from string import ascii_lowercase

import numpy
import torch
from hypothesis import HealthCheck, event, given, settings
from hypothesis import strategies as st
from traced import trace

from knowledge.compiler.emit.source_text import identifiers
from knowledge.compiler.problem import Problem, Tensor
from knowledge.compiler.schedule.gemm.form import Axis, Form, UncoveredError
from knowledge.compiler.schedule.gemm.product import form_of

View = Callable[[torch.Tensor], torch.Tensor]
Step = Callable[[torch.Tensor, torch.Tensor], torch.Tensor]
STEPS: dict[str, Step] = {
    "twice": lambda x, c: x * 2,
    "less one": lambda x, c: x - 1,
    "divided": lambda x, c: x / 4,
    "and the operand": lambda x, c: x + c,
    "the operand and": lambda x, c: c + x,
    "less the operand": lambda x, c: x - c,
    "times the operand": lambda x, c: x * c,
    "times the operand's half": lambda x, c: x * (c / 2),
    "by the operand": lambda x, c: x / c,
    "relu": lambda x, c: torch.relu(x),
    "relu in place": lambda x, c: x.relu_(),
    "bounded": lambda x, c: x.clamp(-1, 2.5),
    "bounded below": lambda x, c: x.clamp_min(-0.5),
    "turned": lambda x, c: -x,
    "squared": lambda x, c: x.square() + x,
    "transposed": lambda x, c: x.transpose(-2, -1) if x.dim() > 1 else x,
    "flat": lambda x, c: x.flatten(),
    "lengthened": lambda x, c: x.unsqueeze(0),
    "shortened": lambda x, c: x.squeeze(),
}


def after(form: Form, values: numpy.ndarray, given: dict[str, numpy.ndarray]) -> numpy.ndarray:
    """The steps' C++ done to the sums: what stands in it here, Python spells alike but for `?:`."""
    known = {"T": float, "where": numpy.where, "x": values, **given}
    for code in form.codes:
        name, _, text = code.removeprefix("auto const ").partition(" = ")
        known[name] = eval(_python(text), known)
    return known["x"]  # type: ignore[return-value]


def _python(code: str) -> str:
    """`c ? a : b` as where(c, a, b), within parentheses, too."""
    if (asked := _outside(code, "?")) is not None:
        between = _outside(code[asked + 1 :], ":")
        assert between is not None
        condition, yes, no = code[:asked], code[asked + 1 :][:between], code[asked + 1 :][between + 1 :]
        return f"where({', '.join(map(_python, (condition, yes, no)))})"
    opened = code.find("(")
    if opened < 0:
        return code
    closed = next(
        k for k in range(opened, len(code)) if code[opened : k + 1].count("(") == code[opened : k + 1].count(")")
    )
    return f"{code[: opened + 1]}{_python(code[opened + 1 : closed])}){_python(code[closed + 1 :])}"


def _outside(code: str, mark: str) -> int | None:
    """Where a mark first stands outside of parentheses."""
    return next((k for k, each in enumerate(code) if each == mark and code[:k].count("(") == code[:k].count(")")), None)


def offsets(axes: list[Axis], place: int) -> numpy.ndarray:
    """Offsets of one operand over the loops, one array dimension a loop."""
    total = numpy.zeros([axis.extent for axis in axes], dtype=numpy.int64)
    for dim, axis in enumerate(axes):
        total += (numpy.arange(axis.extent) * axis.strides[place]).reshape(
            [-1 if k == dim else 1 for k in range(len(axes))]
        )
    return total


def storage(tensor: torch.Tensor) -> numpy.ndarray:
    """All that lies in the tensor's memory."""
    return torch.as_strided(tensor, (tensor.untyped_storage().size() // tensor.element_size(),), (1,), 0).numpy()


def interpreted(form: Form, problem: Problem, given: list[torch.Tensor]) -> torch.Tensor:
    """The form's loops and steps in numpy, on the operands' memory; what no loop writes stays NaN."""
    names = identifiers(argument.name for argument in problem.arguments)
    memory = {names[spec.name]: storage(each) for spec, each in zip(problem.inputs, given, strict=True)}
    axes = [*form.batch, form.m, form.n, form.k]
    values = (memory[form.operands[0]][offsets(axes, 0)] * memory[form.operands[1]][offsets(axes, 1)]).sum(-1)
    steps = {f"d{k}": memory[name][offsets(axes[:-1], 3 + k)] for k, name in enumerate(form.extras)}
    values = after(form, values, steps)
    (output,) = problem.outputs
    result = torch.full((span(output),), torch.nan, dtype=torch.float64)
    result.numpy()[offsets(axes[:-1], 2)] = values
    return torch.as_strided(result, output.shape, output.strides)


def span(tensor: Tensor) -> int:
    """Elements from the first to the last one."""
    return 1 + sum((extent - 1) * stride for extent, stride in zip(tensor.shape, tensor.strides, strict=True))


@st.composite
def operand(draw: st.DrawFn, shape: tuple[int, ...]) -> tuple[torch.Tensor, View]:
    """A tensor and a view of it that has the shape: permuted, cut out of a wider one, split or repeated."""
    order = draw(st.permutations(range(len(shape))))
    inverse = [order.index(dim) for dim in range(len(shape))]
    stored = [shape[dim] for dim in order]
    generator = torch.Generator().manual_seed(draw(st.integers(0, 2**31)))
    kind = draw(st.sampled_from(("plain", "wide", "split", "repeated")))
    if kind == "wide":
        tensor = torch.randn([extent + 1 for extent in stored], generator=generator, dtype=torch.float64)
        return tensor[tuple(slice(0, extent) for extent in stored)], lambda x: x.permute(inverse)
    if kind == "split":
        tensor = torch.randn(
            [part for extent in stored for part in _halves(extent)], generator=generator, dtype=torch.float64
        )
        return tensor, lambda x: x.reshape(stored).permute(inverse)
    if kind == "repeated":
        tensor = torch.randn([1, *stored[1:]], generator=generator, dtype=torch.float64)
        return tensor, lambda x: x.expand(stored).permute(inverse)
    return torch.randn(stored, generator=generator, dtype=torch.float64), lambda x: x.permute(inverse)


def _halves(extent: int) -> tuple[int, int]:
    return (2, extent // 2) if extent % 2 == 0 else (1, extent)


@st.composite
def products(draw: st.DrawFn) -> tuple[Callable[..., torch.Tensor], list[torch.Tensor]]:
    """einsum of two operands, or a matmul, then up to four steps; a third operand takes part in some of them."""
    labels = ascii_lowercase[: draw(st.integers(2, 4))]
    extents = {label: draw(st.integers(1, 6)) for label in labels}
    where = {label: draw(st.sampled_from(("k", "m", "n", "batch"))) for label in labels}
    ours, theirs, out = (
        "".join(draw(st.permutations([label for label in labels if where[label] in roles])))
        for roles in (("k", "m", "batch"), ("k", "n", "batch"), ("m", "n", "batch"))
    )
    (a, a_view), (b, b_view) = (draw(operand(tuple(extents[label] for label in side))) for side in (ours, theirs))
    shape = tuple(draw(st.sampled_from((extents[label], 1))) for label in out[draw(st.integers(0, len(out))) :])
    c, c_view = draw(operand(shape))
    steps = [STEPS[name] for name in draw(st.lists(st.sampled_from(sorted(STEPS)), max_size=4))]

    def forward(a: torch.Tensor, b: torch.Tensor, c: torch.Tensor) -> torch.Tensor:
        made = torch.einsum(f"{ours},{theirs}->{out}", a_view(a), b_view(b))
        for step in steps:
            made = step(made, c_view(c))
        return made

    return forward, [a, b, c + 3]


@settings(
    max_examples=30,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much, HealthCheck.data_too_large],
)
@given(products())
def test_the_loops_compute_what_torch_does(case: tuple[Callable[..., torch.Tensor], list[torch.Tensor]]) -> None:
    forward, given = case
    try:
        wanted = forward(*given)
    except RuntimeError:  # a third operand that does not broadcast to what the views have made of the product
        return
    problem = trace(forward, *given)
    try:
        form = form_of(problem)
    except UncoveredError as refusal:
        event(f"declined: {re.sub('[0-9(].*', '', str(refusal))}")
        return
    event("covered")
    torch.testing.assert_close(interpreted(form, problem, given), wanted)
    loops = [axis.extent for axis in (form.m, form.n, form.k, *form.batch)]
    assert form.flops == 2 * sum(1 for _ in product(*map(range, loops)))
