"""The SIMT forms of a product on a GPU: one after the other, with knobs that fit the operands, and they compile."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from harness.building.toolchain import cuda_compiler, headers, host_compiler
from harness.nouns.errors import MachineError
from knowledge.compiler.plan import Plan
from knowledge.compiler.problem import Device, Problem
from knowledge.compiler.schedule.gemm import cuda_simt as simt
from knowledge.compiler.schedule.gemm.cuda import render
from knowledge.compiler.schedule.gemm.form import Form
from knowledge.compiler.schedule.gemm.product import form_of

H200 = Device(architecture="sm_90a", multiprocessors=132, shared_bytes=227 << 10)


def product(m: int, n: int, k: int, a: str = "N", b: str = "N") -> Problem:
    """A @ B; an operand marked T lies transposed in memory."""
    lying = {"N": lambda columns, rows: (columns, 1), "T": lambda columns, rows: (1, rows)}
    tensors = [
        {"name": "A", "shape": (m, k), "strides": lying[a](k, m), "dtype": "float32"},
        {"name": "B", "shape": (k, n), "strides": lying[b](n, k), "dtype": "float32"},
    ]
    result = {"name": "mm", "shape": (m, n), "strides": (n, 1), "dtype": "float32"}
    op = {"target": "aten.mm.default", "args": [{"ref": "A"}, {"ref": "B"}], "results": [result]}
    described = {"target": "cuda", "inputs": tensors, "outputs": [{**result, "name": "C"}], "ops": [op]}
    return Problem.model_validate({**described, "returns": ["mm"], "device": H200.model_dump()})


def chain(form: Form) -> list[Plan]:
    """The plans from the plain form to the last."""
    plans = [simt.first_plan(form, H200)]
    while moves := simt.moves(form, H200, plans[-1]):
        assert len(moves) == 1
        plans.append(moves[0].plan)
    return plans


def knobs(form: Form, plan: Plan) -> dict[str, str]:
    text = simt.knobs_text(product(1, 1, 1), form, plan)
    return dict(re.findall(r"(\w+) = (?:Int<)?(\d+)", text))


def test_forms_follow_each_other_and_end():
    assert [plan.knobs["kernel"] for plan in chain(form_of(product(4096, 4096, 4096)))] == list(simt.KERNELS)


def test_tiles_are_small_where_large_ones_would_idle_or_not_fill():
    sizes = {
        size: [(plan.knobs["bm"], plan.knobs["bn"], plan.knobs["bk"]) for plan in chain(form_of(product(*size)))]
        for size in ((4096, 4096, 64), (512, 512, 512), (64, 40000, 64))
    }
    assert set(sizes[4096, 4096, 64]) == {(128, 128, 8), (128, 128, 16)}
    assert set(sizes[512, 512, 512][1:]) == {(64, 64, 16)}
    assert set(sizes[64, 40000, 64][1:]) == {(64, 128, 16)}


@pytest.mark.parametrize(("a", "b", "copies"), [("N", "N", "14"), ("N", "T", "11"), ("T", "N", "44"), ("T", "T", "41")])
def test_asynchronous_copies_transpose_one_element_at_a_time(a, b, copies):
    form = form_of(product(256, 128, 64, a, b))
    _, vectorized, multistage, swizzled = chain(form)
    assert (knobs(form, vectorized)["CopyA"], knobs(form, vectorized)["CopyB"]) == ("4", "4")
    for plan in (multistage, swizzled):
        assert knobs(form, plan)["CopyA"] + knobs(form, plan)["CopyB"] == copies


def test_odd_extents_are_copied_and_stored_one_by_one():
    form = form_of(product(205, 150, 77))
    for plan in chain(form)[1:]:
        assert {knobs(form, plan)[name] for name in ("CopyA", "CopyB", "StoreC")} == {"1"}


def test_header_tells_the_shared_memory():
    form = form_of(problem := product(4096, 4096, 4096))
    told = [simt.describe(problem, form, plan)[1] for plan in chain(form)]
    assert [re.findall(r"= (\d+) bytes", line)[0] for line in told] == ["4224", "16896", "25344", "24576"]


def test_every_form_compiles_for_operands_of_every_kind(golden, tmp_path: Path):
    try:
        nvcc = cuda_compiler().command
    except MachineError as failure:
        pytest.skip(str(failure))
    problems = (product(205, 150, 77, "N", "T"), product(256, 128, 64, "T", "N"), product(5000, 4000, 64, "N", "T"))
    rendered = [
        re.sub(r"\bproduct\b", f"product{3 * number + index}", render(problem, form_of(problem), plan))
        for number, problem in enumerate(problems)
        for index, plan in enumerate(chain(form_of(problem))[1:])
    ]
    texts = [re.sub(r"\brun\b", f"run{number}", text) for number, text in enumerate(rendered)]
    if golden.holds(texts):
        return
    (tmp_path / "all.cu").write_text("\n".join(texts))
    include = [word for folder in headers().include for word in ("-isystem", str(folder))]
    command = [
        *nvcc, "-ccbin", host_compiler().command[0], "-std=c++17", "--expt-relaxed-constexpr", "-cubin", "-arch=sm_80",
        "-diag-suppress", "20012,20013,20014,20015", "-Xptxas", "-v", *include, "all.cu", "-o", "all.cubin",
    ]  # fmt: skip
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    spilled = [int(count) for count in re.findall(r"(\d+) bytes spill stores", done.stdout + done.stderr)]
    assert len(spilled) == len(texts) == 9 and max(spilled) <= 128, spilled
