"""The stub: what it says, and that it compiles whatever the names are."""

from __future__ import annotations

import re

from hypothesis import given
from hypothesis import strategies as st

from harness.isolation.tiers import resolve_tier
from harness.nouns.candidate import Candidate
from harness.nouns.task import ScalarSpec, Signature, Task, TensorSpec, Workload
from harness.targets.cpu import CpuTarget
from harness.wire.entry import identifiers, stub


def tensor(name, shape=(2, 3), strides=(3, 1), dtype="float32"):
    return TensorSpec(name=name, shape=shape, strides=strides, dtype=dtype)


def task(*signatures, name="linear"):
    workloads = tuple(
        Workload(name=f"w{index}", signature=signature, flops=1, bytes_moved=1)
        for index, signature in enumerate(signatures)
    )
    return Task(name=name, source="", workloads=workloads, op_class="gemm")


LINEAR = Signature(
    inputs=(
        tensor("x"),
        ScalarSpec(name="alpha", type="float", value=0.5),
        ScalarSpec(name="on", type="bool", value=True),
    ),
    parameters=(tensor("linear.weight", (4, 3), (1, 4), "bfloat16"), tensor("linear.bias", (4,), (1,))),
    outputs=(tensor("output", (2, 4), (4, 1)),),
)


def test_every_argument_has_its_type_in_the_order_of_the_call():
    text = stub(task(LINEAR), "cpu")
    entry = re.search(r"void run\((.*?)\) \{", text, re.DOTALL)[1]
    assert [" ".join(argument.split()) for argument in entry.split(",")] == [
        "tvm::ffi::TensorView x",
        "double alpha",
        "bool on",
        "tvm::ffi::TensorView linear_weight",
        "tvm::ffi::TensorView linear_bias",
        "tvm::ffi::TensorView output",
    ]
    assert text.rstrip().endswith("TVM_FFI_DLL_EXPORT_TYPED_FUNC(run, run);")


def test_shapes_strides_and_dtypes_stand_in_comments_for_every_workload():
    other = LINEAR.model_copy(update={"inputs": (tensor("x", (7, 3)), *LINEAR.inputs[1:])})
    text = stub(task(LINEAR, other), "cpu")
    assert '//   linear_weight: parameter "linear.weight", bfloat16, shape (4, 3), strides (1, 4)' in text
    assert '//   alpha: input "alpha", float, 0.5 here' in text
    assert "shape (2, 3)" in text and "shape (7, 3)" in text


def test_the_target_decides_where_the_memory_is():
    assert "Host memory" in stub(task(LINEAR), "cpu")
    assert "TVMFFIEnvGetStream" in stub(task(LINEAR), "cuda")


def test_a_stub_with_hostile_names_compiles():
    names = [
        "class",
        "x",
        "X",
        "x.y",
        "x_y",
        "1",
        "",
        "ü",
        "int64_t",
        "run",
        "std",
        "NULL",
        "__a",
        "_B",
        "*/",
        'q"\n\\',
    ]
    signature = Signature(inputs=tuple(map(tensor, names)), outputs=(tensor("out"),))
    source = stub(task(signature, name="break\nout\\"), "cpu")
    build = CpuTarget().compile(Candidate(source=source, target="cpu", author="test:test"), tier=resolve_tier("auto"))
    assert build.succeeded, build.diagnostics


@given(st.lists(st.one_of(st.text(max_size=6), st.sampled_from(["for", "x", "x_2", "x.2", "a.b", "a_b", "argument"]))))
def test_identifiers_are_valid_distinct_and_as_many_as_arguments(names):
    signature = Signature(inputs=tuple(map(tensor, names)), outputs=(tensor("output"),))
    found = identifiers(signature)
    assert len(found) == len(set(found)) == len(names) + 1
    for name in found:
        assert re.fullmatch(r"[A-Za-z][A-Za-z0-9_]*", name) and "__" not in name
        assert name not in {"for", "run", "class", "int"}


def test_plain_names_are_kept():
    assert identifiers(LINEAR) == ("x", "alpha", "on", "linear_weight", "linear_bias", "output")
