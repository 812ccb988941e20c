// output(m,n,l) = sum over k of a(m,k,l) * b(n,k,l)
// M=64 N=1 K=96 L=1, float32: 12288 FLOPs, 25216 bytes (every operand once)
// tile: 4 rows x 96 of K, 1 parts of K
//   tCrC 4 x 4 registers of 8 elements
//   gB 96 x 4 B = 384 B of the vector, read again by every block of rows
// playbook plan: {"knobs": {"bk": 96, "chains": 4, "lanes": 8, "rows": 4, "split": 1, "threads": 0}, "recipe": "gemm"}
// product.cpp: 12 lines
using N = Int<1>;
using K = Int<96>;
using BLK_K = Int<96>;
using SPLIT = Int<1>;  // parts of K summed apart
using ROWS = Int<4>;  // rows that share the vector's loads
using CHAINS = Int<4>;  // accumulators a row

using LayoutA = Layout<Shape<M, K, _1>, Stride<Int<96>, _1, _0>>;  // (M,K,L)
using LayoutB = Layout<Shape<K, _1>, Stride<_1, _0>>;  // (K,L)
using LayoutC = Layout<Shape<M, _1>, Stride<_1, _0>>;  // (M,L)
// parts.cpp: 8 lines
// V neighbours of a row or of the vector, as one register.
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
  for (int l = 0; l < l_count; ++l)
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
      mC(m, l) = epilogue(sum(i), m, 0, l);
    }
  }
}
// parts.cpp: 17 lines
void run(tvm::ffi::TensorView a, tvm::ffi::TensorView b, tvm::ffi::TensorView output) {
  require(a, "a", {64, 96}, {96, 1});
  require(b, "b", {96}, {1});
  require(output, "output", {64}, {1});
  kernel(data(a), data(b), data(output), Epilogue{});
}

TVM_FFI_DLL_EXPORT_TYPED_FUNC(run, run);
