"""Where arithmetic has a cheaper spelling on a GPU, what that takes for granted of the divisor holds."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from knowledge.compiler.emit.cuda_math import LARGEST_DIVISOR, DeviceEmitter, has_cheaper
from knowledge.compiler.emit.elements import Emitter
from knowledge.compiler.ir.expressions import Graph, Node

VALUES = torch.tensor([0.0, -0.0, 1.0, -1.0, 0.5, 1e-30, -1e30, 3e38, torch.inf, -torch.inf, -88.0, 2.5])
CONSTANTS = st.sampled_from([0.0, 1.0, -1.0, 0.5, 2.0, 1e-40, 1e35, 0.999])
UNARY = {"exp": torch.exp, "abs": torch.abs, "sqrt": torch.sqrt, "neg": torch.neg, "tanh": torch.tanh}
BINARY = {"add": torch.add, "sub": torch.sub, "mul": torch.mul, "maximum": torch.maximum, "minimum": torch.minimum}


def computed(graph: Graph, op: str, dtype: str, *args: Node) -> Node:
    return graph.make("compute", op, dtype, args[0].shape, args, ())


def loaded(graph: Graph, dtype: str = "float32") -> Node:
    return graph.make("load", "x", dtype, (VALUES.numel(),), (), (0, 1))


@st.composite
def expressions(draw: st.DrawFn, graph: Graph, x: Node, depth: int = 3) -> tuple[Node, torch.Tensor]:
    """A float32 expression over one load, and its values."""
    kind = draw(st.sampled_from(["x", "constant", "unary", "unary", "binary", "binary", "square"])) if depth else "x"
    if kind == "x":
        return x, VALUES
    if kind == "constant":
        value = draw(CONSTANTS)
        return graph.const(value, "float32"), torch.full_like(VALUES, value)
    left, a = draw(expressions(graph, x, depth - 1))
    if kind == "unary":
        op = draw(st.sampled_from([*UNARY]))
        return computed(graph, op, "float32", left), UNARY[op](a)
    right, b = (left, a) if kind == "square" else draw(expressions(graph, x, depth - 1))
    op = "mul" if kind == "square" else draw(st.sampled_from([*BINARY]))
    return computed(graph, op, "float32", left, right), BINARY[op](a, b)


@given(st.data())
def test_a_reciprocal_is_taken_only_of_one_and_more_or_of_numbers_that_lose_nothing(data: st.DataObject) -> None:
    graph = Graph()
    x = loaded(graph)
    below, values = data.draw(expressions(graph, x))
    if not has_cheaper(computed(graph, "div", "float32", x, below)):
        return
    if below.kind == "const":
        assert 1 / LARGEST_DIVISOR <= abs(values[0]) <= LARGEST_DIVISOR
        return
    assert bool(((values >= 1) | values.isnan()).all()), (below, values)


def spelled(node: Node) -> tuple[str, str]:
    """The node's right-hand side as it is usual, and in the cheaper way."""
    texts = []
    for emitter in (Emitter(), DeviceEmitter(cheaper=True)):
        emitter.names |= {id(each): "x" for each in _nodes(node) if each.kind == "load"}
        emitter.emit([each for each in _nodes(node) if each.kind == "compute"])
        texts.append(emitter.spell(node))
    return texts[0], texts[1]


def _nodes(node: Node) -> list[Node]:
    return [*(each for arg in node.args for each in _nodes(arg)), node]


@pytest.mark.parametrize(("below", "factor"), [(3.0, 1 / 3.0), (-0.25, -4.0), (2.0**100, 2.0**-100), (1e-20, 1e20)])
def test_a_number_s_reciprocal_is_a_factor(below: float, factor: float) -> None:
    graph = Graph()
    node = computed(graph, "div", "float32", loaded(graph), graph.const(below, "float32"))
    usual, cheaper = spelled(node)
    assert "/" in usual and "/" not in cheaper
    assert float(cheaper.split("*")[1].strip(" ()").removesuffix("f")) == pytest.approx(factor, rel=1e-7)


@pytest.mark.parametrize("below", [0.0, 1e-38, 2.0**101, -1e35, 3e38])
def test_a_number_whose_reciprocal_loses_digits_divides(below: float) -> None:
    graph = Graph()
    assert not has_cheaper(computed(graph, "div", "float32", loaded(graph), graph.const(below, "float32")))


def test_doubles_and_other_functions_are_spelled_as_usual() -> None:
    graph = Graph()
    x = loaded(graph, "float64")
    y = loaded(graph)
    double = computed(graph, "div", "float64", x, graph.const(3.0, "float64"))
    assert not has_cheaper(double) and len(set(spelled(double))) == 1
    for op, cheaper in (("expm1", True), ("exp", False), ("log1p", False), ("tanh", False)):
        assert has_cheaper(computed(graph, op, "float32", y)) is cheaper
    soft = computed(graph, "log1p", "float32", computed(graph, "exp", "float32", y))
    assert has_cheaper(soft) and "log1p_exp(" in spelled(soft)[1]
    one = computed(graph, "div", "float32", graph.const(1.0, "float32"), computed(graph, "exp", "float32", y))
    assert not has_cheaper(one), "e^x may be nearly 0"


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_what_is_rounded_to_16_bits_is_spelled_in_the_cheaper_way_without_a_move(dtype: str) -> None:
    graph = Graph()
    x = loaded(graph, dtype)
    e = computed(graph, "exp", dtype, x)
    sigmoid = computed(graph, "div", dtype, x, computed(graph, "add", dtype, graph.const(1.0, dtype), e))
    emitter = DeviceEmitter()
    emitter.names[id(x)] = "x"
    emitter.emit(node for node in _nodes(sigmoid) if node.kind == "compute")
    text = "\n".join(emitter.lines)
    assert "math::power(x * 1.44" in text and "math::reciprocal(" in text and "std::" not in text
    assert not any(has_cheaper(each) for each in _nodes(sigmoid)), "no move offers it again"
    single = computed(graph, "exp", "float32", loaded(graph))
    emitter.names[id(single.args[0])] = "x"
    assert emitter.spell(single) == "std::exp(x)"
