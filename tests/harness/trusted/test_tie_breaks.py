"""What a last bit decides may be decided either way, whatever that moves; nothing else may be off."""

from __future__ import annotations

import pytest

from harness.checks.errors import Expected, compare
from harness.trusted.oracle import Oracle
from harness.trusted.reference import Reference

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
        exact = self.oracle.run(self.values, self.weights, self.results)
        further = self.oracle.further(self.values, self.weights, self.got, 1.0)
        wanted = (
            Expected("y", oracle, result, further=more)
            for oracle, result, more in zip(exact, self.results, further, strict=True)
        )
        return [compare(got, each).bad_fraction for got, each in zip(self.got, wanted, strict=True)]

    def off(self) -> float:
        """How much of the first output is not the oracle's."""
        exact = self.oracle.run(self.values, self.weights, self.results)[0]
        return compare(self.got[0], Expected("y", exact, exact.float())).bad_fraction


@pytest.mark.parametrize("name", BACKWARD)
def test_whichever_of_near_equals_is_taken_is_right(name: str) -> None:
    cases = [Case(BACKWARD[name], seed=seed) for seed in range(2)]
    assert [case.wrong() for case in cases] == [[0, 0]] * 2


@pytest.mark.parametrize("name", FORWARD)
def test_numbers_on_either_side_of_a_step_may_be_added_up(name: str) -> None:
    case = Case(FORWARD[name], "forward")
    assert case.off() > 0
    assert case.wrong() == [0]


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
