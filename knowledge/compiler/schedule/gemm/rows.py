"""A matrix times a vector where the matrix is read along K: dot products of rows. Its knobs and its moves.

Knobs: `lanes` (elements a SIMD register; 1 is scalar), `rows` (rows that share the loads of the vector), `chains`
(independent accumulators a row), `bk` (products a partial sum), `split` (parts of K summed apart), `threads` (0 or 1).
"""

from __future__ import annotations

from math import ceil, isqrt
from string import Template

from knowledge.compiler.ir.cost import SURELY_THREADING_FLOPS, THREADING_FLOPS
from knowledge.compiler.plan import Move, Plan
from knowledge.compiler.problem import Device
from knowledge.compiler.schedule.gemm.form import BYTES, Form
from knowledge.compiler.schedule.gemm.source import WORKSPACE, Body, extents, layout
from knowledge.compiler.schedule.gemm.tiled import lanes

# A multiply-add takes 4 cycles and two start in each: eight chains in all keep the units busy.
CHAINS = 4
ROWS = 4

LAYOUTS = Template("""\
$extents
using BLK_K = Int<$bk>;
using SPLIT = Int<$split>;  // parts of K summed apart
using ROWS = Int<$rows>;  // rows that share the vector's loads
using CHAINS = Int<$chains>;  // accumulators a row

using LayoutA = $layout_a;  // (M,K,L)
using LayoutB = $layout_b;  // (K,L)
using LayoutC = $layout_c;  // (M,L)""")

KERNEL = Template("""\
$workspace// V neighbours of a row or of the vector, as one register.
template <class TV>
inline Vec load(TV const& tV, int k) {
  if constexpr (is_constant<1, decltype(stride<0>(tV.layout()))>::value) {
    return *reinterpret_cast<VecU const*>(&tV(k));
  } else {
    T lanes[V];
    UNROLL
    for (int v = 0; v < V; ++v) lanes[v] = tV(k + v);
    return *reinterpret_cast<VecU const*>(lanes);
  }
}

// sum(i) += dot product of row i and the vector over one K step; rows from m_len on are left alone.
template <bool Whole, class TA, class TB, class TS>
inline void dot_rows(TA const& tA, TB const& tB, TS& sum, int m_len, int k_len) {
  constexpr int rows = ROWS{}, chains = CHAINS{};
  Tensor tCrC = make_tensor<Vec>(Layout<Shape<ROWS, CHAINS>, Stride<CHAINS, _1>>{});  // (ROWS,CHAINS)
  UNROLL
  for (int i = 0; i < rows * chains; ++i) tCrC(i) = Vec{};
  int k = 0;
  for (; k + chains * V <= k_len; k += chains * V) {
    Tensor tCrB = make_tensor<Vec>(Layout<CHAINS>{});  // (CHAINS)
    UNROLL
    for (int j = 0; j < chains; ++j) tCrB(j) = load(tB, k + j * V);
    UNROLL
    for (int i = 0; i < rows; ++i) {
      if (Whole || i < m_len) {
        UNROLL
        for (int j = 0; j < chains; ++j) tCrC(i, j) += load(tA(i, _), k + j * V) * tCrB(j);
      }
    }
  }
  UNROLL
  for (int i = 0; i < rows; ++i) {
    Vec all = tCrC(i, 0);
    UNROLL
    for (int j = 1; j < chains; ++j) all += tCrC(i, j);
    T lanes[V];
    *reinterpret_cast<VecU*>(lanes) = all;
    T part = 0;
    UNROLL
    for (int v = 0; v < V; ++v) part += lanes[v];
    if (Whole || i < m_len) {
      for (int rest = k; rest < k_len; ++rest) part += tA(i, rest) * tB(rest);
    }
    sum(i) += part;
  }
}

void kernel(T const* A, T const* B, T* C, Epilogue epilogue) {
  Tensor mA = make_tensor(A, LayoutA{});  // (M,K,L)
  Tensor mB = make_tensor(B, LayoutB{});  // (K,L)
  Tensor mC = make_tensor(C, LayoutC{});  // (M,L)
  constexpr int m_tiles = ceil_div(M{}, ROWS{}), k_tiles = ceil_div(K{}, BLK_K{}), l_count = size<1>(LayoutC{});
  constexpr int k_share = ceil_div(k_tiles, SPLIT{});  // K steps of one part
$partials$split_loop  for (int l = 0; l < l_count; ++l)
  for (int m_tile = 0; m_tile < m_tiles; ++m_tile)
  for (int part = 0; part < SPLIT{}; ++part) {
    int const m_len = std::min<int>(ROWS{}, M{} - m_tile * ROWS{});
    Tensor sum = make_tensor<T>(Layout<ROWS>{});  // (ROWS)
    clear(sum);
    for (int k_tile = part * k_share; k_tile < std::min((part + 1) * k_share, k_tiles); ++k_tile) {
      Tensor gA = local_tile(mA(_, _, l), make_tile(ROWS{}, BLK_K{}), make_coord(m_tile, k_tile));  // (ROWS,BLK_K)
      Tensor gB = local_tile(mB(_, l), make_tile(BLK_K{}), make_coord(k_tile));                     // (BLK_K)
      int const k_len = std::min<int>(BLK_K{}, K{} - k_tile * BLK_K{});
      if (m_len == ROWS{}) {
        dot_rows<true>(gA, gB, sum, m_len, k_len);
      } else {
        dot_rows<false>(gA, gB, sum, m_len, k_len);
      }
    }
    for (int i = 0; i < m_len; ++i) {
      int const m = m_tile * ROWS{} + i;
      $store
    }
  }
$combine}""")

