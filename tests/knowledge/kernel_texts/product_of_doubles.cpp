// output(m,n,l) = sum over k of a(m,k,l) * b(n,k,l); x = x < T(0) ? T(0) : x
// M=64 N=80 K=96 L=1, float64: 983040 FLOPs, 151552 bytes (every operand once)
// tile: 64 x 48 x 96 a thread, fragments of 2 x 16
//   tCrC 2 x 4 registers, tCrB 4 registers of 4 elements
//   tCsC 2 x 16 x 8 B = 256 B, the fragment on its way to C
// playbook plan: {"knobs": {"bk": 96, "bm": 64, "bn": 48, "lanes": 4, "mr": 2, "nv": 4, "pack": "none", "swept": 0, "threads": 0}, "recipe": "gemm"}
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <initializer_list>
#include <new>
// cpu_gemm: 6 lines
#define UNROLL _Pragma("GCC unroll 64")

namespace {

using namespace cute;

using T = double;
constexpr int V = 4;  // elements in one SIMD register
using Vec = T __attribute__((vector_size(V * sizeof(T))));
// The same at any address.
using VecU = T __attribute__((vector_size(V * sizeof(T)), aligned(alignof(T)), may_alias));
using M = Int<64>;
using N = Int<80>;
using K = Int<96>;
using BLK_M = Int<64>;
using BLK_N = Int<48>;
using BLK_K = Int<96>;
using MR = Int<2>;  // rows of a fragment
using NV = Int<4>;  // registers in a fragment's row
using NR = Int<16>;  // columns of a fragment
// Packed panels are padded with zeros: reading them needs no guard.
constexpr bool packed_a = false, packed_b = false;

using LayoutA = Layout<Shape<M, K, _1>, Stride<Int<96>, _1, _0>>;  // (M,K,L)
using LayoutB = Layout<Shape<N, K, _1>, Stride<_1, Int<80>, _0>>;  // (N,K,L)
using LayoutC = Layout<Shape<M, N, _1>, Stride<Int<80>, _1, _0>>;  // (M,N,L)


// What follows the product, on one element.
struct Epilogue {
  T operator()(T x, [[maybe_unused]] int m, [[maybe_unused]] int n, [[maybe_unused]] int l) const {
    x = x < T(0) ? T(0) : x;
    return x;
  }
};

// V neighbours along N as one register; columns from n_len on read as zero.
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
  int const rows = Whole ? mr : m_len, columns = Whole ? nr : n_len;
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

void kernel(T const* A, T const* B, T* C, Epilogue epilogue) {
  Tensor mA = make_tensor(A, LayoutA{});  // (M,K,L)
  Tensor mB = make_tensor(B, LayoutB{});  // (N,K,L)
  Tensor mC = make_tensor(C, LayoutC{});  // (M,N,L)
  constexpr int m_tiles = ceil_div(M{}, BLK_M{}), n_tiles = ceil_div(N{}, BLK_N{}), k_tiles = ceil_div(K{}, BLK_K{});
  {
    for (int l = 0; l < int(size<2>(LayoutC{})); ++l)
    for (int m_tile = 0; m_tile < m_tiles; ++m_tile)
    for (int n_tile = 0; n_tile < n_tiles; ++n_tile) {
      int const m_start = m_tile * BLK_M{}, m_len = std::min<int>(BLK_M{}, M{} - m_start);
      int const n_start = n_tile * BLK_N{}, n_len = std::min<int>(BLK_N{}, N{} - n_start);
      Tensor gC = local_tile(mC(_, _, l), make_tile(BLK_M{}, BLK_N{}), make_coord(m_tile, n_tile));  // (BLK_M,BLK_N)
      for (int k_tile = 0; k_tile < k_tiles; ++k_tile) {
        Tensor gA = local_tile(mA(_, _, l), make_tile(BLK_M{}, BLK_K{}), make_coord(m_tile, k_tile));  // (BLK_M,BLK_K)
        Tensor gB = local_tile(mB(_, _, l), make_tile(BLK_N{}, BLK_K{}), make_coord(n_tile, k_tile));  // (BLK_N,BLK_K)
        int const k_len = std::min<int>(BLK_K{}, K{} - k_tile * BLK_K{});
        bool const first = k_tile == 0, last = k_tile == k_tiles - 1;
        for (int n = 0; n < n_len; n += NR{})
        for (int m = 0; m < m_len; m += MR{}) {
          Tensor tA = local_tile(gA, make_tile(MR{}, BLK_K{}), make_coord(m / MR{}, 0));  // (MR,BLK_K)
          Tensor tB = local_tile(gB, make_tile(NR{}, BLK_K{}), make_coord(n / NR{}, 0));  // (NR,BLK_K)
          Tensor tC = local_tile(gC, make_tile(MR{}, NR{}), make_coord(m / MR{}, n / NR{}));  // (MR,NR)
          int const m0 = m_start + m, n0 = n_start + n, rows = m_len - m, columns = n_len - n;
          if (rows >= MR{} && columns >= NR{}) {
            micro_tile<true>(tA, tB, tC, epilogue, m0, n0, l, rows, columns, k_len, first, last);
          } else {
            micro_tile<false>(tA, tB, tC, epilogue, m0, n0, l, std::min<int>(rows, MR{}), std::min<int>(columns, NR{}),
                              k_len, first, last);
// cpu_gemm: 6 lines

// Shape, strides in elements and element type the kernel was written for; a dimension of 1 may have any stride.
void require(tvm::ffi::TensorView t, char const* name, std::initializer_list<int64_t> shape,
             std::initializer_list<int64_t> strides) {
  bool fits = t.ndim() == int(shape.size()) && t.dtype().code == kDLFloat && t.dtype().bits == 8 * sizeof(T);
  for (int i = 0; fits && i < t.ndim(); ++i) {
    fits = t.size(i) == shape.begin()[i] && (t.size(i) == 1 || t.stride(i) == strides.begin()[i]);
  }
  if (!fits) TVM_FFI_THROW(ValueError) << name << ": other shape, strides or element type than the kernel's";
}

T* data(tvm::ffi::TensorView t) {
  return reinterpret_cast<T*>(static_cast<char*>(t.data_ptr()) + t.byte_offset());
}

}  // namespace

void run(tvm::ffi::TensorView a, tvm::ffi::TensorView b, tvm::ffi::TensorView output) {
  require(a, "a", {64, 96}, {96, 1});
  require(b, "b", {96, 80}, {80, 1});
  require(output, "output", {64, 80}, {80, 1});
  kernel(data(a), data(b), data(output), Epilogue{});
}

TVM_FFI_DLL_EXPORT_TYPED_FUNC(run, run);
