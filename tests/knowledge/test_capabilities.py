"""What a device can do decides which schedules apply, so that a new GPU needs no schedule changed."""

from __future__ import annotations

import ast
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from gpu_kernels import H200, traced
from torch.nn import functional

from harness.nouns.device_facts import Capabilities, capabilities_of
from knowledge.compiler.plan import Draft, Plan
from knowledge.compiler.problem import Device
from knowledge.compiler.search.dry_run import dry_run
from knowledge.compiler.search.first import first_draft
from knowledge.compiler.search.moves import mutations

ROOT = Path(__file__).resolve().parents[2]
# A B200 as its driver tells: clusters and mma as Hopper has them, products by a warpgroup no longer.
B200 = Device(architecture="sm_100a", multiprocessors=148, shared_bytes=227 << 10)
HALF = torch.bfloat16


def rand(*shape: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    return torch.empty(shape, dtype=dtype)


FORWARDS: dict[str, tuple[Callable[..., torch.Tensor], tuple[torch.Tensor, ...]]] = {
    "product of 16 bits": (lambda a, b: a @ b, (rand(512, 512, dtype=HALF), rand(512, 512, dtype=HALF))),
    "product": (lambda a, b: a @ b, (rand(2048, 2048), rand(2048, 2048))),
    "attention": (functional.scaled_dot_product_attention, (rand(2, 8, 512, 64, dtype=HALF),) * 3),
    "convolution": (lambda x, w: functional.conv2d(x, w), (rand(8, 64, 66, 66), rand(64, 64, 3, 3))),
    "long rows": (lambda x: torch.softmax(x, 1), (rand(64, 1 << 18),)),
}


def every_kernel(name: str, device: Device) -> list[str]:
    """The first kernel and what one move makes of it."""
    function, inputs = FORWARDS[name]
    problem = traced(function, *inputs, device=device)
    first = first_draft(problem)
    assert isinstance(first, Draft)
    return [first.source, *(each.source for each in mutations(problem, first.source, 4))]


@pytest.mark.parametrize("name", FORWARDS)
def test_a_gpu_without_wgmma_gets_kernels_that_need_none(name: str) -> None:
    assert not any("wgmma" in source or "SM90_64x" in source for source in every_kernel(name, B200))


@pytest.mark.parametrize("name", ["product of 16 bits", "product", "attention"])
def test_hopper_gets_its_own_products(name: str) -> None:
    assert any("wgmma" in source for source in every_kernel(name, H200))


def test_rows_too_long_for_a_block_are_shared_by_blocks_wherever_those_meet() -> None:
    old = B200.model_copy(update={"architecture": "sm_80"})
    clusters = [Plan.read(every_kernel("long rows", device)[0]).knobs.get("cluster", 1) for device in (B200, old)]
    assert clusters[0] > 1 == clusters[1]


def kernels(name: str, device: Device) -> dict[str, tuple[str, ...]]:
    """What a dry run says of a forward on a device: each recipe's kernels."""
    function, inputs = FORWARDS[name]
    return {each.recipe: each.kernels for each in dry_run(traced(function, *inputs, device=device))}


def test_a_device_to_come_is_asked_by_what_it_will_have() -> None:
    """Without any GPU: products by a warpgroup gone, tensor memory come; then as if it had both."""
    to_come = Capabilities(mma=True, clusters=True, tcgen05=True, max_cluster=8)
    third = Device(multiprocessors=148, shared_bytes=227 << 10, capabilities=to_come)
    assert third.has.tcgen05 and not third.has.wgmma
    assert kernels("product", third)["gemm"] == ("gemm_3xtf32",)
    assert kernels("product of 16 bits", third)["gemm"] == ("gemm_16bit",)
    assert "namespace contract {" in every_kernel("convolution", third)[0]
    both = third.model_copy(update={"capabilities": to_come.model_copy(update={"wgmma": True})})
    assert "gemm_wgmma_16bit" in kernels("product of 16 bits", both)["gemm"]
    assert "gemm_wgmma_3xtf32" in kernels("product", both)["gemm"]


def test_a_dry_run_tells_why_a_recipe_has_no_kernel() -> None:
    function, inputs = FORWARDS["long rows"]
    told = {each.recipe: each for each in dry_run(traced(function, *inputs))}
    assert told["rows"].kernels == ("rows",) and told["loops"].kernels == ("loops",)
    assert all(bool(each.reason) != bool(each.kernels) for each in told.values())
    assert "product" in told["gemm"].reason


@pytest.mark.parametrize(
    ("architecture", "mma", "clusters", "wgmma"),
    [("", False, False, False), ("sm_75", False, False, False), ("sm_80", True, False, False),
     ("sm_90", True, True, False), ("sm_90a", True, True, True), ("sm_100a", True, True, False),
     ("sm_100", True, True, False), ("sm_103f", True, True, False), ("sm_120f", True, True, False)],
)  # fmt: skip
def test_capabilities_by_architecture(architecture: str, mma: bool, clusters: bool, wgmma: bool) -> None:
    found = capabilities_of(architecture)
    assert (found.mma, found.clusters, found.wgmma) == (mma, clusters, wgmma)
    assert found.tcgen05 == (architecture in ("sm_100a", "sm_103f"))
    assert found.max_cluster == (16 if wgmma else 8 if clusters else 1)


@pytest.mark.parametrize("package", ["knowledge", "graph", "nodes", "tools"])
def test_nobody_asks_for_an_architecture_by_its_name(package: str) -> None:
    assert [file for file in (ROOT / package).rglob("*.py") if "sm_90" in file.read_text(encoding="utf-8")] == []


def test_few_files_name_a_target() -> None:
    """Others ask what it can do (`on_gpu`, `Device`, `Capabilities`); those of `harness/targets` are about one each."""
    named = [
        file.relative_to(ROOT)
        for package in ("knowledge", "graph", "nodes", "tools", "harness")
        for file in (ROOT / package).rglob("*.py")
        if any(
            isinstance(each, ast.Constant) and each.value in ("cuda", "cpu")
            for each in ast.walk(ast.parse(file.read_text()))
        )
    ]
    assert len([file for file in named if file.parent != Path("harness/targets")]) <= 43, named
