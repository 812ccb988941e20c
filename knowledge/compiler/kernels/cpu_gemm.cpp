// begin header
// C(m,n) = epilogue(sum over k of A(m,k) * B(n,k)) in float32 on a processor: packed panels in the caches, a fragment
// of C in vector registers, tiles of C over threads.
//   op class: gemm
//   architecture: cpu
//   layouts: any strides; panels sA (6,256,43):(1,6,1536) and sB (64,256,8):(1,64,16384), padded with zeros, so that
//     no product needs a guard
//   tile: 258 x 512 x 256 a turn, fragments of 6 x 64 of C
//   caches: sA 258 x 256 x 4 = 264192 bytes and sB 512 x 256 x 4 = 524288 bytes, of the 1048576 of an L2;
//     a panel of B, 64 x 256 x 4 = 65536 bytes, meets 43 panels of A in turn, 6 x 256 x 4 = 6144 bytes each in L1
//   registers: tCrC 6 x 4 vectors, tCrB 4, 1 for an element of A: 29 of 32. With 16 registers of 8 floats: 6 x 2 and 2
//   reaches: 2.1 ms on two cores of an AMD EPYC with AVX-512, 20 ms for 1024 x 1024 x 1024; eager PyTorch 1.9 and 16 ms
//     (by `cutegen verify KERNEL examples/matmul.py`)
//   limited by: 2 tiles, as many as threads: more threads want smaller ones; each packs its own B
//   error: sums of 256 k's are added apart
// end header

// includes: as in cpu_pointwise.cpp

#include <memory>
#include <new>

