"""What prompts say of the judge's inputs and measure is what the judge does."""

from __future__ import annotations

import math
import re
from typing import get_args

import pytest
import torch
from run_samples import DEVICE, kernel, passed, task, wrong

from harness.checks import errors
from harness.checks.distributions import specials
from harness.checks.families import MULTIPLIED, PLANS, Reach
from harness.nouns.caller import callers
from harness.nouns.task import DType, OpClass, Program, Task, TensorSpec, TracedOp
from harness.tasks.describing import describe_task
from nodes.turn import judged

CLASSES: tuple[OpClass, ...] = get_args(OpClass)
FLOATS = {"float16": torch.float16, "bfloat16": torch.bfloat16, "float32": torch.float32, "float64": torch.float64}


def of_type(dtype: str, op_class: OpClass = "elementwise") -> Task:
    """The sample task in another type."""
    sample = task(op_class)
    [work] = sample.workloads
    inputs, outputs = (
        tuple(spec.model_copy(update={"dtype": dtype}) for spec in side)
        for side in (work.signature.inputs, work.signature.outputs)
    )
    signature = work.signature.model_copy(update={"inputs": inputs, "outputs": outputs})
    return sample.model_copy(update={"workloads": (work.model_copy(update={"signature": signature}),)})


def reducing_by(operation: str = "prod.dim_int") -> Task:
    x = task().signature.outputs[0]
    ops = (TracedOp(target=f"aten.{operation}", args=(), kwargs={}, results=(x,)),)
    return task("reduction").model_copy(update={"program": Program(tracer="export", ops=ops, outputs=("output",))})


@pytest.mark.parametrize("op_class", CLASSES)
def test_the_families_that_are_told_are_those_that_are_drawn(op_class: OpClass) -> None:
    assert judged.FAMILIES[op_class] == frozenset(PLANS[op_class])
    assert frozenset(MULTIPLIED) == judged.OF_PRODUCTS
    said = judged.say_inputs(task(op_class))
    assert ("runs of -infinity" in said) == ("masked" in PLANS[op_class])
    assert ("outliers" in said) == ("outliers" in PLANS[op_class])
    assert ("up to three NaN" in said) == (op_class == "elementwise")
    assert "factors of either sign" not in said and "factors of either sign" in judged.say_inputs(reducing_by())


def with_arguments(inputs: tuple[DType, ...] = ("float32",), parameters: tuple[DType, ...] = ()) -> Task:
    """The sample task with inputs and parameters of these types."""
    [work] = task().workloads
    [x] = work.signature.inputs
    assert isinstance(x, TensorSpec)
    made = {
        name: tuple(x.model_copy(update={"name": f"{name}{at}", "dtype": dtype}) for at, dtype in enumerate(dtypes))
        for name, dtypes in (("inputs", inputs), ("parameters", parameters))
    }
    signature = work.signature.model_copy(update=made)
    return task().model_copy(update={"workloads": (work.model_copy(update={"signature": signature}),)})


def test_how_integers_flags_parameters_and_sizes_vary_is_told_where_there_are_some() -> None:
    assert judged.say_arguments(with_arguments()) == ""
    for dtypes, said in (
        ("int64", "places of a table"),
        ("uint8", "8 and 16 bits in full"),
        ("bool", "all set or none"),
    ):
        told = judged.say_arguments(with_arguments(("float32", dtypes)))
        assert said in told and ("Integers" in told) == (dtypes != "bool") and "Parameters" not in told
    assert judged.say_arguments(with_arguments(parameters=("float32",))).startswith("Parameters are as trained")
    assert "Parameters" not in judged.say_arguments(with_arguments(parameters=("uint8",)))
    [work] = task().workloads
    several = task().model_copy(update={"workloads": (work, work.model_copy(update={"name": "wide"}))})
    assert (
        judged.say_arguments(several)
        == "Other sizes are tried, too: 1, between the workloads', and up to 8 times the largest."
    )


def test_the_callers_that_are_told_are_those_that_call() -> None:
    told = judged.say_callers("cpu")
    assert f"1 to {max(each.threads for each in callers('cpu'))} OpenMP threads" in told
    assert f"{max(each.stack_kib for each in callers('cpu'))} KiB" in told
    assert ("two threads at once" in told) == any(each.together for each in callers("cpu"))
    assert not any(each.together for each in callers("cuda")) and "other streams" in judged.say_callers("cuda")


def test_tf32_is_told_on_a_gpu_of_what_multiplies() -> None:
    assert judged.say_tf32(task(), "cuda", "tf32") == "TF32 is on for both."
    assert judged.say_tf32(reducing_by("mm.default"), "cuda", "ieee") == "TF32 is off."
    assert judged.say_tf32(reducing_by("sum.dim_IntList"), "cuda", "default") == ""
    assert judged.say_tf32(reducing_by("mm.default"), "cpu", "ieee") == ""


