"""What a last bit decides may be decided either way, whatever that moves; nothing else may be off."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
import torch
from cheats.cheat_catalogue import task_source

from harness.checks.choices import Further
from harness.checks.errors import Expected, compare
from harness.trusted.oracle import Oracle
from harness.trusted.reference import Reference
from harness.trusted.ties.breaks import TieBreaks

FILE = """
import torch
from torch.nn import functional as F

DIRECTION = "{direction}"

class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.randint(-8, 9, (16, 12)) / 16)

    def forward(self, x):
        y = (x @ self.weight + 0.1) - 0.1{moved}  # sums of few values, many equal but for their last bits
        {forward}

def get_inputs():
    return [torch.randint(-4, 5, (32, 16)) / 4]
"""
BACKWARD = {
    "windows": "return F.max_pool1d(torch.relu(y), 3)",
    "overlapping": "return F.max_pool2d(torch.relu(y).reshape(2, 16, 12), 3, stride=1, padding=1)",
    "largest": "return y.amax(1) * torch.relu(y).max(1)[0]",
    "of-both": "return torch.maximum(y, y.roll(1, 1)) * torch.minimum(y, -y)",
    "some": "return y.topk(3, dim=1)[0]",
    "running": "return y.sort(1)[0].cummax(0)[0]",
    "bounded": "return F.hardtanh(y) + F.leaky_relu(y) * y.abs() + F.relu6(y + 3)",
    "masks": "return torch.where((y > 0) & (y < 1), y * y, y) + y * (y > 0)",
    "layers": "return torch.relu(torch.relu(y) @ self.weight.T @ self.weight)",
}
FORWARD = {
    "rounded": "return torch.round(y * 2) @ self.weight.T",
    "counted": "return (y > 0).float().mean(1) + y[:, 0]",
}


NEAR, FAR = 2**-22, 2**-4
"""How far apart two kernels' sums are: last bits, or more than different sums."""


class Case:
    """A task where ties abound, and what a kernel whose sums are others by so much gives."""

    def __init__(self, forward: str, direction: str = "backward", *, seed: int = 0, apart: float = NEAR) -> None:
        moved = f" + (torch.rand(32, 12, generator=torch.Generator().manual_seed({seed})) - 0.5) * {apart}"
        self.reference, other = (
            Reference(FILE.format(forward=forward, direction=direction, moved=each), "task", seed=seed)
            for each in ("", moved)
        )
        self.oracle, self.weights = Oracle(self.reference, "other"), self.reference.parameters()
        self.values = self.reference.inputs(seed)
        self.results = self.reference.run(self.values)
        other.inputs(seed)  # it learns from them what has a gradient
        self.got = other.run(self.values)

    def wrong(self) -> list[float]:
        """How much of each output is wrong, as trials have it."""
        return wrong(self.reference, self.values, self.got, self.results)

    def off(self) -> float:
        """How much of the first output is not the oracle's."""
        exact = self.oracle.run(self.values, self.weights, self.results)[0]
        return compare(self.got[0], Expected("y", exact, exact.float())).bad_fraction


def wrong(
    reference: Reference,
    values: list[torch.Tensor],
    found: list[torch.Tensor],
    results: list[torch.Tensor] | None = None,
) -> list[float]:
    """How much of each output is wrong, as trials have it; `results` are PyTorch's."""
    oracle, weights, results = Oracle(reference, "other"), reference.parameters(), results or reference.run(values)
    exact = oracle.run(values, weights, results)
    further = oracle.further(values, weights, found, 1.0)
    wanted = (
        Expected("y", oracle, result, further=more)
        for oracle, result, more in zip(exact, results, further, strict=True)
    )
    return [compare(got, each).bad_fraction for got, each in zip(found, wanted, strict=True)]


@pytest.mark.parametrize("name", BACKWARD)
def test_whichever_of_near_equals_is_taken_is_right(name: str) -> None:
    cases = [Case(BACKWARD[name], seed=seed) for seed in range(2)]
    assert [case.wrong() for case in cases] == [[0, 0]] * 2


@pytest.mark.parametrize("name", FORWARD)
def test_numbers_on_either_side_of_a_step_may_be_added_up(name: str) -> None:
    case = Case(FORWARD[name], "forward")
    assert case.off() > 0
    assert case.wrong() == [0]


@pytest.mark.parametrize("seed", [13, 19])
def test_loads_by_any_order_of_near_equals_are_right(seed: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    small = torch.randn(256, 8, generator=generator) * 1e-5
    small[32:80], small[112:128] = 0, small[112:128] * 1e-35
    small[:90] = torch.randint(0, 4, (90, 8), generator=generator).float()
    shares = torch.exp(small - small.amax(1, keepdim=True))
    shares = (shares / shares.double().sum(1, keepdim=True)).float()
    last = 7 - shares.flip(1).sort(dim=1, descending=True, stable=True)[1][:, :2]
    loads = torch.bincount(last.reshape(-1), minlength=8)
    loss = (loads * shares.double().mean(0)).sum().float()
    reference = Reference(task_source("loads"), "loads", seed=0)
    assert wrong(reference, [small], [loads, loss]) == [0, 0]
    loads[0] += 1
    assert wrong(reference, [small], [loads, loss])[0] > 0


@pytest.mark.parametrize("name", ["windows", "masks", "some"])
def test_what_is_decided_beyond_float_error_is_wrong(name: str) -> None:
    assert min(Case(BACKWARD[name], apart=FAR).wrong()) > 0


@pytest.mark.parametrize(("output", "change"), [(0, 0.0), (1, 0.0), (0, -1.0), (1, 1.001)])
def test_an_element_that_no_decision_explains_is_wrong(output: int, change: float) -> None:
    case = Case(BACKWARD["windows"])
    case.got[output][3] *= change
    assert case.wrong()[output] >= 0.5 / len(case.got[output])


def test_pytorch_s_own_decisions_excuse_nothing() -> None:
    case = Case(BACKWARD["overlapping"])
    assert case.off() > 0
    case.results = [each.clone() for each in case.got]
    case.got[0][3, 5] += 1e-3
    assert case.wrong() == [1 / case.got[0].numel(), 0]


def test_a_nan_that_another_decision_puts_elsewhere_is_not_lost() -> None:
    first, last = torch.tensor([math.nan, 0.0, 1.0]), torch.tensor([0.0, math.nan, 1.0])
    expected = Expected(
        "y", first.double(), first, "finite", reached=lambda got: torch.ones_like(got, dtype=torch.bool)
    )
    assert compare(last, expected).bad_fraction > 0
    decided = replace(expected, further=lambda: Further(others=(last.double(),)))
    assert compare(last, decided).bad_fraction == 0
    assert compare(torch.tensor([0.5, math.nan, 1.0]), decided).bad_fraction > 0


def test_what_is_traced_has_one_fake_mode_and_not_one_for_each_value():
    """To make one takes a walk over the stack, which was two fifths of tracing."""
    x = torch.arange(6.0).reshape(2, 3)
    ties = TieBreaks(lambda x: [x.relu().amax(1) * 2], [x.double()], lambda x: [x.relu().amax(1) * 2], [x], 0.0, {})
    values = [node.meta["val"] for node in ties._module.graph.nodes if "val" in node.meta]
    assert len(values) >= 4 and len({id(value.fake_mode) for value in values}) == 1
