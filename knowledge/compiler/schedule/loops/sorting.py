"""Sorts of rows: on a GPU a bitonic network of a warp or a block in shared memory, on a processor std::sort a row.

Rows that no block holds are `schedule/loops/cuda_sorting.py`'s.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from knowledge.compiler.emit.elements import ELEMENT_TYPES
from knowledge.compiler.emit.source_text import indented
from knowledge.compiler.ir.dtypes import BYTES
from knowledge.compiler.ir.expressions import UnwritableError
from knowledge.compiler.passes.loops import Nest, count

if TYPE_CHECKING:
    from knowledge.compiler.schedule.loops.cpu import KernelText

# Shared memory of a block that needs no leave (CUDA C++ Programming Guide, compute capabilities), and bytes of a place.
SHARED, PLACE = 48 << 10, 2
# Elements of a row up to which each warp takes one of its own, and rows that then keep the GPU busy.
WARP, ROWS = 128, 1024
# A processor looks for the first elements alone where they are at most one in so many.
PART = 4

FIRST = """
// Whether a row's element comes before another one: NaN is the largest, equal ones stay as they are.
template <bool kDescending, class T> {device}inline bool comes_first(T a, int64_t place, T b, int64_t other) {{
  bool const less = a < b || (b != b && a == a), more = b < a || (a != a && b == b);
  return kDescending ? more || (!less && place < other) : less || (!more && place < other);
}}
"""
NETWORK = """
// Rows of kWidth (a power of two) by the threads of a group, of which this is `lane`; only `count` elements count.
template <bool kDescending, int kGroup, int kWidth, class T>
__device__ inline void sort_in_group(T* keys, uint16_t* order, int count, int lane) {
  auto const together = [] {
    if constexpr (kGroup == 32) { __syncwarp(); } else { __syncthreads(); }
  };
  for (int run = 2; run <= kWidth; run *= 2) {
    for (int gap = run / 2; gap > 0; gap /= 2) {
      together();
      for (int pair = lane; pair < kWidth / 2; pair += kGroup) {
        int const low = pair / gap * 2 * gap + pair % gap, high = low + gap;
        int const one = order[low], other = order[high];
        bool const outside = one >= count || other >= count;
        bool const swapped = outside ? other < one : comes_first<kDescending>(keys[high], other, keys[low], one);
        if (swapped == ((low & run) == 0)) {
          T const key = keys[low];
          keys[low] = keys[high], order[low] = uint16_t(other);
          keys[high] = key, order[high] = uint16_t(one);
        }
      }
    }
  }
  together();
}
"""


def width(nest: Nest) -> int:
    """The power of two that a row's elements fit in."""
    return 1 << max(count(nest.reduced) - 1, 0).bit_length()


def check(nest: Nest) -> None:
    """Raises `UnwritableError` where a place in a row needs more than 32 bits."""
    if count(nest.reduced) >= 1 << 31:
        raise UnwritableError(f"a sort of rows of {count(nest.reduced)} elements")


def key_bytes(nest: Nest) -> int:
    """Bytes of what is compared."""
    dtype = nest.totals[0].body.dtype
    return 4 if ELEMENT_TYPES[dtype] == "float" else BYTES[dtype]


def long(nest: Nest) -> bool:
    """Whether a row is longer than a GPU's block sorts in its shared memory."""
    return nest.sorts and width(nest) * (key_bytes(nest) + PLACE) > SHARED


def group(nest: Nest) -> str:
    """Who sorts a row: "warp" or "block"."""
    rows = count(tuple(axis for axis in nest.axes if axis != nest.scanned))
    return "warp" if width(nest) <= WARP and rows >= ROWS else "block"


def on_a_processor(text: KernelText) -> list[str]:
    """One row: its elements, their order, what is stored of it."""
    row = row_of(text)
    key, descending, extent = row.key, row.descending, row.extent
    (r,) = text.nest.reduced
    lines = [*row.lines, f"keys[{r.name}] = {row.value};"]
    axis = text.nest.scanned
    assert axis is not None
    key = "uint8_t" if key == "bool" else key
    end = f"order.begin() + {axis.extent}, order.end()" if axis.extent * PART <= extent else "order.end()"
    return [
        f"std::vector<{key}> keys({extent});", f"std::vector<int64_t> order({extent});",
        f"for (int64_t {r.name} = 0; {r.name} < {extent}; ++{r.name}) {{",
        *indented([*lines, f"order[{r.name}] = {r.name};"]), "}",
        "auto const first = [&](int64_t a, int64_t b) "
        f"{{ return comes_first<{descending}>(keys[a], a, keys[b], b); }};",
        f"std::{'partial_sort' if ', ' in end else 'sort'}(order.begin(), {end}, first);",
        f"for (int64_t {axis.name} = 0; {axis.name} < {axis.extent}; ++{axis.name}) {{",
        *indented([f"int64_t const {text.nest.totals[0].name} = order[{axis.name}];", *text.stored()]), "}",
    ]  # fmt: skip


def on_a_gpu(text: KernelText, who: str) -> list[str]:
    """One row by a warp or a block."""
    row = row_of(text)
    key, descending, extent = row.key, row.descending, row.extent
    (r,) = text.nest.reduced
    lines = [*row.lines, f"keys[{r.name}] = {row.value};"]
    axis, rows = text.nest.scanned, width(text.nest)
    assert axis is not None
    threads, lane = ("32", "threadIdx.x % 32") if who == "warp" else ("kThreads", "threadIdx.x")
    held = f"[kThreads / 32][{rows}]" if who == "warp" else f"[{rows}]"
    mine = "[threadIdx.x / 32]" if who == "warp" else ""
    inside = [f"if ({r.name} < {extent}) {{", *indented(lines), "}"]
    return [
        f"__shared__ {key} rows{held};", f"__shared__ uint16_t places{held};",
        f"auto& keys = rows{mine};", f"auto& order = places{mine};",
        f"for (Index {r.name} = {lane}; {r.name} < {rows}; {r.name} += {threads}) {{",
        *indented([f"order[{r.name}] = uint16_t({r.name});", *inside]), "}",
        f"sort_in_group<{descending}, {threads}, {rows}>(keys, order, {extent}, {lane});",
        f"for (Index {axis.name} = {lane}; {axis.name} < {axis.extent}; {axis.name} += {threads}) {{",
        *indented([f"int64_t const {text.nest.totals[0].name} = order[{axis.name}];", *text.stored()]), "}",
    ]  # fmt: skip


@dataclass(frozen=True)
class Row:
    """The keys' type, the statements that lead to a key and its name, whether the order descends, and their number."""

    key: str
    lines: list[str]
    value: str
    descending: str
    extent: int


def row_of(text: KernelText) -> Row:
    """What is sorted of a row."""
    (total,), (r,) = text.nest.totals, text.nest.reduced
    known = dict(text.statements.emitter.names)
    lines = text.statements.write([total.body])
    value = text.statements.emitter.name(total.body)
    text.statements.emitter.names = known  # what the loop declares ends with it
    descending = "true" if total.op == "descending" else "false"
    return Row(ELEMENT_TYPES[total.body.dtype], lines, value, descending, r.extent)
