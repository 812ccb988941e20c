// begin header
// C(m,n,l) = epilogue(sum over k of A(m,k,l) * B(n,k,l)) at float32 grade on TF32 tensor cores, for few tiles of C: the
// blocks of a cluster share one tile's K, and add what each has found in each other's shared memory, in the order of K:
// one launch, and no memory but the operands'. Tiles, splitting and products are those of gemm_3xtf32.
//   op class: gemm
//   architecture: sm_90
//   layouts: any strides; 16-byte copies and stores where strides, extents and pointers allow them
//   tile: block 64 x 64 x 32, 4 warps of 32 x 32 (MMA 16 x 8 x 8), clusters of 8 along K
//   shared memory: A 64 x 32 x 3 x 4 = 24576 bytes, B 64 x 32 x 3 x 4 = 24576 bytes; 49152 bytes a block, in which the
//     tile's sums, 64 x 64 x 4 = 16384 bytes, take the operands' place
// end header
// includes: as in gemm_simt.cu
#include <cute/arch/cluster_sm90.hpp>
#include <cute/arch/copy_sm80.hpp>
#include <cute/arch/mma_sm80.hpp>

// _product: as in gemm_simt.cu
using T = float;

// problem: as in gemm_simt.cu

// begin knobs
using BLK_M = Int<64>;
using BLK_N = Int<64>;
using BLK_K = Int<32>;
using WARP_M = Int<32>;       // a warp's part of the block's tile; multiples of 32
using WARP_N = Int<32>;
constexpr int Stages = 3;     // tiles of A and B in shared memory
constexpr int MinBlocks = 2;  // blocks that a multiprocessor must hold: what caps the registers
constexpr int Splits = 8;     // blocks of a cluster, which share one tile's K
constexpr int CopyA = 4;      // elements one asynchronous copy moves
constexpr int CopyB = 4;
constexpr int StoreC = 4;     // elements one store writes
constexpr int Products = 3;   // 1 is plain TF32
// end knobs

constexpr int Threads = BLK_M{} / WARP_M{} * (BLK_N{} / WARP_N{}) * 32;
constexpr int TilesM = ceil_div(M{}, BLK_M{}), TilesN = ceil_div(N{}, BLK_N{}), TilesK = ceil_div(K{}, BLK_K{});
constexpr int Batches = size<2>(LayoutC{});
constexpr int StepK = 16;  // k's between two additions to C's fragment

// operands: as in gemm_3xtf32.cu
static_assert(BLK_M{} * BLK_N{} * int(sizeof(T)) <= SharedBytes, "the sums take the operands' place");

// fragments: as in gemm_3xtf32.cu

// plain_sum: as in gemm_3xtf32.cu

__global__ void __cluster_dims__(Splits, 1, 1) __launch_bounds__(Threads, MinBlocks)
gemm(T const* __restrict__ A, T const* __restrict__ B, T* __restrict__ C, Epilogue epilogue) {
  extern __shared__ __align__(128) T shared[];
  T* const sA = shared;                             // (BLK_M,BLK_K,Stages)
  T* const sB = shared + Stages * OperandA::size;   // (BLK_N,BLK_K,Stages)
  int const thread = threadIdx.x, lane = thread % 32, warp = thread / 32;
  int const split = blockIdx.x % Splits, tile = blockIdx.x / Splits, l = tile / (TilesM * TilesN);
  T const* const mA = A + LayoutA{}(0, 0, l);       // (M,K)
  T const* const mB = B + LayoutB{}(0, 0, l);       // (N,K)
  int const m0 = tile % TilesM * BLK_M{}, n0 = tile / TilesM % TilesN * BLK_N{};
  int const first = int(int64_t(TilesK) * split / Splits), last = int(int64_t(TilesK) * (split + 1) / Splits);

// loop: as in gemm_3xtf32.cu

  // A lane holds, for every group of 32 x 32, rows 4 * spread(lane / 4) + i and columns 16 * e + 4 * (lane % 4) + j.
  cp_async_wait<0>();
  __syncthreads();
  T* const sums = shared;                           // (BLK_M,BLK_N)
  int const m_lane = warp_m + 4 * spread(lane / 4), n_lane = warp_n + 4 * (lane % 4);
  CUTE_UNROLL
  for (int piece = 0; piece < GroupsM * GroupsN * 8; ++piece) {
    int const e = piece % 2, i = piece / 2 % 4, group_n = piece / 8 % GroupsN, group_m = piece / 8 / GroupsN;
    int const m = m_lane + 32 * group_m + i, n = n_lane + 32 * group_n + 16 * e;
    float x[4];
    CUTE_UNROLL
    for (int j = 0; j < 4; ++j) {
      x[j] = tCrC[group_m][group_n][i / 2][j][2 * (i % 2) + e];
      if (!isfinite(x[j]) && m0 + m < M{} && n0 + n + j < N{}) {
        x[j] = plain_sum(mA + (m0 + m) * OperandA::row_stride, mB + (n0 + n + j) * OperandB::row_stride,
                         first * BLK_K{}, min(last * BLK_K{}, K{}));
      }
    }
    *reinterpret_cast<float4*>(sums + m * BLK_N{} + n) = make_float4(x[0], x[1], x[2], x[3]);
  }
  cluster_sync();
  // Every block adds a part of the tile, four neighbours at a time.
  for (int at = split * Threads + thread; at < BLK_M{} * BLK_N{} / 4; at += Splits * Threads) {
    int const m = m0 + 4 * at / BLK_N{}, n = n0 + 4 * at % BLK_N{};
    float4 parts[Splits];
    CUTE_UNROLL
    for (int other = 0; other < Splits; ++other) {
      parts[other] = static_cast<float4*>(__cluster_map_shared_rank(sums, other))[at];
    }
    float x[4] = {};
    CUTE_UNROLL
    for (int other = 0; other < Splits; ++other) {
      x[0] += parts[other].x, x[1] += parts[other].y, x[2] += parts[other].z, x[3] += parts[other].w;
    }
    if (m >= M{} || n >= N{}) continue;
    T* const to = C + LayoutC{}(m, n, l);
    CUTE_UNROLL
    for (int j = 0; j < 4; ++j) x[j] = n + j < N{} ? epilogue(x[j], m, n + j, l) : 0;
    if constexpr (StoreC == 4) {
      *reinterpret_cast<float4*>(to) = make_float4(x[0], x[1], x[2], x[3]);
    } else {
      CUTE_UNROLL
      for (int j = 0; j < 4; ++j) {
        if (n + j < N{}) to[j * stride<1>(LayoutC{})] = x[j];
      }
    }
  }
  // No block may leave while others read its sums.
  cluster_sync();
}

// check: as in gemm_simt.cu

void launch(T const* A, T const* B, T* C, Epilogue epilogue, DLDevice device) {
  auto const stream = static_cast<cudaStream_t>(TVMFFIEnvGetStream(device.device_type, device.device_id));
  if constexpr (SharedBytes > 48 << 10) {
    check(cudaFuncSetAttribute(gemm, cudaFuncAttributeMaxDynamicSharedMemorySize, SharedBytes), "shared memory");
  }
  gemm<<<TilesM * TilesN * Batches * Splits, Threads, SharedBytes, stream>>>(A, B, C, epilogue);
  check(cudaGetLastError(), "gemm");
}

}  // namespace product

// entry: as in gemm_simt.cu
