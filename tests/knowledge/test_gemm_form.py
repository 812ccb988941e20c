"""From the trace to loops and strides: every form is interpreted here and compared with torch."""

from __future__ import annotations

from itertools import product

import numpy
import pytest
import torch
from gemm_cases import PLAIN, STEPS, doubled, rand, trace_fx
from traced import trace

from knowledge.compiler.emit.source_text import identifiers
from knowledge.compiler.plan import Decline
from knowledge.compiler.problem import Problem
from knowledge.compiler.schedule.gemm.form import Axis, Form
from knowledge.compiler.schedule.gemm.product import form_of
from knowledge.compiler.schedule.gemm.recipe import GemmRecipe


def offsets(axes: list[Axis], place: int) -> numpy.ndarray:
    """Offsets of one operand over the loops, one array dimension a loop."""
    total = numpy.zeros([axis.extent for axis in axes], dtype=numpy.int64)
    for dim, axis in enumerate(axes):
        steps = numpy.arange(axis.extent) * axis.strides[place]
        total += steps.reshape([-1 if i == dim else 1 for i in range(len(axes))])
    return total


def storage(tensor: torch.Tensor) -> numpy.ndarray:
    return torch.as_strided(tensor, (tensor.untyped_storage().size() // tensor.element_size(),), (1,), 0).numpy()


def interpret(form: Form, problem: Problem, inputs: list[torch.Tensor]) -> torch.Tensor:
    """Runs the form's loops in numpy on the operands' storages."""
    names = identifiers(argument.name for argument in problem.arguments)
    memory = {names[spec.name]: storage(each) for spec, each in zip(problem.inputs, inputs, strict=True)}
    (output,) = problem.outputs
    result = torch.full((max(offset_span(output), 1),), torch.nan, dtype=torch.float64)
    axes = [*form.batch, form.m, form.n, form.k]
    values = memory[form.operands[0]][offsets(axes, 0)] * memory[form.operands[1]][offsets(axes, 1)]
    result.numpy()[offsets(axes[:-1], 2)] = values.sum(-1)
    return torch.as_strided(result, output.shape, output.strides)


def offset_span(tensor) -> int:
    return 1 + sum((extent - 1) * stride for extent, stride in zip(tensor.shape, tensor.strides, strict=True))


TRACED = [(name, tracer) for name in PLAIN for tracer in ("export", "make_fx")]


@pytest.mark.parametrize(("name", "tracer"), TRACED)
def test_the_loops_compute_the_product(name, tracer):
    function, inputs = PLAIN[name]
    wide = doubled(inputs)
    problem = trace(function, *wide) if tracer == "export" else trace_fx(function, wide)
    form = form_of(problem)
    torch.testing.assert_close(interpret(form, problem, wide), function(*wide))


@pytest.mark.parametrize(("name", "m", "n", "k", "batches"), [
    ("matmul of a batch and a matrix", 24, 6, 5, 1),
    ("matmul with broadcast batches", 4, 6, 5, 6),
    ("matrix and a batch", 4, 6, 5, 3),
    ("einsum", 24, 6, 5, 1),
    ("result transposed", 4, 6, 5, 1),
    ("einsum over two", 4, 5, 6, 1),
    ("dot", 1, 1, 7, 1),
    ("column vector", 4, 1, 5, 1),
    ("left expanded", 4, 6, 5, 1),
    ("right expanded", 4, 6, 5, 1),
    ("both expanded", 12, 6, 5, 1),
])  # fmt: skip
def test_loops_are_merged(name, m, n, k, batches):
    function, inputs = PLAIN[name]
    form = form_of(trace(function, *inputs))
    assert (form.m.extent, form.n.extent, form.k.extent, form.batches) == (m, n, k, batches)


@pytest.mark.parametrize("name", PLAIN)
def test_c_is_written_along_its_contiguous_dimension(name):
    function, inputs = PLAIN[name]
    form = form_of(trace(function, *inputs))
    strides = {form.m.strides[2], form.n.strides[2]} - {0}
    assert form.n.strides[2] in (0, 1) or 1 not in strides


@pytest.mark.parametrize("name", PLAIN)
def test_flops_are_those_of_the_formula(name):
    function, inputs = PLAIN[name]
    form = form_of(trace(function, *inputs))
    sizes = [axis.extent for axis in (form.m, form.n, form.k, *form.batch)]
    loops = sum(1 for _ in product(*map(range, sizes)))
    assert form.flops == 2 * loops


def test_steps_keep_their_order():
    function, inputs = STEPS["addmm"]
    assert form_of(trace(function, *inputs)).codes == ("x = (x * T(2.0)) + (d0 * T(0.5))",)


def test_a_triangle_of_the_transposed_product_is_mirrored():
    problem = trace(lambda a, b: torch.triu(a @ b, 1), rand(4, 5), rand(5, 6))
    sideways = problem.model_copy(update={"outputs": (problem.outputs[0].model_copy(update={"strides": (1, 4)}),)})
    triangle = form_of(sideways).triangle
    assert triangle is not None
    assert (triangle.half, triangle.offset) == ("lower", -1)


REFUSED = {
    "no product": (lambda a, b: a + b, (rand(4), rand(4)), "no matrix product"),
    "two products": (lambda a, b: (a @ b) @ b, (rand(4, 4), rand(4, 4)), "two matrix products"),
    "two products added": (lambda a, b: a @ b + b @ a, (rand(4, 4), rand(4, 4)), "share an operand"),
    "softmax after": (lambda a, b: torch.softmax(a @ b, -1), (rand(4, 4), rand(4, 4)), "aten.softmax"),
    "sum after": (lambda a, b: (a @ b).sum(), (rand(4, 4), rand(4, 4)), "aten.sum"),
    "operand shifted": (lambda a, b: (a + 1) @ b, (rand(4, 4), rand(4, 4)), "aten.add"),
    "relu before": (lambda a, b: torch.relu(a) @ b, (rand(4, 4), rand(4, 4)), "aten.relu"),
    "triu before": (lambda a, b: torch.triu(a) @ b, (rand(4, 4), rand(4, 4)), "aten.triu"),
    "step after a triangle": (lambda a, b: torch.triu(a @ b) + 1, (rand(4, 4), rand(4, 4)), "triu"),
    "einsum of three": (lambda a, b: torch.einsum("ij,jk,kl->il", a, b, b), (rand(4, 4), rand(4, 4)), "share"),
    "einsum diagonal": (lambda a, b: torch.einsum("ii,ij->ij", a, b), (rand(4, 4), rand(4, 4)), "no matrix product"),
    "einsum lone sum": (lambda a, b: torch.einsum("ij,kl->il", a, b), (rand(4, 4), rand(4, 4)), "several dimensions"),
    "half precision": (lambda a, b: a @ b, (rand(4, 4).half(), rand(4, 4).half()), "float16"),
    "empty": (lambda a, b: a @ b, (rand(4, 0), rand(0, 4)), "empty"),
    "product repeated": (lambda a, b: (a @ b).expand(3, 4, 4), (rand(4, 4), rand(4, 4)), "repeating"),
    "wild sum": (lambda a, b: torch.einsum("ikl,jlk->ij", a, b), (rand(4, 2, 3), rand(5, 3, 2)), "several dimensions"),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_not_covered_is_declined_with_the_reason(name):
    function, inputs, reason = REFUSED[name]
    answer = GemmRecipe().first_plan(trace(function, *inputs))
    assert isinstance(answer, Decline)
    assert reason in answer.reason
    assert answer.reason.endswith(".")


def relu_through_a_view(a, b):
    product = a @ b
    product.t().relu_()
    return product


def relu_in_place(a, b):
    return (a @ b).relu_()


def scaled_input(a, b):
    return a.mul_(2) @ b


def test_in_place_on_the_product_is_a_step():
    assert len(form_of(trace(relu_in_place, rand(4, 5), rand(5, 6))).codes) == 1


@pytest.mark.parametrize("function", [relu_through_a_view, scaled_input])
def test_in_place_where_others_would_see_it_is_declined(function):
    assert isinstance(GemmRecipe().first_plan(trace(function, rand(4, 4), rand(4, 4))), Decline)


def test_two_outputs_are_declined():
    answer = GemmRecipe().first_plan(trace(lambda a, b: (a @ b, a), rand(4, 4), rand(4, 4)))
    assert isinstance(answer, Decline)
    assert "one output" in answer.reason
