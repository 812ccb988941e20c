"""Smaller sizes for a task, and the numbers of a kernel's source that follow from them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.nouns.task import ScalarSpec, Signature, Task, TensorSpec, Workload
from harness.sanitize.shrinking import BASES, KEPT, PERIOD, UnclearError, fits, smaller, smaller_task, source_for


def tensor(name: str, *shape: int, dtype: str = "float32") -> TensorSpec:
    strides = [1]
    for extent in reversed(shape[1:]):
        strides.insert(0, strides[0] * extent)
    return TensorSpec(name=name, shape=shape, strides=tuple(strides[: len(shape)]), dtype=dtype)


def task(rows: int, columns: int, wide: int, source: str = "", dtype: str = "float32") -> Task:
    """x (rows, columns) and a number, through a weight (wide, columns), to (rows, wide)."""
    signature = Signature(
        inputs=(tensor("x", rows, columns, dtype=dtype), ScalarSpec(name="n", type="int", value=3)),
        parameters=(tensor("w", wide, columns),),
        outputs=(tensor("y", rows, wide),),
    )
    work = Workload(name="given", signature=signature, flops=2 * rows * columns * wide, bytes_moved=1)
    return Task(name="t", source=source, workloads=(work,), op_class="gemm")


FILE = "batch = 2048 * 4\nwide = 4096\nseed = 5000\n\nclass Model:\n    rows = 1024\n"


@given(st.integers(1, 1 << 21), st.sampled_from(BASES))
def test_a_smaller_size_has_the_alignment_and_the_tail_of_the_larger_one(size: int, base: int) -> None:
    less = smaller(size, base)
    assert less <= size
    assert (less == size) == (size <= KEPT or size <= base + size % PERIOD)
    assert less == size or (less % PERIOD == size % PERIOD and base <= less < base + PERIOD)
    for tile in (16, 64, 128):
        assert less == size or (-(-less // tile) >= 2 and less % tile == size % tile)


def test_only_sizes_of_the_file_become_smaller() -> None:
    own = task(8192, 1024, 4096, FILE)
    assert smaller_task(own, 512, leading=False) == FILE.replace("2048 * 4", "512").replace("4096", "512")
    assert smaller_task(own, 512, leading=True) == FILE.replace("2048 * 4", "512")
    assert smaller_task(task(4096, 1024, 4096, FILE), 512, leading=True) is None, "a weight has that size, too"
    assert smaller_task(task(1000, 1024, 77, FILE), 512, leading=False) is None
    assert smaller_task(task(8192, 1024, 4096, "n = ("), 512, leading=False) is None


def test_a_smaller_task_has_the_same_arguments() -> None:
    own = task(8192, 1024, 4096)
    assert fits(own, task(512, 1024, 512))
    assert not fits(own, own)
    assert not fits(own, task(512, 1024, 512, dtype="float16"))


def test_the_numbers_of_a_kernel_follow_the_sizes() -> None:
    own, other = task(8205, 1024, 4096), task(525, 1024, 512)
    source = """\
using M = Int<8205>; constexpr int64_t kCount = 33'607'680LL;  // 8205 rows
constexpr unsigned kMask = 0x1000u, kWide = 4096u; char const* s = "4096";
float mean = sum / 4096.f + 4096.5f + 4096e1f; int _4096, x4096; /* 4096 */ __align__(1024) int t;
grid(16410, 65537);
"""
    new, numbers = source_for(source, own, other)
    assert numbers == ((4096, 512), (8205, 525), (16410, 1050), (33607680, 268800))
    assert (
        new
        == """\
using M = Int<525>; constexpr int64_t kCount = 268800LL;  // 8205 rows
constexpr unsigned kMask = 0x1000u, kWide = 512u; char const* s = "4096";
float mean = sum / 512.f + 4096.5f + 4096e1f; int _4096, x4096; /* 4096 */ __align__(1024) int t;
grid(1050, 65537);
"""
    )
    assert source_for("int n = x.numel();", own, other) == ("int n = x.numel();", ())


def test_a_number_that_may_be_two_sizes_is_not_guessed() -> None:
    own, other = task(4096, 1024, 4096), task(512, 1024, 4096)
    with pytest.raises(UnclearError, match="4096 would become 512 or 4096"):
        source_for("int n = 4096;", own, other)
    assert source_for("// 4096\nint n = 1024;", own, other)[1] == ()
    several = task(8192, 1024, 4096), task(512, 1024, 512)
    assert source_for("int n = 65536;", *several)[1] == (), "16 times one, or 8 times the other"
