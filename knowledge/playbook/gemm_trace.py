"""Reads a traced forward of the GEMM family: which product it is, of which views, and what follows it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from string import ascii_letters
from typing import cast

from knowledge.playbook.emission import literal
from knowledge.playbook.gemm_steps import ACTIVATIONS, activation, together
from knowledge.playbook.gemm_terms import Labels, Operand, Result, Triangle, contract, stretch
from knowledge.playbook.gemm_views import UncoveredError, View
from knowledge.playbook.identifiers import identifiers
from knowledge.playbook.lowering import WITHOUT_EFFECT
from knowledge.playbook.problem import Argument, Op, Problem, Ref, Scalar

Value = Operand | Result
Number = str
"""A scalar as a C++ expression of the element type."""

SCALAR_PREFIX = "s_"
"""Stands before a scalar argument's name inside the kernel, where it has the element type."""

RESHAPES = frozenset({"view", "_unsafe_view", "reshape", "flatten", "unsqueeze", "squeeze", "squeeze_", "unflatten"})
SAME = frozenset({"clone", "contiguous", "alias", "detach", "detach_", "lift_fresh_copy"})


def read(problem: Problem) -> Result:
    """The problem as one product. Raises UncoveredError, saying what is in the way, where it is none."""
    if len(problem.outputs) != 1:
        raise UncoveredError("the GEMM recipe writes exactly one output.")
    if not any(_name(op) in PRODUCTS for op in problem.ops):
        raise UncoveredError("the forward holds no matrix product.")
    trace = _Trace(problem)
    for op in problem.ops:
        trace.step(op)
    value = trace.values.get(problem.returns[0])
    if not isinstance(value, Result):
        raise UncoveredError("the forward holds no matrix product that the output comes from.")
    return value


class _Trace:
    """Walks the operations once; `values` maps every name to what is known about it."""

    def __init__(self, problem: Problem) -> None:
        self.values: dict[str, Value] = {}
        self.scalars: dict[str, str] = {}
        names = identifiers(argument.name for argument in problem.arguments)
        for argument in (*problem.inputs, *problem.parameters):
            if isinstance(argument, Scalar):
                self.scalars[argument.name] = SCALAR_PREFIX + names[argument.name]
            else:
                self.values[argument.name] = Operand(View.of(argument))

    def step(self, op: Op) -> None:
        """Follow one operation. Raises UncoveredError where its kind or its arguments are not covered."""
        name = _name(op)
        if name in WITHOUT_EFFECT:
            return
        bare = name.removesuffix("_")
        handler = PRODUCTS.get(bare) or AFTER.get(bare)
        value = handler(self, op) if handler else self._look(name, op)
        if name.endswith("_"):
            self._overwrite(op, value)
        self.values[op.results[0].name] = value

    def _overwrite(self, op: Op, value: Value) -> None:
        """An operation in place: its operand is the new value, and other views of the old one are out of date."""
        if isinstance(value, Operand) or isinstance(self.maybe_tensor(op.args[0]), Operand):
            raise UncoveredError(f"{op.target} in place on an argument of the call is not covered.")
        self.values = {name: each for name, each in self.values.items() if isinstance(each, Operand)}
        if isinstance(op.args[0], Ref):
            self.values[op.args[0].ref] = value

    def _look(self, name: str, op: Op) -> Value:
        """An operation that only looks at its operand another way."""
        value = self.value(op, 0)
        if name in SAME or (name == "dropout" and _argument(op, 2) is False):
            return value
        if isinstance(value, Operand) and value.diagonal:
            if name in ("t", "numpy_T", "mT", "transpose"):
                return value
            raise UncoveredError(f"{op.target} of a diagonal matrix is not covered.")
        if isinstance(value, Result) and name == "expand" and value.view.shape != op.results[0].shape:
            raise UncoveredError("repeating the product along a new dimension is not covered.")
        return replace(value, view=self._moved(name, op, value.view))

    def _moved(self, name: str, op: Op, view: View) -> View:
        if name in RESHAPES:
            return view.reshape(op.results[0].shape)
        if name == "expand":
            return view.broadcast(op.results[0].shape)
        if name in ("t", "numpy_T"):
            return view.permute(tuple(reversed(range(view.rank))))
        if name == "mT":
            return view.swap(-2, -1)
        if name in ("transpose", "swapaxes", "swapdims"):
            return view.swap(_int(op, 1), _int(op, 2))
        if name == "permute":
            return view.permute(cast(tuple[int, ...], _argument(op, 1)))
        raise UncoveredError(f"the GEMM recipe does not cover {op.target}.")

    def value(self, op: Op, index: int) -> Value:
        """The tensor at this place among the arguments."""
        found = self.maybe_tensor(_argument(op, index))
        if found is None:
            raise UncoveredError(f"the GEMM recipe does not cover {op.target} with these arguments.")
        return found

    def maybe_tensor(self, argument: Argument) -> Value | None:
        """The tensor an argument refers to, or None for a scalar or for no argument."""
        return self.values.get(argument.ref) if isinstance(argument, Ref) else None

    def operand(self, op: Op, index: int) -> Operand:
        """An argument of the call, possibly seen another way. Raises UncoveredError for a product."""
        value = self.value(op, index)
        if isinstance(value, Result):
            raise UncoveredError("two matrix products in one forward are not covered.")
        return value

    def number(self, argument: Argument) -> Number:
        """A scalar argument in C++. Raises UncoveredError for anything else."""
        if isinstance(argument, Ref) and argument.ref in self.scalars:
            return self.scalars[argument.ref]
        if isinstance(argument, bool) or not isinstance(argument, int | float):
            raise UncoveredError("an operation's scalar argument is not a number.")
        return f"T({literal(float(argument), 'float64')})"


