// 2 kernels, one after the other; what passes between them lies in memory of their own.
// playbook plan: {"knobs": {"1.accumulators": 4, "1.lanes": 8, "2.bk": 256, "2.bm": 64, "2.bn": 64, "2.lanes": 8, "2.mr": 2, "2.nv": 4, "2.pack": "B", "2.swept": 0, "2.threads": 0}, "recipe": "stages"}
#include <cstdlib>
// pointwise.cpp: 11 lines
#include <algorithm>
#include <new>

// Along rows: layer_norm.
//   64 rows of 256, each gone over 3 times while it is in the cache
//   bytes moved: 131072; operations: 81920
namespace part1 {
// pointwise.cpp: 120 lines
inline void sweep0(vfloat rA, vfloat& rSum0) {
  rSum0 = rA;
}

inline void sweep1(vfloat rA, float v1, vfloat& rSum1) {
  vfloat const v3 = rA - v1;  // aten.layer_norm
  vfloat const v4 = v3 * v3;  // aten.layer_norm
  rSum1 = v4;
}

inline void sweep2(vfloat rA, float v1, float v6, vfloat& rLayerNorm) {
  vfloat const v8 = rA - v1;  // aten.layer_norm
  vfloat const v9 = v8 * v6;  // aten.layer_norm
  rLayerNorm = v9;
}

// attention: 12 lines
}  // namespace

void run(tvm::ffi::TensorView a, tvm::ffi::TensorView layer_norm) {
  require(a, "a", {64, 256}, {256, 1}, kDLFloat, 32);
  require(layer_norm, "layer_norm", {64, 256}, {256, 1}, kDLFloat, 32);

  Tensor mA = make_tensor(static_cast<float const*>(a.data_ptr()),
                          make_layout(Shape<Int<256>, Int<64>>{}, Stride<Int<1>, Int<256>>{}));  // (256,64)
  Tensor mLayerNorm = make_tensor(static_cast<float*>(layer_norm.data_ptr()),
                                  make_layout(Shape<Int<256>, Int<64>>{}, Stride<Int<1>, Int<256>>{}));  // (256,64)
  for (int64_t r = 0; r < 64; ++r) {
    Tensor gA = mA(_, r);  // (256)
    Tensor gLayerNorm = mLayerNorm(_, r);  // (256)

    double totalSum0 = double(0);
    for (int64_t c = 0; c < 256; c += 4096) {
      int const n = int(min(int64_t(4096), 256 - c));
      Tensor partSum0 = make_tensor<vfloat>(Int<4>{});  // (4)
      fill(partSum0, all(float(0)));
      int i = 0;
      for (; i + 4 * kLanes <= n; i += 4 * kLanes) {
        #pragma GCC unroll 4
        for (int u = 0; u < 4; ++u) {
          vfloat rSum0;
          sweep0(load<vfloat>(gA, c + i + u * kLanes), rSum0);
          partSum0(u) = partSum0(u) + rSum0;
        }
      }
      for (; i + kLanes <= n; i += kLanes) {
        vfloat rSum0;
        sweep0(load<vfloat>(gA, c + i), rSum0);
        partSum0(0) = partSum0(0) + rSum0;
      }
      partSum0(0) = partSum0(0) + partSum0(1);
      partSum0(0) = partSum0(0) + partSum0(2);
      partSum0(0) = partSum0(0) + partSum0(3);
      for (int k = 0; k < kLanes; ++k) { totalSum0 = totalSum0 + double(partSum0(0)[k]); }
    }
    float const vSum0 = float(totalSum0);  // aten.layer_norm
    float const v1 = vSum0 / 256.0f;  // aten.layer_norm

    double totalSum1 = double(0);
    for (int64_t c = 0; c < 256; c += 4096) {
      int const n = int(min(int64_t(4096), 256 - c));
// rows.cpp: 7 lines
          sweep1(load<vfloat>(gA, c + i + u * kLanes), v1, rSum1);
          partSum1(u) = partSum1(u) + rSum1;
        }
      }
      for (; i + kLanes <= n; i += kLanes) {
        vfloat rSum1;
        sweep1(load<vfloat>(gA, c + i), v1, rSum1);
        partSum1(0) = partSum1(0) + rSum1;
// rows.cpp: 6 lines
    float const vSum1 = float(totalSum1);  // aten.layer_norm
    float const v3 = vSum1 / 256.0f;  // aten.layer_norm
    float const v4 = v3 + 1e-05f;  // aten.layer_norm
    float const v5 = std::sqrt(v4);  // aten.layer_norm
    float const v6 = 1.0f / v5;  // aten.layer_norm

    for (int64_t c = 0; c < 256; c += 4096) {
      int const n = int(min(int64_t(4096), 256 - c));
      int i = 0;
      for (; i + 4 * kLanes <= n; i += 4 * kLanes) {
        #pragma GCC unroll 4
        for (int u = 0; u < 4; ++u) {
          vfloat rLayerNorm;
          sweep2(load<vfloat>(gA, c + i + u * kLanes), v1, v6, rLayerNorm);
          store(gLayerNorm, c + i + u * kLanes, rLayerNorm);
        }
      }
      for (; i + kLanes <= n; i += kLanes) {
        vfloat rLayerNorm;
        sweep2(load<vfloat>(gA, c + i), v1, v6, rLayerNorm);
        store(gLayerNorm, c + i, rLayerNorm);
      }
    }
  }
}
}  // namespace part1

