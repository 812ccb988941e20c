"""What a task's nouns count, and what they hold together."""

from __future__ import annotations

import hashlib
from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from harness.nouns.build import Build, Diagnostic
from harness.nouns.candidate import Candidate
from harness.nouns.task import (
    DTYPE_BYTES,
    FLOAT8,
    DTypeArg,
    Program,
    Ref,
    ScalarSpec,
    Signature,
    Task,
    TensorSpec,
    TracedOp,
    TraceFacts,
    Workload,
)
from harness.nouns.task_filters import CONSTANT, TaskCheck, WorkloadFacts


def spec(name="x", shape=(3, 4), strides=(4, 1), dtype="float32"):
    return TensorSpec(name=name, shape=shape, strides=strides, dtype=dtype)


@given(st.lists(st.tuples(st.integers(0, 5), st.integers(0, 9)), max_size=4))
def test_a_span_reaches_the_last_element_addressed(axes):
    shape, strides = tuple(extent for extent, _ in axes), tuple(stride for _, stride in axes)
    tensor = spec(shape=shape, strides=strides, dtype="float64")
    places = [sum(map(int.__mul__, index, strides)) for index in product(*map(range, shape))]
    assert tensor.numel == len(places)
    assert tensor.span == max(places, default=-1) + 1
    assert 8 * len(set(places)) <= tensor.nbytes <= 8 * len(places)
    if len(set(places)) == len(places):
        assert tensor.nbytes == 8 * len(places)


@pytest.mark.parametrize(
    ("shape", "strides", "elements"),
    [((6, 5), (0, 1), 5), ((6, 5), (1, 0), 6), ((6, 5), (0, 0), 1), ((4, 6, 5), (12, 0, 2), 20), ((9, 3), (1, 1), 11)],
)
def test_what_is_expanded_lies_in_memory_once(shape, strides, elements):
    assert spec(shape=shape, strides=strides).nbytes == 4 * elements


def test_a_type_has_its_bytes():
    known = {name: size for name, size in DTYPE_BYTES.items() if name not in ("bfloat16", *FLOAT8)}
    assert known == {name: np.dtype(name).itemsize for name in known}
    assert DTYPE_BYTES["bfloat16"] == 2 and [DTYPE_BYTES[name] for name in FLOAT8] == [1, 1]


def test_arguments_come_in_the_order_of_the_call():
    number = ScalarSpec(name="s", type="int", value=3)
    signature = Signature(inputs=(spec(), number), parameters=(spec("w"),), outputs=(spec("y"),))
    assert [each.name for each in signature.arguments] == ["x", "s", "w", "y"]


def task(source="the source"):
    works = [
        Workload(name=name, signature=Signature(inputs=(spec(name),), outputs=(spec("y"),)), flops=1, bytes_moved=1)
        for name in ("first", "second", "hidden")
    ]
    return Task(name="task", source=source, workloads=works[:2], held_out=works[2:], op_class="other")


def test_a_task_is_known_by_its_source_and_read_by_its_first_workload():
    whole = task()
    assert whole.digest == hashlib.sha256(b"the source").hexdigest()[:16]
    assert whole.digest != task("another").digest
    assert whole.signature.inputs[0].name == "first"
    alone = whole.only(whole.held_out[0])
    assert ([work.name for work in alone.workloads], alone.held_out) == (["hidden"], ())
    assert (alone.source, alone.digest) == (whole.source, whole.digest)
    with pytest.raises(ValidationError):
        Task(name="task", source="", workloads=(), op_class="other")


def test_nouns_do_not_change_and_know_their_fields():
    with pytest.raises(ValidationError):
        spec().name = "y"
    with pytest.raises(ValidationError):
        TensorSpec(name="x", shape=(1,), strides=(1,), dtype="float8")
    with pytest.raises(ValidationError):
        ScalarSpec(name="x", type="int", value=1, unit="ms")


def test_a_build_has_a_library_or_an_error():
    error, warning = (Diagnostic(severity=each, file="kernel", line=1, message="m") for each in ("error", "warning"))
    assert Build(digest="0" * 32, diagnostics=(warning,), seconds=1).succeeded
    assert not Build(diagnostics=(warning, error), seconds=1).succeeded
    for fields in ({}, {"diagnostics": (warning,)}, {"digest": "0" * 32, "diagnostics": (error,)}):
        with pytest.raises(ValidationError, match="either a digest or at least one error"):
            Build(seconds=1, **fields)


