"""Attention by tensor copies and wgmma where no GPU is: places of heads, masks, and what nobody may leave early."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from emulated_hopper import emulated_hopper
from goldens import Golden
from gpu_kernels import A100, H200, compiled_as_it_is, for_nvcc, traced
from traced import Compiler, assert_close, call

from knowledge.compiler.plan import Plan
from knowledge.compiler.problem import Problem
from knowledge.compiler.schedule.attention import hopper
from knowledge.compiler.schedule.attention.match import attention_of
from knowledge.compiler.schedule.attention.recipe import AttentionRecipe

RECIPE = AttentionRecipe()
FEW = H200.model_copy(update={"multiprocessors": 2})
"""So that blocks have several tiles each."""
HEADS = 2


def _randn(*shape: int, dtype: torch.dtype = torch.bfloat16) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(sum(shape))).to(dtype)


def grouped(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    return F.scaled_dot_product_attention(q, k, v, enable_gqa=True, scale=0.3)


def plain(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    return F.scaled_dot_product_attention(q, k, v)


def causal(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    return F.scaled_dot_product_attention(q, k, v, is_causal=True)


def packed(x: torch.Tensor) -> torch.Tensor:
    """Causal, q, k and v as views of one projection, the heads side by side again."""
    batch, rows, columns = x.shape
    q, k, v = (each.view(batch, rows, HEADS, -1).transpose(1, 2) for each in x.split(columns // 3, 2))
    return causal(q, k, v).transpose(1, 2).reshape(batch, rows, columns // 3)


def later(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    """The first rows see nothing."""
    seen = torch.ones(q.shape[-2], k.shape[-2], dtype=torch.bool).tril(-70)
    return F.scaled_dot_product_attention(q, k, v, attn_mask=seen)


def window(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    """A row sees itself and the 89 keys before it."""
    row, key = torch.arange(q.shape[-2])[:, None], torch.arange(k.shape[-2])
    return F.scaled_dot_product_attention(q, k, v, attn_mask=(key <= row) & (row - key < 90))


def prefix(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    """All rows see the first 100 keys, and each those before it."""
    row, key = torch.arange(q.shape[-2])[:, None], torch.arange(k.shape[-2])
    return F.scaled_dot_product_attention(q, k, v, attn_mask=(key <= row) | (key < 100))


def ahead(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    """A row sees the keys from 30 places ahead of it on; the last rows none."""
    seen = torch.ones(q.shape[-2], k.shape[-2], dtype=torch.bool).triu(30)
    return F.scaled_dot_product_attention(q, k, v, attn_mask=seen)


Case = tuple[Callable[..., torch.Tensor], tuple[torch.Tensor, ...], dict[str, int | str]]
HALF = torch.float16
FAR_UP = 2**40
"""Scores of 2^80 have neighbours that are 2^57 away: whatever rounds as one of them is no exponent."""
CASES: dict[str, Case] = {
    "grouped, odd": (
        grouped, (_randn(2, 4, 135, 64), _randn(2, 2, 150, 64), _randn(2, 2, 150, 64)), {"warpgroups": 2, "keys": 64}),
    "packed, three warpgroups": (packed, (_randn(1, 200, 3 * HEADS * 40, dtype=HALF),), {"keys": 64, "group": 2}),
    "columns of two panels, in any order": (
        plain, (_randn(1, 1, 70, 72), _randn(1, 1, 200, 72), _randn(1, 1, 200, 40)), {"keys": 96, "turn": 0}),
    "columns of three and four panels": (
        plain, (_randn(1, 1, 70, 136), _randn(1, 1, 140, 136), _randn(1, 1, 140, 200)), {"keys": 64}),
    "a window": (
        window, (_randn(1, 2, 390, 64), _randn(1, 2, 390, 64), _randn(1, 2, 390, 64)), {"warpgroups": 2, "keys": 64}),
    "a prefix": (
        prefix, (_randn(1, 2, 390, 64), _randn(1, 2, 390, 64), _randn(1, 2, 390, 64)), {"warpgroups": 2, "keys": 64}),
    "from the diagonal on": (
        ahead, (_randn(1, 1, 230, 64), _randn(1, 1, 150, 64), _randn(1, 1, 150, 64)), {"warpgroups": 2, "keys": 64}),
    "rows that see nothing": (
        later, (_randn(1, 1, 200, 64), _randn(1, 1, 130, 64), _randn(1, 1, 130, 64)), {"warpgroups": 2, "keys": 64}),
}  # fmt: skip


@pytest.fixture(scope="module")
def sources() -> dict[str, tuple[Problem, str]]:
    """All cases, as they are for a GPU."""
    found = {}
    for name, (function, given, knobs) in CASES.items():
        problem = traced(function, *given, device=FEW)
        plan = RECIPE.first_plan(problem)
        assert isinstance(plan, Plan) and plan.knobs["kernel"] == hopper.KERNEL, (name, plan)
        found[name] = problem, RECIPE.render(problem, plan.with_knobs(**knobs))
    return found


def test_emulated_kernels_are_as_right_as_torch(
    golden: Golden, compiler: Compiler, sources: dict[str, tuple[Problem, str]]
) -> None:
    texts = [emulated_hopper(source) for _, source in sources.values()]
    if golden.holds(texts, *compiler.flags):
        return
    for (name, (function, given, _)), kernel in zip(CASES.items(), compiler.build_all(texts), strict=True):
        for factor in (1, FAR_UP):
            scaled = tuple((each.double() * factor).to(each.dtype) if each.dtype != HALF else each for each in given)
            (got,) = call(kernel, sources[name][0], scaled)
            assert_close(got, function(*scaled), function(*(each.double() for each in scaled)), f"{name}, {factor}")


# Lines of the exemplar, what stands there instead, and the case that shows it.
BROKEN: dict[str, tuple[str, str, str]] = {
    "keys are left before their products have ended": (
        "        warpgroup_wait<1>();\n", "", "grouped, odd"),
    "weights change while products read them": (
        "        warpgroup_wait<0>();\n        leave_values();\n        round_weights(s, p);\n",
        "        round_weights(s, p);\n        warpgroup_wait<0>();\n        leave_values();\n", "grouped, odd"),
    "keys beyond the last count": ("if constexpr (Edges) hide(", "if constexpr (Causal) hide(",
        "columns of two panels, in any order"),
    "a tile that the mask cuts counts as a whole": (
        "Diagonal + 1) / BlockKeys;", "Diagonal + 1) / BlockKeys + 1;", "packed, three warpgroups"),
    "a tile that the window cuts counts as a whole": (
        "64 * warpgroup + 63 + First", "64 * warpgroup + First", "a window"),
    "a tile that a prefix cuts counts as a whole": ("max(Prefix, work", "max(Prefix + 63, work", "a prefix"),
    "nobody begins": ("if (InTurn && next == 0) pass_on();", "", "packed, three warpgroups"),
    "rows are left before the last product": (
        "      release(&shared.emptyQ[warpgroup]);\n", "", "packed, three warpgroups"),
}  # fmt: skip


def test_what_is_broken_never_passes(
    golden: Golden, compiler: Compiler, sources: dict[str, tuple[Problem, str]]
) -> None:
    whole = {name: emulated_hopper(source) for name, (_, source) in sources.items()}
    assert all(line in whole[case] for line, _, case in BROKEN.values())
    broken = [whole[case].replace(line, instead) for line, instead, case in BROKEN.values()]
    if golden.holds(broken, *compiler.flags):
        return
    for (name, (_, _, case)), kernel in zip(BROKEN.items(), compiler.build_all(broken), strict=True):
        function, given, _ = CASES[case]
        try:
            got = call(kernel, sources[case][0], given)[0]
        except RuntimeError:
            continue
        with pytest.raises(AssertionError):
            assert_close(got, function(*given), function(*(each.double() for each in given)), name)


@pytest.mark.parametrize("columns", hopper.TILES)
def test_products_are_compiled_to_run_in_the_background(columns: int, golden: Golden, tmp_path: Any) -> None:
    """nvcc serializes no product in any tile, full, causal or windowed: such a kernel takes 20 times as long."""
    dtype = torch.float16 if columns == 64 else torch.bfloat16
    given = tuple(_randn(1, 1, 1000, columns, dtype=dtype) for _ in "qkv")
    problems = [traced(function, *given) for function in (plain, causal, window)]
    sources = [RECIPE.render(each, plan) for each in problems for plan in hopper.plans(each, attention_of(each))]
    assert len(sources) == 3 * len(hopper.TILES[columns])
    if golden.holds(for_nvcc(sources, "sm_90a")):
        return
    assert compiled_as_it_is(tmp_path, "".join(map(_renamed, range(len(sources)), sources)), "sm_90a") == ""


def _renamed(number: int, source: str) -> str:
    """A source that others can stand beside in one file."""
    return re.sub(r"\b(attending|run)\b", f"\\g<1>{number}", source).replace("#define", "#undef INLINED\n#define")


def _qkv(rows: int, columns: int, dtype: torch.dtype = torch.bfloat16) -> tuple[torch.Tensor, ...]:
    return tuple(torch.empty(1, 2, rows, columns, dtype=dtype) for _ in "qkv")


def test_what_tensor_copies_cannot_read_is_left_to_the_other_kernel() -> None:
    def masked(q: torch.Tensor, k: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        return F.scaled_dot_product_attention(q, k, k, attn_mask=mask)

    good = traced(plain, *_qkv(128, 64))
    turned = tuple(each.mT.contiguous().mT for each in _qkv(128, 64))
    others = {
        "another chip": traced(plain, *_qkv(128, 64), device=A100),
        "float32": traced(plain, *_qkv(128, 64, torch.float32)),
        "few rows": traced(plain, *_qkv(64, 64)),
        "24 columns": traced(plain, *_qkv(128, 24)),
        "rows of 84 bytes": traced(plain, *_qkv(128, 42)),
        "columns apart": traced(plain, *turned),
        "a mask in memory": traced(masked, *_qkv(128, 64)[:2], torch.empty(128, 128, dtype=torch.bool)),
    }
    assert hopper.suits(good, attention_of(good))
    for name, problem in others.items():
        assert not hopper.suits(problem, attention_of(problem)), name
        plan = RECIPE.first_plan(problem)
        assert isinstance(plan, Plan) and "kernel" not in plan.knobs, name


@pytest.mark.parametrize("columns", hopper.TILES)
def test_every_tile_fits_and_the_other_kernel_is_among_the_moves(columns: int) -> None:
    problem = traced(causal, *_qkv(256, columns))
    plan = RECIPE.first_plan(problem)
    assert isinstance(plan, Plan)
    plans = [plan, *(move.plan for move in RECIPE.moves(problem, plan))]
    assert {each.knobs.get("kernel") for each in plans} == {hopper.KERNEL, None}
    form = attention_of(problem)
    assert all(hopper.shared_bytes(form, each) <= 227 << 10 for each in plans if "kernel" in each.knobs)


def test_tiles_are_ranked_as_they_were_measured() -> None:
    def first(function: Callable[..., torch.Tensor], heads: int, rows: int, columns: int) -> dict[str, int | str]:
        given = (torch.empty(4, heads, rows, columns, dtype=torch.bfloat16, device="meta") for _ in "qkv")
        problem = traced(function, *given)
        return dict(hopper.plans(problem, attention_of(problem))[0].knobs)

    same = {"kernel": hopper.KERNEL, "keys": 128, "stages": 2, "turn": 1, "group": 1}
    assert first(plain, 32, 4096, 128) == first(causal, 32, 4096, 128) == {**same, "warpgroups": 2}
    assert first(plain, 32, 4096, 64) == {**same, "warpgroups": 3}
    assert first(causal, 32, 4096, 64) == {**same, "warpgroups": 3, "group": 32}
    assert first(causal, 16, 1024, 64) == {**same, "warpgroups": 2}


def test_the_longest_block_is_that_of_the_kernels_order() -> None:
    # Two blocks, works of 4, 3, 2 and 1: 4 + 1 and 3 + 2 when the second round goes backwards.
    assert hopper.longest((3, 2, 1, 0), 1, 1, 2) == 1
    # Two heads one after the other: 2, 1 | 1, 2 to each; side by side: 2, 2 | 1, 1.
    assert hopper.longest((1, 0), 2, 1, 2) == hopper.longest((1, 0), 2, 2, 2) == 1
    # 4096 rows, 128 heads: eight heads at a time make every block's works alike in length.
    lengths = tuple(range(32, 0, -1))
    assert hopper.longest(lengths, 128, 8, 132) > 1.4 > 1.05 > hopper.longest(lengths, 128, 1, 132)
