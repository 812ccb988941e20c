"""What a task's outputs depend on, and how exact its reference is."""

from __future__ import annotations

import pytest

from harness.nouns.task_filters import SEEDS
from harness.trusted.facts.filters import examine

TASK = """
import torch

class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = torch.nn.Parameter({weight})

    def forward(self, x, number):
        return {result}

def get_inputs():
    return [{x}, 2.0]
"""


def examined(result, weight="torch.randn(8)", x="torch.randn(16, 8)", variant=None):
    source = TASK.format(result=result, weight=weight, x=x)
    found = looked_at(source, variant or {})
    return {each["name"]: each for each in found["filters"]}, found["conditioning"]


def looked_at(source, variant):
    job = {"source": source, "name": "task", "variant": variant, "op_class": "other", "multiplies": False, "state": ()}
    return examine(job)


def test_a_sound_task_passes_every_filter():
    filters, _ = examined("x * self.weight + number")
    assert list(filters) == [
        "output range", "output spread", "output axes", "influence of weights", "influence of inputs",
    ]  # fmt: skip
    assert not any(each["rejected"] for each in filters.values())
    assert filters["output range"]["value"] > filters["output axes"]["value"] > 0.1
    assert SEEDS == 5


@pytest.mark.parametrize(
    ("result", "little"),
    [
        ("x * 0", {"output range", "output spread", "output axes", "influence of weights", "influence of inputs"}),
        ("x + 0 * self.weight", {"influence of weights"}),
        ("0 * x + self.weight.mean() * torch.arange(8) * torch.arange(16).unsqueeze(1)", {"influence of inputs"}),
        ("0 * x + self.weight", {"influence of inputs", "output axes"}),
        ("x.mean() + self.weight.mean() + torch.zeros(16, 8)", {"output axes"}),
    ],
)
def test_what_has_little_influence_is_named(result, little):
    filters, _ = examined(result)
    assert {name for name, each in filters.items() if each["rejected"]} == little


@pytest.mark.parametrize(
    ("result", "family"),
    [
        ("x + number", "given"),
        ("0 * x + self.weight", "given"),
        ("x.clamp(0.9, 2).mean(1)", "given"),
        ("(x - 5).clamp(0, 1)", "wide"),
        ("x * 0", ""),
        ("torch.softmax(x, 1).sum(1) + 0 * self.weight.sum()", ""),
        ("(x.sum(1, keepdim=True) - x.sum(1, keepdim=True).mean(1, keepdim=True)).relu()", ""),
    ],
)
def test_the_family_that_rules_a_constant_out_is_named(result, family):
    source = TASK.format(result=result, weight="torch.randn(8)", x="torch.rand(16, 8)")
    assert looked_at(source, {})["influence"] == family


def test_what_is_not_random_has_no_filter():
    assert "influence of weights" not in examined("x + self.weight", weight="torch.ones(8)")[0]
    assert "influence of inputs" not in examined("x + self.weight", x="torch.ones(16, 8)")[0]


def test_a_reference_is_as_exact_as_its_arithmetic():
    _, (exact,) = examined("x * 2")
    assert (exact["output"], exact["relative_l2"], exact["max_scaled"]) == ("output", 0, 0)
    _, (rounded,) = examined("x * self.weight")
    assert 0 < rounded["relative_l2"] < 1e-7
    _, (cancelled, plain) = examined("((x + 4096) - 4096, x + 1)")
    assert (cancelled["output"], plain["output"]) == ("output0", "output1")
    assert cancelled["relative_l2"] > 1e-5 > plain["relative_l2"]
    assert cancelled["max_scaled"] > cancelled["relative_l2"] / 10


def test_a_variant_is_examined_in_its_type():
    _, (half,) = examined("x * self.weight", variant={"dtype": "float16"})
    assert 1e-5 < half["relative_l2"] < 1e-2
