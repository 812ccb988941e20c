"""The tiled product's C++: templates, and what each knob puts into them. The knobs are those of `tiled`."""

from __future__ import annotations

from string import Template

from knowledge.compiler.plan import Plan
from knowledge.compiler.schedule.gemm import lanes as gemm_lanes
from knowledge.compiler.schedule.gemm.form import BYTES, Form
from knowledge.compiler.schedule.gemm.source import WORKSPACE, Body, extents, layout

LAYOUTS = Template("""\
$extents
using BLK_M = Int<$bm>;
using BLK_N = Int<$bn>;
using BLK_K = Int<$bk>;
using MR = Int<$mr>;  // rows of a fragment
using NV = Int<$nv>;  // registers in a fragment's row
using NR = Int<$nr>;  // columns of a fragment
// Packed panels are padded with zeros: reading them needs no guard.
constexpr bool packed_a = $pack_a, packed_b = $pack_b;

using LayoutA = $layout_a;  // (M,K,L)
using LayoutB = $layout_b;  // (N,K,L)
using LayoutC = $layout_c;  // (M,N,L)
$smem""")

KERNEL = Template("""\
$workspace// V neighbours along N as one register; columns from n_len on read as zero.
template <bool Whole, class TB>
inline Vec load(TB const& tB, int n, int k, [[maybe_unused]] int n_len) {
  if constexpr (Whole && is_constant<1, decltype(stride<0>(tB.layout()))>::value) {
    return *reinterpret_cast<VecU const*>(&tB(n, k));
  } else {
    T lanes[V];
    UNROLL
    for (int v = 0; v < V; ++v) lanes[v] = Whole || n + v < n_len ? tB(n + v, k) : T(0);
    return *reinterpret_cast<VecU const*>(lanes);
  }
}

// One fragment of C over one K step: multiply-adds on registers, then C += or C =, and the epilogue on the last step.
template <bool Whole, class TA, class TB, class TC>
inline void micro_tile(TA const& tA, TB const& tB, TC&& tC, Epilogue const& epilogue, int m0, int n0, int l, int m_len,
                       int n_len, int k_len, bool first, bool last) {
  constexpr int mr = MR{}, nv = NV{}, nr = NR{};
  Tensor tCrC = make_tensor<Vec>(Layout<Shape<MR, NV>, Stride<NV, _1>>{});  // (MR,NV)
  UNROLL
  for (int i = 0; i < mr * nv; ++i) tCrC(i) = Vec{};
  for (int k = 0; k < k_len; ++k) {
    Tensor tCrB = make_tensor<Vec>(Layout<NV>{});  // (NV)
    UNROLL
    for (int j = 0; j < nv; ++j) tCrB(j) = load<Whole || packed_b>(tB, j * V, k, n_len);
    UNROLL
    for (int i = 0; i < mr; ++i) {
      T const a = Whole || packed_a || i < m_len ? tA(i, k) : T(0);
      UNROLL
      for (int j = 0; j < nv; ++j) tCrC(i, j) += a * tCrB(j);
    }
  }
  alignas(64) T buffer[mr * nr];
  Tensor tCsC = make_tensor(&buffer[0], Layout<Shape<MR, NR>, Stride<NR, _1>>{});  // (MR,NR)
  UNROLL
  for (int i = 0; i < mr; ++i) {
    UNROLL
    for (int j = 0; j < nv; ++j) *reinterpret_cast<VecU*>(&tCsC(i, j * V)) = tCrC(i, j);
  }
$on_lanes  int const rows = Whole ? mr : m_len, columns = Whole ? nr : n_len;
  for (int i = 0; i < rows; ++i) {
    if (!first) {
      for (int n = 0; n < columns; ++n) tCsC(i, n) += tC(i, n);
    }
    if (last) {
      for (int n = 0; n < columns; ++n) tCsC(i, n) = epilogue(tCsC(i, n), m0 + i, n0 + n, l);
    }
    for (int n = 0; n < columns; ++n) tC(i, n) = tCsC(i, n);
  }
}
$pack$outside
void kernel(T const* A, T const* B, T* C, Epilogue epilogue) {
  Tensor mA = make_tensor(A, LayoutA{});  // (M,K,L)
  Tensor mB = make_tensor(B, LayoutB{});  // (N,K,L)
  Tensor mC = make_tensor(C, LayoutC{});  // (M,N,L)
  constexpr int m_tiles = ceil_div(M{}, BLK_M{}), n_tiles = ceil_div(N{}, BLK_N{}), k_tiles = ceil_div(K{}, BLK_K{});
$parallel  {
$buffers$split    for (int l = 0; l < int(size<2>(LayoutC{})); ++l)
    for (int m_tile = 0; m_tile < m_tiles; ++m_tile)
    for (int n_tile = 0; n_tile < n_tiles; ++n_tile) {
      int const m_start = m_tile * BLK_M{}, m_len = std::min<int>(BLK_M{}, M{} - m_start);
      int const n_start = n_tile * BLK_N{}, n_len = std::min<int>(BLK_N{}, N{} - n_start);
      Tensor gC = local_tile(mC(_, _, l), make_tile(BLK_M{}, BLK_N{}), make_coord(m_tile, n_tile));  // (BLK_M,BLK_N)
$skip_tile      for (int k_tile = 0; k_tile < k_tiles; ++k_tile) {
        Tensor gA = local_tile(mA(_, _, l), make_tile(BLK_M{}, BLK_K{}), make_coord(m_tile, k_tile));  // (BLK_M,BLK_K)
        Tensor gB = local_tile(mB(_, _, l), make_tile(BLK_N{}, BLK_K{}), make_coord(n_tile, k_tile));  // (BLK_N,BLK_K)
        int const k_len = std::min<int>(BLK_K{}, K{} - k_tile * BLK_K{});
        bool const first = k_tile == 0, last = k_tile == k_tiles - 1;
$pack_panels        for (int n = 0; n < n_len; n += NR{})
        for (int m = 0; m < m_len; m += MR{}) {
          Tensor tA = $take_a;  // (MR,BLK_K)
          Tensor tB = $take_b;  // (NR,BLK_K)
          Tensor tC = local_tile(gC, make_tile(MR{}, NR{}), make_coord(m / MR{}, n / NR{}));  // (MR,NR)
          int const m0 = m_start + m, n0 = n_start + n, rows = m_len - m, columns = n_len - n;
$skip_fragment          if (rows >= MR{} && columns >= NR{}) {
            micro_tile<true>(tA, tB, tC, epilogue, m0, n0, l, rows, columns, k_len, first, last);
          } else {
            micro_tile<false>(tA, tB, tC, epilogue, m0, n0, l, std::min<int>(rows, MR{}), std::min<int>(columns, NR{}),
                              k_len, first, last);
          }
        }
      }
    }
  }
}""")