def _name(op: Op) -> str:
    """The operation without its namespace and overload: "aten.add.Tensor" is add."""
    return op.target.removeprefix("aten.").split(".")[0]


def _argument(op: Op, index: int) -> Argument:
    """A positional argument, None where the call leaves it out."""
    return op.args[index] if index < len(op.args) else None


Handler = Callable[[_Trace, Op], Value]


def _int(op: Op, index: int) -> int:
    value = _argument(op, index)
    if not isinstance(value, int):
        raise UncoveredError(f"{op.target} with these arguments is not covered.")
    return value


def _product(a: Operand, b: Operand) -> Result:
    """matmul of any two ranks; a diagonal factor becomes a stretch."""
    if a.diagonal and not b.diagonal:
        return stretch(a, b, -2 if b.view.rank > 1 else -1)
    if b.diagonal and not a.diagonal:
        return stretch(b, a, -1)
    batch = ascii_letters[: max(a.view.rank, b.view.rank, 2) - 2]
    rows, inner, columns = "X" * (a.view.rank > 1), "Y", "Z" * (b.view.rank > 1)
    ours = batch[len(batch) - max(a.view.rank - 2, 0) :] + rows + inner
    theirs = batch[len(batch) - max(b.view.rank - 2, 0) :] + inner + columns
    return contract(a, b, Labels(ours, theirs, batch + rows + columns))


def _matmul(trace: _Trace, op: Op) -> Value:
    return _product(trace.operand(op, 0), trace.operand(op, 1))


def _linear(trace: _Trace, op: Op) -> Value:
    x, weight = trace.operand(op, 0), trace.operand(op, 1)
    batch = ascii_letters[: x.view.rank - 1]
    result = contract(x, weight, Labels(batch + "Y", "Z" * (weight.view.rank > 1) + "Y", batch + "Z"))
    bias = trace.maybe_tensor(_argument(op, 2))
    return _combine(trace, result, bias, "x + {d}") if bias is not None else result


def _added(trace: _Trace, op: Op) -> Value:
    """beta * D + alpha * A @ B."""
    result = _product(trace.operand(op, 1), trace.operand(op, 2))
    alpha, beta = (op.kwargs.get(name, 1) for name in ("alpha", "beta"))
    if alpha != 1:
        result = result.scaled((trace.number(alpha),))
    # PyTorch does not read D at all where beta is 0.
    if beta == 0:
        return result
    factor = "" if beta == 1 else f"{trace.number(beta)} * "
    return _combine(trace, result, trace.operand(op, 0), f"x + {factor}{{d}}")


def _einsum(trace: _Trace, op: Op) -> Value:
    equation, operands = _argument(op, 0), _argument(op, 1)
    if not isinstance(equation, str) or not isinstance(operands, tuple) or len(operands) != 2:
        raise UncoveredError("einsum is covered for two operands.")
    equation = equation.replace(" ", "")
    inputs, arrow, out = equation.partition("->")
    ours, _, theirs = inputs.partition(",")
    if not arrow or "." in equation:
        raise UncoveredError('einsum is covered with "->" and without an ellipsis.')
    pair = Op(target=op.target, args=operands, results=op.results)
    return contract(trace.operand(pair, 0), trace.operand(pair, 1), Labels(ours, theirs, out))


