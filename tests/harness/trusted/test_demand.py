"""Which inputs must be read as a whole: those of which a kernel that leaves a part unread would be wrong."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from harness.trusted.facts.demand import _covers, _meets
from harness.trusted.facts.describing import describe

FILE = """
import torch
import torch.nn.functional as F

class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.c = {layer}

    def forward(self, x, y):
        {body}

def get_inputs():
    return [{inputs}]
"""
IMAGES = "torch.rand(1, 2, 9, 8), 2.0"


def reads(body, inputs="torch.rand(6, 4), torch.rand(6, 4)", layer="None"):
    task = describe(FILE.format(body=body, inputs=inputs, layer=layer), "task")
    assert task["program"], task["trace_failure"]
    return task["program"]["reads"]


@pytest.mark.parametrize(
    ("body", "read"),
    [
        ("return torch.relu(x) + y.T.contiguous().T", ["x", "y"]),
        ("return x * 2", ["x"]),
        ("return torch.softmax(x @ y.T, 1).sum(0)", ["x", "y"]),
        ("return x[1:] * 2, y.mean()", ["y"]),
        ("a, b = x.chunk(2, 1); return a * b", ["x"]),
        ("a, b = x.chunk(2, 1); return a * y[:, :2]", []),
        ("return torch.where(x > 0, y, 0.0)", ["x"]),
        ("return y.masked_fill(x > 0, 0.0)", ["x"]),
        ("return torch.zeros_like(x) + y", ["y"]),
        ("z = x.clone(); return z.fill_(2.0) + y", ["y"]),
        ("return torch.triu(x @ y.T)", []),
        ("return torch.searchsorted(x[0], y[0])", []),
        ("return x.max(1).values + y.sum()", ["x", "y"]),
        ("return x.gather(1, y.argmax(1, keepdim=True))", []),
    ],
)
def test_what_every_kernel_reads(body, read):
    assert reads(body) == read


@pytest.mark.parametrize(
    ("body", "layer", "read"),
    [
        ("return F.max_pool2d(x, 3, 2)", "None", []),
        ("return F.max_pool2d(x, (3, 2))", "None", ["x"]),
        ("return F.avg_pool2d(x, 2)", "None", []),
        ("return F.avg_pool2d(x, 2, 3)", "None", []),
        ("return F.interpolate(x, scale_factor=0.5)", "None", []),
        ("return self.c(x)", "torch.nn.Conv2d(2, 3, 3, padding=1)", ["x", "c.weight", "c.bias"]),
        ("return self.c(x)", "torch.nn.Conv2d(2, 3, 2, stride=(1, 2))", ["x", "c.weight", "c.bias"]),
        ("return self.c(x)", "torch.nn.Conv2d(2, 3, 1, stride=2)", ["c.weight", "c.bias"]),
        ("return self.c(x)", "torch.nn.Conv2d(2, 3, 3, dilation=2)", []),
        ("return self.c(x[:, :, :1, :1])", "torch.nn.Conv2d(2, 3, 3, padding=1)", []),
        (
            "return self.c(x)",
            "torch.nn.BatchNorm2d(2)",
            ["x", *(f"c.{n}" for n in ("weight", "bias", "running_mean", "running_var"))],
        ),
    ],
)
def test_windows_read_what_they_cover(body, layer, read):
    assert reads(body, IMAGES, layer) == read


@given(st.integers(1, 12), st.integers(1, 5), st.integers(1, 5), st.integers(0, 2))
def test_windows_cover_what_they_are_said_to(extent, window, stride, padding):
    if extent + 2 * padding < window or 2 * padding > window:
        return
    line, taps = torch.ones(1, 1, extent, requires_grad=True), torch.ones(1, 1, window, requires_grad=True)
    torch.nn.functional.conv1d(line, taps, stride=stride, padding=padding).sum().backward()
    if _covers(extent, window, stride, padding):
        assert (line.grad > 0).all()
    if _meets(extent, window, stride):
        assert (taps.grad > 0).all()
