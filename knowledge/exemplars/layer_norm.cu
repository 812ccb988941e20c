// begin header
// Out = layer_norm of X along its rows with Weight and Bias: the row stays in the registers of one block, so that mean
// and variance are taken one after the other (nothing cancels) at the price of one pass over memory.
//   op class: reduction
//   architecture: sm_80
//   layouts: mX, mOut (C/V,R):(1,C/V), mWeight, mBias (C/V,R):(1,0) over packs of V neighbours; C = 4096, R = 8192
//   tile: one row for a block of 256 threads, 16 elements in each thread's registers
//   shared memory: 2 turns x 8 warps x 8 bytes for each of the two sums = 256 bytes
// end header

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <initializer_list>
#include <limits>
#include <type_traits>

#include <cute/tensor.hpp>
#include <cute/arch/cluster_sm90.hpp>
#include <cute/arch/copy_sm90_desc.hpp>
#include <cute/arch/copy_sm90_tma.hpp>
#include <cutlass/arch/barrier.h>
#include <tvm/ffi/container/tensor.h>
#include <tvm/ffi/error.h>
#include <tvm/ffi/extra/c_env_api.h>
#include <tvm/ffi/function.h>

#define UNROLL _Pragma("unroll")

using namespace cute;

namespace kernels {

// begin knobs
constexpr int kGroup = 256;  // threads of a block that share a row
constexpr int kRows = 1;  // rows side by side in a block
constexpr int kThreads = kGroup * kRows;
constexpr bool kAcross = false;  // threads side by side take rows, not columns
constexpr int kCluster = 1;  // blocks that share a row and their shared memory
constexpr int kShares = 1;  // blocks that share a row
constexpr int kItems = 16;  // elements of a row in a thread's registers
[[maybe_unused]] constexpr int kVector = 4;  // elements a pack
[[maybe_unused]] constexpr bool kOnce = false;  // its data leaves the caches first
using Index = int;
// end knobs

// begin access
// V neighbours in memory, moved in words of up to 16 bytes.
template <class T, int V>
struct alignas(sizeof(T) * V < 16 ? sizeof(T) * V : 16) Pack {
  T lane[V];
};

template <int Bytes> struct Word { using type = uint4; };
template <> struct Word<8> { using type = uint2; };
template <> struct Word<4> { using type = uint32_t; };
template <> struct Word<2> { using type = unsigned short; };
template <> struct Word<1> { using type = unsigned char; };

// Once: the data is not needed again, so that it is the first to leave the caches.
template <bool Once, class P>
__device__ inline P load(P const* from) {
  using W = typename Word<(sizeof(P) < 16 ? sizeof(P) : 16)>::type;
  constexpr int kWords = sizeof(P) / sizeof(W);
  union Bits {
    W word[kWords];
    P pack;
    __device__ Bits() {}
  } bits;
  UNROLL
  for (int w = 0; w < kWords; ++w) {
    W const* at = reinterpret_cast<W const*>(from) + w;
    bits.word[w] = Once ? __ldcs(at) : *at;
  }
  return bits.pack;
}

template <bool Once, class P>
__device__ inline void store(P* to, P const& pack) {
  using W = typename Word<(sizeof(P) < 16 ? sizeof(P) : 16)>::type;
  UNROLL
  for (int w = 0; w < int(sizeof(P) / sizeof(W)); ++w) {
    W const word = reinterpret_cast<W const*>(&pack)[w];
    W* at = reinterpret_cast<W*>(to) + w;
    if (Once) { __stcs(at, word); } else { *at = word; }
  }
}

// A tensor's memory as packs of V elements.
template <int V, class T>
__device__ inline Pack<T, V> const* packs(T const* start) { return reinterpret_cast<Pack<T, V> const*>(start); }
template <int V, class T>
__device__ inline Pack<T, V>* packs(T* start) { return reinterpret_cast<Pack<T, V>*>(start); }

// Whether packs of V elements may be moved from all of these on.
template <int V, class... T>
bool aligned(T const*... start) {
  return ((reinterpret_cast<uintptr_t>(start) % std::min<size_t>(sizeof(T) * V, 16) == 0) && ...);
}
// end access

// begin reduce
template <class T>
__device__ inline T exchanged(T value, int mask) {
  if constexpr (sizeof(T) < 4) {
    return T(__shfl_xor_sync(~0u, int(value), mask));
  } else {
    return __shfl_xor_sync(~0u, value, mask);
  }
}

// An extremum and where it stands.
template <class T>
struct Best {
  T value;
  int64_t index;
};

template <class T>
__device__ inline Best<T> exchanged(Best<T> best, int mask) {
  return {exchanged(best.value, mask), exchanged(best.index, mask)};
}

// Joins the values of all threads that share a row, in every one of them: within a warp by shuffles, then through the
// shared memory of all the cluster's blocks that share it. `turn` alternates between rows, so that one barrier a
// reduction is enough; `Slot` tells the kernel's reductions apart.
// Across, a row's threads are kRows apart.
template <int Slot, class T, class Join>
__device__ inline T reduced(T value, Join join, [[maybe_unused]] int turn) {
  if constexpr (kAcross) {
    __shared__ __align__(16) char memory[2][kGroup][kRows][sizeof(T)];
    auto const parts = reinterpret_cast<T(*)[kRows]>(&memory[turn]);  // (kGroup,kRows)
    parts[threadIdx.x / kRows][threadIdx.x % kRows] = value;
    __syncthreads();
    value = parts[0][threadIdx.x % kRows];
    for (int part = 1; part < kGroup; ++part) { value = join(value, parts[part][threadIdx.x % kRows]); }
    return value;
  }
  constexpr int kLanes = kGroup < 32 ? kGroup : 32;
  UNROLL
  for (int mask = kLanes / 2; mask > 0; mask /= 2) { value = join(value, exchanged(value, mask)); }
  if constexpr (kGroup > 32 || kCluster > 1) {
    constexpr int kWarps = (kGroup + 31) / 32, kParts = kWarps * kCluster;
    __shared__ __align__(16) char memory[2][kThreads / kGroup][kParts][sizeof(T)];
    int const lane = threadIdx.x % 32, warp = threadIdx.x % kGroup / 32;
    T* parts = reinterpret_cast<T*>(&memory[turn][threadIdx.x / kGroup]);  // (kParts)
    if constexpr (kCluster > 1) {
#if __CUDA_ARCH__ >= 900
      if (lane < kCluster) {
        T* mine = parts + blockIdx.x % kCluster * kWarps + warp;
        *static_cast<T*>(__cluster_map_shared_rank(mine, lane)) = value;
      }
      cluster_sync();
#endif
    } else {
      if (lane == 0) { parts[warp] = value; }
      __syncthreads();
    }
    value = parts[lane % kParts];
    for (int part = lane + 32; part < kParts; part += 32) { value = join(value, parts[part]); }
    constexpr int kLeft = kParts < 32 ? kParts : 32;
    UNROLL
    for (int mask = kLeft / 2; mask > 0; mask /= 2) { value = join(value, exchanged(value, mask)); }
  }
  return value;
}
// end reduce

// begin arithmetic
__device__ inline void sweep0(float rX, float& rSum0) {
  rSum0 = rX;
}
__device__ inline void sweep1(float rX, float v1, float& rSum1) {
  float const v3 = rX - v1;  // aten.layer_norm
  float const v4 = v3 * v3;  // aten.layer_norm
  rSum1 = v4;
}
__device__ inline void sweep2(float rX, float rWeight, float rBias, float v1, float v6, float& rOut) {
  float const v10 = rX - v1;  // aten.layer_norm
  float const v11 = v10 * v6;  // aten.layer_norm
  float const v12 = v11 * rWeight;  // aten.layer_norm
  float const v13 = v12 + rBias;  // aten.layer_norm
  rOut = v13;
}
struct JoinSum0 {
  template <class T> __device__ T operator()(T a, T b) const { return T(a + b); }
};
struct JoinSum1 {
  template <class T> __device__ T operator()(T a, T b) const { return T(a + b); }
};
// end arithmetic

// begin kernel
template <int V>
__global__ void __launch_bounds__(kThreads) rows(float const* pX, float const* pWeight, float const* pBias,
    float* pOut) {
  Index const kCount = Index(4096 / V);  // packs a row
  [[maybe_unused]] Index const kRowCount = 8192;
  Tensor mX = make_tensor(make_gmem_ptr(packs<V>(pX)),  // (4096/V,8192)
      Layout<Shape<Int<4096 / V>, Int<8192>>, Stride<_1, Int<4096 / V>>>{});
  Tensor mWeight = make_tensor(make_gmem_ptr(packs<V>(pWeight)),  // (4096/V,8192)
      Layout<Shape<Int<4096 / V>, Int<8192>>, Stride<_1, Int<0 / V>>>{});
  Tensor mBias = make_tensor(make_gmem_ptr(packs<V>(pBias)),  // (4096/V,8192)
      Layout<Shape<Int<4096 / V>, Int<8192>>, Stride<_1, Int<0 / V>>>{});
  Tensor mOut = make_tensor(make_gmem_ptr(packs<V>(pOut)),  // (4096/V,8192)
      Layout<Shape<Int<4096 / V>, Int<8192>>, Stride<_1, Int<4096 / V>>>{});
  [[maybe_unused]] Index const thread = threadIdx.x % kGroup;
  [[maybe_unused]] Index const rank = blockIdx.x % kShares;
  constexpr int kPacks = kItems / V;  // of a row in a thread's registers
  Index const start = rank * (kPacks * kGroup) + thread;
  int const turn = 0;
  Index const row = Index(blockIdx.x / kShares) * kRows + threadIdx.x / kGroup;
  [[maybe_unused]] constexpr bool inside = true;
  Index const r = row;
  Pack<float, V> rX[kPacks];
  UNROLL
  for (int u = 0; u < kPacks; ++u) {
    [[maybe_unused]] Index const i = start + u * kGroup;
    {
      rX[u] = load<kOnce>(&mX(i, r));
    }
  }
  // sweep 0
  float partSum0[V];
  UNROLL
  for (int k = 0; k < V; ++k) { partSum0[k] = float(0); }
  UNROLL
  for (int u = 0; u < kPacks; ++u) {
    [[maybe_unused]] Index const i = start + u * kGroup;
    {
      UNROLL
      for (int k = 0; k < V; ++k) {
        float vSum0;
        sweep0(rX[u].lane[k], vSum0);
        partSum0[k] = JoinSum0{}(partSum0[k], vSum0);
      }
    }
  }
  double totalSum0 = double(partSum0[0]);
  UNROLL
  for (int k = 1; k < V; ++k) { totalSum0 = JoinSum0{}(totalSum0, double(partSum0[k])); }
  totalSum0 = reduced<0>(totalSum0, JoinSum0{}, turn);
  float const vSum0 = float(totalSum0);  // aten.layer_norm
  float const v1 = vSum0 / 4096.0f;  // aten.layer_norm
  // sweep 1
  float partSum1[V];
  UNROLL
  for (int k = 0; k < V; ++k) { partSum1[k] = float(0); }
  UNROLL
  for (int u = 0; u < kPacks; ++u) {
    [[maybe_unused]] Index const i = start + u * kGroup;
    {
      UNROLL
      for (int k = 0; k < V; ++k) {
        float vSum1;
        sweep1(rX[u].lane[k], v1, vSum1);
        partSum1[k] = JoinSum1{}(partSum1[k], vSum1);
      }
    }
  }
  double totalSum1 = double(partSum1[0]);
  UNROLL
  for (int k = 1; k < V; ++k) { totalSum1 = JoinSum1{}(totalSum1, double(partSum1[k])); }
  totalSum1 = reduced<1>(totalSum1, JoinSum1{}, turn);
  float const vSum1 = float(totalSum1);  // aten.layer_norm
  float const v3 = vSum1 / 4096.0f;  // aten.layer_norm
  float const v4 = v3 + 1e-05f;  // aten.layer_norm
  float const v5 = std::sqrt(v4);  // aten.layer_norm
  float const v6 = 1.0f / v5;  // aten.layer_norm
  // sweep 2
  UNROLL
  for (int u = 0; u < kPacks; ++u) {
    [[maybe_unused]] Index const i = start + u * kGroup;
    {
      Pack<float, V> rWeight;
      rWeight = load<false>(&mWeight(i, r));
      Pack<float, V> rBias;
      rBias = load<false>(&mBias(i, r));
      Pack<float, V> rOut;
      UNROLL
      for (int k = 0; k < V; ++k) {
        float vOut;
        sweep2(rX[u].lane[k], rWeight.lane[k], rBias.lane[k], v1, v6, vOut);
        rOut.lane[k] = vOut;
      }
      store<kOnce>(&mOut(i, r), rOut);
    }
  }
}
// end kernel

// begin require
// Refuses a tensor that is not what this kernel was written for. Strides of extents of 1 mean nothing.
void require(tvm::ffi::TensorView const& tensor, char const* name, std::initializer_list<int64_t> shape,
             std::initializer_list<int64_t> strides, int code, int bits) {
  bool same = tensor.ndim() == int(shape.size()) && tensor.dtype().code == code && tensor.dtype().bits == bits;
  for (int dim = 0; same && dim < tensor.ndim(); ++dim) {
    same = tensor.size(dim) == shape.begin()[dim] &&
           (tensor.size(dim) <= 1 || tensor.stride(dim) == strides.begin()[dim]);
  }
  if (!same) {
    TVM_FFI_THROW(ValueError) << name << " has another shape, strides or element type than this kernel was written for";
  }
}

cudaStream_t stream_of(tvm::ffi::TensorView const& tensor) {
  return static_cast<cudaStream_t>(TVMFFIEnvGetStream(tensor.device().device_type, tensor.device().device_id));
}

void launched() {
  cudaError_t const error = cudaGetLastError();
  if (error != cudaSuccess) { TVM_FFI_THROW(RuntimeError) << "the launch failed: " << cudaGetErrorString(error); }
}
// end require

}  // namespace kernels

