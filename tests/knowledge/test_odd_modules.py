"""Forwards that are legal and unusual: each is written as torch computes it, or declined with a reason."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from answered import answer
from ir_evaluation import meaning
from torch import nn
from traced import trace

from harness.nouns.aten import ALIASING
from knowledge.compiler.lower.front import OPERATIONS
from knowledge.compiler.lower.views import VIEWS
from knowledge.compiler.passes.staging import staged
from knowledge.compiler.plan import Decline, Draft, Plan
from knowledge.compiler.problem import Problem
from knowledge.compiler.schedule.parts.stages import StagesRecipe
from knowledge.compiler.schedule.pointwise.recipe import PointwiseRecipe
from knowledge.compiler.search.first import first_draft
from knowledge.compiler.search.recipes import SINGLE

Forward = Callable[..., Any]
torch.manual_seed(29)
X, Y, V, NUMBER = torch.randn(4, 6), torch.randn(4, 6), torch.randn(6), torch.tensor(1.5)
SQUARE, IMAGES = torch.randn(4, 4), torch.randn(2, 4, 6, 8)
EMPTY, WIDE = torch.empty(0, 5), torch.empty(3, 0)


def outputs(made: Any) -> list[torch.Tensor]:
    """One tensor or several."""
    return [made] if isinstance(made, torch.Tensor) else list(made)


def right(problem: Problem, tensors: dict[str, torch.Tensor], wanted: Sequence[torch.Tensor]) -> None:
    """Both targets have a kernel to show, and what is computed is what torch computes."""
    for target in ("cpu", "cuda"):
        draft = first_draft(problem.model_copy(update={"target": target}))
        assert isinstance(draft, Draft | Decline)
    made = answer(problem, tensors)
    assert not isinstance(made, Decline), made.reason
    assert isinstance(first_draft(problem), Draft)
    for got, expected in zip(made, wanted, strict=True):
        torch.testing.assert_close(got, expected, rtol=1e-5, atol=1e-6, equal_nan=True)


def written(function: Forward, *given: torch.Tensor) -> None:
    """A function of one to three tensors is written, and right."""
    problem = trace(function, *given)
    names = [each.name for each in problem.inputs]
    right(problem, dict(zip(names, given, strict=True)), outputs(function(*(each.clone() for each in given))))


def lowered(function: Forward, given: torch.Tensor) -> None:
    """The values of a function are right, whether or not one kernel can have them all."""
    problem = trace(function, given)
    made = meaning(problem, staged(problem), {problem.inputs[0].name: given})
    for got, expected in zip(made, outputs(function(given)), strict=True):
        torch.testing.assert_close(got, expected, rtol=1e-5, atol=1e-6, equal_nan=True)


def declined(function: Forward, *given: torch.Tensor) -> str:
    """Why a function is written for no target."""
    problem = trace(function, *given)
    reasons = [first_draft(problem.model_copy(update={"target": target})) for target in ("cuda", "cpu")]
    assert all(isinstance(each, Decline) for each in reasons)
    return reasons[-1].reason


CONSTANTS: dict[str, tuple[Forward, tuple[torch.Tensor, ...]]] = {
    "transposed sum": (lambda v: (torch.zeros(6, 6) + v).t(), (V,)),
    "permuted": (lambda x, v: (torch.zeros_like(x) + v).permute(1, 0) * 2, (X, V)),
    "summed rows": (lambda v: (torch.ones(4, 6) * v).sum(0), (V,)),
    "summed": (lambda v: (torch.ones(4, 6) * v).sum(), (V,)),
    "chosen": (lambda v: torch.where(torch.ones(4, 6).bool(), v, 2.0).flip(0).sum(1), (V,)),
    "collected": (lambda x, v: torch.zeros(4, 6).add_(v).mul_(x).t(), (X, V)),
    "gated": (lambda x: F.glu(torch.ones(4, 4)) + x[:, :2], (X,)),
    "repeated": (lambda x: torch.ones(2, 3).repeat(2, 2) + torch.ones(4, 3).repeat_interleave(2, 1) + x, (X,)),
    "windows": (lambda x: torch.ones(4, 7).unfold(1, 2, 1).sum(-1) + x, (X,)),
    "pooled": (lambda x: F.max_pool1d(torch.ones(4, 12), 2) + F.avg_pool1d(torch.ones(4, 12), 2) * x, (X,)),
    "shuffled": (lambda x: F.pixel_shuffle(torch.ones(4, 2, 3), 2)[0] + x, (X,)),
    "enlarged": (lambda x: F.interpolate(torch.ones(1, 4, 3), scale_factor=2)[0] + x, (X,)),
    "shared out": (lambda x: F.adaptive_avg_pool2d(torch.ones(1, 8, 6), (4, 6))[0] + x, (X,)),
    "normalized": (lambda x: F.group_norm(torch.ones(1, 4, 6), 2)[0] + F.softmax(torch.ones(4, 6), -1) + x, (X,)),
    "flipped": (lambda x: torch.full((4, 6), 2.5).flip(0, 1) - x, (X,)),
    "cut": (lambda x: torch.ones(4, 12).chunk(2, 1)[1] + torch.ones(6, 4, 6).unbind(0)[2] - x, (X,)),
    "broadcast": (lambda x: torch.broadcast_tensors(torch.ones(6), x)[0] * x, (X,)),
    "alone": (lambda x: (torch.ones(3, 2), x + 1), (X,)),
}


@pytest.mark.parametrize("name", CONSTANTS)
def test_a_constant_has_the_shape_that_it_was_made_with(name: str) -> None:
    function, given = CONSTANTS[name]
    written(function, *given)


def test_what_is_collected_in_a_constant_is_one_pass() -> None:
    function, given = CONSTANTS["collected"]
    assert isinstance(PointwiseRecipe().first_plan(trace(function, *given)), Plan)


SCALARS: dict[str, Forward] = {
    "sine": lambda z: z.sin(),
    "looked at": lambda z: (z.view(1, 1) * 2, z.reshape(-1) + 1, z.t() + 1, z.permute(()) * 2, z.unsqueeze(-1) + z),
    "spread": lambda z: (z.expand(3, 4) * 2, z.repeat(2, 3) + 1, z.view(1).repeat_interleave(3, 0) - 1),
    "turned": lambda z: (z.flip(()), z.flip(0) * 2, z.transpose(0, -1) * 2, z.squeeze() + 1),
    "chosen": lambda z: (torch.where(z > 0, z, -z), z.clamp(0, 1), F.dropout(z, 0.5, training=False)),
    "itself": lambda z: z,
    "against itself": lambda z: (F.mse_loss(z, z * 2), F.l1_loss(z, z * 3)),
}


@pytest.mark.parametrize("name", SCALARS)
def test_a_number_in_a_tensor(name: str) -> None:
    written(SCALARS[name], NUMBER)


@pytest.mark.parametrize(
    "function",
    [
        lambda z: z.sum(0),
        lambda z: z.amax(),
        lambda z: F.softmax(z, 0),
        lambda z: z.unfold(0, 1, 1) + 1,
        lambda z: F.prelu(z, z.view(1)),
        lambda z: torch.max(z, 0),
    ],
)
def test_one_number_is_reduced_as_if_it_had_a_dimension(function: Forward) -> None:
    written(function, NUMBER)


@pytest.mark.parametrize("given", [EMPTY, WIDE], ids=["no rows", "no columns"])
@pytest.mark.parametrize(
    "function",
    [
        lambda x: x + 1,
        lambda x: x.sum(),
        lambda x: x.mean(-1),
        lambda x: F.softmax(x, -1),
        lambda x: (x > 0).any(0),
        lambda x: x.t() @ x,
        lambda x: x.view(-1).repeat(2),
        lambda x: F.layer_norm(x, (x.shape[-1],)).sum(0),
        lambda x: F.mse_loss(x, x * 2),
    ],
)
def test_nothing_to_compute(function: Forward, given: torch.Tensor) -> None:
    written(function, given)


def test_copies_whose_dimensions_do_not_nest_are_declined_by_one_pass() -> None:
    def forward(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        return a.t().reshape(24) + b.t().reshape(24)

    outcome = PointwiseRecipe().first_plan(trace(forward, X, X.view(3, 8)))
    assert isinstance(outcome, Decline) and "no strides reach" in outcome.reason


def test_a_slice_without_elements() -> None:
    written(lambda x: x[:, 3:3].sum(-1), X)


REDUCTIONS_OF: dict[str, Forward] = {
    "whole": lambda x: (x.sum(), x.mean(), x.norm(), x.std(), x.var(False), x.logsumexp((0, 1)), x.prod(), x.max()),
    "an empty list of dimensions": lambda x: (x.sum(()), torch.amax(x, ()), x.mean(())),
    "from the end": lambda x: (x.sum(-2), x.amax((-1, -2), keepdim=True), x.mean((-1,)), x.argmax(-2, keepdim=True)),
    "kept": lambda x: (x.sum(1, True), *x.max(1, True), x.argmin(keepdim=True), x.prod(0, keepdim=True)),
    "spread": lambda x: (torch.var(x, dim=-1, correction=0, keepdim=True), torch.var(x, correction=3)),
    "spread and mean": lambda x: (*torch.std_mean(x, dim=(0, 1), correction=2), *torch.var_mean(x, 1)),
    "of too few": lambda x: (x[:1].var(0), x[:1].std(0, unbiased=False), torch.var(x, 0, False, True)),
    "by name": lambda x: (torch.sum(input=x, dim=-1, keepdim=True), torch.add(input=x, other=x, alpha=2)),
    "of a matrix": lambda x: (torch.linalg.norm(x), torch.linalg.matrix_norm(x), torch.norm(x, p="fro")),
    "both extrema": lambda x: (*torch.aminmax(x), *torch.aminmax(x, dim=0, keepdim=True)),
    "counted": lambda x: (torch.count_nonzero(x > 0), torch.count_nonzero(x > 0, (0, 1))),
    "any": lambda x: (torch.any(x > 0), torch.all(x > -9, (0, 1)), torch.any(x > 2, -1, keepdim=True)),
    "distances": lambda x: (F.pairwise_distance(x[0], x[1]), F.cosine_similarity(x, x[:1], -1, eps=3.0)),
}


@pytest.mark.parametrize("name", REDUCTIONS_OF)
def test_reductions_by_every_spelling_of_their_dimensions(name: str) -> None:
    lowered(REDUCTIONS_OF[name], X)


@pytest.mark.parametrize("order", [0, 0.5, 1, 2, 3, -1, -2, torch.inf, -torch.inf], ids=str)
def test_norms_of_every_order(order: float) -> None:
    vector = torch.linalg.vector_norm
    lowered(
        lambda x: (
            vector(x, order), vector(x, order, (0, -1), keepdim=True), vector(x, order, 0), torch.norm(x, order),
            torch.norm(x, order, dim=(0, 1)), torch.linalg.norm(x[0], order),
        ),
        X,
    )  # fmt: skip


ALIASES: dict[str, Forward] = {
    "swapaxes": lambda y: y.swapaxes(0, 1),
    "dropout": lambda y: F.dropout(y, 0.5, training=False),
    "no dropout": lambda y: F.dropout(y, 0.0, training=True),
    "type_as": lambda y: y.type_as(y),
    "float": lambda y: y.float(),
    "chunk": lambda y: y.chunk(2)[0],
    "split": lambda y: y.split(2)[1],
    "split_with_sizes": lambda y: y.split([1, 3])[1],
    "tensor_split": lambda y: y.tensor_split(2)[1],
    "reshape_as": lambda y: y.reshape_as(y),
    "adjoint": lambda y: y.adjoint(),
    "mT": lambda y: y.mT,
    "unfold": lambda y: y.unfold(0, 2, 2),
    "broadcast_tensors": lambda y: torch.broadcast_tensors(y)[0],
    "positive": lambda y: +y,
    "detach": lambda y: y.detach(),
    "squeeze": lambda y: y.squeeze(),
    "unsqueeze": lambda y: y.unsqueeze(0)[0],
    "narrow": lambda y: y.narrow(0, 1, 2),
    "select": lambda y: y[1],
    "slice": lambda y: y[1:],
    "unbind": lambda y: y.unbind(0)[2],
    "unflatten": lambda y: y.unflatten(0, (2, 2)),
    "expand_as": lambda y: y.expand_as(y),
    "view_as": lambda y: y.view_as(y),
    "there and back": lambda y: y.t().t(),
    "diagonal": lambda y: y.diagonal(),
    "copied": lambda y: y.clone(),
    "repeated once": lambda y: y.repeat(1, 1),
    "first power": lambda y: y**1,
    "rounded": lambda y: y.trunc(),
    "turned by nothing": lambda y: y.flip(()),
}


@pytest.mark.parametrize("name", ALIASES)
def test_what_shares_memory_with_a_written_value_is_never_read_stale(name: str) -> None:
    def forward(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        base = x * 2
        view = ALIASES[name](base)
        view.add_(1)
        return base * 1.5, view * 2

    problem = trace(forward, SQUARE)
    made = answer(problem, {problem.inputs[0].name: SQUARE})
    if isinstance(made, Decline):
        assert "in-place" in made.reason or "cannot write" in made.reason
        assert name not in ("copied", "repeated once", "first power", "rounded", "turned by nothing")
    else:
        torch.testing.assert_close(made, list(forward(SQUARE)))


def shares_memory(name: str) -> bool:
    """Whether torch says of an operation that a result may be a view of an operand."""
    packet = getattr(torch.ops.aten, name, None)
    schemas = [getattr(packet, each)._schema for each in packet.overloads()] if packet else []
    infos = [result.alias_info for schema in schemas for result in schema.returns]
    return any(info is not None and not info.is_write for info in infos)


def test_every_view_is_known_to_share_memory() -> None:
    assert VIEWS.keys() - {"glu"} <= ALIASING
    assert {name for name in OPERATIONS if shares_memory(name)} <= ALIASING


IN_PLACE: dict[str, tuple[Forward, tuple[torch.Tensor, ...]]] = {
    "later parts": (lambda x, v: F.softmax((x * 2).add_(v), -1).mul_(3).sum(0), (X, V)),
    "of a slice alone": (lambda x: (x * 2)[1:].add_(1) * 2, (X,)),
    "filled": (lambda x: (x * 2).fill_(3) + x, (X,)),
    "a copy before": (lambda x: (lambda a: (a.clone(), a.add_(1)))(x * 2), (X,)),
    "transposed in place": (lambda x: (x * 2).t_() + 1, (SQUARE,)),
    "of a product": (lambda x, y: (x @ y).relu_().add_(1), (SQUARE, SQUARE)),
}


@pytest.mark.parametrize("name", IN_PLACE)
def test_writes_in_place_that_nobody_else_sees(name: str) -> None:
    function, given = IN_PLACE[name]
    written(function, *given)


def rows_written(x: torch.Tensor) -> torch.Tensor:
    """A row of an intermediate value."""
    y = x * 2
    y[1:].add_(1)
    return y


def a_part_written(x: torch.Tensor) -> torch.Tensor:
    """Before a reduction that is another part."""
    y = F.softmax(x, -1)
    y[:, 0].mul_(2)
    return y.sum(0).softmax(-1)


def assigned(x: torch.Tensor) -> torch.Tensor:
    """By an index."""
    y = x * 2
    y[:, 0].fill_(0.0)
    return y


def operand_written(a: torch.Tensor, b: torch.Tensor, c: torch.Tensor) -> torch.Tensor:
    """A product into scaled memory that another view still reads."""
    scaled = c * 2
    view = scaled.t()
    return scaled.addmm_(a, b) + view


@pytest.mark.parametrize("function", [rows_written, a_part_written, assigned])
def test_writes_through_a_view_that_somebody_sees_are_declined(function: Forward) -> None:
    assert "in-place" in declined(function, X)


def test_a_product_into_memory_that_is_still_read_is_not_stale() -> None:
    problem = trace(operand_written, SQUARE, SQUARE + 1, SQUARE - 1)
    names = [each.name for each in problem.inputs]
    made = answer(problem, dict(zip(names, (SQUARE, SQUARE + 1, SQUARE - 1), strict=True)))
    assert isinstance(made, Decline)


REFUSED: dict[str, tuple[Forward, torch.Tensor, str]] = {
    "bits of a float": (lambda x: x.view(torch.int32) + 1, X, "aten.view.dtype"),
    "a factor that is not whole": (lambda x: F.interpolate(x[None], scale_factor=2.2), X, "not whole"),
    "pieces that overlap": (lambda x: torch.tensor_split(x, (3, 1))[2] * 2, X, "overlap"),
    "any over no dimension": (lambda x: torch.any(x > 0, ()), X, "aten.any"),
    "largest column": (lambda x: torch.linalg.norm(x, 1), X, "of a matrix, of order 1"),
    "nuclear norm": (lambda x: torch.linalg.matrix_norm(x, "nuc"), X, "Frobenius"),
    "random": (lambda x: F.dropout(x, 0.3, training=True), X, "random"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_outside_of_the_rules_is_declined_by_name(name: str) -> None:
    function, given, reason = REFUSED[name]
    assert reason in declined(function, given)


NESTED: dict[str, tuple[Forward, torch.Tensor, str]] = {
    "an image of other extents": (lambda x: F.interpolate(x, size=(4, 5)), IMAGES, "no strides"),
    "padded windows": (lambda x: F.avg_pool2d(x, 3, 1, 1), IMAGES, "missing"),
    "cut windows": (lambda x: F.max_pool2d(x, 3, 2, ceil_mode=True), IMAGES, "missing"),
    "large windows": (lambda x: F.avg_pool1d(x.reshape(2, -1), 150), IMAGES, "128"),
    "unequal shares": (lambda x: F.adaptive_avg_pool2d(x, 4), IMAGES, "no strides"),
    "statistics of the batch": (lambda x: F.batch_norm(x, None, None, training=True), X, "training"),
}


@pytest.mark.parametrize("name", NESTED)
def test_what_only_loop_nests_can_have_is_declined_by_the_rest_by_name(name: str) -> None:
    function, given, reason = NESTED[name]
    outcome = StagesRecipe(SINGLE).first_plan(trace(function, given))
    assert isinstance(outcome, Decline) and reason in outcome.reason
    written(function, given)


class Parts(nn.Module):
    """Parameters and buffers of several kinds, one of them transposed in memory, one used twice, one unused."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(6, 4).t())
        self.register_buffer("mask", torch.arange(6) > 3)
        self.register_buffer("steps", torch.arange(6))
        self.register_buffer("number", torch.tensor(0.5, dtype=torch.float64))
        self.register_buffer("unused", torch.ones(3))

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        scores = (x * self.weight + self.weight * self.number).masked_fill(self.mask, float("-inf"))
        return F.softmax(scores, -1), self.weight, x, self.steps * 2, scores


