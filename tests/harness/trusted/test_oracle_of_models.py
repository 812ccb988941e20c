"""Models that keep their tensors anywhere, and cast as they like: all have an oracle, over the weights of its slot."""

from __future__ import annotations

import math

import pytest
import torch

from harness.checks.errors import Expected, compare
from harness.trusted.noise_estimate import distance
from harness.trusted.oracle import Oracle
from harness.trusted.reach import tensors_of
from harness.trusted.reference import Reference

FILE = """
import collections
import functools
import threading
import torch
from torch import nn

TABLE = torch.rand(8, 8)
HELD = {{"table": TABLE}}

def project(x):
    return x @ TABLE

class Twice(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, weight):
        return (x * 2) @ weight.to(torch.float32)

    @staticmethod
    def backward(ctx, grad):
        return grad, None

class Box:
    def __init__(self):
        self.scale = torch.rand(8, 8)

class Model(nn.Module):
    {body}

    def __init__(self):
        super().__init__()
        self.inner = nn.Linear(8, 8)
        {init}

    def forward(self, x):
        {forward}

def get_inputs():
    return [torch.rand(4, 8)]
"""

MODELS = {
    "a closure over a layer": ("inner = self.inner; self.f = lambda x: inner(x)", "return self.f(x)"),
    "a closure over a weight": ("w = self.inner.weight; self.f = lambda x: x @ w", "return self.f(x)"),
    "a default value": ("self.f = lambda x, w=self.inner.weight: x @ w", "return self.f(x)"),
    "a bound method": ("self.f = self.inner.forward", "return self.f(x)"),
    "a partial": ("self.f = functools.partial(torch.matmul, other=torch.rand(8, 8))", "return self.f(x)"),
    "a list": ("self.layers = [nn.Linear(8, 8)]; self.m = [{'w': torch.rand(8, 8)}]",
               "return self.layers[0](x) @ self.m[0]['w'] + self.inner(x)"),
    "a queue and a box": ("self.q = collections.deque([Box()])", "return x @ self.q[0].scale"),
    "a plain attribute": ("self.m = torch.rand(8, 8)", "return self.inner(x) @ self.m"),
    "one with a history": ("self.m = self.inner.weight * 2", "return x @ self.m"),
    "what cannot be copied": ("self.lock = threading.Lock()", "return self.inner(x)"),
    "tied weights": ("self.other = nn.Linear(8, 8); self.other.weight = self.inner.weight",
                     "return self.other(self.inner(x))"),
    "a buffer outside": ("self.register_buffer('b', torch.rand(8, 8), persistent=False)", "return x @ self.b"),
    "a global": ("", "return x @ TABLE"),
    "a global within a function": ("", "return project(x) + x @ HELD['table']"),
    "a class attribute": ("", "return x @ self.shared"),
    "made in forward": ("", "return self.inner(x) @ torch.eye(8) + torch.full((8, 8), 0.1)[0] @ torch.ones(8, 8)"),
    "float32 by name": ("", "return self.inner(x.to(torch.float32)) @ torch.eye(8, dtype=torch.float32)"),
    "float32 by an old name": ("", "return x.type(torch.FloatTensor) @ torch.rand(8, 8).type('torch.FloatTensor')"
                               ".mul(0).add(1)"),
    "its own autograd function": ("", "return Twice.apply(x, self.inner.weight)"),
    "kept from the first call": ("self.kept = None", "self.kept = torch.arange(8.).outer(torch.ones(8)) "
                                 "if self.kept is None else self.kept; return x @ self.kept.sin()"),
    "a narrower layer": ("self.narrow = nn.Linear(8, 8, dtype=torch.bfloat16)",
                         "return self.narrow(x.bfloat16()).float()"),
    "narrower by name": ("", "return (x.half() @ self.inner.weight.to(torch.float16)).to(torch.float32)"),
    "complex numbers": ("self.turn = torch.polar(torch.ones(4, 4), torch.rand(4, 4))",
                        "return torch.view_as_real(torch.view_as_complex(x.float().reshape(4, 4, 2)) @ self.turn)"),
    "a recurrent layer": ("self.lstm = nn.LSTM(8, 8)", "return self.lstm(x, (torch.zeros(1, 8), torch.zeros(1, 8)))"
                          "[0]"),
    "a norm of weights": ("self.n = nn.utils.parametrizations.weight_norm(nn.Linear(8, 8))", "return self.n(x)"),
    "an older norm of weights": ("self.n = nn.utils.spectral_norm(nn.Linear(8, 8)).eval()", "return self.n(x)"),
    "another type's branch": ("", "assert x.dtype == torch.float32; "
                              "return self.inner(x * torch.finfo(x.dtype).max) / 1e38"),
}  # fmt: skip


def reference_of(name):
    init, forward = MODELS[name]
    return Reference(
        FILE.format(body="shared = TABLE" if "shared" in forward else "", init=init or "pass", forward=forward), "task"
    )