using namespace kernels;

// begin entry
void run(tvm::ffi::TensorView X, tvm::ffi::TensorView Weight, tvm::ffi::TensorView Bias, tvm::ffi::TensorView Out) {
  require(X, "X", {8192, 4096}, {4096, 1}, kDLFloat, 32);
  require(Weight, "Weight", {4096}, {1}, kDLFloat, 32);
  require(Bias, "Bias", {4096}, {1}, kDLFloat, 32);
  require(Out, "Out", {8192, 4096}, {4096, 1}, kDLFloat, 32);

  cudaStream_t const stream = stream_of(Out);
  auto const* pX = static_cast<float const*>(X.data_ptr());
  auto const* pWeight = static_cast<float const*>(Weight.data_ptr());
  auto const* pBias = static_cast<float const*>(Bias.data_ptr());
  auto* pOut = static_cast<float*>(Out.data_ptr());
  if (aligned<kVector>(pX, pWeight, pBias, pOut)) {
    rows<kVector><<<8192, kThreads, 0, stream>>>(pX, pWeight, pBias, pOut);
  } else {
    rows<1><<<8192, kThreads, 0, stream>>>(pX, pWeight, pBias, pOut);
  }
  launched();
}
TVM_FFI_DLL_EXPORT_TYPED_FUNC(run, run);
// end entry
