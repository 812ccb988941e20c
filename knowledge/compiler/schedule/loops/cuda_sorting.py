"""Sorts of long rows on a GPU: tiles in shared memory, then runs merged in pairs, each element to its rank.

An element's place in a merged pair is its place in its own run and the number of the other run's that come before it,
which a search by halves finds. No two are equal in that order, for places decide. So nothing is written twice, the same
bits come out each time, and of a topk only the first k of a run are looked at.
"""

from __future__ import annotations

from collections.abc import Mapping

from knowledge.compiler.emit.elements import ELEMENT_TYPES
from knowledge.compiler.emit.source_text import decoded, indented
from knowledge.compiler.ir.nodes import Values
from knowledge.compiler.passes.loops import Nest
from knowledge.compiler.problem import Device
from knowledge.compiler.schedule.loops import sorting
from knowledge.compiler.schedule.loops.cuda import KernelText

# Elements of a tile: keys and places of two bytes of it lie in 40 KiB of shared memory at most.
TILE = 4096

MERGE = """
// Runs of `run` sorted elements, in rows of {extent}, of which {kept} at most count, merged in pairs.
__global__ void __launch_bounds__(kThreads) {name}_merge(
    {key} const* keys, int32_t const* places, {key}* merged, int32_t* moved, int64_t run) {{
  int64_t const f = int64_t(blockIdx.x) * kThreads + threadIdx.x;
  int64_t const at = f % {extent}, row = f - at, pair = at / (2 * run) * (2 * run);
  bool const second = at - pair >= run;
  int64_t const mine = at - pair - (second ? run : 0), start = second ? pair : pair + run;
  if (f >= {total} || mine >= {kept}) {{ return; }}
  int64_t const left = start < {extent} ? {extent} - start : 0, most = run < {kept} ? run : {kept};
  {key} const own = keys[f];
  int32_t const place = places[f];
  int64_t low = 0, high = left < most ? left : most;
  while (low < high) {{
    int64_t const middle = (low + high) / 2, other = row + start + middle;
    bool const before = comes_first<{descending}>(keys[other], places[other], own, place);
    low = before ? middle + 1 : low, high = before ? high : middle;
  }}
  if (mine + low < {kept}) {{
    merged[row + pair + mine + low] = own;
    moved[row + pair + mine + low] = place;
  }}
}}
"""


class LongSortText(KernelText):
    """The kernels of one sort whose rows no block holds; `place` is the device that its scratch is on."""

    def __init__(
        self, name: str, nest: Nest, graph: Values, stems: Mapping[str, str], scalars: Mapping[str, str],
        device: Device, place: str,
    ) -> None:  # fmt: skip
        super().__init__(name, nest, graph, stems, scalars, device)
        self.place = place

    def text(self, parameters: str) -> str:
        """Three kernels: tiles, one step of merging, and what is stored of the order."""
        row = sorting.row_of(self)
        tiles = self._sorted(parameters, row)
        sizes = {"extent": row.extent, "kept": self._kept, "total": self._total}
        merge = MERGE.format(name=self.name, key=row.key, descending=row.descending, **sizes)
        return "\n".join([*tiles, merge, *self._stores(parameters)])

    def launch(self, arguments: str) -> str:
        """The statements of `run` that start them, one after the other."""
        total, extent, run = self._total, self.nest.reduced[0].extent, f"{self.name}_merge"
        key = ELEMENT_TYPES[self.nest.totals[0].body.dtype]
        lines = [
            "{",
            f"  Arena const held({2 * total * (sorting.key_bytes(self.nest) + 4)}, {self.place});",
            f"  auto *places = reinterpret_cast<int32_t*>(held.start()), *moved = places + {total};",
            f"  auto *keys = reinterpret_cast<{key}*>(moved + {total}), *merged = keys + {total};",
            f"  {self.name}_tiles<<<{self.results * self._per_row}, kThreads, 0, stream>>>({arguments}, keys, places);",
            "  launched();",
            f"  for (int64_t length = {TILE}; length < {extent}; length *= 2) {{",
            f"    {run}<<<{total - 1} / kThreads + 1, kThreads, 0, stream>>>(keys, places, merged, moved, length);",
            "    launched();",
            "    std::swap(keys, merged), std::swap(places, moved);",
            "  }",
            f"  {self.name}<<<{self.results * self._kept - 1} / kThreads + 1, kThreads, 0, stream>>>"
            f"({arguments}, places);",
            "}",
        ]  # fmt: skip
        return "\n  ".join(lines)

    @property
    def _kept(self) -> int:
        assert self.nest.scanned is not None
        return self.nest.scanned.extent

    @property
    def _total(self) -> int:
        return self.results * self.nest.reduced[0].extent

    @property
    def _per_row(self) -> int:
        """Tiles of a row."""
        return -(-self.nest.reduced[0].extent // TILE)

    def _rows(self) -> list[str]:
        """The row's coordinates, of its number `t`."""
        return list(decoded([axis for axis in self.nest.axes if axis != self.nest.scanned], "t", 1, "Index"))

    def _sorted(self, parameters: str, row: sorting.Row) -> list[str]:
        r = self.nest.reduced[0]
        body = [
            f"[[maybe_unused]] Index const t = blockIdx.x / {self._per_row};", *self._rows(),
            f"int64_t const first = int64_t(blockIdx.x % {self._per_row}) * {TILE};",
            f"int const count = {row.extent} - first < {TILE} ? int({row.extent} - first) : {TILE};",
            f"__shared__ {row.key} keys[{TILE}];", f"__shared__ uint16_t order[{TILE}];",
            f"for (int k = threadIdx.x; k < {TILE}; k += kThreads) {{",
            "  order[k] = uint16_t(k);", "  if (k < count) {", f"    Index const {r.name} = Index(first + k);",
            *indented(indented([*row.lines, f"keys[k] = {row.value};"])), "  }", "}",
            f"sort_in_group<{row.descending}, kThreads, {TILE}>(keys, order, count, threadIdx.x);",
            "for (int k = threadIdx.x; k < count; k += kThreads) {",
            f"  int64_t const to = int64_t(t) * {row.extent} + first + k;",
            "  sorted[to] = keys[k], places[to] = int32_t(first + order[k]);", "}",
        ]  # fmt: skip
        given = f"{parameters}, {row.key}* sorted, int32_t* places"
        head = f"__global__ void __launch_bounds__(kThreads) {self.name}_tiles({given}) {{"
        return [head, *indented([*self.tensors(), *body]), "}"]

    def _stores(self, parameters: str) -> list[str]:
        axis, r = self.nest.scanned, self.nest.reduced[0]
        assert axis is not None
        body = [
            "int64_t const f = int64_t(blockIdx.x) * kThreads + threadIdx.x;",
            f"if (f >= {self.results * self._kept}) {{ return; }}",
            f"[[maybe_unused]] Index const t = Index(f / {self._kept}), {axis.name} = Index(f % {self._kept});",
            *self._rows(),
            f"int64_t const {self.nest.totals[0].name} = places[int64_t(t) * {r.extent} + {axis.name}];",
            *self.stored(),
        ]  # fmt: skip
        head = f"__global__ void __launch_bounds__(kThreads) {self.name}({parameters}, int32_t const* places) {{"
        return [head, *indented([*self.tensors(), *body]), "}"]
