"""What a module keeps from call to call: traced where nothing reads it before it is overwritten, else told by name."""

from __future__ import annotations

import pytest
import torch

from harness.nouns.errors import UserError
from harness.trusted.facts.describing import describe
from harness.trusted.facts.tracing import said_plainly
from harness.trusted.keeping import as_buffers, attributes_of, having
from harness.trusted.oracle import Oracle
from harness.trusted.reference import Reference

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
    ("self.register_buffer('n', torch.zeros(()))", "self.n += 1; return torch.tanh(x)", ["add", "tanh"]),
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
@pytest.mark.parametrize("init", ["self.h = torch.zeros({})", "self.h = None"])
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


ROWS = "self.register_buffer('h', torch.zeros(12, 9))"
WEIGHT = "self.h = nn.Parameter(torch.ones(9))"
STATISTICS = "self.register_buffer('m', torch.zeros(9)); self.register_buffer('v', torch.ones(9))"
SPAN = f"self.register_buffer('h', torch.zeros({SMALL}))"
NOW_AND_THEN = "self.register_buffer('n', torch.zeros((), dtype=torch.{})); self.register_buffer('h', torch.zeros(9))"
STATE = [
    (NOW_AND_THEN.format("int32"), "self.n += 1; self.h.copy_(torch.where(self.n % 10 == 0, x[0], self.h)); "
     "return x - self.h", ["n", "h"], []),
    (NOW_AND_THEN.format("bool"), "self.h.copy_(torch.where(self.n, self.h, x[0])); self.n.fill_(True); "
     "return x - self.h", ["n", "h"], []),
    (ROWS, "self.h[:8] = x; return self.h[:8] * 2", ["h"], []),
    (ROWS, "self.h[2].add_(x[0]); return x * 2", ["h"], []),
    (SPAN, "self.h = torch.tanh(self.h + x); return self.h * 2", ["h"], ["h"]),
    (SPAN, "self.h.lerp_(x, 0.25); return self.h * 2", ["h"], []),
    (WEIGHT, "self.h.clamp_(max=float(1)); self.h.mul_(0.5); return x * self.h", ["h"], []),
    (STATISTICS, "return nn.functional.batch_norm(x, self.m, self.v, training=True)", ["m", "v"], []),
    ("self.inner = nn.BatchNorm1d(9)", "return self.inner.train()(x)", ["inner.running_mean", "inner.running_var",
                                                                   "inner.num_batches_tracked"], []),
]  # fmt: skip


@pytest.mark.parametrize(("init", "body", "state", "renewed"), STATE)
def test_the_new_values_of_what_a_call_leaves_for_the_next_are_outputs(init, body, state, renewed):
    task = described(init, body)
    assert task["defect"] == task["trace_failure"] == ""
    signature = task["workloads"][0]["signature"]
    assert signature["state"] == [f"inner.{name}" for name in state]
    assert signature["renewed"] == [f"inner.{name}" for name in renewed]
    assert [each["name"] for each in signature["outputs"]] == ["output", *(f"new_inner.{name}" for name in state)]
    assert len(task["program"]["outputs"]) == 1 + len(state)


BESIDE_NAN = [
    ("self.n += (~x.isfinite()).any()", []),
    ("if x.isnan().any(): self.n += 1", []),
    ("if x.isinf().any(): self.n = self.n + 1", ["inner.n"]),
    ("self.n = torch.where(x.isfinite().all(), self.n, 1 + self.n)", ["inner.n"]),
]


@pytest.mark.parametrize(("line", "renewed"), BESIDE_NAN)
def test_what_a_call_leaves_beside_nan_alone_is_state(line, renewed):
    task = described("self.register_buffer('n', torch.zeros((), dtype=torch.long))", f"{line}\n        return x * 2")
    signature = task["workloads"][0]["signature"]
    assert (signature["state"], signature["renewed"]) == (["inner.n"], renewed)


ON_GRADIENTS = [
    ("return x if torch.is_grad_enabled() else 2 * x", True),
    ("return (x > 0.5) if torch.is_grad_enabled() else (x < 0.5)", True),
    ("return x if torch.is_grad_enabled() else x * 1.0001", False),
    ("self.h = self.h + 1; return x * self.h", False),
    ("if torch.is_grad_enabled(): raise ValueError\n        return 2 * x", False),
]


@pytest.mark.parametrize(("body", "told"), ON_GRADIENTS)
def test_a_forward_that_asks_whether_gradients_are_recorded_is_told(body, told):
    defect = described("self.register_buffer('h', torch.zeros(9))", body)["defect"]
    assert ("asks whether gradients are recorded" in defect) == told


def test_state_of_a_large_module_is_found_without_its_data():
    task = described(f"self.register_buffer('h', torch.zeros({LARGE}))", "self.h.add_(x); return self.h * 2", LARGE)
    assert task["workloads"][0]["signature"]["state"] == ["inner.h"]


@pytest.mark.parametrize(
    "body",
    [
        "self.m = torch.ones(9); return x * self.m",
        "self.m = torch.ones(9) if self.n is None else self.m; self.n = 1; return x * self.m",
    ],
)
def test_what_is_made_once_or_always_alike_is_no_state(body):
    task = described("self.register_buffer('m', torch.zeros(9)); self.n = None", body)
    assert task["workloads"][0]["signature"]["state"] == []


def test_a_cache_that_grows_and_both_directions_are_refused():
    grows = "self.h = torch.cat([self.h, x]); return self.h.sum(0)"
    with pytest.raises(UserError, match="another shape"):
        described("self.register_buffer('h', torch.zeros(1, 9))", grows)
    both = FILE.format(init=SPAN, body="self.h.add_(x); return x * 2", shape=SMALL) + '\nDIRECTION = "both"\n'
    with pytest.raises(UserError, match="whose new values a kernel of both directions does not return"):
        describe(both, "task")


def test_a_run_leaves_the_state_as_it_was_and_float64_has_one_too():
    body = "self.h.mul_(0.5).add_(x); return self.h * 2"
    text = FILE.format(init=SPAN, body=body, shape=SMALL)
    reference = Reference(text, "task", state=("inner.h",))
    (x,) = reference.inputs(0)
    for _ in range(2):
        output, new = reference.run([x])
        assert torch.equal(new, x)
        assert torch.equal(output, x * 2)
        assert not reference.model.inner.h.any()
    exact = Oracle(reference, "elementwise").run([x], reference.parameters(), [output, new])
    assert [each.dtype for each in exact] == [torch.float64] * 2
    prepared = reference.prepared(reference.model, reference.model, [x])
    assert torch.equal(prepared(), x * 2)
    assert not reference.model.inner.h.any()


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
