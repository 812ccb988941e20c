"""Attention as one kernel: which forwards are one, and that the kernels for GPUs are right where no GPU is."""

from __future__ import annotations

import math
import platform
import random
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import hypothesis
import pytest
import torch
import torch.nn.functional as F
from emulated import emulated
from goldens import Golden
from gpu_kernels import A100, H200, compiled_as_it_is, for_nvcc, traced
from hypothesis import strategies as st
from traced import Compiler, assert_close, call
from traced import trace as on_a_processor

from harness.building.cpu_build import CpuToolchain, compile_flags
from knowledge.compiler.plan import Decline, Draft, Plan
from knowledge.compiler.problem import Device, Problem
from knowledge.compiler.schedule.attention.masks import Band
from knowledge.compiler.schedule.attention.match import Attention, attention_of
from knowledge.compiler.schedule.attention.recipe import AttentionRecipe
from knowledge.compiler.schedule.parts.stages import stages_of
from knowledge.compiler.search.first import first_draft
from knowledge.compiler.search.recipes import SINGLE

RECIPE = AttentionRecipe()
HEADS = 2


def _randn(*shape: int) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(sum(shape)))


def plain(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    return F.scaled_dot_product_attention(q, k, v)


def causal(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    return F.scaled_dot_product_attention(q, k, v, is_causal=True)


def grouped(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    return F.scaled_dot_product_attention(q, k, v, enable_gqa=True, scale=0.3)


def masked(q: torch.Tensor, k: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    return F.scaled_dot_product_attention(q, k, k, attn_mask=mask)


def grouped_masked(q: torch.Tensor, k: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
    return F.scaled_dot_product_attention(q, k, k, attn_mask=bias, enable_gqa=True)


def repeated(q: torch.Tensor, k: torch.Tensor) -> torch.Tensor:
    """Keys of 2 x 2 heads repeated for 8 query heads, as models without grouped attention do."""
    batch, heads, keys, columns = k.shape
    k = k[:, :, None].expand(batch, heads, 2, keys, columns).reshape(batch * heads * 2, keys, columns)
    return torch.bmm(F.softmax(torch.bmm(q, k.transpose(1, 2)), -1), k)


def spelled(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    scores = (q @ k.transpose(-2, -1)) / math.sqrt(q.shape[-1])
    seen = torch.ones(scores.shape[-2:]).tril() == 0
    return torch.softmax(scores.masked_fill(seen, -math.inf), -1) @ v


def added(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    below = torch.triu(torch.full((q.shape[2], k.shape[2]), -math.inf), 1)
    return torch.einsum("bhqk,bhkd->bqhd", torch.softmax(torch.einsum("bhqd,bhkd->bhqk", q * 0.25, k) + below, -1), v)


def packed(x: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    """q, k, v as views of one projection, a mask from a buffer, the heads side by side again."""
    batch, rows, columns = x.shape
    q, k, v = (each.view(batch, rows, HEADS, -1).transpose(1, 2) for each in x.split(columns // 3, 2))
    scores = (q @ k.transpose(-2, -1)) * (1.0 / math.sqrt(k.size(-1)))
    scores = scores.masked_fill(mask[:, :, :rows, :rows] == 0, -math.inf)
    weights = F.dropout(F.softmax(scores, -1), 0.1, training=False)
    return (weights @ v).transpose(1, 2).contiguous().view(batch, rows, columns // 3)


def three(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    return torch.bmm(F.softmax(torch.bmm(q, k.transpose(1, 2)), -1), v)


def offsets(q: torch.Tensor, k: torch.Tensor, ends: torch.Tensor) -> torch.Tensor:
    """Sequences of several lengths one after the other: each sees itself."""
    own = (torch.arange(q.shape[2])[:, None] >= ends[None, 1:]).sum(1)
    return F.scaled_dot_product_attention(q, k, k, attn_mask=own[:, None] == own[None, :])


def window(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    """A row sees itself and the 20 keys before it."""
    row, key = torch.arange(q.shape[-2])[:, None], torch.arange(k.shape[-2])
    return F.scaled_dot_product_attention(q, k, v, attn_mask=(key <= row) & (row - key < 21))


def nearby(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    """A row sees the keys at most 25 places away; spelled out."""
    row, key = torch.arange(q.shape[-2])[:, None], torch.arange(k.shape[-2])
    scores = (q @ k.mT * 0.3).masked_fill((row - key).abs() > 25, -math.inf)
    return torch.softmax(scores, -1) @ v


def window_and_mask(q: torch.Tensor, k: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    """A triangle of ones, cut to a window, and a mask in memory."""
    seen = torch.ones(q.shape[-2], k.shape[-2], dtype=torch.bool).tril(4).triu(-30)
    return F.scaled_dot_product_attention(q, k, k, attn_mask=seen & mask)


def prefix(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    """All rows see the first 45 keys, and each those before it."""
    row, key = torch.arange(q.shape[-2])[:, None], torch.arange(k.shape[-2])
    return torch.softmax((q @ k.mT * 0.3).masked_fill((key > row) & (key >= 45), -math.inf), -1) @ v


def sinks(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    """A row sees the first 5 keys and the 20 before it."""
    row, key = torch.arange(q.shape[-2])[:, None], torch.arange(k.shape[-2])
    return F.scaled_dot_product_attention(q, k, v, attn_mask=(key <= row) & ((row - key < 21) | (key < 5)))


def documents(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, ids: torch.Tensor) -> torch.Tensor:
    """Documents packed into one row, each causal."""
    at = torch.arange(q.shape[2])
    return F.scaled_dot_product_attention(q, k, v, attn_mask=(ids[:, None] == ids) & (at <= at[:, None]))


def qkv(batch: int, heads: int, rows: int, keys: int, columns: int) -> tuple[torch.Tensor, ...]:
    shapes = ((rows, columns), (keys, columns), (keys, columns))
    return tuple(_randn(batch, heads, *shape) + 0.1 * place for place, shape in enumerate(shapes))


def _unseen(rows: int, keys: int) -> torch.Tensor:
    """A mask with a row that sees nothing."""
    mask = torch.rand(rows, keys, generator=torch.Generator().manual_seed(3)) > 0.4
    mask[1] = False
    return mask


NARROW = {"rows": 32, "warps": 2, "keys": 32, "stages": 3, "blocks": 1}
Case = tuple[Callable[..., torch.Tensor], tuple[torch.Tensor, ...], dict[str, int | str]]
CASES: dict[str, Case] = {
    "plain, odd": (plain, qkv(1, 2, 37, 70, 19), {}),
    "causal, tiles skipped": (causal, qkv(1, 1, 70, 100, 40), {}),
    "a mask": (masked, (*qkv(2, 1, 9, 33, 16)[:2], _unseen(9, 33)), {}),
    "a mask added": (masked, (*qkv(1, 2, 9, 33, 16)[:2], torch.zeros(9, 33).masked_fill(~_unseen(9, 33), -math.inf)),
                     {}),
    "spelled out": (spelled, qkv(1, 2, 35, 35, 16), {}),
    "added, transposed": (added, qkv(1, 3, 20, 20, 8), {}),
    "packed": (packed, (_randn(1, 34, 3 * 24), torch.ones(1, 1, 40, 40).tril()), {}),
    "three dimensions": (three, tuple(each[0] for each in qkv(1, 3, 17, 40, 64)), {}),
    "grouped, one row": (grouped, (_randn(1, 4, 1, 16), _randn(1, 2, 45, 16), _randn(1, 2, 45, 16) + 1), {}),
    "one row, keys shared": (
        grouped, (_randn(1, 4, 1, 16), _randn(1, 2, 145, 16), _randn(1, 2, 145, 16) + 1), {"splits": 3, "keys": 32}),
    "grouped rows, a mask of each head": (
        grouped_masked, (_randn(2, 6, 3, 16), _randn(2, 2, 45, 16), _randn(6, 3, 45)), {}),
    "heads repeated, packed in one dimension": (repeated, (_randn(8, 1, 16), _randn(2, 2, 40, 16)), {"splits": 2}),
    "keys shared under a diagonal": (causal, qkv(1, 2, 37, 130, 24), {"splits": 4, "keys": 32}),
    "keys shared, rows that see nothing": (
        masked, tuple(each.bfloat16() if each.is_floating_point() else each
                      for each in (*qkv(2, 1, 9, 70, 16)[:2], _unseen(9, 70))), {"splits": 2, "keys": 32}),
    "lengths by offsets": (offsets, (*qkv(1, 2, 70, 70, 16)[:2], torch.tensor([0, 13, 40, 40, 70])), {}),
    "a window": (window, qkv(1, 2, 150, 150, 16), {"keys": 32}),
    "near keys, shared": (nearby, qkv(1, 2, 75, 150, 24), {"splits": 2, "keys": 32}),
    "a window and a mask": (window_and_mask, (*qkv(1, 1, 75, 75, 16)[:2], _unseen(75, 75)), {"keys": 32}),
    "a prefix": (prefix, qkv(1, 1, 150, 170, 16), {"keys": 32}),
    "a prefix, bfloat16": (prefix, tuple(each.bfloat16() for each in qkv(1, 2, 150, 130, 24)), NARROW),
    "a window with sinks": (sinks, qkv(1, 2, 150, 150, 16), {"keys": 32}),
    "a window with sinks, shared": (sinks, qkv(1, 1, 150, 150, 16), {"splits": 3, "keys": 32}),
    "documents": (documents, (*qkv(1, 2, 150, 150, 16), torch.arange(150) // 45), {"keys": 32}),
    "documents, bfloat16": (
        documents, (*(each.bfloat16() for each in qkv(1, 1, 150, 150, 16)), torch.arange(150) // 45), NARROW),
    "a window, bfloat16": (window, tuple(each.bfloat16() for each in qkv(1, 2, 150, 150, 24)), NARROW),
    "nothing but one": (plain, qkv(1, 1, 1, 1, 1), {}),
    "bfloat16": (causal, tuple(each.bfloat16() for each in qkv(1, 2, 75, 75, 24)), NARROW),
    "float16, odd": (plain, tuple(each.half() for each in qkv(1, 1, 20, 70, 7)), {}),
    "float16, packed": (packed, (_randn(1, 20, 3 * 32).half(), torch.ones(1, 1, 20, 20).tril()), {}),
}  # fmt: skip


@pytest.fixture(scope="module")
def sources() -> dict[str, tuple[Problem, str]]:
    """All cases."""
    found = {}
    for name, (function, given, knobs) in CASES.items():
        problem = traced(function, *given, device=A100)
        plan = RECIPE.first_plan(problem)
        assert isinstance(plan, Plan), (name, plan)
        found[name] = problem, RECIPE.render(problem, Plan(plan.recipe, {**plan.knobs, **knobs}))
    return found


def test_emulated_kernels_are_as_right_as_torch(
    golden: Golden, compiler: Compiler, sources: dict[str, tuple[Problem, str]]
) -> None:
    texts = [emulated(source) for _, source in sources.values()]
    if golden.holds(texts, *compiler.flags):
        return
    for (name, (function, given, _)), kernel in zip(CASES.items(), compiler.build_all(texts), strict=True):
        (got,) = call(kernel, sources[name][0], given)
        doubles = [each.double() if each.is_floating_point() else each for each in given]
        assert_close(got, function(*given), function(*doubles), name)


def unlike(q: torch.Tensor, k: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    """A mask of a type that has no registers, and rows that see nothing: NaN, for nothing says otherwise."""
    return torch.softmax((q @ k.mT * 0.5).masked_fill(mask == 0, -math.inf), -1) @ k


def _odd_values() -> tuple[torch.Tensor, ...]:
    q, k, v = qkv(1, 1, 12, 40, 16)
    q[..., 0, 3], q[..., 1, 2], k[..., 7, 5], v[..., 30, 1], v[..., 31, 2] = (
        math.nan,
        math.inf,
        3e38,
        math.nan,
        math.inf,
    )
    return q, k, v


def _infinite_keys() -> tuple[torch.Tensor, ...]:
    """Whose scores with some rows are +infinity: under a mask of -infinity, added to it, NaN."""
    q, k, v = qkv(1, 1, 40, 40, 16)
    k[..., 30, 3] = math.inf
    return q, k, v


# Those of float32, with the knobs that a processor's kernel has, and others.
ON_A_PROCESSOR: dict[str, Case] = {
    name: (function, given, {name: knobs[name] for name in ("keys",) if name in knobs})
    for name, (function, given, knobs) in CASES.items() if given[0].dtype == torch.float32
} | {
    "types without registers": (unlike, (*qkv(1, 2, 9, 33, 16)[:2], _unseen(9, 33).to(torch.uint8)), {}),
    "NaN and infinities": (plain, _odd_values(), {"keys": 24}),
    "a mask added to infinities": (added, _infinite_keys(), {"keys": 12}),
    "blocks of two fragments": (causal, qkv(1, 2, 150, 203, 33), {"rows": 32, "threads": 1}),
    "columns beyond a GPU's": (plain, qkv(1, 1, 4, 100, 300), {"keys": 60}),
    "sixteen lanes": (causal, qkv(1, 1, 150, 300, 40), {"lanes": 16, "wide": 3, "tall": 8, "rows": 96, "threads": 1}),
}  # fmt: skip


def test_kernels_for_a_processor_are_as_right_as_torch(golden: Golden, compiler: Compiler) -> None:
    posed = {name: on_a_processor(function, *given) for name, (function, given, _) in ON_A_PROCESSOR.items()}
    texts = []
    for name, problem in posed.items():
        plan = RECIPE.first_plan(problem)
        assert isinstance(plan, Plan), (name, plan)
        texts.append(RECIPE.render(problem, plan.with_knobs(**ON_A_PROCESSOR[name][2])))
    if golden.holds(texts, *compiler.flags):
        return
    for (name, (function, given, _)), kernel in zip(ON_A_PROCESSOR.items(), compiler.build_all(texts), strict=True):
        (got,) = call(kernel, posed[name], given)
        doubles = [each.double() if each.is_floating_point() else each for each in given]
        wanted = function(*doubles)
        assert torch.equal(got.isnan(), wanted.isnan()), name
        assert_close(got.nan_to_num(), function(*given).nan_to_num(), wanted.nan_to_num(), name)


@pytest.mark.sampled(3)
@pytest.mark.skipif(platform.machine() != "x86_64", reason="the instructions are those of x86")
@pytest.mark.parametrize("instructions", ["x86-64-v2", "x86-64-v3"])
def test_processors_of_fewer_instructions_build_it(instructions: str, tmp_path: Path) -> None:
    lanes = {"x86-64-v2": 4, "x86-64-v3": 8}[instructions]
    draft = first_draft(on_a_processor(causal, *qkv(1, 2, 40, 40, 16), device=Device(threads=2, simd_floats=lanes)))
    assert isinstance(draft, Draft)
    (tmp_path / "kernel.cpp").write_text(draft.source)
    flags = [flag for flag in compile_flags() if not flag.startswith("-march")]
    command = [*CpuToolchain().compiler.command, *flags, f"-march={instructions}", "-fsyntax-only", "kernel.cpp"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[:3000]


def test_a_processor_s_kernel_has_other_tiles_and_threads_where_there_is_work() -> None:
    problem = on_a_processor(plain, *qkv(1, 8, 512, 512, 64), device=Device(threads=2, simd_floats=16))
    draft = first_draft(problem)
    assert isinstance(draft, Draft) and "attention recipe" in draft.why
    assert "constexpr bool kThreads = true;" in draft.source
    plan = RECIPE.first_plan(problem)
    assert isinstance(plan, Plan)
    names = [move.name for move in RECIPE.moves(problem, plan)]
    assert names == ["tile of 64 rows, 48 keys", "tile of 64 rows, 174 keys", "tile of 128 rows, 90 keys"]
    small = RECIPE.first_plan(on_a_processor(plain, *qkv(1, 1, 9, 9, 8)))
    assert isinstance(small, Plan) and small.knobs["threads"] == 0
    half = RECIPE.first_plan(on_a_processor(plain, *(each.half() for each in qkv(1, 1, 9, 9, 8))))
    assert isinstance(half, Decline) and "float16" in half.reason


def test_kernels_compile_for_gpus(golden: Golden, sources: dict[str, tuple[Problem, str]], tmp_path: Any) -> None:
    shown = [sources[name][1] for name in ("packed", "bfloat16")]
    if golden.holds(for_nvcc(shown, "sm_80")):
        return
    for number, source in enumerate(shown):
        folder = tmp_path / str(number)
        folder.mkdir()
        assert compiled_as_it_is(folder, source, "sm_80") == ""


@pytest.mark.parametrize(("name", "band", "plain_scores"), [
    ("plain, odd", Band(), True), ("causal, tiles skipped", Band(None, 0), True), ("spelled out", Band(None, 0), True),
    ("added, transposed", Band(), False), ("a mask", Band(), False), ("packed", Band(), False),
    ("lengths by offsets", Band(), False), ("a window", Band(-20, 0), True), ("near keys, shared", Band(-25, 25), True),
    ("a window and a mask", Band(-30, 4), False), ("a prefix", Band(None, 0, 0, 45), True),
    ("a window with sinks", Band(-20, 0, 5, 0), True), ("documents", Band(None, 0), False),
])  # fmt: skip
def test_masks_by_position_become_bounds(name: str, band: Band, plain_scores: bool) -> None:
    function, given, _ = CASES[name]
    form = attention_of(traced(function, *given))
    assert (form.band, form.score is None) == (band, plain_scores)
    assert form.safe == (function in (masked, offsets, window, window_and_mask, sinks, documents))
    assert (form.shown is not None) == (function in (masked, packed, offsets, window_and_mask, documents))


def _of_positions(seen: Callable[[torch.Tensor, torch.Tensor], torch.Tensor]) -> Attention:
    def attend(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        row, key = torch.arange(q.shape[-2])[:, None], torch.arange(k.shape[-2])
        return F.scaled_dot_product_attention(q, k, v, attn_mask=seen(row, key))

    return attention_of(traced(attend, *qkv(1, 1, 40, 50, 16)))


def test_a_mask_with_holes_stays_a_mask_within_its_band() -> None:
    form = _of_positions(lambda row, key: (key <= row) & (row - key < 9) & (row - key != 4))
    assert form.band == Band(-8, 0) and form.score is not None


def test_a_mask_that_more_than_the_distance_decides_is_no_band() -> None:
    for mask in (
        lambda row, key: key <= row * 2, lambda row, key: (key > 7) | (key <= row),
        lambda row, key: (key > 3).expand(len(row), -1),
    ):  # fmt: skip
        form = _of_positions(mask)
        assert form.band == Band() and form.score is not None and form.shown is not None


SEEN_BEFORE = {
    "a triangle of ones": lambda s, later, _: s.masked_fill(torch.ones(s.shape[-2:]).tril() == 0, -torch.inf),
    "a triangle of flags": lambda s, later, _: s.masked_fill(torch.ones(s.shape[-2:], dtype=torch.bool).triu(1),
                                                             -torch.inf),
    "in float32": lambda s, later, _: s.float().masked_fill(later, -torch.inf),
    "within a document": lambda s, later, kind: torch.where(~later & (kind[:, None] == kind), s, -torch.inf),
    "beside padding": lambda s, later, kind: s.masked_fill(later | (kind > 2), -torch.inf),
    "over a slope": lambda s, later, kind: torch.where(later, -torch.inf, s + kind * 0.1),
}  # fmt: skip


@pytest.mark.parametrize("name", SEEN_BEFORE)
def test_keys_behind_a_row_are_skipped_however_the_forward_hides_them(name: str) -> None:
    """On both targets, and where data hides further ones."""

    def attend(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, kind: torch.Tensor) -> torch.Tensor:
        at = torch.arange(q.shape[-2])
        scores = SEEN_BEFORE[name](q @ k.transpose(-1, -2) * 0.2, at > at[:, None], kind)
        return scores.softmax(-1) @ v

    given = (*qkv(1, 2, 96, 96, 32), torch.arange(96) // 20)
    for problem in (traced(attend, *given), on_a_processor(attend, *given)):
        form, draft = attention_of(problem), first_draft(problem)
        assert form.band == Band(None, 0)
        assert isinstance(draft, Draft) and "each row up to key row + 0" in draft.source


@hypothesis.settings(max_examples=15)
@hypothesis.given(st.integers(-60, 60), st.integers(-60, 60), st.booleans(), st.booleans())
def test_bands_are_the_keys_that_masks_show(first: int, last: int, triangles: bool, opposite: bool) -> None:
    def mask(row: torch.Tensor, key: torch.Tensor) -> torch.Tensor:
        if triangles:
            return torch.ones(row.shape[0], key.shape[0]).tril(last).triu(first) != 0
        return ~((key - row < first) | (key > row + last)) if opposite else (key - row >= first) & (row >= key - last)

    shown = mask(torch.arange(40)[:, None], torch.arange(50))
    form = _of_positions(mask)
    distance = torch.arange(50) - torch.arange(40)[:, None]
    low, high, *_ = form.band
    band = torch.ones_like(shown) if low is None else distance >= low
    band = band if high is None else band & (distance <= high)
    assert torch.equal(band, shown) if form.score is None else not shown.any()


Mask = Callable[[torch.Tensor, torch.Tensor], torch.Tensor]
# Of a row, a key and three numbers: first those that a band says in full.
SPELLINGS: dict[str, Callable[[torch.Tensor, torch.Tensor, int, int, int], torch.Tensor]] = {
    "prefix": lambda row, key, a, b, c: (key <= row + a) | (key < b),
    "prefix of rows": lambda row, key, a, b, c: (key <= row) | ((row < b) & (key < b)),
    "hidden": lambda row, key, a, b, c: ~((key > row + a) & (key >= b)),
    "sinks": lambda row, key, a, b, c: (key <= row) & ((row - key < c) | (key < b)),
    "window or prefix": lambda row, key, a, b, c: ((key <= row + a) & (row - key < c)) | (key < b),
    "both": lambda row, key, a, b, c: ((key <= row) | (key < b)) & ((row - key < c) | (key <= a)),
    "two prefixes": lambda row, key, a, b, c: ((key <= row) | (key < b)) & ((key <= row + c) | (key < a)),
    "prefix of other rows": lambda row, key, a, b, c: (key <= row) | ((row < c) & (key < b)),
    "late rows": lambda row, key, a, b, c: (row - key < c) & ((key <= row) | ((row > a) & (key < b))),
    "holes": lambda row, key, a, b, c: (key <= row) & ((row - key < c) | (key == b)),
    "chunks": lambda row, key, a, b, c: (row // (c + 1) == key // (c + 1)) & (key <= row),
}
IN_FULL = ("prefix", "prefix of rows", "hidden", "sinks", "window or prefix", "both")


def _spelling(name: str, numbers: tuple[int, int, int]) -> Mask:
    return lambda row, key: SPELLINGS[name](row, key, *numbers)


def _keys_of(band: Band, rows: int, keys: int) -> torch.Tensor:
    row, key = torch.arange(rows)[:, None], torch.arange(keys)
    late = torch.full((rows, keys), band.first is None) | (key < band.sinks) | (key - row >= (band.first or 0))
    return late & (torch.full((rows, keys), band.last is None) | (key < band.prefix) | (key - row <= (band.last or 0)))


numbers = st.tuples(st.integers(0, 45), st.integers(0, 55), st.integers(1, 45))


@hypothesis.settings(max_examples=60)
@hypothesis.given(st.sampled_from(sorted(SPELLINGS)), numbers)
def test_beginnings_are_seen_beside_a_band(name: str, given: tuple[int, int, int]) -> None:
    """A band holds all keys that a mask shows; no others, where the mask is left out of the scores."""
    form, mask = _of_positions(_spelling(name, given)), _spelling(name, given)
    shown, band = mask(torch.arange(40)[:, None], torch.arange(50)), _keys_of(form.band, 40, 50)
    assert not (shown & ~band).any()
    assert torch.equal(shown, band) if form.score is None else form.shown is not None
    assert form.score is None or name not in IN_FULL


def _masked_by(mask: Mask) -> Callable[..., torch.Tensor]:
    def attend(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        row, key = torch.arange(q.shape[-2])[:, None], torch.arange(k.shape[-2])
        return F.scaled_dot_product_attention(q, k, v, attn_mask=mask(row, key))

    return attend


KEYS = 12
"""Of a tile where tests look at which tiles are read."""


def _last_block(plan: Plan, rows: int) -> slice:
    """Its rows, which a causal mask shows most keys."""
    return slice((rows - 1) // int(plan.knobs["rows"]) * int(plan.knobs["rows"]), rows)


def _without_hidden(v: torch.Tensor, shown: torch.Tensor) -> torch.Tensor:
    """v with NaN in the tiles that are hidden from all of these rows."""
    seen = F.pad(shown.any(0), (0, -v.shape[-2] % KEYS)).view(-1, KEYS).any(1).repeat_interleave(KEYS)
    return torch.where(seen[: v.shape[-2], None], v, math.nan)


def test_tiles_that_positions_hide_are_skipped_on_a_processor(golden: Golden, compiler: Compiler) -> None:
    """Whatever the numbers; a tile that is skipped may hold NaN."""
    chosen = random.Random(7)
    masks = {
        f"{name} {given}": _spelling(name, given)
        for name in SPELLINGS for given in [tuple(chosen.randrange(1, most) for most in (60, 90, 60)) for _ in range(2)]
    }  # fmt: skip
    q, k, v = qkv(1, 1, 100, 110, 16)
    posed = {name: on_a_processor(_masked_by(mask), q, k, v) for name, mask in masks.items()}
    plans = {name: RECIPE.first_plan(problem) for name, problem in posed.items()}
    texts = [RECIPE.render(posed[name], plan.with_knobs(keys=KEYS)) for name, plan in plans.items()]
    if golden.holds(texts, *compiler.flags):
        return
    for (name, mask), kernel in zip(masks.items(), compiler.build_all(texts), strict=True):
        (got,) = call(kernel, posed[name], (q, k, v))
        assert_close(
            got, *(_masked_by(mask)(*each) for each in ((q, k, v), (q.double(), k.double(), v.double()))), name
        )
        block = _last_block(plans[name], 100)
        shown = mask(torch.arange(100)[:, None], torch.arange(110))
        (again,) = call(kernel, posed[name], (q, k, _without_hidden(v, shown[block])))
        assert torch.equal(again[..., block, :], got[..., block, :]), f"{name}: a hidden tile was read"


def test_tiles_of_other_documents_are_skipped_on_a_processor(compiler: Compiler) -> None:
    """Whatever the ids, in any order."""
    q, k, v = qkv(1, 1, 100, 100, 16)
    problem = on_a_processor(documents, q, k, v, torch.zeros(100, dtype=torch.int64))
    plan = RECIPE.first_plan(problem)
    assert isinstance(plan, Plan)
    kernel, block = compiler.build(RECIPE.render(problem, plan.with_knobs(keys=KEYS))), _last_block(plan, 100)

    @hypothesis.settings(max_examples=60)
    @hypothesis.given(st.lists(st.integers(1, 40), min_size=100, max_size=100), st.integers(1, 30), st.booleans())
    def whatever_the_ids(lengths: list[int], kinds: int, ordered: bool) -> None:
        ids = torch.arange(100).repeat_interleave(torch.tensor(lengths))[:100] * 2**33
        ids = ids if ordered else ids % kinds
        (got,) = call(kernel, problem, (q, k, v, ids))
        assert_close(got, documents(q, k, v, ids), documents(q.double(), k.double(), v.double(), ids), str(ids))
        shown = (ids[:, None] == ids) & torch.ones(100, 100, dtype=torch.bool).tril()
        (again,) = call(kernel, problem, (q, k, _without_hidden(v, shown[block]), ids))
        assert torch.equal(again[..., block, :], got[..., block, :]), "a hidden tile was read"

    whatever_the_ids()


def test_what_is_no_softmax_of_scores_is_declined() -> None:
    q, k, v = qkv(1, 2, 9, 9, 8)
    others: dict[str, Callable[..., torch.Tensor]] = {
        "relu": lambda q, k, v: torch.relu(q @ k.mT) @ v,
        "of other rows": lambda q, k, v: torch.softmax(q @ k.mT, -2) @ v,
        "twice": lambda q, k, v: torch.softmax(torch.softmax(q @ k.mT, -1), -1) @ v,
        "not by its sum": lambda q, k, v: (torch.exp(q @ k.mT) / torch.exp(q @ k.mT).amax(-1, True)) @ v,
        "values computed": lambda q, k, v: torch.softmax(q @ k.mT, -1) @ torch.exp(v),
    }
    for name, function in others.items():
        assert isinstance(RECIPE.first_plan(traced(function, q, k, v)), Decline), name
    wide = qkv(1, 1, 4, 4, 300)
    answer = RECIPE.first_plan(traced(plain, *wide))
    assert isinstance(answer, Decline) and "256 columns" in answer.reason


def test_dropout_is_not_left_out() -> None:
    def dropped(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        return F.scaled_dot_product_attention(q, k, v, dropout_p=0.5)

    answer = RECIPE.first_plan(traced(dropped, *qkv(1, 2, 9, 9, 8)))
    assert isinstance(answer, Decline) and "dropout" in answer.reason


def unbound(x: torch.Tensor, _: torch.Tensor) -> torch.Tensor:
    """The same as one operation, whose result lies in memory as the heads stand side by side."""
    batch, rows, columns = x.shape
    q, k, v = x.view(batch, rows, 3, HEADS, -1).permute(2, 0, 3, 1, 4).unbind(0)
    return F.scaled_dot_product_attention(q, k, v).transpose(1, 2).reshape(batch, rows, columns // 3)


@pytest.mark.parametrize("attend", [packed, unbound])
def test_a_layer_is_a_product_an_attention_and_a_product(attend: Callable[..., torch.Tensor]) -> None:
    class Layer(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.into, self.out = torch.nn.Linear(16, 48), torch.nn.Linear(16, 16)
            self.register_buffer("mask", torch.ones(1, 1, 12, 12).tril())

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.out(attend(self.into(x), self.mask))

    problem = traced(Layer(), _randn(2, 10, 16), device=H200)
    assert [stage.recipe.name for stage in stages_of(problem, SINGLE).parts] == ["gemm", "attention", "gemm"]


def test_keys_are_shared_where_multiprocessors_are_idle() -> None:
    def first(heads: int, rows: int, keys: int) -> Plan:
        given = (torch.empty(1, heads, rows, 128, dtype=torch.bfloat16, device="meta"),
                 *(torch.empty(1, heads, keys, 128, dtype=torch.bfloat16, device="meta") for _ in "kv"))  # fmt: skip
        problem = traced(plain, *given, device=H200)
        plan = RECIPE.first_plan(problem)
        assert isinstance(plan, Plan)
        return plan

    decoding = first(32, 1, 8192)
    assert decoding.knobs["rows"] == 16 and decoding.knobs["warps"] == 1 and int(decoding.knobs["splits"]) == 16
    assert first(8, 1, 8192).knobs["splits"] == 32, "64 are more than joining is worth"
    assert first(8, 128, 16384).knobs["splits"] != 1 and "kernel" in first(64, 128, 16384).knobs
    assert [first(heads, 1, 64).knobs["splits"] for heads in (1, 1024)] == [1, 1]
    names = [move.name for move in RECIPE.moves(traced(plain, *qkv(1, 1, 1, 4000, 128), device=H200), decoding)]
    assert names[:2] == ["keys shared by 8 blocks", "keys shared by 32 blocks"]


def test_every_tile_fits_and_older_gpus_are_told() -> None:
    problem = traced(plain, *qkv(1, 2, 200, 200, 128))
    assert len(RECIPE.moves(problem, RECIPE.first_plan(problem))) > 1  # type: ignore[arg-type]
    small = problem.model_copy(update={"device": A100.model_copy(update={"shared_bytes": 99 << 10})})
    for plan in (RECIPE.first_plan(small), *(move.plan for move in RECIPE.moves(small, RECIPE.first_plan(small)))):  # type: ignore[arg-type]
        assert isinstance(plan, Plan)
        assert int(RECIPE.render(small, plan).split("shared memory: ")[1].split(" ")[0]) <= 99 << 10
    old = problem.model_copy(update={"device": A100.model_copy(update={"architecture": "sm_75"})})
    assert isinstance(RECIPE.first_plan(old), Decline)
    draft = first_draft(problem)
    assert isinstance(draft, Draft) and "attention recipe" in draft.why