PARTIALS = """\
  Workspace const workspace(SPLIT{} * M{} * l_count);
  Tensor partial = make_tensor(workspace.data, make_layout(make_shape(SPLIT{}, M{}, Int<l_count>{})));  // (SPLIT,M,L)
"""

COMBINE = """\
  for (int l = 0; l < l_count; ++l) {
    for (int m = 0; m < M{}; ++m) {
      T sum = 0;
      for (int part = 0; part < SPLIT{}; ++part) sum += partial(part, m, l);
      mC(m, l) = epilogue(sum, m, 0, l);
    }
  }
"""


def first_plan(form: Form) -> Plan:
    """One row, one element at a time."""
    knobs: dict[str, int | str] = {
        "lanes": 1, "rows": 1, "chains": 1, "bk": _partial(form, 1), "split": 1, "threads": 0,
    }  # fmt: skip
    return Plan("gemm", knobs)


def _partial(form: Form, width: int) -> int:
    """Products a partial sum. The rounding error grows with the longer of two chains, a lane's and that of the partial
    sums: they are kept alike, but a partial sum is long enough (256 steps) not to cost time.
    """
    alike = 1 << (isqrt(form.k.extent * width) - 1).bit_length()
    return min(form.k.extent, max(alike, 256 * width))


def moves(form: Form, device: Device, plan: Plan) -> tuple[Move, ...]:
    """What is not yet in the plan, the most promising first."""
    knobs = plan.knobs
    found: list[Move] = []
    if not knobs["threads"] and device.threads > 1 and form.flops >= THREADING_FLOPS:
        rows = form.batches * form.m.extent
        split = 1 if rows >= 2 * device.threads else min(device.threads, ceil(form.k.extent / int(knobs["bk"])))
        why = "Share the rows among the cores." if split == 1 else f"Share K among the cores in {split} parts."
        if rows > 1 or split > 1:
            sure = form.flops >= SURELY_THREADING_FLOPS
            found.append(Move("threads", why, plan.with_knobs(threads=1, split=split), sure=sure))
    width = lanes(form, device)
    if knobs["lanes"] == 1 and width > 1 and form.k.extent >= width:
        why = f"Multiply and add {width} elements at a time in one register."
        found.insert(0, Move("SIMD", why, plan.with_knobs(lanes=width, bk=_partial(form, width)), sure=True))
        return tuple(found)
    if knobs["chains"] == 1 and form.k.extent >= CHAINS * width:
        why = f"{CHAINS} independent sums a row hide the latency of the multiply-add."
        found.insert(0, Move("accumulators", why, plan.with_knobs(chains=CHAINS), sure=True))
    if knobs["rows"] == 1 and form.m.extent >= ROWS:
        why = f"{ROWS} rows share each load of the vector, and memory serves as many streams at once."
        found.append(Move("register blocking", why, plan.with_knobs(rows=ROWS), sure=True))
    return (*found, *_shapes(form, plan))


def _shapes(form: Form, plan: Plan) -> tuple[Move, ...]:
    """Rows and accumulators together: both take registers."""
    knobs = plan.knobs
    rows, chains = int(knobs["rows"]), int(knobs["chains"])
    sweep = {
        "rows": tuple(count for count in (2, 4, 8) if count <= form.m.extent),
        "chains": tuple(count for count in (2, 4, 8) if count * int(knobs["lanes"]) <= form.k.extent),
    }
    if "swept" in knobs or not any(sweep.values()):
        return ()
    why = "Streams that memory serves at once, and sums that hide a latency, share the registers: trials tell."
    after = plan.with_knobs(rows=rows, chains=chains, swept=1)
    return (Move("rows and accumulators", why, after, sweep=sweep),)


def body(form: Form, plan: Plan) -> Body:
    """The kernel of this plan."""
    knobs = {name: value for name, value in plan.knobs.items() if isinstance(value, int)}
    split = knobs["split"] > 1
    layouts = LAYOUTS.substitute(
        knobs, extents="\n".join(extents(form)),
        layout_a=layout(form, 0, (("M", form.m), ("K", form.k))),
        layout_b=layout(form, 1, (("K", form.k),)),
        layout_c=layout(form, 2, (("M", form.m),)),
    )  # fmt: skip
    code = KERNEL.substitute(
        workspace=f"{WORKSPACE}\n\n" if split else "",
        partials=PARTIALS if split else "",
        split_loop="  #pragma omp parallel for collapse(3) schedule(static)\n" if knobs["threads"] else "",
        store="partial(part, m, l) = sum(i);" if split else "mC(m, l) = epilogue(sum(i), m, 0, l);",
        combine=COMBINE if split else "",
    )
    size = BYTES[form.dtype]
    lines = [
        f"tile: {knobs['rows']} rows x {knobs['bk']} of K, {knobs['split']} parts of K",
        f"  tCrC {knobs['rows']} x {knobs['chains']} registers of {knobs['lanes']} elements",
        f"  gB {knobs['bk']} x {size} B = {knobs['bk'] * size} B of the vector, read again by every block of rows",
    ]
    return Body(tuple(lines), knobs["lanes"], layouts, code)
