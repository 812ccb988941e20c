"""Products as users write them, small and odd-shaped, for the GEMM recipe's tests."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch.fx.experimental.proxy_tensor import make_fx
from traced import MACHINE, _op, spec

from knowledge.compiler.problem import Device, Problem

Case = tuple[Callable[..., torch.Tensor], tuple[torch.Tensor, ...]]


def rand(*shape: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    """Signed values of moderate size; the generator is seeded by the shape."""
    generator = torch.Generator().manual_seed(sum(shape) + len(shape))
    return torch.randn(*shape, generator=generator, dtype=dtype)


functional = torch.nn.functional
linear = functional.linear


def _activations(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """One after the other, with room between them for values of both signs."""
    x = functional.mish(a @ b) - 0.2
    x = functional.hardswish(functional.leaky_relu(x * 3, 0.2)) - 0.1
    x = functional.selu(functional.elu(x, 0.7)) - 0.3
    return functional.gelu(functional.hardsigmoid(x) + functional.softplus(x * 2, 1.5, 1.0))


def _bounded(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    x = functional.hardtanh(a @ b, -2.0, 1.5) * 4
    x = functional.relu6(x.clamp_min(-5.0)) - x.clamp_max(3.0)
    return functional.logsigmoid(torch.clamp(x, max=8.0)) + torch.clamp(x, 1.0, 2.0)


# No step follows the product here: the form alone tells the result.
PLAIN: dict[str, Case] = {
    "mm": (lambda a, b: a @ b, (rand(4, 5), rand(5, 6))),
    "left transposed": (lambda a, b: a.T @ b, (rand(5, 4), rand(5, 6))),
    "right transposed": (lambda a, b: torch.mm(a, b.t()), (rand(4, 5), rand(6, 5))),
    "both transposed": (lambda a, b: a.permute(1, 0) @ b.transpose(0, 1), (rand(5, 4), rand(6, 5))),
    "result transposed": (lambda a, b: (a @ b).t(), (rand(4, 5), rand(5, 6))),
    "result reshaped": (lambda a, b: (a @ b).view(2, 2, 6), (rand(4, 5), rand(5, 6))),
    "strided input": (lambda a, b: a @ b, (rand(9, 7)[:4, :5], rand(5, 6))),
    "matmul of a batch and a matrix": (lambda a, b: a @ b, (rand(2, 3, 4, 5), rand(5, 6))),
    "matmul with broadcast batches": (lambda a, b: a @ b, (rand(2, 3, 4, 5), rand(3, 5, 6))),
    "matmul of ones in the batch": (lambda a, b: a @ b, (rand(2, 1, 4, 5), rand(1, 3, 5, 6))),
    "matrix and a batch": (lambda a, b: a @ b, (rand(4, 5), rand(3, 5, 6))),
    "batch mT": (lambda a, b: a @ b.mT, (rand(2, 4, 5), rand(2, 6, 5))),
    "attention scores": (lambda q, k: q.transpose(1, 2) @ k.permute(0, 2, 3, 1), (rand(2, 7, 3, 4), rand(2, 5, 3, 4))),
    "bmm": (torch.bmm, (rand(2, 4, 5), rand(2, 5, 6))),
    "mv": (lambda a, b: a @ b, (rand(4, 5), rand(5))),
    "transposed mv": (lambda a, b: a.T @ b, (rand(5, 9), rand(5))),
    "column vector": (lambda a, b: a @ b, (rand(4, 5), rand(5, 1))),
    "vector and a matrix": (lambda a, b: a @ b, (rand(4), rand(4, 5))),
    "batch and a vector": (lambda a, b: a @ b, (rand(2, 4, 5), rand(5))),
    "dot": (torch.dot, (rand(7), rand(7))),
    "linear": (linear, (rand(2, 4, 5), rand(6, 5))),
    "flattened linear": (lambda a, b: linear(a.flatten(1), b), (rand(3, 2, 5), rand(6, 10))),
    "einsum": (lambda a, b: torch.einsum("bijl,lk->bijk", a, b), (rand(2, 3, 4, 5), rand(5, 6))),
    "einsum sideways": (lambda a, b: torch.einsum("bki,bkj->jbi", a, b), (rand(2, 5, 4), rand(2, 5, 6))),
    "left expanded": (lambda a, b: a.expand(4, 5) @ b, (rand(1, 5), rand(5, 6))),
    "right expanded": (lambda a, b: a @ b.expand(5, 6), (rand(4, 5), rand(5, 1))),
    "both expanded": (lambda a, b: a.expand(3, 4, 5) @ b.expand(3, 5, 6), (rand(1, 5), rand(5, 6))),
    "einsum over two": (lambda a, b: torch.einsum("ikl,jkl->ij", a, b), (rand(4, 2, 3), rand(5, 2, 3))),
}

STEPS: dict[str, Case] = {
    "addmm": (lambda c, a, b: torch.addmm(c, a, b, alpha=2, beta=0.5), (rand(6), rand(4, 5), rand(5, 6))),
    "addmm without c": (lambda c, a, b: torch.addmm(c, a, b, beta=0), (rand(6) * torch.nan, rand(4, 5), rand(5, 6))),
    "baddbmm": (lambda c, a, b: torch.baddbmm(c, a, b, beta=-1), (rand(2, 4, 6), rand(2, 4, 5), rand(2, 5, 6))),
    "linear bias relu": (lambda a, b, c: torch.relu(linear(a, b, c)), (rand(3, 4, 5), rand(6, 5), rand(6))),
    "gelu": (lambda a, b, c: torch.nn.functional.gelu(linear(a, b, c)), (rand(4, 5), rand(6, 5), rand(6))),
    "tanh gelu": (lambda a, b: torch.nn.functional.gelu(a @ b, approximate="tanh"), (rand(4, 5), rand(5, 6))),
    "operand scaled": (lambda a, b: ((a * 0.5) @ (b / 4)) * 3 - 1, (rand(4, 5), rand(5, 6))),
    "column added": (lambda a, b, c: c + a @ b, (rand(4, 5), rand(5, 6), rand(4, 1))),
    "transposed sum": (lambda a, b, c: (a @ b).T + c, (rand(4, 5), rand(5, 6), rand(6, 4))),
    "upper": (lambda a, b: torch.triu(a @ b), (rand(17, 9), rand(9, 19))),
    "lower below": (lambda a, b: torch.tril(a @ b, -2), (rand(3, 17, 9), rand(9, 19))),
    "activations": (_activations, (rand(9, 5), rand(5, 6))),
    "swish by hand": (
        lambda a, b, c: (lambda x: x * torch.sigmoid(x) * 2)(linear(a, b, c)),
        (rand(9, 5), rand(6, 5), rand(6)),
    ),
    "softsign": (lambda a, b: functional.softsign(a @ b), (rand(9, 5), rand(5, 6))),
    "the product twice": (lambda a, b: 0.5 * (a @ b) + a @ b, (rand(9, 5), rand(5, 6))),
    "mv and bias": (lambda a, b, c: a @ b + c, (rand(4, 5), rand(5), rand(4))),
}

# make_fx takes these apart into more than follows a product.
EXPORTED: dict[str, Case] = {
    "batch norm": (
        lambda x, w, v: torch.relu(functional.batch_norm(linear(x, w), v, v, v, v)),
        (rand(9, 5), rand(6, 5), rand(6).abs()),
    ),
    "activations with bounds": (_bounded, (rand(9, 5), rand(5, 6))),
    "in place": (lambda a, b: (a @ b).sub_(1).clamp_(-1, 1).div_(3), (rand(9, 5), rand(5, 6))),
}  # fmt: skip


def trace_fx(
    function: Callable[..., torch.Tensor], inputs: Sequence[torch.Tensor], device: Device = MACHINE
) -> Problem:
    """The problem as make_fx traces it: composite operations are decomposed there."""
    nodes = list(make_fx(function, tracing_mode="fake")(*inputs).graph.nodes)
    users = [node for node in nodes if node.op == "placeholder"]
    (output,) = (node.args[0] for node in nodes if node.op == "output")
    return Problem.model_validate(
        {
            "target": "cpu",
            "inputs": [spec(node.name, each) for node, each in zip(users, inputs, strict=True)],
            "outputs": [spec("output", output.meta["val"])],
            "ops": [_op(node, {}) for node in nodes if node.op == "call_function"],
            "returns": [output.name],
            "device": device.model_dump(),
        }
    )


def doubled(inputs: Sequence[Any]) -> list[Any]:
    """The inputs in float64, strides kept."""
    return [each.double() if isinstance(each, torch.Tensor) else each for each in inputs]