@pytest.mark.parametrize(("operation", "told"), [("sum.dim_IntList", True), ("std.correction", False)])
def test_denormals_are_told_of_those_reductions_that_are_held_to_them(operation: str, told: bool) -> None:
    assert ("denormals among zeros; " in judged.say_inputs(reducing_by(operation))) == told


@pytest.mark.parametrize("operation", ["max_pool2d.default", "sort.default"])
def test_single_nan_are_told_of_what_has_them_tried(operation: str) -> None:
    asked = reducing_by(operation).model_copy(update={"op_class": "other"})
    assert "up to three NaN in" in judged.say_inputs(asked)


@pytest.mark.parametrize("op_class", CLASSES)
@pytest.mark.parametrize("multiplies", [False, True])
def test_the_special_values_that_are_told_are_those_that_are_planted(op_class: OpClass, multiplies: bool) -> None:
    planted = specials(torch.float32, op_class, multiplies=multiplies)
    words = judged.say_inputs(reducing_by() if multiplies else task(op_class)).split("with a few ")[1]
    facts = torch.finfo(torch.float32)
    assert ("NaN, infinities" in words) == any(math.isinf(value) for value in planted)
    assert ("denormals" in words) == any(0 < abs(value) < facts.smallest_normal for value in planted)
    assert ("largest numbers" in words) == (facts.max in planted)
    assert "-0.0" in words and any(value == 0 and math.copysign(1, value) < 0 for value in planted)
    assert ("whole line of NaN" in words) == (op_class == "other" and not multiplies)


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("op_class", CLASSES)
def test_how_far_they_go_follows_the_type(dtype: str, op_class: OpClass) -> None:
    reach = Reach.of(torch.zeros(4, dtype=FLOATS[dtype]), op_class, 0)
    assert judged.reach_of(of_type(dtype, op_class)) == (int(reach.decades), reach.offset)


@pytest.mark.parametrize("dtype", FLOATS)
def test_exact_is_told_in_the_judge_s_numbers(dtype: str) -> None:
    said = judged.say_exactness(of_type(dtype), 1.0)
    [times] = re.findall(r"at most ([\d.]+) times what", said)
    [floor] = re.findall(r"plus (\S+)\.$", said)
    assert float(times) == errors.MULTIPLE
    assert float(floor) == pytest.approx(errors.floor_of(FLOATS[dtype]), rel=0.05)
    assert "at most 8 times 4 times what" in judged.say_exactness(of_type(dtype), 8.0)
    assert judged.say_exactness(of_type("int64"), 1.0) == "Results are equal to PyTorch's."


def test_the_share_of_the_floor_is_that_of_the_bytes_or_the_products() -> None:
    made = kernel()
    work = task().workloads[0].model_copy(update={"bytes_moved": 2_000_000, "flops": 0})
    streams = task().model_copy(update={"workloads": (work,)})
    # 2 MB at 20 GB/s are 0.1 ms; the kernel takes 1 / 2 ms.
    assert (
        judged.say_share(streams, DEVICE, passed(made, 2.0)) == "The task's floor here is 0.1 ms: 20% of it is reached."
    )
    multiplies = task().model_copy(update={"workloads": (work.model_copy(update={"flops": 25_000_000}),)})
    assert "floor here is 0.25 ms: 50% of it" in judged.say_share(multiplies, DEVICE, passed(made, 2.0))
    assert judged.say_share(streams, DEVICE, wrong(made)) == ""
    sorts = reducing_by("sort.stable").model_copy(update={"workloads": (work,)})
    assert "floor here, of its bytes alone, is 0.1 ms: 20%" in judged.say_share(sorts, DEVICE, passed(made, 2.0))


CAUSAL = """\
import torch
from torch import nn

class Model(nn.Module):
    def forward(self, q, k, v):
        scores = q @ k.transpose(-1, -2)
        {mask}
        return torch.softmax(scores, -1) @ v

def get_inputs():
    return [torch.randn(1, 2, 64, 32) for _ in range(3)]

def get_init_inputs():
    return []
"""
MASKING = "scores = scores.masked_fill(torch.ones(64, 64).triu(1) > 0, float('-inf'))"


def test_the_floor_leaves_out_what_causality_leaves_out() -> None:
    """Of 64 x 64 pairs of queries and keys 64 * 65 / 2 are needed."""
    full, causal = (describe_task(CAUSAL.format(mask=mask), name="attention", tier="none") for mask in ("", MASKING))
    assert causal.workloads[0].flops * 2 * 64 == full.workloads[0].flops * 65
    slow = DEVICE.model_copy(update={"peak_gflop_s": 1e-3})
    of_full, of_causal = (
        float(
            re.findall(
                r"floor here, without softmax, is (\S+) ms", judged.say_share(each, slow, passed(kernel(), 1e-6))
            )[0]
        )
        for each in (full, causal)
    )
    assert of_causal == pytest.approx(of_full * 65 / 128, rel=0.01)
