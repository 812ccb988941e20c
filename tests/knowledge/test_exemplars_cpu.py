"""The exemplars for a processor, run: as exact as PyTorch on odd extents and special values, within their bounds."""

from __future__ import annotations

import itertools
import re

import pytest
import torch
import tvm_ffi
from goldens import Golden
from traced import Compiler, assert_close, joined, trace

from harness.isolation.tiers import resolve_tier
from harness.nouns.candidate import Candidate
from harness.nouns.task import Signature, TensorSpec
from harness.sanitize.host import sanitize_on_host
from harness.screen.source import screen_source
from harness.targets.cpu import CpuTarget
from knowledge.compiler.kernels.source import PROCESSOR
from knowledge.compiler.plan import Plan
from knowledge.compiler.schedule.attention.recipe import AttentionRecipe
from knowledge.compiler.search.exemplars import load, names

NAMES = tuple(name for name in names() if load(name).architecture == PROCESSOR)
PRODUCTS = ("cpu_gemm", "cpu_gemm_plain")
# Less than one vector; more than one tile in every direction and no multiple of anything.
ROWS = ((3, 5), (37, 1003))
SIZES = ((5, 3, 7), (269, 587, 301))
# Heads, rows, keys, columns of q and k, of v: less than a vector and a tile; more than one of each.
HEADS = ((1, 3, 5, 2, 1), (3, 133, 203, 19, 37))
EXTENT = re.compile(r"(?<=Int<)\d+|(?<=constexpr int )\w+ = \d+")
WAYS = ("NN", "TT")
CASES = [
    *itertools.product(("cpu_pointwise", "cpu_softmax"), ROWS, ("",)),
    *itertools.product(("cpu_attention",), HEADS, ("",)),
    *itertools.product(PRODUCTS, SIZES[1:], WAYS),
    ("cpu_gemm", SIZES[0], "NN"),
    ("cpu_gemm_plain", SIZES[0], "TT"),
]
INFINITY, NAN = float("inf"), float("nan")


def source(name: str, extents: tuple[int, ...], way: str) -> str:
    """The exemplar for other extents; an operand marked T lies transposed in memory."""
    if name == "cpu_attention":
        problem, recipe = trace(attended, *operands(extents, way)), AttentionRecipe()
        plan = recipe.first_plan(problem)
        assert isinstance(plan, Plan)
        return recipe.render(problem, plan)
    kernel = load(name)
    sizes = iter(extents)
    text = EXTENT.sub(
        lambda found: f"{found[0][: -len(found[0].split()[-1])]}{next(sizes, found[0].split()[-1])}",
        kernel.section("problem"),
    )
    assert next(sizes, None) is None
    if "T" in way:
        text = text.replace("Stride<K, _1>", "Stride<_1, M>").replace("Stride<_1, N>", "Stride<K, _1>")
    return kernel.with_sections(problem=text)


def operands(extents: tuple[int, ...], way: str) -> list[torch.Tensor]:
    drawn = torch.Generator().manual_seed(7)
    if len(extents) == 5:
        heads, rows, keys, inner, outer = extents
        shapes = ((heads, rows, inner), (heads, keys, inner), (heads, keys, outer))
        return [torch.randn(shape, generator=drawn) * 2 for shape in shapes]
    if not way:
        return [torch.randn(extents, generator=drawn) * 5]
    m, n, k = extents
    a, b = torch.randn(m, k, generator=drawn), torch.randn(k, n, generator=drawn)
    return [a, b] if way == "NN" else [a.T.contiguous().T, b.T.contiguous().T]


