"""What a module keeps from call to call: traced where nothing reads it before it is overwritten, else told by name."""

from __future__ import annotations

import pytest
import torch

from harness.trusted.facts.describing import describe
from harness.trusted.facts.tracing import said_plainly
from harness.trusted.keeping import as_buffers, attributes_of, having

FILE = """
import torch
from torch import nn

class Inner(nn.Module):
    def __init__(self):
        super().__init__()
        {init}

    def forward(self, x):
        {body}

class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = Inner()

    def forward(self, x):
        return self.inner(x)

def get_inputs():
    return [torch.rand({shape})]
"""
SMALL, LARGE = "8, 9", "8200, 8200"


def described(init, body, shape=SMALL):
    lines = "\n        "
    text = FILE.format(init=init.replace("; ", lines), body=body.replace("; ", lines), shape=shape)
    return describe(text, "task")


def operations(task):
    assert task["program"], task["trace_failure"]
    return [op["target"].split(".")[1] for op in task["program"]["ops"]]


CACHED = "if self.size != len(x): self.size, self.h = len(x), torch.ones(9)\n        return x * self.h"
OVERWRITTEN = [
    (f"self.h = torch.zeros({SMALL})", "self.h.copy_(x); self.h = torch.tanh(self.h); return -self.h", ["tanh", "neg"]),
    (f"self.h = torch.zeros({SMALL}).double()", "self.h.copy_(x[0]); return self.h", ["select", "expand"]),
    (f"self.register_buffer('h', torch.zeros({SMALL}))", "self.h.copy_(x); return torch.tanh(self.h)", ["tanh"]),
    ("self.register_buffer('n', torch.zeros(()))", "self.n += 1; return torch.tanh(x)", ["tanh"]),
    ("self.h = None", "self.h = torch.tanh(x); return self.h", ["tanh"]),
    ("self.size = 0", CACHED, ["ones", "mul"]),
]  # fmt: skip


@pytest.mark.parametrize(("init", "body", "expected"), OVERWRITTEN)
def test_what_is_overwritten_before_it_is_read_is_no_state(init, body, expected):
    task = described(init, body)
    assert task["defect"] == ""
    found = operations(task)
    assert [name for name in found if name not in ("to", "_to_copy", "lift_fresh_copy")] == expected


@pytest.mark.parametrize("shape", [SMALL, LARGE])
@pytest.mark.parametrize(
    "init",
    [
        "self.h = torch.zeros({})", "self.register_buffer('h', torch.zeros({}))", "self.h = None",
    ],
)  # fmt: skip
def test_what_the_call_before_left_is_told_by_its_name(init, shape):
    first = "self.h = torch.zeros_like(x) if self.h is None else self.h"
    task = described(init.format(shape), f"{first}; self.h = torch.tanh(self.h + x); return self.h * 2", shape)
    assert task["program"] is None
    assert task["trace_failure"].startswith("it reads inner.h, which the call before left there")
    assert task["defect"]


def test_numbers_that_a_module_keeps_are_part_of_the_program_and_drawn_ones_are_not():
    init = "self.scale = torch.sqrt(torch.tensor([64.0])); self.taps = [torch.tensor([1.0, 2.0, 3.0])]"
    task = described(init, "return x[:, :3] / self.scale * self.taps[0]")
    numbers = [op["args"][0] for op in task["program"]["ops"] if "scalar_tensor" in op["target"]]
    assert numbers == [1.0, 2.0, 3.0]
    drawn = described("self.w = torch.rand(3)", "return x[:, :3] * self.w")
    assert drawn["program"] is None
    assert (
        "'inner.w', which is neither parameter nor buffer: register it with register_buffer" in drawn["trace_failure"]
    )


def test_what_a_call_left_in_a_list_is_no_number_of_the_forwards():
    task = described("self.seen = []", "self.seen.append(x[0] * 2); return self.seen[0] + x")
    assert task["program"] is None
    assert "a tensor that it keeps" in task["trace_failure"]


def test_a_cache_that_is_written_in_part_is_read_as_it_was_given():
    task = described("self.register_buffer('h', torch.zeros(12, 9))", "self.h[:8] = x; return self.h[:8] * 2")
    assert task["program"] is not None
    assert task["defect"] == ""


def test_branches_on_values_are_told_plainly():
    task = described("pass", "return x if x.sum() > 1 else x * 2")
    assert task["trace_failure"].startswith("what it does follows from a tensor's values")
    assert said_plainly(RuntimeError("odd\n  thing")) == "PyTorch's tracers cannot follow it: odd thing"


def test_a_module_is_as_it_was_after_tracing():
    module = torch.nn.Linear(2, 2)
    kept = module.kept = torch.ones(2)
    started = attributes_of(module)
    with as_buffers(module) as found:
        assert list(found) == ["kept"]
        assert "kept" in dict(module.named_buffers())
        module.kept = torch.zeros(2)
        module.further = 3
    assert module.kept is kept
    assert not hasattr(module, "further")
    assert not dict(module.named_buffers())
    module.later = torch.zeros(1)
    with having(started):
        assert not hasattr(module, "later")
    assert module.later.shape == (1,)
