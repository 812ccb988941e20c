"""Foreign Python files on the judge's bench: how each way to fail is told, and what a verdict of theirs says."""

import textwrap

import pytest
from brief_terms import brief

from harness.judging.foreign import ADVISORY, ModuleJudge
from harness.judging.terms import Terms
from harness.nouns.candidate import Candidate
from harness.nouns.errors import UserError
from harness.targets.cpu import CpuTarget

SCALED = """
import torch

class Model(torch.nn.Module):
    def __init__(self, columns, factors):
        super().__init__()
        self.inner = torch.nn.Linear(columns, 1, bias=False)
        self.factor = factors["first"]

    def forward(self, x, s: float):
        return x * self.inner.weight[0] * self.factor * s

def get_inputs():
    return [torch.randn(30, 40), 2.0]

def get_init_inputs():
    return [40, {"first": 0.5}]
"""

MODULE = """
import torch
from torch import nn

class ModelNew(nn.Module):
    def __init__(self, columns, factors):
        super().__init__()
        self.inner = nn.Linear(columns, 1, bias=False)
        self.factor = factors["first"]

    def forward(self, x, s: float):
        return RESULT
"""
RIGHT = "(x * self.inner.weight[0]) * (self.factor * s)"

FAILING = {
    ("crashed", "weights", "no parameter or buffer inner.weight"): MODULE.replace("self.inner", "self.other"),
    ("crashed", "load", "line 3: NameError"): "import torch\nfrom torch import nn\nundefined\n" + MODULE,
    ("crashed", "exception", "line 12: RuntimeError"): MODULE.replace("RESULT", "x.view(7, 7)"),
    ("crashed", "signal", "read-only"): MODULE.replace("RESULT", "x.mul_(s)"),
    ("refused", "output", "returned a tuple with 2 tensors, the reference 1"): MODULE.replace("RESULT", "(x, x)"),
    ("refused", "output", "returned a float, not a torch.Tensor"): MODULE.replace("RESULT", "s"),
}


@pytest.fixture(scope="module")
def judge(bench):
    return ModuleJudge(CpuTarget(), brief(Terms(bench.tier)))


def module(source):
    return Candidate(source=textwrap.dedent(source), target="cpu", author="test")


@pytest.mark.parametrize("case", FAILING, ids=lambda case: "-".join(case[1:]))
def test_each_failure_is_named(bench, judge, case):
    status, check, words = case
    verdict = judge.evaluate(bench.task(SCALED), module(FAILING[case]), seed=1)
    assert (verdict.status, verdict.check) == (status, check), verdict.message
    assert words in verdict.message


def test_a_module_gets_the_tasks_arguments_and_weights_and_its_time_is_advisory(bench, judge):
    verdict = judge.evaluate(bench.task(SCALED), module(MODULE.replace("RESULT", RIGHT)), seed=3)
    assert verdict.passed, verdict.message
    assert verdict.seed == 3
    assert verdict.timing.advisory == ADVISORY


def test_arguments_that_cannot_be_written_down_are_the_tasks_fault(bench, judge):
    task = bench.task(SCALED.replace('{"first": 0.5}', "{'first': torch.tensor(0.5)}"))
    with pytest.raises(UserError, match="gives more than numbers and texts"):
        judge.evaluate(task, module(MODULE.replace("RESULT", RIGHT)))


def test_one_module_is_judged_on_all_workloads(bench, judge):
    sizes = SCALED.replace("get_inputs()", "get_inputs(columns=40)").replace("30, 40", "30, columns")
    sizes = sizes.replace("get_init_inputs()", "get_init_inputs(columns=40)").replace("[40, {", "[columns, {")
    task = bench.task(sizes + '\nWORKLOADS = [{"columns": 40}, {"columns": 64}]\n')
    with pytest.raises(UserError, match="makes its module from other arguments for each workload"):
        judge.evaluate(task, module(MODULE.replace("RESULT", RIGHT)))
