// begin header
// Out = X * Vector, a matrix times a vector: sums along rows of 2048 x 1048576.
//   op class: gemm
//   architecture: sm_80
//   layouts: mX (C/V,R):(1,C/V), mVector (C/V,R):(1,0) over packs of V neighbours, mOut (C/V,R):(0,1);
//     C = 1048576, R = 2048
//   tile: 4 rows for a block of 512 threads, 2 packs of each row in flight a thread; each pack of Vector
//     is read once for the 4 rows, since it comes from the L2 cache, whose bandwidth X needs
//   shared memory: 2 turns x 16 warps x 8 bytes = 256 bytes for the partial sums
//   reaches: 1.96 ms on an H200, 4.39 TB/s; eager PyTorch 2.37 ms
//   error: normalized L2 3.3e-8 against float64, eager PyTorch 5.2e-8; sums of 64 packs in float, all above in double
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
constexpr int kGroup = 512;  // threads of a block that share a row
constexpr int kRows = 1;  // rows side by side in a block
constexpr int kThreads = kGroup * kRows;
constexpr bool kAcross = false;  // threads side by side take rows, not columns
constexpr int kCluster = 1;  // blocks that share a row and their shared memory
constexpr int kShares = 1;  // blocks that share a row
constexpr int kItems = 2;  // packs in flight a thread
[[maybe_unused]] constexpr int kVector = 4;  // elements a pack
[[maybe_unused]] constexpr bool kOnce = true;  // its data leaves the caches first
using Index = int64_t;
constexpr int kEach = 4;  // rows that a thread takes at once
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
__device__ inline void sweep0(float rX, float rVector, float& rSum0) {
  float const v2 = rX * rVector;  // aten.matmul
  rSum0 = v2;
}
struct JoinSum0 {
  template <class T> __device__ T operator()(T a, T b) const { return T(a + b); }
};
// end arithmetic

// begin kernel
template <int V>
__global__ void __launch_bounds__(kThreads) rows(float const* pX, float const* pVector, float* pOut) {
  Index const kCount = Index(1048576ll / V);  // packs a row
  [[maybe_unused]] Index const kRowCount = 2048;
  Tensor mX = make_tensor(make_gmem_ptr(packs<V>(pX)),  // (1048576/V,2048)
      Layout<Shape<Int<1048576 / V>, Int<2048>>, Stride<_1, Int<1048576 / V>>>{});
  Tensor mVector = make_tensor(make_gmem_ptr(packs<V>(pVector)),  // (1048576/V,2048)
      Layout<Shape<Int<1048576 / V>, Int<2048>>, Stride<_1, Int<0 / V>>>{});
  Tensor mOut = make_tensor(make_gmem_ptr(pOut),  // (1048576/V,2048)
      Layout<Shape<Int<1048576 / V>, Int<2048>>, Stride<Int<0 * V>, Int<1>>>{});
  [[maybe_unused]] Index const thread = threadIdx.x % kGroup;
  [[maybe_unused]] Index const rank = blockIdx.x % kShares;
  constexpr int kPacks = kItems;  // in flight a thread
  Index const start = rank * kGroup + thread;
  Index const kStep = kGroup * kShares;
  Index const row = Index(blockIdx.x / kShares) * kRows + threadIdx.x / kGroup;
  float partSum0[kEach][V];
  double totalSum0[kEach];
  UNROLL
  for (int e = 0; e < kEach; ++e) {
    totalSum0[e] = double(0);
    UNROLL
    for (int k = 0; k < V; ++k) { partSum0[e][k] = float(0); }
  }
  int filled0 = 0;
  for (Index base = start; base < kCount; base += kPacks * kStep) {
    Pack<float, V> rX[kPacks][kEach];
    Pack<float, V> rVector[kPacks];
    UNROLL
    for (int u = 0; u < kPacks; ++u) {
      Index const i = base + u * kStep;
      if (i < kCount) {
        rVector[u] = load<false>(&mVector(i, 0));
        UNROLL
        for (int e = 0; e < kEach; ++e) {
          Index const r = min(row * kEach + e, kRowCount - 1);
          rX[u][e] = load<kOnce>(&mX(i, r));
        }
      }
    }
    UNROLL
    for (int u = 0; u < kPacks; ++u) {
      Index const i = base + u * kStep;
      if (i < kCount) {
        UNROLL
        for (int e = 0; e < kEach; ++e) {
          UNROLL
          for (int k = 0; k < V; ++k) {
            float vSum0;
            sweep0(rX[u][e].lane[k], rVector[u].lane[k], vSum0);
            partSum0[e][k] = JoinSum0{}(partSum0[e][k], vSum0);
          }
        }
      }
    }
    if (++filled0 % 32 == 0) {
      UNROLL
      for (int e = 0; e < kEach; ++e) {
        UNROLL
        for (int k = 0; k < V; ++k) { totalSum0[e] = JoinSum0{}(totalSum0[e], double(partSum0[e][k])); }
        UNROLL
        for (int k = 0; k < V; ++k) { partSum0[e][k] = float(0); }
      }
    }
  }
  UNROLL
  for (int e = 0; e < kEach; ++e) {
    Index const r = min(row * kEach + e, kRowCount - 1);
    bool const inside = row * kEach + e < kRowCount;
    UNROLL
    for (int k = 0; k < V; ++k) { totalSum0[e] = JoinSum0{}(totalSum0[e], double(partSum0[e][k])); }
    double const totalSum0_ = reduced<0>(totalSum0[e], JoinSum0{}, e % 2);
    float const vSum0 = float(totalSum0_);  // aten.matmul
    if (inside && thread == 0 && rank == 0) {
      mOut(0, r) = float(vSum0);
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
void run(tvm::ffi::TensorView X, tvm::ffi::TensorView Vector, tvm::ffi::TensorView Out) {
  require(X, "X", {2048, 1048576}, {1048576, 1}, kDLFloat, 32);
  require(Vector, "Vector", {1048576, 1}, {1, 1}, kDLFloat, 32);
  require(Out, "Out", {2048, 1}, {1, 1}, kDLFloat, 32);

  cudaStream_t const stream = stream_of(Out);
  auto const* pX = static_cast<float const*>(X.data_ptr());
  auto const* pVector = static_cast<float const*>(Vector.data_ptr());
  auto* pOut = static_cast<float*>(Out.data_ptr());
  if (aligned<kVector>(pX, pVector)) {
    rows<kVector><<<512, kThreads, 0, stream>>>(pX, pVector, pOut);
  } else {
    rows<1><<<512, kThreads, 0, stream>>>(pX, pVector, pOut);
  }
  launched();
}
TVM_FFI_DLL_EXPORT_TYPED_FUNC(run, run);
// end entry
