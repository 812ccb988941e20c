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


def filters(found: dict) -> dict[str, dict]:
    return {each["name"]: each for each in found["workloads"][0]["filters"]}


def test_a_sound_task_with_its_cost_and_conditioning(tmp_path):
    found = check(tmp_path, "self.linear(x)")
    assert (found["code"], found["defects"], found["op_class"]) == (0, [], "gemm")
    assert found["workloads"][0]["flops"] == 2 * 16 * 8 * 4
    assert 0 < found["workloads"][0]["conditioning"][0]["relative_l2"] < 1e-6
    assert set(filters(found)) == {
        "output range", "output spread", "output axes", "influence of weights", "influence of inputs",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("forward", "guilty", "words"),
    [
        ("self.linear(x) * 0", "output range", "zero"),
        ("self.linear(x * 0 + 1)", "influence of inputs", "inputs have no influence"),
        ("self.linear(x) * 0 + x[:, :4]", "influence of weights", "weights have no influence"),
        ("torch.softmax(self.linear(x), 1).sum(1)", "output spread", "whatever the inputs and weights are"),
        ("self.linear(x).mean(1, keepdim=True).expand(16, 5)", "output axes", "constant along an axis"),
    ],
)
def test_a_degenerate_task_is_named(forward, guilty, words, tmp_path):
    found = check(tmp_path, forward)
    assert found["code"] == 1
    assert filters(found)[guilty]["degenerate"]
    assert any(words in defect for defect in found["defects"])


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
