// begin header
// Out = softmax of X along its rows, in one pass over memory, for rows longer than one multiprocessor can hold.
//   op class: reduction
//   architecture: sm_90a
//   layouts: mX, mOut (C/V,R):(1,C/V) over packs of V neighbours; C = 393216 columns, R = 4096 rows
//   tile: one row for a cluster of 8 blocks of 512 threads, 96 elements in each thread's registers; a cluster takes 12
//     rows in turn
//   shared memory: 196608 bytes, the block's share of the next row, which bulk copies bring while this one is
//     computed; 2 turns x 128 warps of the cluster x 4 bytes for the maxima and x 8 bytes for the sums
//   reaches: 3.57 ms on an H200, 3.61 TB/s of a copy's 4.31; eager PyTorch 6.3 ms, torch.compile in two passes 4.7 ms
//   limited by: clusters of 8 leave some multiprocessors idle, and only one row's share is on its way at a time
//   error: normalized L2 4.9e-8 against float64, eager PyTorch 5.8e-8; a thread's sum of 96 terms in float, all above
//     in double
// end header

// begin includes
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
// end includes

using namespace cute;

namespace kernels {

// begin knobs
constexpr int kGroup = 512;  // threads of a block that share a row
constexpr int kRows = 1;  // rows side by side in a block
constexpr int kThreads = kGroup * kRows;
constexpr bool kAcross = false;  // threads side by side take rows, not columns
constexpr int kCluster = 8;  // blocks that share a row and their shared memory
constexpr int kShares = 8;  // blocks that share a row
constexpr int kItems = 96;  // elements of a row in a thread's registers
[[maybe_unused]] constexpr int kVector = 4;  // elements a pack
[[maybe_unused]] constexpr bool kOnce = false;  // its data leaves the caches first
using Index = int;
constexpr int kChain = 12;  // rows that a cluster takes in turn
constexpr int kParts = 2;  // parts of a row that are refilled one by one
constexpr int kStaged = 196608;  // bytes of shared memory: the next row's share
// end knobs

// access: as in pointwise.cu

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
    if (threadIdx.x < kRows) {  // one thread a row: what all did would be worth a sixth of a long sweep
      for (int part = 1; part < kGroup; ++part) { value = join(value, parts[part][threadIdx.x]); }
      parts[0][threadIdx.x] = value;
    }
    __syncthreads();
    return parts[0][threadIdx.x % kRows];
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
// begin _maximum
namespace math {
// The larger one; NaN where either is NaN.
template <class V> __device__ inline V maximum(V a, V b) { return ((a > b) | (a != a)) ? a : b; }
}  // namespace math

__device__ inline void sweep0(float rX, float& rAmax0) {
  rAmax0 = rX;
}
// end _maximum
__device__ inline void sweep1(float rX, float vAmax0, float& rSum1, float& rKept0) {
  float const v2 = rX - vAmax0;  // aten.softmax.int
  float const v3 = std::exp(v2);  // aten.softmax.int
  rSum1 = v3;
  rKept0 = v3;
}
__device__ inline void sweep2(float rKept0, float vSum1, float& rOut) {
  float const v3 = rKept0 / vSum1;  // aten.softmax.int
  rOut = v3;
}
struct JoinAmax0 {
  template <class T> __device__ T operator()(T a, T b) const { return T(math::maximum(a, b)); }
};
struct JoinSum1 {
  template <class T> __device__ T operator()(T a, T b) const { return T(a + b); }
};
// end arithmetic

// begin kernel
template <int V>
__global__ void __launch_bounds__(kThreads) __cluster_dims__(8) rows(float const* pX, float* pOut) {
// begin _tensors
  Index const kCount = Index(393216 / V);  // packs a row
  [[maybe_unused]] Index const kRowCount = 4096;
  Tensor mX = make_tensor(make_gmem_ptr(packs<V>(pX)),  // (393216/V,4096)
      Layout<Shape<Int<393216 / V>, Int<4096>>, Stride<_1, Int<393216 / V>>>{});
  Tensor mOut = make_tensor(make_gmem_ptr(packs<V>(pOut)),  // (393216/V,4096)
      Layout<Shape<Int<393216 / V>, Int<4096>>, Stride<_1, Int<393216 / V>>>{});
  [[maybe_unused]] Index const thread = threadIdx.x % kGroup;
  [[maybe_unused]] Index const rank = blockIdx.x % kShares;
// end _tensors
  constexpr int kPacks = kItems / V;  // of a row in a thread's registers
  Index const start = rank * (kPacks * kGroup) + thread;
  extern __shared__ __align__(128) char staged[];
  __shared__ uint64_t full[kParts];
  static_assert(V == 1 || kPacks % kParts == 0, "a part is a number of whole packs");
  constexpr int kPart = kPacks * kGroup / kParts;
  Pack<float, V>* sX = reinterpret_cast<Pack<float, V>*>(staged + kPacks * kGroup * V * 0);  // (kPacks * kGroup)
  auto const fetch = [&](Index row, int part) {
    if (V == 1 || threadIdx.x != 0) { return; }
    Index const begin = rank * (kPacks * kGroup) + part * kPart;
    int const packs = int(max(Index(0), min(Index(kPart), kCount - begin)));
    set_barrier_transaction_bytes(full[part], packs * int(sizeof(*sX)));
    if (packs > 0) {
      SM90_BULK_COPY_G2S::copy(&mX(begin, row), &full[part], sX + part * kPart, packs * int(sizeof(*sX)));
    }
  };
  if (threadIdx.x == 0) {
    for (int part = 0; part < kParts; ++part) { initialize_barrier(full[part], 1); }
    cutlass::arch::fence_barrier_init();
  }
  cluster_sync();  // every block of the cluster must run before its shared memory is written
  Index const first = Index(blockIdx.x / kShares) * kChain;
  Index const last = min(first + kChain, kRowCount);
  __syncthreads();
  for (int part = 0; part < kParts; ++part) { fetch(first, part); }
  int turn = 0;
  for (Index row = first; row < last; ++row, turn ^= 1) {
    [[maybe_unused]] constexpr bool inside = true;
    Index const r = row;
    Pack<float, V> rX[kPacks];
    if constexpr (V > 1) {
      UNROLL
      for (int part = 0; part < kParts; ++part) {
        wait_barrier(full[part], turn);
        UNROLL
        for (int u = part * (kPacks / kParts); u < (part + 1) * (kPacks / kParts); ++u) {
          [[maybe_unused]] Index const i = start + u * kGroup;
          {
            rX[u] = load<false>(&sX[u * kGroup + thread]);
          }
        }
        cutlass::arch::fence_view_async_shared();  // these reads come before a bulk copy's writes
        __syncthreads();  // this part is in registers: the next row's may come
        if (row + 1 < last) { fetch(row + 1, part); }
      }
    } else {
      UNROLL
      for (int u = 0; u < kPacks; ++u) {
        [[maybe_unused]] Index const i = start + u * kGroup;
        {
          rX[u] = load<kOnce>(&mX(i, r));
        }
      }
    }
    float rKept0[kPacks][V];  // aten.softmax.int
    // sweep 0
    float partAmax0[V];
    UNROLL
    for (int k = 0; k < V; ++k) { partAmax0[k] = -float(INFINITY); }
    UNROLL
    for (int u = 0; u < kPacks; ++u) {
      [[maybe_unused]] Index const i = start + u * kGroup;
      {
        UNROLL
        for (int k = 0; k < V; ++k) {
          float vAmax0;
          sweep0(rX[u].lane[k], vAmax0);
          partAmax0[k] = JoinAmax0{}(partAmax0[k], vAmax0);
        }
      }
    }
    float totalAmax0 = float(partAmax0[0]);
    UNROLL
    for (int k = 1; k < V; ++k) { totalAmax0 = JoinAmax0{}(totalAmax0, float(partAmax0[k])); }
    totalAmax0 = reduced<0>(totalAmax0, JoinAmax0{}, turn);
    float const vAmax0 = float(totalAmax0);  // aten.softmax.int
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
          float vKept0;
          sweep1(rX[u].lane[k], vAmax0, vSum1, vKept0);
          partSum1[k] = JoinSum1{}(partSum1[k], vSum1);
          rKept0[u][k] = vKept0;
        }
      }
    }
    double totalSum1 = double(partSum1[0]);
    UNROLL
    for (int k = 1; k < V; ++k) { totalSum1 = JoinSum1{}(totalSum1, double(partSum1[k])); }
    totalSum1 = reduced<1>(totalSum1, JoinSum1{}, turn);
    float const vSum1 = float(totalSum1);  // aten.softmax.int
    // sweep 2
    UNROLL
    for (int u = 0; u < kPacks; ++u) {
      [[maybe_unused]] Index const i = start + u * kGroup;
      {
        Pack<float, V> rOut;
        UNROLL
        for (int k = 0; k < V; ++k) {
          float vOut;
          sweep2(rKept0[u][k], vSum1, vOut);
          rOut.lane[k] = vOut;
        }
        store<kOnce>(&mOut(i, r), rOut);
      }
    }
  }
}
// end kernel

// require: as in pointwise.cu

// launched: as in pointwise.cu

}  // namespace kernels

using namespace kernels;

// begin _end
// begin entry
void run(tvm::ffi::TensorView X, tvm::ffi::TensorView Out) {
  require(X, "X", {4096, 393216}, {393216, 1}, kDLFloat, 32);
  require(Out, "Out", {4096, 393216}, {393216, 1}, kDLFloat, 32);

  cudaStream_t const stream = stream_of(Out);
  auto const* pX = static_cast<float const*>(X.data_ptr());
  auto* pOut = static_cast<float*>(Out.data_ptr());
  if (aligned<kVector>(pX, pOut)) {
// end _end
    cudaFuncSetAttribute(rows<kVector>, cudaFuncAttributeMaxDynamicSharedMemorySize, kStaged);
    rows<kVector><<<2736, kThreads, kStaged, stream>>>(pX, pOut);
  } else {
    cudaFuncSetAttribute(rows<1>, cudaFuncAttributeMaxDynamicSharedMemorySize, kStaged);
    rows<1><<<2736, kThreads, kStaged, stream>>>(pX, pOut);
  }
  launched();
}
TVM_FFI_DLL_EXPORT_TYPED_FUNC(run, run);
// end entry