ON_LANES = """\
  if constexpr (Whole) {
    for (int i = 0; i < mr; ++i) {
      for (int j = 0; j < nr; j += V) {
        VecU* const to = reinterpret_cast<VecU*>(&tC(i, j));
        Vec x = *reinterpret_cast<VecU const*>(&tCsC(i, j));
        if (!first) x += *to;
        *to = last ? epilogue.lanes(x, m0 + i, n0 + j, l) : x;
      }
    }
    return;
  }
"""

TURN = """
// V registers of V neighbours, turned: what was a row is a column. A step swaps halves between rows `Half` apart.
template <int Half>
inline void turn(Vec (&x)[V]) {
  using Places = int32_t __attribute__((vector_size(V * sizeof(T))));
  Places low{}, high{};
  for (int c = 0; c < V; ++c) {
    low[c] = c & Half ? V + c - Half : c;
    high[c] = c & Half ? V + c : c + Half;
  }
  UNROLL
  for (int i = 0; i < V; ++i) {
    if (i & Half) continue;
    Vec const a = x[i], b = x[i + Half];
    x[i] = __builtin_shuffle(a, b, low);
    x[i + Half] = __builtin_shuffle(a, b, high);
  }
  if constexpr (2 * Half < V) turn<2 * Half>(x);
}
"""
TURNED = """\
      if constexpr (P % V == 0 && is_constant<1, decltype(stride<1>(g))>::value) {
        for (; k + V <= k_len; k += V) {
          for (int i = 0; i < P; i += V) {
            Vec x[V];
            UNROLL
            for (int j = 0; j < V; ++j) x[j] = *reinterpret_cast<VecU const*>(&g(row + i + j, k));
            turn<1>(x);
            UNROLL
            for (int j = 0; j < V; ++j) *reinterpret_cast<VecU*>(&s(i, k + j, p)) = x[j];
          }
        }
      }
"""