def attended(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    return torch.nn.functional.scaled_dot_product_attention(q, k, v, scale=0.125)


def expected(name: str, given: list[torch.Tensor]) -> torch.Tensor:
    if name in PRODUCTS:
        return given[0] @ given[1]
    if name == "cpu_attention":
        return torch.softmax(given[0] @ given[1].mT * 0.125, -1) @ given[2]
    return given[0] * torch.sigmoid(given[0]) if name == "cpu_pointwise" else torch.softmax(given[0], -1)


def run(compiler: Compiler, case: tuple[str, tuple[int, ...], str], given: list[torch.Tensor]) -> torch.Tensor:
    """All cases are one library: reading CuTe's headers takes most of the time."""
    built = compiler.build_all([source(*each) for each in CASES])[CASES.index(case)]
    out = torch.full((*given[0].shape[:-1], given[-1].shape[-1]), torch.nan)
    getattr(tvm_ffi.load_module(str(built.library)), built.entry)(*given, out)
    return out


def test_there_is_one_of_each_kind() -> None:
    assert {load(name).op_class for name in NAMES} == {"gemm", "elementwise", "reduction"}
    assert {name for name, _, _ in CASES} == set(NAMES)


@pytest.mark.timeout(300)
@pytest.mark.parametrize("case", CASES, ids=str)
def test_as_exact_as_pytorch(golden: Golden, compiler: Compiler, case: tuple[str, tuple[int, ...], str]) -> None:
    if golden.holds([source(*case)], *compiler.flags):
        return
    name, extents, way = case
    given = operands(extents, way)
    oracle = expected(name, [tensor.double() for tensor in given])
    assert_close(run(compiler, case, given), expected(name, given), oracle, name)


@pytest.mark.parametrize("name", ["cpu_pointwise", "cpu_softmax"])
def test_special_values_come_out_as_in_pytorch(golden: Golden, compiler: Compiler, name: str) -> None:
    if golden.holds([source(name, ROWS[1], "")], *compiler.flags):
        return
    x = torch.randn(ROWS[1], generator=torch.Generator().manual_seed(7))
    x[0, 1002], x[1, 0], x[2, 500], x[3, :], x[4, 1001] = NAN, INFINITY, -INFINITY, -INFINITY, 3e38
    x[5, :4], x[6, :] = torch.tensor([88.5, 89.5, -87.5, -104.5]), 1e-42
    torch.testing.assert_close(run(compiler, (name, ROWS[1], ""), [x]), expected(name, [x]), equal_nan=True)


@pytest.mark.parametrize("name", NAMES)
def test_the_screen_lets_it_pass(name: str) -> None:
    assert screen_source(load(name).text, frozenset({"float32", "ieee"})) is None


@pytest.mark.timeout(300)
def test_no_access_is_out_of_bounds(golden: Golden) -> None:
    """One source with all of them on odd extents, as a kernel of its own."""
    cases = [
        ("cpu_pointwise", ROWS[1], ""),
        ("cpu_softmax", ROWS[1], ""),
        *((each, SIZES[1], "NN") for each in PRODUCTS),
        ("cpu_attention", HEADS[1], ""),
    ]
    rows, (m, n, k), (heads, queries, keys, inner, outer) = ROWS[1], SIZES[1], HEADS[1]
    entry = """
void run(tvm::ffi::TensorView x, tvm::ffi::TensorView a, tvm::ffi::TensorView b, tvm::ffi::TensorView q,
         tvm::ffi::TensorView keys, tvm::ffi::TensorView v, tvm::ffi::TensorView swish, tvm::ffi::TensorView softmax,
         tvm::ffi::TensorView c, tvm::ffi::TensorView d, tvm::ffi::TensorView o) {
  kernel0::run(x, swish);
  kernel1::run(x, softmax);
  kernel2::run(a, b, c);
  kernel3::run(a, b, d);
  kernel4::run(q, keys, v, o);
}
TVM_FFI_DLL_EXPORT_TYPED_FUNC(run, run);
"""
    candidate = Candidate(source=joined([source(*case) for case in cases]) + entry, target="cpu", author="test:test")
    if golden.holds([candidate.source]):
        return
    built = CpuTarget().compile_watched(candidate, tier=resolve_tier("auto"))
    assert built.succeeded, built
    shapes = {"x": rows, "a": (m, k), "b": (k, n), "q": (heads, queries, inner), "keys": (heads, keys, inner),
              "v": (heads, keys, outer), "swish": rows, "softmax": rows, "c": (m, n), "d": (m, n),
              "o": (heads, queries, outer)}  # fmt: skip
    specs = [
        TensorSpec(name=name, shape=shape, strides=torch.empty(shape, device="meta").stride(), dtype="float32")
        for name, shape in shapes.items()
    ]
    signature = Signature(inputs=tuple(specs[:6]), outputs=tuple(specs[6:]))
    watched = sanitize_on_host(built, signature, tier=resolve_tier("auto"), limit_s=60)
    assert watched.status == "clean", watched
