"""Kernels as texts that a reviewer reads in a diff: one for each schedule, instruction and target.

`make goldens` writes them anew into `kernel_texts/`. What a kernel takes over from an exemplar, or has in common with a
text before it, stands there as one line. That kernels are right is held elsewhere: by evaluating values with PyTorch,
and by running kernels.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from difflib import SequenceMatcher
from pathlib import Path
from typing import Any

import pytest
import torch
from gpu_kernels import A100, H200
from torch import Tensor
from torch.nn import functional
from traced import MACHINE, trace

from knowledge.compiler.kernels.source import load, names
from knowledge.compiler.plan import Draft, Plan, Recipe
from knowledge.compiler.problem import Device, Problem
from knowledge.compiler.search.first import first_draft
from knowledge.compiler.search.recipes import recipes, recipes_for

FOLDER = Path(__file__).parent / "kernel_texts"
MOST = 60
# Fewer lines in a row that another text has, too, are shown: they tell where a line stands.
SHOWN = 6
HALF = torch.bfloat16


def rand(*shape: int, dtype: torch.dtype = torch.float32) -> Tensor:
    return torch.empty(shape, dtype=dtype)


def whole(*shape: int) -> Tensor:
    return torch.zeros(shape, dtype=torch.int64)


@dataclass(frozen=True)
class Case:
    """A forward, what it is called with, the device; `kernel` is an exemplar's name, else the first kernel is meant."""

    function: Callable[..., Any]
    inputs: tuple[Any, ...]
    device: Device = MACHINE
    kernel: str = ""