def layers() -> nn.Sequential:
    """Nested, with what does nothing when it is not trained, and one layer standing twice."""
    tied = nn.Linear(5, 5)
    block = nn.Sequential(nn.Linear(6, 5), nn.BatchNorm1d(5), nn.ReLU(inplace=True), nn.Dropout(0.5))
    return nn.Sequential(block, tied, nn.Identity(), nn.Sequential(nn.PReLU(5), tied), nn.Softmax(-1))


MODULES: dict[str, Callable[[], nn.Module]] = {
    "parts": Parts,
    "layers": layers,
    "normalized": lambda: nn.Sequential(nn.LayerNorm(6), nn.GELU(), nn.RMSNorm(6), nn.Hardtanh()),
    "a row": lambda: nn.Sequential(nn.Flatten(0), nn.Unflatten(0, (2, 12)), nn.LogSoftmax(0)),
    "several activations": lambda: nn.Sequential(nn.Mish(), nn.SELU(), nn.CELU(0.3), nn.ELU(0.2), nn.Softshrink(0.1)),
}


@pytest.mark.parametrize("name", MODULES)
def test_modules_with_state(name: str) -> None:
    torch.manual_seed(31)
    module = MODULES[name]().eval()
    problem = trace(module, X)
    tensors = {key: value.detach() for key, value in module.state_dict().items()}
    with torch.no_grad():
        right(problem, tensors | {problem.inputs[0].name: X}, outputs(module(X)))


RETURNED: dict[str, Forward] = {
    "the input": lambda x: x,
    "the input thrice": lambda x: (x, x * 2, x),
    "views": lambda x: (x.t(), x[1:], x.view(-1), x.flip(0)),
    "one value as several": lambda x: (lambda y: (y, y, y.t()))(x * 2),
    "several shapes": lambda x: (x + 1, x.sum(-1) + 1, x[0] * 2),
    "several types": lambda x: (x > 0, x.long(), x.double()),
}


@pytest.mark.parametrize("name", RETURNED)
def test_whatever_is_returned(name: str) -> None:
    written(RETURNED[name], X)


def test_one_tensor_given_twice_and_one_that_nobody_reads() -> None:
    written(lambda x, y: x * y + x - y, X, X)
    written(lambda x, y: x * 2, X, Y)