// output(m,n,l) = sum over k of layer_norm(m,k,l) * b(n,k,l)
// M=64 N=128 K=256 L=1, float32: 4194304 FLOPs, 229376 bytes (every operand once)
// tile: 64 x 64 x 256 a thread, fragments of 2 x 32
//   tCrC 2 x 4 registers, tCrB 4 registers of 8 elements
//   tCsC 2 x 32 x 4 B = 256 B, the fragment on its way to C
//   sB 64 x 256 x 4 B = 65536 B, panels of 32
namespace part2 {

#define UNROLL _Pragma("GCC unroll 64")

namespace {

using namespace cute;

using T = float;
constexpr int V = 8;  // elements in one SIMD register
using Vec = T __attribute__((vector_size(V * sizeof(T))));
// The same at any address.
using VecU = T __attribute__((vector_size(V * sizeof(T)), aligned(alignof(T)), may_alias));
using M = Int<64>;
using N = Int<128>;
using K = Int<256>;
using BLK_M = Int<64>;
using BLK_N = Int<64>;
using BLK_K = Int<256>;
using MR = Int<2>;  // rows of a fragment
using NV = Int<4>;  // registers in a fragment's row
using NR = Int<32>;  // columns of a fragment
// Packed panels are padded with zeros: reading them needs no guard.
constexpr bool packed_a = false, packed_b = true;

using LayoutA = Layout<Shape<M, K, _1>, Stride<Int<256>, _1, _0>>;  // (M,K,L)
using LayoutB = Layout<Shape<N, K, _1>, Stride<_1, Int<128>, _0>>;  // (N,K,L)
using LayoutC = Layout<Shape<M, N, _1>, Stride<Int<128>, _1, _0>>;  // (M,N,L)
// (NR,BLK_K,panel)
using SmemB = Layout<Shape<NR, BLK_K, Int<BLK_N::value / NR::value>>, Stride<_1, NR, Int<NR::value * BLK_K::value>>>;

// What follows the product, on one element.
struct Epilogue {
  T operator()(T x, [[maybe_unused]] int m, [[maybe_unused]] int n, [[maybe_unused]] int l) const {
    return x;
  }
};

// A thread's own aligned buffer.
struct Workspace {
  explicit Workspace(size_t count) : data(static_cast<T*>(std::aligned_alloc(64, (count * sizeof(T) + 63) / 64 * 64))) {
    if (data == nullptr) throw std::bad_alloc();
  }
  ~Workspace() { std::free(data); }
  Workspace(Workspace const&) = delete;
  T* data;
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

// Lay `rows` rows of a tile out as panels (P,BLK_K,panel), K outermost, so that the fragments read them in order.
// Rows that fill up the last panel are zero.
template <class TG, class TS>
inline void pack(TG const& g, TS const& s, int rows, int k_len) {
  constexpr int P = decltype(size<0>(s))::value;
  for (int p = 0; p * P < rows; ++p) {
    int const row = p * P;
    if (row + P <= rows) {
      for (int k = 0; k < k_len; ++k) {
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

void kernel(T const* A, T const* B, T* C, Epilogue epilogue) {
  Tensor mA = make_tensor(A, LayoutA{});  // (M,K,L)
  Tensor mB = make_tensor(B, LayoutB{});  // (N,K,L)
  Tensor mC = make_tensor(C, LayoutC{});  // (M,N,L)
  constexpr int m_tiles = ceil_div(M{}, BLK_M{}), n_tiles = ceil_div(N{}, BLK_N{}), k_tiles = ceil_div(K{}, BLK_K{});
  {
    Workspace const workspace(cosize(SmemB{}));
    Tensor sB = make_tensor(workspace.data, SmemB{});  // (NR,BLK_K,panel)
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
        pack(gB, sB, n_len, k_len);
        for (int n = 0; n < n_len; n += NR{})
        for (int m = 0; m < m_len; m += MR{}) {
          Tensor tA = local_tile(gA, make_tile(MR{}, BLK_K{}), make_coord(m / MR{}, 0));  // (MR,BLK_K)
          Tensor tB = sB(_, _, n / NR{});  // (NR,BLK_K)
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

void run(tvm::ffi::TensorView b, tvm::ffi::TensorView layer_norm, tvm::ffi::TensorView output) {
  require(b, "b", {256, 128}, {128, 1});
  require(layer_norm, "layer_norm", {64, 256}, {256, 1});
  require(output, "output", {64, 128}, {128, 1});
  kernel(data(layer_norm), data(b), data(output), Epilogue{});
}

#undef UNROLL
}  // namespace part2

// A tensor between two parts.
struct Between {
  DLTensor tensor;
  Between(DLDevice device, DLDataType type, int64_t* shape, int64_t* strides, int ndim, size_t bytes)
      : tensor{std::aligned_alloc(64, (bytes + 63) / 64 * 64), device, ndim, type, shape, strides, 0} {
    if (tensor.data == nullptr) { TVM_FFI_THROW(RuntimeError) << "no memory for a tensor between two parts"; }
  }
  Between(Between const&) = delete;
  ~Between() { std::free(tensor.data); }
};

void run(tvm::ffi::TensorView a, tvm::ffi::TensorView b, tvm::ffi::TensorView output) {
  int64_t shape_between_layer_norm[3] = {64, 256, 1};
  int64_t strides_between_layer_norm[3] = {256, 1, 1};
  Between between_layer_norm(a.device(), DLDataType{kDLFloat, 32, 1}, shape_between_layer_norm, strides_between_layer_norm, 2, 65536);
  part1::run(a, &between_layer_norm.tensor);
  part2::run(b, &between_layer_norm.tensor, output);
}
TVM_FFI_DLL_EXPORT_TYPED_FUNC(run, run);
