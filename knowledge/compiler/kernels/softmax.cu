// begin header
// Out = softmax of X along its rows, in one pass over memory, for rows longer than one multiprocessor can hold.
//   op class: reduction
//   architecture: sm_90a
//   layouts: mX, mOut (C/V,R):(1,C/V) over packs of V neighbours; C = 393216 columns, R = 4096 rows
//   tile: one row for a cluster of 8 blocks of 512 threads, 96 elements in each thread's registers; a cluster takes 12
//     rows in turn
//   shared memory: 196608 bytes, the block's share of the next row, which bulk copies bring while this one is
//     computed; 2 turns x 128 warps of the cluster x 4 bytes for the maxima and x 8 bytes for the sums
//   reaches (with maxima by comparisons; max.NaN was not timed): 3.57 ms on an H200, 3.61 TB/s of a copy's 4.31; eager
//     PyTorch 6.3 ms, torch.compile in two passes 4.7 ms
//   limited by: clusters of 8 leave some multiprocessors idle, and only one row's share is on its way at a time
//   error: normalized L2 4.9e-8 against float64, eager PyTorch 5.8e-8; a thread's sum of 96 terms in float, all above
//     in double
// end header

// begin includes
// _standard: as in pointwise.cu

#include <cute/tensor.hpp>
#include <cute/arch/cluster_sm90.hpp>
#include <cute/arch/copy_sm90_desc.hpp>
#include <cute/arch/copy_sm90_tma.hpp>
#include <cutlass/arch/barrier.h>
// _interface: as in pointwise.cu
// end includes

using namespace cute;

namespace kernels {

// begin knobs
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
// end arithmetic

// begin kernel
// end kernel

// require: as in pointwise.cu

// launched: as in pointwise.cu

}  // namespace kernels

using namespace kernels;

// begin entry
// end entry
