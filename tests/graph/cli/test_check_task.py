"""`cutegen check-task` on real files: sound, degenerate, and no task at all."""

import json
from pathlib import Path

import pytest
from command_line import softsign
from typer.testing import CliRunner

from graph.cli.main import app

TASK = """
import torch
from torch import nn


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(8, 4)

    def forward(self, x):
        return {forward}


def get_inputs():
    return [torch.rand(16, 8)]
"""


def check(folder: Path, forward: str) -> dict:
    file = folder / "task.py"
    file.write_text(TASK.format(forward=forward), encoding="utf-8")
    result = CliRunner().invoke(app, ["check-task", str(file), "--json"])
    return {"code": result.exit_code} | json.loads(result.stdout)


def filters(found: dict) -> set[str]:
    return {each["name"] for each in found["workloads"][0]["filters"]}


def test_a_sound_task_with_its_cost_and_conditioning(tmp_path):
    found = check(tmp_path, "self.linear(x)")
    assert (found["code"], found["defects"], found["op_class"]) == (0, [], "gemm")
    assert found["workloads"][0]["flops"] == 2 * 16 * 8 * 4
    assert 0 < found["workloads"][0]["conditioning"][0]["relative_l2"] < 1e-6
    assert filters(found) == {
        "output range", "output spread", "output axes", "influence of weights", "influence of inputs",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("forward", "said"),
    [("self.linear(x)", "1024 FLOPs of products"), ("x * x + self.linear.weight[0]", "given: no products")],
)
def test_what_is_not_counted_is_not_called_nothing(forward, said, tmp_path):
    file = tmp_path / "task.py"
    file.write_text(TASK.format(forward=forward), encoding="utf-8")
    told = CliRunner().invoke(app, ["check-task", str(file)]).stdout
    assert said in told and " 0 FLOPs" not in told


@pytest.mark.parametrize("forward", ["self.linear(x) * 0", "torch.softmax(self.linear(x), 1).sum(1)"])
def test_a_task_that_a_constant_passes_is_degenerate(forward, tmp_path):
    found = check(tmp_path, forward)
    assert found["code"] == 1
    assert any("a constant passes" in defect for defect in found["defects"])


@pytest.mark.parametrize(
    ("forward", "family"),
    [
        ("nn.functional.cross_entropy(x, torch.zeros(16, dtype=torch.long)) + 0 * self.linear.weight.sum()", "given"),
        ("(self.linear(x) - 100).relu()", "wide"),
        ("self.linear(x).mean(1, keepdim=True).expand(16, 5)", "given"),
    ],
)
def test_a_task_is_sound_where_some_family_rules_a_constant_out(forward, family, tmp_path):
    found = check(tmp_path, forward)
    assert (found["code"], found["workloads"][0]["influence"]) == (0, family)


def test_a_random_task_is_told_before_anything_is_written(tmp_path):
    found = check(tmp_path, "nn.functional.dropout(self.linear(x))")
    assert found["code"] == 1
    assert "its forward is random: two runs on the same inputs differ" in found["defects"][0]
    run = CliRunner().invoke(app, ["optimize", str(tmp_path / "task.py"), "--out", str(tmp_path / "run"), "--json"])
    assert run.exit_code == 2
    assert "its forward is random" in run.output
    assert not (tmp_path / "run" / "kernel.cu").exists()


def test_in_words_and_for_files_that_are_no_task(tmp_path):
    sound = CliRunner().invoke(app, ["check-task", str(softsign(tmp_path))])
    assert sound.exit_code == 0
    assert "elementwise; 5 seeds" in sound.stdout
    assert "influence of weights" not in sound.stdout  # it has none
    empty = tmp_path / "empty.py"
    empty.write_text("x = 1\n", encoding="utf-8")
    assert CliRunner().invoke(app, ["check-task", str(empty)]).exit_code == 2
