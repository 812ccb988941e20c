"""Recurrent layers: what is traced means what torch computes, and the kernels do so step by step."""

from __future__ import annotations

from typing import Any, NamedTuple

import pytest
import torch
from emulated import emulated
from goldens import Golden
from gpu_kernels import H200
from ir_evaluation import meaning
from torch import nn
from traced import Compiler, assert_close, call, trace

from knowledge.compiler.ir.expressions import UnwritableError
from knowledge.compiler.ir.verify import verify
from knowledge.compiler.passes.staging import staged
from knowledge.compiler.plan import Plan
from knowledge.compiler.problem import Problem
from knowledge.compiler.schedule.loops.recipe import LoopsRecipe, compiled

KINDS = {"lstm": nn.LSTM, "gru": nn.GRU, "rnn": nn.RNN}


class Layers(nn.Module):
    """Layers whose every result is returned; given no states, they begin with zeros."""

    def __init__(self, kind: str, inputs: int, units: int, **options: Any) -> None:
        super().__init__()
        self.layers = KINDS[kind](inputs, units, **options)

    def forward(self, x: torch.Tensor, *states: torch.Tensor) -> tuple[torch.Tensor, ...]:
        given = (states if isinstance(self.layers, nn.LSTM) else states[0]) if states else None
        out, last = self.layers(x, given)
        return (out, *last) if isinstance(last, tuple) else (out, last)


class Case(NamedTuple):
    """Layers and what they are called with."""

    module: Layers
    inputs: tuple[torch.Tensor, ...]

    def problem(self, target: str) -> Problem:
        """As the judge poses it."""
        machine = {"device": H200} if target == "cuda" else {}
        return trace(self.module, *self.inputs, **machine).model_copy(update={"target": target})  # type: ignore[arg-type]

    @property
    def state(self) -> dict[str, torch.Tensor]:
        """The weights by their names."""
        return dict(self.module.state_dict())

    def wanted(self) -> list[tuple[torch.Tensor, torch.Tensor]]:
        """What torch gives, each beside the same in float64."""
        with torch.no_grad():
            mine = self.module(*self.inputs)
            wide = self.module.double()(*(each.double() for each in self.inputs))
            self.module.float()
        return list(zip(mine, wide, strict=True))


def case(kind: str, steps: int, batch: int, inputs: int, units: int, states: int, **options: Any) -> Case:
    """`batch` of 0 is an input without that dimension; `states` says how many of them are given."""
    torch.manual_seed(steps + units)
    module = Layers(kind, inputs, units, **options)
    lead = (batch, steps) if options.get("batch_first") else (steps, batch)
    runs = options.get("num_layers", 1) * (2 if options.get("bidirectional") else 1)
    shape = (runs, batch, units) if batch else (runs, units)
    x = torch.randn(*(lead if batch else (steps,)), inputs)
    return Case(module, (x, *(torch.randn(shape) for _ in range(states))))


CASES = {
    "lstm": case("lstm", 4, 3, 5, 7, 2),
    "lstm in layers": case("lstm", 5, 2, 3, 9, 2, num_layers=3, batch_first=True),
    "lstm both ways": case("lstm", 3, 2, 4, 5, 2, num_layers=2, bidirectional=True, batch_first=True),
    "lstm from nothing": case("lstm", 4, 2, 3, 5, 0, bias=False),
    "gru": case("gru", 4, 3, 5, 7, 1),
    "gru both ways": case("gru", 5, 2, 3, 33, 1, num_layers=2, bidirectional=True),
    "gru of one": case("gru", 3, 0, 2, 4, 1, bias=False),
    "gru of one step": case("gru", 1, 1, 1, 1, 0),
    "rnn": case("rnn", 4, 2, 3, 5, 1, num_layers=2),
    "rnn of relu": case("rnn", 4, 2, 3, 5, 0, nonlinearity="relu", bidirectional=True),
}
BUILT = ("lstm both ways", "lstm from nothing", "gru both ways", "rnn of relu")


@pytest.mark.parametrize("name", CASES)
def test_what_is_traced_means_what_torch_computes(name: str) -> None:
    posed = CASES[name]
    problem = posed.problem("cpu")
    lowered = staged(problem)
    verify(node for _, node in lowered.outputs)
    given = dict(zip((each.name for each in problem.inputs), posed.inputs, strict=True)) | posed.state
    for got, (theirs, oracle) in zip(meaning(problem, lowered, given), posed.wanted(), strict=True):
        assert_close(got, theirs, oracle, name)


@pytest.mark.parametrize("target", ["cpu", "cuda"])
def test_kernels_compute_what_torch_does(golden: Golden, compiler: Compiler, target: str) -> None:
    sources = [LoopsRecipe().render(CASES[name].problem(target), Plan("loops")) for name in BUILT]
    if target == "cuda":
        sources = [emulated(source) for source in sources[:-1]]
    if golden.holds(sources, *compiler.flags):
        return
    kernels = [compiler.build(source) for source in sources] if target == "cuda" else compiler.build_all(sources)
    for name, kernel in zip(BUILT, kernels, strict=False):
        posed = CASES[name]
        got = call(kernel, posed.problem(target), posed.inputs, posed.state)
        for mine, (theirs, oracle) in zip(got, posed.wanted(), strict=True):
            assert_close(mine, theirs, oracle, name)


def test_a_layer_takes_one_product_and_one_kernel_for_all_steps_both_ways() -> None:
    nests = compiled(CASES["lstm both ways"].problem("cuda")).nests
    stepped = [nest for nest in nests if nest.stepped]
    assert [nest.stepped.extent for nest in stepped if nest.stepped] == [4, 4]
    assert [len(nest.totals) for nest in stepped] == [8, 8]
    assert sum(bool(nest.totals) for nest in nests) == 4 + 2


@pytest.mark.parametrize(
    ("reason", "options"), [("dropout", {"num_layers": 2, "dropout": 0.5}), ("projections", {"proj_size": 2})]
)
def test_what_has_no_place_is_declined_by_name(reason: str, options: dict[str, Any]) -> None:
    with pytest.raises(UnwritableError, match=f"lstm.input with {reason}"):
        staged(case("lstm", 3, 2, 4, 5, 0, **options).problem("cpu"))