def attention(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    return torch.softmax(q @ k.mT * 0.125, -1) @ v


def steps(x: Tensor, a: Tensor) -> Tensor:
    found = []
    for each in x.unbind(1):
        a = torch.tanh(a * 0.5 + each)
        found.append(a)
    return torch.stack(found, 1)


def norm_then_product(x: Tensor, w: Tensor) -> Tensor:
    return functional.layer_norm(x, x.shape[1:]) @ w


def product(a: Tensor, b: Tensor) -> Tensor:
    return torch.relu(a @ b)


def gated(x: Tensor, w: Tensor, u: Tensor) -> Tensor:
    return functional.silu(x @ w) * (x @ u)


def eight_bits(x: Tensor, w: Tensor, scale: Tensor) -> Tensor:
    return x @ (w.to(x.dtype) * scale[:, None]).t()


def decoding(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    return functional.scaled_dot_product_attention(q, k, v, enable_gqa=True)


BOTH: dict[str, tuple[Callable[..., Any], tuple[Any, ...]]] = {
    "pointwise": (lambda x, y: torch.tanh(x) * y + 1, (rand(64, 65), rand(65))),
    "rows": (lambda x: torch.softmax(x, 1), (rand(64, 1000),)),
    "parts": (norm_then_product, (rand(64, 256), rand(256, 128))),
    "convolution": (lambda x, w: functional.conv2d(x, w, padding=1).relu(), (rand(2, 32, 16, 16), rand(64, 32, 3, 3))),
    "running_sum": (lambda x: x.cumsum(1), (rand(64, 100),)),
    "sort": (lambda x: x.sort(1), (rand(8, 100),)),
    "scatter": (lambda x, i, y: x.scatter_add(1, i, y), (rand(8, 20), whole(8, 30), rand(8, 30))),
    "loop_over_time": (steps, (rand(4, 20, 32), rand(4, 32))),
}
PRODUCT, HALVES = (rand(2048, 1024), rand(1024, 2048)), (rand(2048, 1024, dtype=HALF), rand(1024, 2048, dtype=HALF))
SMALL, HEADS = (rand(64, 1600), rand(1600, 128)), (rand(2, 8, 512, 64, dtype=HALF),) * 3
CASES = {
    **{f"{name}.cpp": Case(*forward) for name, forward in BOTH.items()},
    **{f"{name}.cu": Case(*forward, A100) for name, forward in BOTH.items()},
    "long_rows.cu": Case(lambda x: torch.softmax(x, 1), (rand(64, 1 << 18),), H200),
    "long_row_losses.cu": Case(functional.cross_entropy, (rand(4096, 2048, dtype=HALF), whole(4096)), H200),
    "row_losses.cu": Case(functional.cross_entropy, (rand(64, 1000), whole(64)), A100),
    "long_sort.cu": Case(lambda x: x.sort(1), (rand(4, 20000),), A100),
    "depthwise.cu": Case(lambda x, w: functional.conv2d(x, w, groups=8), (rand(2, 8, 16, 16), rand(8, 1, 3, 3)), A100),
    "convolution_wgmma.cu": Case(
        lambda x, w: functional.conv2d(x, w), (rand(32, 64, 34, 34), rand(128, 64, 1, 1)), H200
    ),
    "product.cpp": Case(product, (rand(64, 96), rand(96, 80))),
    "matrix_and_vector.cpp": Case(torch.mv, (rand(64, 96), rand(96))),
    "attention.cpp": Case(attention, (rand(2, 64, 64),) * 3),
    "attention.cu": Case(attention, (rand(2, 512, 64),) * 3, A100),
    "attention_wgmma.cu": Case(functional.scaled_dot_product_attention, HEADS, H200, "attention_wgmma"),
    "attention_of_one_row.cu": Case(
        decoding, (rand(2, 8, 1, 64, dtype=HALF), *(rand(2, 2, 4096, 64, dtype=HALF),) * 2), H200
    ),
    "narrow_weights.cu": Case(
        eight_bits, (rand(16, 512, dtype=HALF), torch.zeros(64, 512, dtype=torch.int8), rand(64, dtype=HALF)), A100
    ),
    **{f"{kernel}.cu": Case(product, PRODUCT, A100, kernel) for kernel in (
        "gemm_simt", "gemm_3xtf32",
    )},
    "gemm_3xtf32_cluster.cu": Case(product, SMALL, H200, "gemm_3xtf32_cluster"),
    **{f"{kernel}.cu": Case(product, PRODUCT, H200, kernel) for kernel in (
        "gemm_wgmma_3xtf32", "gemm_wgmma_fused",
    )},
    "gemm_wgmma_stream_k.cu": Case(product, (rand(2304, 1024), rand(1024, 2048)), H200, "gemm_wgmma_stream_k"),
    "gemm_wgmma_short_k.cu": Case(product, (rand(8192, 64), rand(64, 8192)), H200, "gemm_wgmma_short_k"),
    "gemm_16bit.cu": Case(product, HALVES, A100, "gemm_16bit"),
    "gemm_wgmma_16bit.cu": Case(product, HALVES, H200, "gemm_wgmma_16bit"),
    "gemm_decode_16bit.cu": Case(
        product, (rand(16, 4096, dtype=HALF), rand(4096, 4096, dtype=HALF)), H200, "gemm_decode_16bit"
    ),
    "gated.cu": Case(gated, (rand(512, 256, dtype=HALF), *(rand(256, 512, dtype=HALF),) * 2), H200),
}  # fmt: skip
SIZES = {"sizes.cpp": MACHINE, "sizes.cu": A100}


def posed(case: Case, name: str, *inputs: Any) -> Problem:
    problem = trace(case.function, *(inputs or case.inputs), device=case.device)
    return problem.model_copy(update={"target": "cuda"}) if name.endswith(".cu") else problem


def of_sizes(name: str) -> Problem:
    case = Case(lambda x: torch.softmax(x, -1), (), SIZES[name])
    first, other = (posed(case, name, rand(*sizes)) for sizes in ((64, 48), (128, 96)))
    return first.model_copy(update={"others": (other,)})


def rendered(name: str) -> str:
    """A case's kernel: the first, or the nearest one, by moves, of an exemplar."""
    problem = of_sizes(name) if name in SIZES else posed(CASES[name], name)
    kernel = "" if name in SIZES else CASES[name].kernel
    if not kernel:
        draft = first_draft(problem)
        assert isinstance(draft, Draft), draft
        return draft.source
    found = (reached(recipe, problem, kernel) for recipe in recipes_for(problem))
    return next(text for text in found if text)


def reached(recipe: Recipe, problem: Problem, kernel: str) -> str:
    """The kernel of the first plan for an exemplar that moves lead to; empty where none does."""
    plan = recipe.first_plan(problem)
    left, seen = [plan] if isinstance(plan, Plan) else [], set[object]()
    for plan in left:
        if plan.knobs.get("kernel") == kernel:
            return recipe.render(problem, plan)
        if plan.knobs.get("kernel") not in seen:
            seen.add(plan.knobs.get("kernel"))
            left += [move.plan for move in recipe.moves(problem, plan)]
    return ""


def condensed(text: str, before: Iterable[str]) -> str:
    """With each run of lines that an exemplar or a text before it has, too, as one line: first of whichever shortens it
    most. What tells the plan stays."""
    sources = {name: load(name).text.splitlines() for name in names()}
    sources |= {name: (FOLDER / name).read_text(encoding="utf-8").splitlines() for name in before}
    lines = text.splitlines()
    top = next((at for at, line in enumerate(lines, 1) if "playbook plan:" in line), 0)
    head, lines = lines[:top], lines[top:]
    while len(shorter := min((_without(lines, *source) for source in sources.items()), key=len)) < len(lines):
        lines = shorter
    return "\n".join([*head, *lines]) + "\n"


def _without(lines: list[str], name: str, theirs: list[str]) -> list[str]:
    left, at = [], 0
    for block in SequenceMatcher(None, theirs, lines, autojunk=False).get_matching_blocks():
        if block.size >= SHOWN:
            left += [*lines[at : block.b], f"// {name}: {block.size} lines"]
            at = block.b + block.size
    return [*left, *lines[at:]]


NAMES = (*CASES, *SIZES)


@pytest.mark.parametrize("name", NAMES)
def test_a_kernel_reads_as_it_did(name: str, request: pytest.FixtureRequest) -> None:
    before = [each for each in NAMES[: NAMES.index(name)] if each.endswith(Path(name).suffix)]
    text, file = condensed(rendered(name), before), FOLDER / name
    if request.config.getoption("goldens") == "renew":
        FOLDER.mkdir(exist_ok=True)
        file.write_text(text, encoding="utf-8")
    assert text == file.read_text(encoding="utf-8"), "`make goldens` writes it anew; read the diff"


def test_the_texts_are_few_and_each_has_a_case() -> None:
    assert len(CASES) + len(SIZES) <= MOST
    assert {file.name for file in FOLDER.iterdir()} == {*CASES, *SIZES}


def test_every_recipe_has_a_text_for_each_target_that_it_writes() -> None:
    read = {(plan.recipe, file.suffix) for file in FOLDER.iterdir() if (plan := Plan.read(file.read_text()))}
    only_gpus = {("narrow weights", ".cpp"), ("row loss", ".cpp")}
    assert read == {(each.name, suffix) for each in recipes() for suffix in (".cpp", ".cu")} - only_gpus
