"""The exemplars of matrix products, run on a GPU: right on odd and on even extents, whichever way the operands lie."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from cuda_gemm_cases import build

from harness.machine.gpu import find_gpu
from knowledge.compiler.kernels.source import load

GPU = find_gpu()
pytestmark = [pytest.mark.gpu, pytest.mark.skipif(GPU is None, reason="no NVIDIA GPU answers here")]

# Batches, rows, columns, K. Nothing of the first can be moved by vectors, all of the second.
SIZES = {"odd": (2, 205, 149, 77), "even": (3, 256, 136, 104)}
WAYS = {"odd": ("NN", "TT"), "even": ("NT", "TN")}
TYPES = {"half_t": torch.float16, "bfloat16_t": torch.bfloat16, "float": torch.float32}
# Elements of an access of 16 bits where the case allows it; the plain kernel takes one by one.
WIDE = {"CopyA": 8, "CopyB": 8, "StoreC": 2}
CASES = [
    *(("gemm_simt", "float", size, way) for size in SIZES for way in WAYS[size]),
    *(("gemm_16bit", kind, size, way) for kind in ("half_t", "bfloat16_t") for size in SIZES for way in WAYS[size]),
]


def source(name: str, kind: str, size: str, way: str) -> str:
    """The exemplar for one size; an operand marked T lies transposed in memory."""
    _, m, n, k = SIZES[size]
    strides_a = (k, 1) if way[0] == "N" else (1, m)
    strides_b = (1, n) if way[1] == "N" else (k, 1)
    lines = [
        f"using T = {kind};" if name == "gemm_16bit" else "",
        f"using M = Int<{m}>;\nusing N = Int<{n}>;\nusing K = Int<{k}>;",
        *(
            f"using Layout{operand} = Layout<Shape<{rows}, {columns}, Int<{SIZES[size][0]}>>, "
            f"Stride<Int<{first}>, Int<{second}>, Int<{each}>>>;"
            for operand, rows, columns, (first, second), each in (
                ("A", "M", "K", strides_a, m * k),
                ("B", "N", "K", strides_b, n * k),
                ("C", "M", "N", (n, 1), m * n),
            )
        ),
        "struct Epilogue {",
        f"  CUTE_HOST_DEVICE T operator()({'float' if name == 'gemm_16bit' else 'T'} x, int, int, int) const {{",
        "    return T(x);\n  }\n};",
    ]
    kernel = load(name)
    return kernel.with_sections(problem="\n".join(lines), knobs=knobs(kernel.section("knobs"), size))


def knobs(text: str, size: str) -> str:
    """The exemplar's own, with accesses as wide as the case allows."""
    lines = []
    for line in text.splitlines():
        found = next((knob for knob in WIDE if f" {knob} = " in line), None)
        lines.append(f"constexpr int {found} = {1 if size == 'odd' else WIDE[found]};" if found else line)
    return "\n".join(lines)


@pytest.fixture(scope="module")
def kernels(tmp_path_factory: pytest.TempPathFactory) -> list[Any]:
    """The entry points of all cases, in order."""
    assert GPU is not None
    folder: Path = tmp_path_factory.mktemp("exemplars")
    built = build([source(*case) for case in CASES], folder, (GPU.architecture.removeprefix("sm_"),))
    return [built.run(number) for number in range(len(CASES))]


@pytest.mark.timeout(900)
@pytest.mark.parametrize("case", CASES, ids="-".join)
def test_close_to_float64(kernels, case):
    _, kind, size, way = case
    batches, m, n, k = SIZES[size]
    drawn = torch.Generator("cuda").manual_seed(7)
    a, b = (
        torch.randn(shape, device="cuda", generator=drawn).to(TYPES[kind])
        for shape in ((batches, m, k), (batches, k, n))
    )
    lying = [each if turn == "N" else each.mT.contiguous().mT for each, turn in zip((a, b), way, strict=True)]
    out = torch.full((batches, m, n), torch.nan, device="cuda", dtype=TYPES[kind])
    kernels[CASES.index(case)](*lying, out)
    oracle = a.double() @ b.double()
    error = (out.double() - oracle).norm() / oracle.norm()
    assert error <= torch.finfo(TYPES[kind]).eps * (1 if kind != "float" else 8)
