"""A diagonal matrix as a factor: the dense one with its rows or columns scaled. Its knobs and its moves.

Knobs: `lanes` (elements a SIMD register; 1 is scalar), `threads` and `stream` (each 0 or 1).
"""

from __future__ import annotations

from string import Template

from knowledge.playbook.gemm_form import BYTES, Form
from knowledge.playbook.gemm_source import Body, extents, layout
from knowledge.playbook.gemm_tiled import lanes
from knowledge.playbook.problem import Device
from knowledge.playbook.recipe import Move, Plan

BLK_N = 16384
# Waking the threads takes about as long as one core needs for this many bytes.
THREADING_BYTES = 1 << 18

STORES = {
    (4, 4): "_mm_stream_ps", (4, 8): "_mm256_stream_ps", (4, 16): "_mm512_stream_ps",
    (8, 2): "_mm_stream_pd", (8, 4): "_mm256_stream_pd", (8, 8): "_mm512_stream_pd",
}  # fmt: skip
"""Intel's name of the store past the caches, by bytes an element and elements a register."""

LAYOUTS = Template("""\
$extents
using BLK_N = Int<$bn>;

using LayoutA = $layout_a;  // (M,N,L)
using LayoutB = $layout_b;  // (M,N,L)
using LayoutC = $layout_c;  // (M,N,L)""")

KERNEL = Template("""\
// V neighbours along N as one register; a stride of 0 spreads one element.
template <class TG>
inline Vec load(TG const& g, int n) {
  if constexpr (is_constant<1, decltype(stride<0>(g.layout()))>::value) {
    return *reinterpret_cast<VecU const*>(&g(n));
  } else {
    T lanes[V];
    UNROLL
    for (int v = 0; v < V; ++v) lanes[v] = g(n + v);
    return *reinterpret_cast<VecU const*>(lanes);
  }
}

// V neighbours of C.
template <class TG>
inline void store(TG&& g, int n, Vec x) {
  if constexpr (is_constant<1, decltype(stride<0>(g.layout()))>::value) {
    $store
  } else {
    T lanes[V];
    *reinterpret_cast<VecU*>(lanes) = x;
    UNROLL
    for (int v = 0; v < V; ++v) g(n + v) = lanes[v];
  }
}

void kernel(T const* A, T const* B, T* C, [[maybe_unused]] Epilogue epilogue) {
  Tensor mA = make_tensor(A, LayoutA{});  // (M,N,L)
  Tensor mB = make_tensor(B, LayoutB{});  // (M,N,L)
  Tensor mC = make_tensor(C, LayoutC{});  // (M,N,L)
  constexpr int n_tiles = ceil_div(N{}, BLK_N{});
$parallel  for (int l = 0; l < int(size<2>(LayoutC{})); ++l)
  for (int m = 0; m < M{}; ++m)
  for (int n_tile = 0; n_tile < n_tiles; ++n_tile) {
    int const n_len = std::min<int>(BLK_N{}, N{} - n_tile * BLK_N{});
    Tensor gA = local_tile(mA(m, _, l), make_tile(BLK_N{}), make_coord(n_tile));  // (BLK_N)
    Tensor gB = local_tile(mB(m, _, l), make_tile(BLK_N{}), make_coord(n_tile));  // (BLK_N)
    Tensor gC = local_tile(mC(m, _, l), make_tile(BLK_N{}), make_coord(n_tile));  // (BLK_N)
    int n = 0;
$vectors    for (; n < n_len; ++n) gC(n) = epilogue(gA(n) * gB(n), m, n_tile * BLK_N{} + n, l);
  }
$fence}""")

ALIGN = """\
    // Streaming stores need aligned addresses.
    for (; n < n_len && reinterpret_cast<uintptr_t>(&gC(n)) % sizeof(Vec) != 0; ++n) {
      gC(n) = epilogue(gA(n) * gB(n), m, n_tile * BLK_N{} + n, l);
    }
"""

VECTORS = """\
    for (; n + V <= n_len; n += V) store(gC, n, load(gA, n) * load(gB, n));
"""

VECTORS_WITH_STEPS = """\
    for (; n + V <= n_len; n += V) {
      alignas(64) T lanes[V];
      *reinterpret_cast<VecU*>(lanes) = load(gA, n) * load(gB, n);
      UNROLL
      for (int v = 0; v < V; ++v) lanes[v] = epilogue(lanes[v], m, n_tile * BLK_N{} + n + v, l);
      store(gC, n, *reinterpret_cast<VecU const*>(lanes));
    }
"""


def first_plan() -> Plan:
    """One element at a time."""
    return Plan("gemm", {"lanes": 1, "threads": 0, "stream": 0})


def moves(form: Form, device: Device, plan: Plan) -> tuple[Move, ...]:
    """What is not yet in the plan, the most promising first."""
    knobs, width, size = plan.knobs, lanes(form, device), BYTES[form.dtype]
    found: list[Move] = []
    if not knobs["threads"] and device.threads > 1 and form.flops * size >= THREADING_BYTES:
        found.append(Move("threads", "Share the rows among the cores.", plan.with_knobs(threads=1), sure=True))
    if knobs["lanes"] == 1 and 1 < width <= form.n.extent:
        why = f"Multiply {width} elements at a time in one register."
        found.append(Move("SIMD", why, plan.with_knobs(lanes=width), sure=True))
    contiguous = form.n.strides[2] == 1
    if int(knobs["lanes"]) > 1 and not knobs["stream"] and contiguous and (size, width) in STORES:
        why = "Write past the caches: the result's lines need not be read before they are overwritten."
        found.append(Move("streaming stores", why, plan.with_knobs(stream=1)))
    return tuple(found)


def body(form: Form, plan: Plan) -> Body:
    """The kernel of this plan."""
    width, stream = int(plan.knobs["lanes"]), bool(plan.knobs["stream"])
    block = min(form.n.extent, BLK_N)
    layouts = LAYOUTS.substitute(
        extents="\n".join(line for line in extents(form) if not line.startswith("using K ")),
        bn=block,
        **{f"layout_{name}": layout(form, i, (("M", form.m), ("N", form.n))) for i, name in enumerate("abc")},
    )
    steps = VECTORS_WITH_STEPS if form.codes else VECTORS
    code = KERNEL.substitute(
        parallel="  #pragma omp parallel for collapse(3) schedule(static)\n" if plan.knobs["threads"] else "",
        store=f"{STORES[BYTES[form.dtype], width]}(&g(n), x);" if stream else "*reinterpret_cast<VecU*>(&g(n)) = x;",
        vectors=(ALIGN if stream else "") + (steps if width > 1 else ""),
        fence="  _mm_sfence();\n" if stream else "",
    )
    lines = (f"tile: 1 row x {block}, {width} elements a register; nothing is buffered",)
    return Body(lines, width, layouts, code, ("immintrin.h",) if stream else ())