namespace {

using namespace cute;

// begin problem
using M = Int<512>;
using N = Int<512>;
using K = Int<512>;
using LayoutA = Layout<Shape<M, K>, Stride<K, _1>>;  // (M,K)
using LayoutB = Layout<Shape<N, K>, Stride<_1, N>>;  // (N,K)
using LayoutC = Layout<Shape<M, N>, Stride<N, _1>>;  // (M,N)

struct Epilogue {
  float operator()(float x, int, int) const { return x; }
};
// end problem

// begin knobs
constexpr int V = 16;    // floats in the machine's widest vector
using MR = Int<6>;       // rows of a fragment
using NR = Int<4 * V>;   // columns of a fragment
using BLK_M = Int<258>;  // a multiple of MR
using BLK_N = Int<512>;  // a multiple of NR
using BLK_K = Int<256>;
// end knobs

using NV = Int<NR{} / V>;  // vectors in a fragment's row
using Vec = float __attribute__((vector_size(V * 4)));
using VecU = float __attribute__((vector_size(V * 4), aligned(4), may_alias));  // the same at any address

// A tile as panels of P rows, one behind the other.
template <class P, class BLK>
using Panels = Layout<Shape<P, BLK_K, Int<BLK::value / P::value>>, Stride<_1, P, Int<P::value * BLK_K::value>>>;
using PanelsA = Panels<MR, BLK_M>;  // (MR,BLK_K,panel)
using PanelsB = Panels<NR, BLK_N>;  // (NR,BLK_K,panel)

// What a thread has for itself.
struct alignas(64) Scratch {
  float a[cosize_v<PanelsA>], b[cosize_v<PanelsB>];
};

// begin pack
// One panel: `count` rows of a tile from `row` on, the others zero. Where `count` is a constant, no test is left.
template <class Global, class Panel, class Count>
inline void pack_panel(Global const& g, Panel&& panel, int row, int ks, Count count) {
  for (int k = 0; k < ks; ++k) {
    UNROLL
    for (int i = 0; i < size<0>(panel); ++i) panel(i, k) = i < count ? g(row + i, k) : 0.0f;
  }
}

// A tile of an operand, of which `rows` x `ks` elements exist, as panels.
template <class Global, class Packed>
inline void pack(Global const& g, Packed const& s, int rows, int ks) {
  auto const whole = size<0>(s);
  int row = 0;
  for (; row + whole <= rows; row += whole) pack_panel(g, s(_, _, row / whole), row, ks, whole);
  if (row < rows) pack_panel(g, s(_, _, row / whole), row, ks, rows - row);
}
// end pack

// begin fragment
// A fragment of C over one tile's k's: products in registers, then C = or C +=, as far as it has rows and columns, and
// the epilogue behind the last k.
template <class PanelA, class PanelB, class Tile>
inline void fragment(PanelA const& sA, PanelB const& sB, Tile&& gC, Epilogue const& epilogue, int m0, int n0, int ks,
                     bool first, bool last) {
  Tensor tCrC = make_tensor<Vec>(Layout<Shape<MR, NV>, Stride<NV, _1>>{});  // (MR,NV) of V lanes
  fill(tCrC, Vec{});
  for (int k = 0; k < ks; ++k) {
    Tensor tCrB = make_tensor<Vec>(NV{});  // (NV) of V lanes
    UNROLL
    for (int j = 0; j < NV{}; ++j) tCrB(j) = *reinterpret_cast<VecU const*>(&sB(j * V, k));
    UNROLL
    for (int i = 0; i < MR{}; ++i) {
      float const a = sA(i, k);
      UNROLL
      for (int j = 0; j < NV{}; ++j) tCrC(i, j) += a * tCrB(j);
    }
  }
  alignas(64) float memory[MR{} * NR{}];
  Tensor tCsC = make_tensor(&memory[0], Layout<Shape<MR, NR>, Stride<NR, _1>>{});  // (MR,NR)
  UNROLL
  for (int i = 0; i < MR{}; ++i) {
    UNROLL
    for (int j = 0; j < NV{}; ++j) *reinterpret_cast<VecU*>(&tCsC(i, j * V)) = tCrC(i, j);
  }
  int const rows = std::min<int>(MR{}, M{} - m0), columns = std::min<int>(NR{}, N{} - n0);
  for (int i = 0; i < rows; ++i) {
    #pragma omp simd
    for (int j = 0; j < columns; ++j) {
      float const sum = first ? tCsC(i, j) : gC(i, j) + tCsC(i, j);
      gC(i, j) = last ? epilogue(sum, m0 + i, n0 + j) : sum;
    }
  }
}
// end fragment

// begin kernel
void gemm(float const* a, float const* b, float* c, Epilogue epilogue) {
  Tensor mA = make_tensor(a, LayoutA{});  // (M,K)
  Tensor mB = make_tensor(b, LayoutB{});  // (N,K)
  Tensor mC = make_tensor(c, LayoutC{});  // (M,N)
  constexpr int m_tiles = ceil_div(M{}, BLK_M{}), n_tiles = ceil_div(N{}, BLK_N{}), k_tiles = ceil_div(K{}, BLK_K{});
  #pragma omp parallel
  {
    std::unique_ptr<Scratch> const scratch(new Scratch);
    Tensor sA = make_tensor(&scratch->a[0], PanelsA{});  // (MR,BLK_K,panel)
    Tensor sB = make_tensor(&scratch->b[0], PanelsB{});  // (NR,BLK_K,panel)
    #pragma omp for collapse(2) schedule(static)
    for (int m_tile = 0; m_tile < m_tiles; ++m_tile) {
      for (int n_tile = 0; n_tile < n_tiles; ++n_tile) {
        Tensor gC = local_tile(mC, make_shape(BLK_M{}, BLK_N{}), make_coord(m_tile, n_tile));  // (BLK_M,BLK_N)
        int const m0 = m_tile * BLK_M{}, ms = std::min<int>(BLK_M{}, M{} - m0);
        int const n0 = n_tile * BLK_N{}, ns = std::min<int>(BLK_N{}, N{} - n0);
        for (int k_tile = 0; k_tile < k_tiles; ++k_tile) {
          Tensor gA = local_tile(mA, make_shape(BLK_M{}, BLK_K{}), make_coord(m_tile, k_tile));  // (BLK_M,BLK_K)
          Tensor gB = local_tile(mB, make_shape(BLK_N{}, BLK_K{}), make_coord(n_tile, k_tile));  // (BLK_N,BLK_K)
          int const ks = std::min<int>(BLK_K{}, K{} - k_tile * BLK_K{});
          pack(gA, sA, ms, ks);
          pack(gB, sB, ns, ks);
          for (int n = 0; n < ns; n += NR{}) {
            for (int m = 0; m < ms; m += MR{}) {
              Tensor tCgC = local_tile(gC, make_shape(MR{}, NR{}), make_coord(m / MR{}, n / NR{}));  // (MR,NR)
              fragment(sA(_, _, m / MR{}), sB(_, _, n / NR{}), tCgC, epilogue, m0 + m, n0 + n, ks, k_tile == 0,
                       k_tile == k_tiles - 1);
            }
          }
        }
      }
    }
  }
}
// end kernel

// require: as in cpu_pointwise.cpp

}  // namespace

// begin entry
void run(tvm::ffi::TensorView a, tvm::ffi::TensorView b, tvm::ffi::TensorView c) {
  require(a, "a", {M{}, K{}}, {stride<0>(LayoutA{}), stride<1>(LayoutA{})});
  require(b, "b", {K{}, N{}}, {stride<1>(LayoutB{}), stride<0>(LayoutB{})});
  require(c, "c", {M{}, N{}}, {stride<0>(LayoutC{}), stride<1>(LayoutC{})});
  auto const data = [](tvm::ffi::TensorView t) { return static_cast<float*>(t.data_ptr()); };
  gemm(data(a), data(b), data(c), Epilogue{});
}

TVM_FFI_DLL_EXPORT_TYPED_FUNC(run, run);
// end entry
