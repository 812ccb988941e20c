"""robust-kbench folders: their settings as workloads, their two directions, and what is wrong with some."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from harness.nouns.errors import UserError
from harness.nouns.task import Task
from harness.tasks.declaring import directed
from harness.tasks.robust_folder import folder_source, is_robust_folder
from harness.trusted.facts.describing import describe

FUNCTIONS = """
import torch
from torch import nn
import torch.nn.functional as F


def forward_fn(x, weight, bias):
    return F.linear(x, weight, bias)


class Model(nn.Module):
    def __init__(self, features, outputs: int = 3, *unused, bias=True):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(outputs, features))
        self.bias = nn.Parameter(torch.randn(outputs)) if outputs != 4 else None

    def forward(self, x, fn=forward_fn):
        if x.shape[0] == 13:
            raise ValueError("thirteen")
        return fn(x, self.weight, self.bias)


def get_inputs(batch: int = 2, features: int = 5{more}):
    return [torch.randn(batch, features{grad})]
"""
CONFIG: dict[str, Any] = {
    "single_input_configs": [{"batch": 2}],
    "single_init_configs": [{"outputs": 3}],
    "single_shared_configs": [{"features": 5}],
    "multi_input_configs": [{"batch": 2}, {"batch": 7, "features": 99}],
    "multi_init_configs": [{"outputs": 3}],
    "multi_shared_configs": [{"features": 5}, {"features": 8}],
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write(tmp_path)
    return tmp_path


def write(folder: Path, config: dict[str, Any] = CONFIG, side: str = "forward", more: str = "", grad: str = "") -> None:
    (folder / f"config_{side}.json").write_text(json.dumps(config))
    text = FUNCTIONS.replace(", *unused, bias=True", "").replace("{more}", more).replace("{grad}", grad)
    (folder / f"func_{side}.py").write_text(text)


def described(folder: Path, direction: Any = None) -> Task:
    return Task.model_validate(describe(folder_source(folder, direction), "t"))


def test_settings_are_multiplied_and_shared_ones_come_last(folder: Path) -> None:
    task = described(folder)
    shapes = [(work.signature.inputs[0].shape, work.signature.parameters[0].shape) for work in task.workloads]  # type: ignore[union-attr]
    assert shapes == [((2, 5), (3, 5)), ((2, 8), (3, 8)), ((7, 5), (3, 5)), ((7, 8), (3, 8))]
    assert [work.name for work in task.workloads] == [
        "batch=2 features=5", "batch=2 features=8", "batch=7 features=5", "batch=7 features=8",
    ]  # fmt: skip
    assert task.direction == "forward"
    assert [work.signature.inputs[0].shape[0] % 2 for work in task.held_out][:1] == [1]  # type: ignore[union-attr]


def test_each_direction_has_its_own_files(folder: Path) -> None:
    write(folder, CONFIG | {"multi_input_configs": []}, "backward", grad=", requires_grad=True")
    task = described(folder, "backward")
    assert task.direction == "backward"
    assert [work.signature.inputs[0].shape for work in task.workloads] == [(2, 5)]  # type: ignore[union-attr]
    assert [spec.name for spec in task.signature.outputs] == ["grad_x", "grad_weight", "grad_bias"]
    assert described(folder, "both").direction == "both"
    assert is_robust_folder(folder)


def test_workloads_that_do_not_fit_are_left_out_by_name(folder: Path) -> None:
    """Another entry, or one that the module refuses: the published folders hold such settings."""
    inputs, init = [{"batch": 2}, {"batch": 13}], [{"outputs": 3, "axes": 1}, {"outputs": 4, "axes": 1}]
    write(folder, CONFIG | {"multi_input_configs": inputs, "multi_init_configs": init})
    task = described(folder)
    assert [work.signature.inputs[0].shape for work in task.workloads] == [(2, 5), (2, 8)]  # type: ignore[union-attr]
    told = "\n".join(task.left_out)
    assert "the setting axes: neither Model nor get_inputs takes it" in told
    assert "ValueError: thirteen" in told
    assert "differs from the first in its arguments" in told


def test_what_is_no_number_is_fixed(folder: Path) -> None:
    write(folder, {"single_input_configs": [{"batch": 3, "scale": None}]}, more=", scale=2")
    text = (folder / "func_forward.py").read_text()
    (folder / "func_forward.py").write_text(text.replace("features)]", "features) if scale is None else None]"))
    (folder / "func_forward.py").write_text(
        (folder / "func_forward.py").read_text().replace("self, features,", "self, features=5,")
    )
    assert described(folder).signature.inputs[0].shape == (3, 5)  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (
            {"multi_init_configs": [{"batch": 3}], "single_init_configs": [{"batch": 3}]},
            "its settings disagree: batch is",
        ),
        ({"single_input_configs": 3}, "is no config: single_input_configs"),
        ({"single_input_configs": [], "multi_input_configs": []}, "holds no settings"),
        ({"multi_init_configs": [{"outputs": None}, {"outputs": 3}]}, "outputs differs between its settings"),
        ({"multi_input_configs": [{"batch": k} for k in range(300)]}, "workloads"),
    ],
)
def test_bad_configs_are_said(folder: Path, change: dict[str, Any], says: str) -> None:
    write(folder, CONFIG | change)
    with pytest.raises(UserError, match=says):
        folder_source(folder, None)


def test_missing_and_broken_files_are_said(folder: Path) -> None:
    with pytest.raises(UserError, match=r"There is no func_backward\.py"):
        folder_source(folder, "backward")
    (folder / "func_backward.py").write_text("x = 1")
    with pytest.raises(UserError, match=r"There is no config_backward\.json"):
        folder_source(folder, "backward")
    (folder / "config_forward.json").write_text("{")
    with pytest.raises(UserError, match="is no config"):
        folder_source(folder, None)


def test_a_settings_error_within_the_file_is_the_files(folder: Path) -> None:
    text = (folder / "func_forward.py").read_text().replace("outputs: int = 3", "outputs: int = 3, *, axis=1")
    (folder / "func_forward.py").write_text(text)
    with pytest.raises(UserError, match="takes 'axis' by keyword alone"):
        described(folder)


def test_a_direction_is_declared_once() -> None:
    source = "x = 1\n"
    backward = directed(source, "backward")
    assert directed(backward, "backward") == backward
    assert directed(source, None) == directed(source, "forward") == source
    assert directed(backward, "forward").endswith('\nDIRECTION = "forward"\n')
