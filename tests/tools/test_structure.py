"""The structure of a kernel is counted in its tokens, and what a repair gives up is named."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tools.structure import Structure, lost

FAST = """\
#include <cute/tensor.hpp>
__global__ void product(float const* a, float* c) {
    extern __shared__ float memory[];
    auto sA = make_tensor(make_smem_ptr(memory), composition(Swizzle<3, 2, 3>{}, Layout<Shape<_32, _8>>{}));
    auto gA = local_tile(mA, tiler, make_coord(blockIdx.x, _));
    copy(Copy_Atom<SM80_CP_ASYNC_CACHEGLOBAL<uint128_t>, float>{}, tAgA, tAsA);
    cp_async_fence();
    auto mma = make_tiled_mma(SM80_16x8x8_F32TF32TF32F32_TN{}, Layout<Shape<_2, _2>>{});
    auto vector = *reinterpret_cast<float4 const*>(a);
}
"""


def test_what_counts() -> None:
    found = Structure.of(FAST)
    assert found is not None
    assert found.model_dump() == {
        "kernels": 1,
        "tilings": 2,
        "tensor_core_products": 1,
        "asynchronous_copies": 2,
        "swizzles": 1,
        "vector_accesses": 2,
        "shared_memory": 2,
        "parallel_loops": 0,
    }


@pytest.mark.parametrize(
    ("line", "kind"),
    [
        ("Swizzle", "swizzles"),
        ("make_tiled_mma", "tensor core products"),
        ("__global__", "kernels"),
    ],
)
def test_a_kind_that_is_gone_is_named(line: str, kind: str) -> None:
    left = "".join(row for row in FAST.splitlines(keepends=True) if line not in row)
    assert any(found.startswith(kind) for found in lost(FAST, left))


def test_a_naive_kernel_loses_nearly_everything() -> None:
    naive = "__global__ void product(float const* a, float* c) { c[threadIdx.x] = a[threadIdx.x]; }\n"
    assert len(lost(FAST, naive)) == 6
    assert lost(naive, FAST) == ()


def test_a_comment_keeps_nothing() -> None:
    hidden = "// Swizzle cp_async_fence make_tiled_mma\n__global__ void k() {}\n"
    assert any("swizzles" in found for found in lost(FAST, hidden))


def test_assembly_counts() -> None:
    source = '__global__ void k() { asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" :: "r"(a), "l"(b)); }\n'
    found = Structure.of(source)
    assert found is not None and found.asynchronous_copies == 1


def test_loops_of_the_processor() -> None:
    source = "void run() {\n#pragma omp parallel for simd\nfor (;;) {}\n#  pragma omp simd reduction(+ : x)\n}\n"
    assert lost(source, "void run() { for (;;) {} }") == ("parallel loops (2 before, none now)",)


@pytest.mark.parametrize(
    "loop",
    ["#pragma omp simd", "#pragma omp parallel for \\\n    collapse(2)", "#pragma\\\n omp for", '_Pragma("omp simd")'],
)
def test_a_loop_may_be_marked_in_several_ways(loop: str) -> None:
    assert lost(f"{loop}\nfor (;;) {{}}\n", "for (;;) {}\n") == ("parallel loops (1 before, none now)",)
    for hidden in (f"/* {loop} */", "// " + loop.replace("\n", "\n// ")):
        assert lost(f"{loop}\nfor (;;) {{}}\n", f"{hidden}\nfor (;;) {{}}\n") != ()
    assert lost(f"{loop}\nfor (;;) {{}}\n", f"for (;;) {{ {{}} }}\n{loop}\n") == ()


@pytest.mark.parametrize(
    "word", ["omp_get_max_threads()", "#pragma unroll", "#pragma GCC ivdep", "#pragma omp barrier"]
)
def test_other_words_are_no_parallel_loop(word: str) -> None:
    found = Structure.of(f"{word}\n")
    assert found is not None and found.parallel_loops == 0


@pytest.mark.parametrize(
    "vector", ["float4", "double2", "int2", "uint3", "ulonglong2", "uchar4", "half2", "__half2", "__nv_bfloat162",
               "cute::uint128_t", "_mm256_loadu_ps", "AutoVectorizingCopyWithAssumedAlignment"],
)  # fmt: skip
def test_vectors_of_every_type_are_accesses(vector: str) -> None:
    assert lost(f"{vector} a;\n", "float a;\n") == ("vector accesses (1 before, none now)",)


@pytest.mark.parametrize("plain", ["uint64_t", "int64_t", "size_t", "float", "int8_t", "half", "float4x", "xfloat4"])
def test_the_type_of_an_index_is_no_vector(plain: str) -> None:
    """An honest repair may change it."""
    assert lost(f"{plain} i = 0;\n", "long i = 0;\n") == ()


@given(st.data())
def test_what_is_commented_out_is_lost_as_if_it_were_taken_out(data: st.DataObject) -> None:
    rows = [*FAST.splitlines(), "#pragma omp parallel for", "for (;;) {}"]
    gone = data.draw(st.sets(st.sampled_from(range(len(rows)))))
    marks = data.draw(st.sampled_from(["// {}", "/* {} */"]))
    left = "\n".join(row for number, row in enumerate(rows) if number not in gone)
    hidden = "\n".join(marks.format(row) if number in gone else row for number, row in enumerate(rows))
    before = "\n".join(rows)
    assert lost(before, hidden) == lost(before, left)
    assert lost(left, before) == ()
    # What is there as often as before, in whatever place, is not lost; nor is what there is more of.
    assert lost(before, "\n".join(reversed(rows))) == lost(before, f"{before}\n{left}") == ()


@given(st.text(max_size=200))
def test_any_text_is_survived(text: str) -> None:
    assert lost(text, text) == ()
    assert isinstance(lost(FAST, text), tuple)


UNREADABLE = 'auto s = "never closed;\n'


def test_of_a_text_that_is_no_program_nothing_is_known_to_be_lost() -> None:
    assert Structure.of(UNREADABLE) is None
    assert lost(FAST, UNREADABLE) == lost(UNREADABLE, FAST) == lost(UNREADABLE, UNREADABLE) == ()