def test_a_candidate_is_known_by_its_source_and_target():
    one = Candidate(source="a", target="cpu", author="test:test")
    assert one.digest == Candidate(source="a", target="cpu", author="another").digest
    assert one.digest == hashlib.sha256(b"cpu\na").hexdigest()[:16]
    assert one.digest != Candidate(source="a", target="cuda", author="test:test").digest


def test_a_copy_with_another_source_is_another_one():
    """A sweep's variants and a suite's scaled tasks are made like this, of ones whose digest has been asked for."""
    for one in (Candidate(source="a", target="cpu", author="test:test"), task("a")):
        before = one.digest
        other = one.model_copy(update={"source": "b"})
        assert (one.digest, other.digest == before) == (before, False)


def test_a_workload_on_which_a_constant_passes_is_a_defect():
    works = tuple(
        WorkloadFacts(name=name, flops=1, bytes_moved=1, filters=(), influence=influence, conditioning=())
        for name, influence in (("small", ""), ("large", "wide"))
    )
    check = TaskCheck(name="t", op_class="other", traced=True, seeds=5, defect="random", workloads=works)
    assert check.defects == ("random", f"small: {CONSTANT}")


@pytest.mark.parametrize(
    ("ops", "multiplies", "adds", "steps"),
    [
        (["aten.prod.dim_int"], True, False, False),
        (["aten.abs.default", "aten.cumprod.default"], True, False, False),
        (["aten.mul.Tensor", "aten.sum.default"], False, True, False),
        (["aten.layer_norm.default"], False, True, False),
        (["aten.std.correction"], False, False, False),
        (["aten.max_pool2d.default"], False, False, False),
        (["aten.mul.Tensor", "aten.round.default"], False, False, True),
        (["aten.argmax.default"], False, True, True),
        ([], False, False, True),
    ],
)
def test_products_sums_and_steps_are_told_from_other_operations(ops, multiplies, adds, steps):
    index = TensorSpec(name="i", shape=(2,), strides=(1,), dtype="int64")
    traced = tuple(TracedOp(target=target, results=(index,) if "argmax" in target else ()) for target in ops)
    facts = facts_of(Program(tracer="export", ops=traced, outputs=("i",)) if ops else None)
    assert (facts.multiplies, facts.adds, facts.steps) == (multiplies, adds, steps)
    assert facts.windows is ("aten.max_pool2d.default" in ops)


@pytest.mark.parametrize(
    ("later", "outputs", "steps"),
    [
        ((), ("m.0",), False),
        ((), ("m.0", "m.1"), True),
        ((TracedOp(target="aten.gather.default", args=(Ref(ref="x"), 1, Ref(ref="m.1")), results=()),), ("m.0",), True),
    ],
)
def test_indices_that_nobody_reads_decide_nothing(later, outputs, steps):
    largest, index = (
        TensorSpec(name=f"m.{k}", shape=(2,), strides=(1,), dtype=dtype) for k, dtype in enumerate(("float32", "int64"))
    )
    top = TracedOp(target="aten.max.dim", args=(Ref(ref="x"), 1), results=(largest, index))
    assert facts_of(Program(tracer="export", ops=(top, *later), outputs=outputs)).steps is steps


def facts_of(program: Program | None) -> TraceFacts:
    outputs = tuple(map(spec, program.outputs)) if program else ()
    workload = Workload(name="given", signature=Signature(inputs=(), outputs=outputs), flops=0, bytes_moved=0)
    return Task(name="t", source="", workloads=(workload,), op_class="reduction", program=program).facts


def test_inputs_that_are_cast_to_whole_numbers_are_indices():
    x, y = (TensorSpec(name=name, shape=(2,), strides=(1,), dtype="float32") for name in "xy")
    index = TensorSpec(name="i", shape=(2,), strides=(1,), dtype="int64")
    cast = TracedOp(target="aten.to.dtype", args=(Ref(ref="x"), DTypeArg(dtype="int64")), results=(index,))
    other = TracedOp(target="aten.ge.Scalar", args=(Ref(ref="y"), 0), results=(index,))
    workload = Workload(name="given", signature=Signature(inputs=(x, y), outputs=()), flops=0, bytes_moved=0)
    program = Program(tracer="export", ops=(cast, other), outputs=())
    task = Task(name="t", source="", workloads=(workload,), op_class="other", program=program)
    assert task.facts.indexed == {"x"}
    assert task.model_copy(update={"program": None}).facts.indexed == set()
