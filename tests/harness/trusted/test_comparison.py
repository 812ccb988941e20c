"""A result that looks wrong by little is held to PyTorch's error on more inputs like those."""

from __future__ import annotations

from contextlib import contextmanager

import pytest
import torch
from python_kernels import bench_of

from harness.checks.families import STIRRED
from harness.nouns.errors import UserError
from harness.nouns.task import Signature, TensorSpec
from harness.nouns.verdict import Trial
from harness.trusted import comparison
from harness.trusted.comparison import errors_of
from harness.trusted.timing.timed_outputs import TimedOutputs

SOURCE = """
import torch
import torch.nn.functional as F

class Model(torch.nn.Module):
    def forward(self, x):
        return F.layer_norm(x, x.shape[-1:])

def get_inputs():
    return [torch.rand(24, 130)]
"""
X = TensorSpec(name="x", shape=(24, 130), strides=(130, 1), dtype="float32")
SIGNATURE = Signature(inputs=(X,), outputs=(X.model_copy(update={"name": "y"}),))
LUCKY = 2051123518
"""Under this seed one row as a whole lies around 3, within 0.01, and PyTorch's rounding of its mean nearly exact."""


def norm(x: torch.Tensor) -> torch.Tensor:
    centred = x - x.mean(-1, keepdim=True)
    return centred * torch.rsqrt(centred.square().mean(-1, keepdim=True) + 1e-5)


@contextmanager
def lucky_bench(source=SOURCE):
    with bench_of(lambda *_: None, source=source, signature=SIGNATURE, op_class="reduction") as bench:
        bench.arguments.fill(0, LUCKY, "mixed")
        yield bench, bench.memory.views[0]["x"], bench.memory.views[0]["y"]


def errors(bench, seed=LUCKY):
    return errors_of(bench, 0, Trial(distribution="mixed", seed=seed, outputs=()))


def test_a_row_that_pytorch_has_right_by_luck_is_no_yardstick():
    with lucky_bench() as (bench, x, y):
        y.copy_(norm(x))
        before = x.clone()
        (error,) = errors(bench)
        assert torch.equal(x, before)
        assert error.bad_fraction == 0
        assert error.max_scaled > 4 * 5.4e-6  # what PyTorch's own error there would allow
        y[3] += 3e-3
        assert errors(bench)[0].bad_fraction == 130 / y.numel()


def test_what_is_far_off_is_wrong_at_once(monkeypatch):
    with lucky_bench() as (bench, x, y):
        asked = []
        monkeypatch.setattr(comparison, "likely_nearby", lambda *where: asked.append(where) or [])
        y.copy_(norm(x)).mul_(1.1)
        assert errors(bench)[0].bad_fraction > 0.9
        assert not asked
        monkeypatch.setattr(comparison, "_conditioned", lambda *_: [0.0])
        y.copy_(norm(x))
        assert errors(bench)[0].bad_fraction > 0
        assert len(asked) == 1


def test_no_draw_nearby_makes_up_for_another_result():
    with lucky_bench() as (bench, x, y):
        x.copy_(torch.randn(24, 130))
        y.copy_(norm(x)).mul_(1 + 40 * torch.finfo(torch.float32).eps)
        assert errors(bench)[0].bad_fraction > 0.1
        inputs_too = x.clone()
        errors(bench)
        assert torch.equal(x, inputs_too)


ROUTED = """
        gates = x.view(24, 13, 10).sum(-1).softmax(-1).topk(2, -1)[0]
        return (gates / gates.sum(-1, keepdim=True))[:, :1].expand(24, 130).clone()"""
PARITY = "return x * (1 + torch.floor(x.sum(-1, keepdim=True) * 1e4) % 2)"
STEPS = {"steps": True}
"""What routes, and what rounds down: a last bit may decide."""


def routed(x: torch.Tensor) -> torch.Tensor:
    """Two of 13 sums, added up from the last term on."""
    last, *others = reversed(x.view(24, 13, 10).unbind(-1))
    for each in others:
        last = last + each
    gates = last.softmax(-1).topk(2, -1)[0]
    return (gates / gates.sum(-1, keepdim=True))[:, :1].expand(24, 130).clone()


