"""Tasks with several workloads: one kernel for all, each checked, each timed, and odd sizes that are held out."""

import math

import pytest

from harness.nouns.errors import UserError
from harness.wire.entry import stub

SIZES = """
import torch

class Model(torch.nn.Module):
    def forward(self, x):
        return x / (1 + x.abs())

def get_inputs(rows=8, columns=16):
    return [torch.rand(rows, columns)]

WORKLOADS = [{"rows": 130, "columns": 140}, {"rows": 264, "columns": 296, "name": "large"}]
"""

TYPES = """
import torch

class Model(torch.nn.Module):
    def __init__(self, factor=1.0):
        super().__init__()
        self.scale = torch.nn.Parameter(torch.rand(40) * factor)

    def forward(self, x):
        return x * self.scale

def get_inputs():
    return [torch.rand(30, 40)]

def get_init_inputs(factor=2.0):
    return [factor]

WORKLOADS = [{"dtype": "float32"}, {"dtype": "bfloat16", "name": "narrow"}, {"factor": 100.0, "dtype": "float16"}]
"""

ANY_SIZE = "for (int64_t i = 0; i < x.numel(); ++i) out(y)[i] = in(x)[i] / (1 + std::fabs(in(x)[i]));"


def entry(body: str) -> str:
    return f"void run(TensorView x, TensorView y) {{ {body} }}"


def test_every_workload_is_described(bench):
    task = bench.task(SIZES)
    assert [work.name for work in task.workloads] == ["rows=130 columns=140", "large"]
    assert [work.signature.inputs[0].shape for work in task.workloads] == [(130, 140), (264, 296)]
    assert task.signature == task.workloads[0].signature
    assert task.program is not None
    (other,) = task.other_programs
    assert other.names == task.program.names and other.ops[0].results[0].shape == (264, 296)
    assert not task.only(task.workloads[1]).other_programs
    held, *further = task.held_out
    assert [work.name for work in further] == [
        "over all", "below all", "one rows", "above rows", "one columns", "above columns",
    ]  # fmt: skip
    assert all(extent % 2 for extent in held.signature.inputs[0].shape)
    text = stub(task, "cpu")
    assert "shape (264, 296)" in text
    assert "ask the tensors" in text
    assert "held out" not in text


def test_a_kernel_for_all_of_them_passes_with_a_timing_each(bench):
    verdict = bench.verdict(entry(ANY_SIZE), SIZES)
    assert verdict.status == "passed", verdict.message
    names = [part.name for part in verdict.workloads]
    assert names == ["rows=130 columns=140", "large", "held out", "all by turns"]
    first, second, held, turns = verdict.workloads
    assert held.timing is None
    assert len(turns.correctness.trials) == 18
    assert len(held.correctness.trials) == len(first.correctness.trials)
    mean = math.sqrt(first.timing.speedup * second.timing.speedup)
    assert verdict.timing.speedup == pytest.approx(mean)
    assert verdict.timing.speedup_interval.low <= mean <= verdict.timing.speedup_interval.high
    assert verdict.correctness == first.correctness


@pytest.mark.parametrize(
    ("count", "workload"),
    [("18200", "large"), ("x.numel() / 4 * 4", "held out")],
    ids=["one shape only", "no tail"],
)
def test_a_kernel_for_some_of_them_is_wrong_on_the_others(bench, count, workload):
    verdict = bench.verdict(entry(ANY_SIZE.replace("x.numel()", count)), SIZES)
    assert (verdict.status, verdict.check) == ("wrong", "correctness"), verdict.message
    assert verdict.message.startswith(f"Workload {workload}: ")
    assert "never written" in verdict.message
    assert verdict.timing is None
    assert verdict.workloads[-1].name == workload
    assert verdict.correctness == verdict.workloads[-1].correctness


def test_a_size_kept_from_the_first_call_is_wrong_when_workloads_take_turns(bench):
    body = entry(
        f"static int64_t const kept = x.numel(); {ANY_SIZE}".replace("i < x.numel()", "i < kept && i < x.numel()")
    )
    verdict = bench.verdict(body, SIZES)
    assert verdict.status == "wrong"
    assert verdict.message.startswith("Workload all by turns: ")
    assert "never written" in verdict.message


def test_element_types_and_init_arguments_vary(bench):
    task = bench.task(TYPES)
    assert [work.signature.inputs[0].dtype for work in task.workloads] == ["float32", "bfloat16", "float16"]
    assert [work.signature.parameters[0].dtype for work in task.workloads] == ["float32", "bfloat16", "float16"]
    assert task.held_out == ()
    body = """
    #include <cutlass/numeric_types.h>
    template <class T> void scaled(TensorView x, TensorView w, TensorView y) {
      auto a = static_cast<T const*>(x.data_ptr()); auto b = static_cast<T const*>(w.data_ptr());
      for (int i = 0; i < 1200; ++i) static_cast<T*>(y.data_ptr())[i] = T(float(a[i]) * float(b[i % 40]));
    }
    void run(TensorView x, TensorView w, TensorView y) {
      if (x.dtype().bits == 32) return scaled<float>(x, w, y);
      if (x.dtype().code == kDLBfloat) return scaled<cutlass::bfloat16_t>(x, w, y);
      scaled<cutlass::half_t>(x, w, y);
    }
    """
    verdict = bench.verdict(body, TYPES)
    assert verdict.status == "passed", verdict.message
    confused = body.replace("x.dtype().code == kDLBfloat", "true")
    assert bench.verdict(confused, TYPES).message.startswith("Workload factor=100.0: ")


@pytest.mark.parametrize(
    ("workloads", "words"),
    [
        ('[{"rows": 3}, {"rows": 4, "flat": True}]', "differs from the first in its arguments"),
        ('[{"planes": 3}]', "takes 'planes'"),
        ('[{"rows": -3}]', "raised"),
    ],
)
def test_workloads_that_do_not_fit_are_the_users_error(bench, workloads, words):
    source = SIZES.replace("columns=16)", "columns=16, flat=False)").replace(
        "torch.rand(rows, columns)", "torch.rand(rows * columns) if flat else torch.rand(rows, columns)"
    )
    with pytest.raises(UserError, match=words):
        bench.task(source[: source.index("WORKLOADS")] + f"WORKLOADS = {workloads}\n")


def test_sizes_that_the_file_does_not_take_are_not_held_out(bench):
    even = SIZES.replace("return [torch", "assert rows % 2 == 0\n    return [torch")
    assert bench.task(even).held_out == ()