PACK = """
// Lay `rows` rows of a tile out as panels (P,BLK_K,panel), K outermost, so that the fragments read them in order.
// Rows that fill up the last panel are zero.
template <class TG, class TS>
inline void pack(TG const& g, TS const& s, int rows, int k_len) {
  constexpr int P = decltype(size<0>(s))::value;
  for (int p = 0; p * P < rows; ++p) {
    int const row = p * P;
    if (row + P <= rows) {
      int k = 0;
$turned      for (; k < k_len; ++k) {
        UNROLL
        for (int i = 0; i < P; ++i) s(i, k, p) = g(row + i, k);
      }
    } else {
      for (int k = 0; k < k_len; ++k) {
        for (int i = 0; i < P; ++i) s(i, k, p) = row + i < rows ? g(row + i, k) : T(0);
      }
    }
  }
}
"""

OUTSIDE = """
// Whether a block of C lies wholly in the half that is zero.
inline bool outside(int m0, int n0, int rows, int columns) {{ return {test}; }}

// Blocks in the half that is zero.
template <class TC>
inline void zero(TC&& tC, int rows, int columns) {{
  for (int i = 0; i < rows; ++i) {{
    for (int n = 0; n < columns; ++n) tC(i, n) = T(0);
  }}
}}
"""

SKIP_TILE = """\
      if (outside(m_start, n_start, m_len, n_len)) {
        zero(gC, m_len, n_len);
        continue;
      }
"""

SKIP_FRAGMENT = """\
          int const m_here = std::min<int>(rows, MR{}), n_here = std::min<int>(columns, NR{});
          if (outside(m0, n0, m_here, n_here)) {
            if (first) zero(tC, m_here, n_here);
            continue;
          }
"""


def body(form: Form, plan: Plan) -> Body:
    """The kernel of this plan."""
    knobs = {name: value for name, value in plan.knobs.items() if isinstance(value, int)}
    nr = knobs["nv"] * knobs["lanes"]
    pack_a, pack_b = plan.knobs["pack"] == "AB", plan.knobs["pack"] != "none"
    packed = [name for name, on in (("A", pack_a), ("B", pack_b)) if on]
    layouts = LAYOUTS.substitute(
        knobs, nr=nr, extents="\n".join(extents(form)), smem=_smem(packed),
        pack_a=str(pack_a).lower(),
        pack_b=str(pack_b).lower(),
        layout_a=layout(form, 0, (("M", form.m), ("K", form.k))),
        layout_b=layout(form, 1, (("N", form.n), ("K", form.k))),
        layout_c=layout(form, 2, (("M", form.m), ("N", form.n))),
    )  # fmt: skip
    schedule = "dynamic, 1" if form.triangle else "static"
    threads = knobs["threads"]
    on_lanes = gemm_lanes.pays(form, knobs["lanes"])
    code = KERNEL.substitute(
        workspace=f"{WORKSPACE}\n\n" if packed else "",
        pack=_pack(form, knobs["lanes"], pack_b) if packed else "",
        outside=_outside(form),
        parallel="  #pragma omp parallel\n" if threads else "",
        split=f"    #pragma omp for collapse(3) schedule({schedule})\n" if threads else "",
        buffers=_buffers(packed),
        pack_panels=_pack_calls(packed),
        on_lanes=ON_LANES if on_lanes else "",
        skip_tile=SKIP_TILE if form.triangle else "",
        skip_fragment=SKIP_FRAGMENT if form.triangle else "",
        take_a=_take("A", "MR", "m") if pack_a else _direct("A", "MR", "m"),
        take_b=_take("B", "NR", "n") if pack_b else _direct("B", "NR", "n"),
    )
    includes = gemm_lanes.INCLUDES if on_lanes else ()
    return Body(_describe(form, knobs, packed), knobs["lanes"], layouts, code, includes, on_lanes)