def _diagonal(trace: _Trace, op: Op) -> Value:
    vector = trace.operand(op, 0)
    if vector.view.rank != 1 or any(op.args[1:]) or op.kwargs:
        raise UncoveredError(f"{op.target} is covered where it spreads a vector over the main diagonal.")
    return replace(vector, diagonal=True)


def _triangular(trace: _Trace, op: Op) -> Value:
    value = trace.value(op, 0)
    if isinstance(value, Operand):
        raise UncoveredError(f"{op.target} of an operand is not covered, of the product it is.")
    offset = _int(op, 1) if len(op.args) > 1 else 0
    return value.cut(Triangle("upper" if "triu" in op.target else "lower", offset))


def _combine(trace: _Trace, value: Value, other: Value | None, code: str) -> Result:
    """A step with a tensor, read as `{d}` in the code."""
    if isinstance(value, Operand) or not isinstance(other, Operand) or other.diagonal:
        raise UncoveredError("arithmetic between two tensors is covered on the product, with an argument of the call.")
    return value.then(code.format(d=" * ".join(("d", *other.factors))), other.view)


def _arithmetic(trace: _Trace, op: Op) -> Value:
    sign = {"add": "+", "sub": "-", "mul": "*", "div": "/"}[_name(op).rstrip("_")]
    left, right = (trace.maybe_tensor(_argument(op, index)) for index in range(2))
    if op.kwargs.get("alpha", 1) != 1 or "rounding_mode" in op.kwargs:
        raise UncoveredError(f"{op.target} is covered without alpha and without rounding.")
    if isinstance(right, Result) and sign in "+*":
        left, right = right, left
        op = Op(target=op.target, args=(op.args[1], op.args[0]), results=op.results)
    if isinstance(left, Result) and isinstance(right, Result):
        return together(left, right, sign)
    if right is not None:
        return _combine(trace, left or trace.operand(op, 0), right, f"x {sign} ({{d}})")
    number = trace.number(_argument(op, 1))
    if isinstance(left, Operand) and sign in "*/" and not left.diagonal:
        return replace(left, factors=(*left.factors, number if sign == "*" else f"(T(1) / {number})"))
    if not isinstance(left, Result):
        raise UncoveredError(f"{op.target} on an operand is covered for a product by a number.")
    return left.then(f"x {sign} {number}")


def _unary(trace: _Trace, op: Op) -> Value:
    value = trace.value(op, 0)
    if isinstance(value, Operand):
        raise UncoveredError(f"{op.target} of an operand is not covered, of the product it is.")
    return value.then(activation(_name(op).removesuffix("_"), op, trace.number))


def _batch_norm(trace: _Trace, op: Op) -> Value:
    """Each column by its stored statistics: (input, weight, bias, mean, variance, training, momentum, eps)."""
    value = trace.value(op, 0)
    weight, bias, mean, variance = (trace.maybe_tensor(_argument(op, index)) for index in range(1, 5))
    if _argument(op, 5) is not False or mean is None or variance is None or value.view.rank != 2:
        raise UncoveredError(f"{op.target} is covered on the rows of a matrix, by stored statistics.")
    steps = ((mean, "x - {d}"), (variance, f"x / std::sqrt({{d}} + {trace.number(_argument(op, 7))})"),
             (weight, "x * {d}"), (bias, "x + {d}"))  # fmt: skip
    for operand, code in steps:
        value = value if operand is None else _combine(trace, value, operand, code)
    return value


PRODUCTS: dict[str, Handler] = {
    **dict.fromkeys(("mm", "bmm", "matmul", "mv", "dot"), _matmul),
    **dict.fromkeys(("addmm", "addmv", "baddbmm"), _added),
    "linear": _linear,
    "einsum": _einsum,
}
AFTER: dict[str, Handler] = {
    **dict.fromkeys(("diag", "diag_embed"), _diagonal),
    **dict.fromkeys(("triu", "tril"), _triangular),
    **dict.fromkeys(("add", "sub", "mul", "div"), _arithmetic),
    **dict.fromkeys(ACTIVATIONS, _unary),
    "batch_norm": _batch_norm,
}