@pytest.mark.parametrize("name", MODELS)
def test_the_oracle_is_there_and_near(name):
    reference = reference_of(name)
    inputs, weights = reference.inputs(0), reference.parameters()
    results = reference.run(inputs)
    oracle = Oracle(reference, "other")
    for _ in range(2):  # what a forward keeps for the next call is no hindrance
        exact = oracle.run(inputs, weights, results)
        assert oracle.absent == ""
        assert [output.dtype for output in exact] == [torch.float64] * len(results)
    narrow = "narrow" in name
    error = compare(results[0], Expected("y", exact[0], results[0]))
    assert error.reference_max_scaled < (0.02 if narrow else 3e-6)
    assert error.reference_max_scaled > 0  # an oracle in float32 would agree to the last bit


@pytest.mark.parametrize("name", MODELS)
def test_a_replica_reads_its_own_weights_and_no_others(name):
    reference = reference_of(name)
    inputs = reference.inputs(0)
    before = reference.run(inputs)
    model = reference.replica()
    assert {id(tensor) for tensor in tensors_of(model)}.isdisjoint(map(id, tensors_of(reference.model)))
    assert torch.equal(reference.run(inputs, model)[0], before[0])
    weights = {name: torch.zeros_like(weight) for name, weight in reference.parameters().items()}
    reference.load(model, weights)
    uses = "inner" in "".join(MODELS[name]) and "history" not in name
    if uses and "list" not in name:  # all of these are products with the weights that are now 0
        assert not reference.run(inputs, model)[0].any() or "made" in name
    assert torch.equal(reference.run(inputs)[0], before[0])


def test_a_replica_of_plain_layers_is_a_copy_and_no_second_run_of_the_file(monkeypatch):
    reference = Reference(FILE.format(body="", init="self.m = [torch.rand(8)]", forward="return self.inner(x)"), "task")
    monkeypatch.setattr(Reference, "_anew", lambda self: pytest.fail("built anew"))
    assert reference.replica() is not reference.model


BITS = "return (x.view(torch.int32) >> 23).to(torch.float32)"
SHAPE = "return x.view(torch.int32) >> 23"
OTHER = "return self.inner(x) + x.element_size()"
DEEP = "assert x.element_size() == 4; return self.inner(x)"


@pytest.mark.parametrize(
    ("forward", "why"), [(SHAPE, "other shapes"), (BITS, "other shapes"), (OTHER, "something else"), (DEEP, "raised")]
)
def test_where_there_is_no_oracle_it_says_why_and_the_roundings_are_the_yardstick(forward, why):
    reference = Reference(FILE.format(body="", init="pass", forward=forward), "task")
    inputs, weights = reference.inputs(0), reference.parameters()
    (result,) = reference.run(inputs)
    oracle = Oracle(reference, "other")
    assert oracle.run(inputs, weights, [result]) == []
    assert why in oracle.absent
    (noise,) = oracle.noise(inputs, weights, [result])
    assert (noise > 0) == result.is_floating_point()
    if why == "something else":  # a product of eight terms and a sum
        assert 3e-8 < noise < 1e-6
        expected = Expected("y", result, result, noise=noise)
        assert compare(result * (1 + 3 * noise), expected).bad_fraction == 0
        assert compare(result * (1 + 1e-5), expected).bad_fraction > 0
        assert compare(result, expected).reference_max_scaled == noise


def test_a_result_that_is_all_rounding_has_its_oracle():
    """The mean of what has mean zero: in float64 it is a billion times smaller."""
    forward = "return nn.functional.group_norm(x, 1).mean(1)"
    reference = Reference(FILE.format(body="", init="pass", forward=forward), "task")
    inputs, weights = reference.inputs(0), reference.parameters()
    oracle = Oracle(reference, "other")
    assert oracle.run(inputs, weights, reference.run(inputs))
    assert oracle.absent == ""


def test_the_noise_of_a_result_shows_how_well_it_is_determined():
    """A difference of large numbers is not, a plain copy is."""

    def noise(forward):
        reference = Reference(FILE.format(body="", init="pass", forward=forward), "task")
        inputs = reference.inputs(0)
        return Oracle(reference, "other").noise(inputs, reference.parameters(), reference.run(inputs))[0]

    assert noise("return (x + 1000) - 1000") > 100 * noise("return x.T")
    assert noise("return torch.arange(4.) + x.sum(1) * 0") < 1e-6  # what no input is in is not moved


def test_what_an_overflow_left_as_zero_is_no_other_computation():
    exact = torch.tensor([0.3, 0.3, 1.0]).double()
    assert distance(torch.tensor([math.nan, 0.0, 1.0]), exact) == 0
    assert distance(torch.tensor([0.3, 0.0, 1.0]), exact) > 0.1
    assert distance(torch.tensor([math.nan, 0.2, 1.0]), exact) > 0.05