def _pack(form: Form, lanes: int, packs_b: bool) -> str:
    """Rows of B that are neighbours along K are turned in registers, where an element is as wide as their places."""
    turns = packs_b and lanes in (4, 8, 16) and form.dtype == "float32" and form.k.strides[1] == 1
    if not turns:
        return PACK.replace("      int k = 0;\n$turned      for (; k", "      for (int k = 0; k")
    return TURN + PACK.replace("$turned", TURNED)


def _take(operand: str, rows: str, index: str) -> str:
    return f"s{operand}(_, _, {index} / {rows}{{}})"


def _direct(operand: str, rows: str, index: str) -> str:
    return f"local_tile(g{operand}, make_tile({rows}{{}}, BLK_K{{}}), make_coord({index} / {rows}{{}}, 0))"


def _smem(packed: list[str]) -> str:
    lines = []
    for name in packed:
        rows, block = ("MR", "BLK_M") if name == "A" else ("NR", "BLK_N")
        panels = f"Int<{block}::value / {rows}::value>"
        strides = f"Stride<_1, {rows}, Int<{rows}::value * BLK_K::value>>"
        lines.append(f"// ({rows},BLK_K,panel)")
        lines.append(f"using Smem{name} = Layout<Shape<{rows}, BLK_K, {panels}>, {strides}>;")
    return "\n".join(lines)


def _buffers(packed: list[str]) -> str:
    if not packed:
        return ""
    total = " + ".join(f"cosize(Smem{name}{{}})" for name in reversed(packed))
    lines = [f"    Workspace const workspace({total});"]
    offset = ""
    for name in reversed(packed):
        rows = "MR" if name == "A" else "NR"
        lines.append(
            f"    Tensor s{name} = make_tensor(workspace.data{offset}, Smem{name}{{}});  // ({rows},BLK_K,panel)"
        )
        offset += f" + cosize(Smem{name}{{}})"
    return "\n".join(lines) + "\n"


def _pack_calls(packed: list[str]) -> str:
    return "".join(f"        pack(g{name}, s{name}, {'m' if name == 'A' else 'n'}_len, k_len);\n" for name in packed)


def _outside(form: Form) -> str:
    if not form.triangle:
        return ""
    if form.triangle.half == "upper":
        return OUTSIDE.format(test=f"n0 + columns - 1 - m0 < {form.triangle.offset}")
    return OUTSIDE.format(test=f"n0 - (m0 + rows - 1) > {form.triangle.offset}")


def _describe(form: Form, knobs: dict[str, int], packed: list[str]) -> tuple[str, ...]:
    size = BYTES[form.dtype]
    mr, nr, bk = knobs["mr"], knobs["nv"] * knobs["lanes"], knobs["bk"]
    lines = [
        f"tile: {knobs['bm']} x {knobs['bn']} x {bk} a thread, fragments of {mr} x {nr}",
        f"  tCrC {mr} x {knobs['nv']} registers, tCrB {knobs['nv']} registers of {knobs['lanes']} elements",
        f"  tCsC {mr} x {nr} x {size} B = {mr * nr * size} B, the fragment on its way to C",
    ]
    for name in packed:
        rows = knobs["bm"] if name == "A" else knobs["bn"]
        lines.append(
            f"  s{name} {rows} x {bk} x {size} B = {rows * bk * size} B, panels of {mr if name == 'A' else nr}"
        )
    return tuple(lines)