def test_a_router_that_pytorch_has_right_by_luck_is_no_yardstick():
    """The errors of two logits cancel in PyTorch's sums, and in no others."""
    with lucky_bench(SOURCE.replace("return F.layer_norm(x, x.shape[-1:])", ROUTED.strip())) as (bench, x, y):
        bench.facts = bench.facts.model_copy(update=STEPS)
        x.copy_(torch.randn(24, 130, generator=torch.Generator().manual_seed(772)) * 100)
        y.copy_(routed(x))
        (error,) = errors(bench)
        assert error.bad_fraction == 0
        assert error.max_scaled > 6 * (4 * 5.9e-7 + 9.5e-7)  # what PyTorch's own error there would allow
        y.mul_(1.001)
        assert errors(bench)[0].bad_fraction > 0.9


def test_what_pytorch_decides_otherwise_nearby_makes_up_for_nothing():
    with lucky_bench(SOURCE.replace("return F.layer_norm(x, x.shape[-1:])", PARITY)) as (bench, x, y):
        bench.facts = bench.facts.model_copy(update=STEPS)
        x.copy_(torch.randn(24, 130, generator=torch.Generator().manual_seed(1)))
        y.copy_(bench.reference.run([x])[0])
        assert errors(bench)[0].bad_fraction == 0
        nearby = [likely[0] for likely in comparison.likely_nearby(bench, 0, "mixed")]
        assert max(nearby) > 0.1, "a decision is another one nearby"
        y.mul_(1 + 40 * torch.finfo(torch.float32).eps)
        assert errors(bench)[0].bad_fraction > 0.1


def welford(x: torch.Tensor) -> torch.Tensor:
    mean = squares = torch.zeros(len(x))
    for count, column in enumerate(x.unbind(1), start=1):
        before = column - mean
        mean = mean + before / count
        squares = squares + before * (column - mean)
    return torch.stack([(column - mean) * torch.rsqrt(squares / count + 1e-5) for column in x.unbind(1)], 1)


def one_pass(x: torch.Tensor) -> torch.Tensor:
    mean = x.mean(-1, keepdim=True)
    return (x - mean) * torch.rsqrt((x.square().mean(-1, keepdim=True) - mean.square()).clamp(min=0) + 1e-5)


@pytest.mark.parametrize("offset", [-100.0, 1000.0])
def test_a_running_mean_may_be_off_as_far_as_roundings_beside_an_offset_move_the_result(offset):
    with lucky_bench() as (bench, x, y):
        for seed in range(3):
            x.copy_(torch.randn(24, 130, generator=torch.Generator().manual_seed(seed)) + offset)
            y.copy_(welford(x))
            assert errors(bench)[0].bad_fraction == 0
            y.copy_(one_pass(x))
            assert errors(bench)[0].bad_fraction > 0.2


@pytest.mark.parametrize("forward", ["F.layer_norm(x.bfloat16(),", "F.layer_norm(x.bfloat16().float(),"])
def test_numbers_of_sixteen_bits_are_not_moved_by_units_of_theirs(forward):
    with lucky_bench(SOURCE.replace("F.layer_norm(x,", forward)) as (bench, x, _):
        x.copy_(torch.randn(24, 130) + 100)
        given = [wanted.reference for wanted in comparison.expected_of(bench, 0, "mixed")]
        moved = [bench.oracle.noise(bench.arguments.inputs(0), {}, given, wide=wide)[0] for wide in (True, False)]
        assert moved[0] < moved[1] / 100


def test_a_reference_that_refuses_inputs_nearby_is_held_to_what_it_accepts():
    with lucky_bench() as (bench, x, y):
        y.copy_(norm(x))
        run = bench.reference.run
        first = x.clone()

        def picky(inputs, model=None):
            if not torch.equal(inputs[0].float(), first):
                raise UserError("no", "other inputs")
            return run(inputs, model)

        bench.reference.run = picky
        assert errors(bench)[0].bad_fraction > 0
        assert torch.equal(x, first)


def test_timed_outputs_are_compared_so_as_well():
    with lucky_bench() as (bench, x, y):
        y.copy_(norm(x))
        bench.arguments.stir = lambda *_, **__: None
        outputs = TimedOutputs(bench, [0.0])
        outputs.after_burst([0])
        error = comparison.compared_nearby(bench, 0, STIRRED)[1][0]
        assert error.bad_fraction == 0
