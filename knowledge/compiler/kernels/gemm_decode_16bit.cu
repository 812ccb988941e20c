// begin header
// C(m,n,l) = epilogue(sum over k of A(m,k,l) * B(n,k,l)) for float16 or bfloat16 operands and few columns, where
// reading A, a layer's weights, is all the time: a tile of 64 rows has all columns of B, and the blocks of a cluster
// share its K, so that every multiprocessor has many tensor copies on their way. Each leaves its sums in its own shared
// memory, and finishes a part of the tile from those of all, added in the order of K.
//   op class: gemm
//   architecture: sm_90a
//   layouts: A and B contiguous along K or across it, every other stride a multiple of 16 bytes; any C
//   tile: block 64 x 16 x 64, one warpgroup, clusters of 2 along K
//   shared memory: A 64 x 64 x 16 x 2 = 131072 bytes, B 16 x 64 x 16 x 2 = 32768 bytes, sums 64 x 16 x 4 = 4096 bytes,
//     barriers 8 x 2 x 16 = 256 bytes; 168192 bytes of at most 232448
//   reaches: H200, bfloat16, 16 x 4096 x 4096, a cold L2 cache: 0.0173 ms (cuBLAS 0.0184)
// end header
// includes: as in gemm_simt.cu
#include <cute/arch/cluster_sm90.hpp>
#include <cute/arch/copy_sm90_tma.hpp>
#include <cute/arch/mma_sm90.hpp>
#include <cutlass/arch/barrier.h>

// _product: as in gemm_simt.cu

// begin problem
using T = half_t;  // or bfloat16_t
using M = Int<4096>;
using N = Int<16>;
using K = Int<4096>;
using LayoutA = Layout<Shape<M, K, _1>, Stride<K, _1, _0>>;  // (M,K,L)
using LayoutB = Layout<Shape<N, K, _1>, Stride<K, _1, _0>>;  // (N,K,L)
using LayoutC = Layout<Shape<M, N, _1>, Stride<_1, M, _0>>;  // (M,N,L)
struct Epilogue {
  CUTE_HOST_DEVICE T operator()(float x, int, int, int) const { return T(x); }
};
// end problem

// begin knobs
using BLK_N = Int<16>;     // 8, 16, 32 or a multiple of 64, which it is where B is contiguous along N
constexpr int Stages = 16;  // tiles of A and B in shared memory
constexpr int Cluster = 2;  // blocks that share a tile's K: 1, 2, 4 or 8
// end knobs

using BLK_M = _64;
using BLK_K = _64;         // 128 bytes, the widest swizzle
constexpr int Consumers = 128, Threads = Consumers + 32, Sharing = 1;
constexpr int TilesM = ceil_div(M{}, BLK_M{}), TilesN = ceil_div(N{}, BLK_N{}), TilesK = ceil_div(K{}, BLK_K{});
constexpr int Batches = size<2>(LayoutC{});

// operands: as in gemm_wgmma_16bit.cu

struct Shared {
  alignas(1024) T A[Stages * OperandA::size];
  alignas(1024) T B[Stages * OperandB::size];
  float sums[BLK_N::value * BLK_M::value];  // (BLK_M,BLK_N)
  uint64_t full[Stages], empty[Stages];
};
// _barriers: as in gemm_wgmma_16bit.cu

// copies: as in gemm_wgmma_16bit.cu

// A tile of C of one batch, and the tiles of K, from `first` to `last`, that are this block's.
struct Work {
  int m, n, l, first, last;

  CUTE_DEVICE Work() {
    int const rank = blockIdx.x % Cluster, index = blockIdx.x / Cluster;
    m = index / TilesN % TilesM * BLK_M{}, n = index % TilesN * BLK_N{}, l = index / (TilesM * TilesN);
    first = TilesK * rank / Cluster, last = TilesK * (rank + 1) / Cluster;
  }
};

// Fills the stages in turn, each as soon as every warp has left it.
CUTE_DEVICE void produce(Shared& shared, CUtensorMap const& mapA, CUtensorMap const& mapB, Work const& work) {
  Stage stage;
  for (int k_tile = work.first; k_tile < work.last; ++k_tile, stage.next()) {
    Empty::wait(&shared.empty[stage.index], stage.phase ^ 1);
    uint64_t* const full = &shared.full[stage.index];
    Full::arrive_and_expect_tx(full, (OperandA::size + OperandB::size) * sizeof(T));
    copy_tile<OperandA, 1>(mapA, shared.A + stage.index * OperandA::size, full, work.m, k_tile * BLK_K{},
                           batch_of<LayoutA>(work.l), 0);
    copy_tile<OperandB, 1>(mapB, shared.B + stage.index * OperandB::size, full, work.n, k_tile * BLK_K{},
                           batch_of<LayoutB>(work.l), 0);
  }
}

// Leaves the sums over the block's tiles of K in shared memory.
CUTE_DEVICE void consume(Shared& shared, Work const& work) {
  Tensor sA = make_tensor(make_smem_ptr(shared.A), typename OperandA::Shared{});  // (BLK_M,BLK_K,Stages)
  Tensor sB = make_tensor(make_smem_ptr(shared.B), typename OperandB::Shared{});  // (BLK_N,BLK_K,Stages)
  Mma mma;
  auto const thread_mma = mma.get_thread_slice(threadIdx.x);
  Tensor tCrA = thread_mma.partition_fragment_A(sA);                            // (MMA,MMA_M,MMA_K,Stages)
  Tensor tCrB = thread_mma.partition_fragment_B(sB);                            // (MMA,MMA_N,MMA_K,Stages)
  Tensor tCrC = partition_fragment_C(mma, Shape<BLK_M, BLK_N>{});               // (MMA,MMA_M,MMA_N)
  clear(tCrC);
  Stage stage;
  int left = 0;
  for (int k_tile = work.first; k_tile < work.last; ++k_tile, stage.next()) {
    Full::wait(&shared.full[stage.index], stage.phase);
    warpgroup_fence_operand(tCrC);
    warpgroup_arrive();
    CUTE_UNROLL
    for (int k = 0; k < size<2>(tCrA); ++k) {
      cute::gemm(mma, tCrA(_, _, k, stage.index), tCrB(_, _, k, stage.index), tCrC);
    }
    warpgroup_commit_batch();
    // The products of the tile before have ended when only these are left.
    warpgroup_wait<1>();
    if (k_tile > work.first && threadIdx.x % 32 == 0) Empty::arrive(&shared.empty[left]);
    left = stage.index;
  }
  warpgroup_wait<0>();
  warpgroup_fence_operand(tCrC);
  Tensor cC = make_identity_tensor(Shape<BLK_M, BLK_N>{});                      // (BLK_M,BLK_N) -> (m,n)
  Tensor tCcC = thread_mma.partition_C(cC);                                     // (MMA,MMA_M,MMA_N) -> (m,n)
  CUTE_UNROLL
  for (int i = 0; i < size(tCrC); ++i) shared.sums[get<0>(tCcC(i)) + get<1>(tCcC(i)) * BLK_M{}] = tCrC(i);
}

// begin finish
// Adds what the cluster's blocks have left of this block's part of the tile, in the order of K.
CUTE_DEVICE void finish(float* sums, T* C, Work const& work, Epilogue const& epilogue) {
  constexpr int part = BLK_M::value * BLK_N::value / Cluster;
  int const rank = blockIdx.x % Cluster;
  for (int at = rank * part + threadIdx.x; at < (rank + 1) * part; at += Threads) {
    int const m = work.m + at % BLK_M{}, n = work.n + at / BLK_M{};
    if (m >= M{} || n >= N{}) continue;
    float x = 0;
    CUTE_UNROLL
    for (int other = 0; other < Cluster; ++other) {
      x += Cluster == 1 ? sums[at] : static_cast<float*>(__cluster_map_shared_rank(sums, other))[at];
    }
    C[LayoutC{}(m, n, work.l)] = epilogue(x, m, n, work.l);
  }
}
// end finish

__global__ void __cluster_dims__(Cluster, 1, 1) __launch_bounds__(Threads)
gemm(__grid_constant__ CUtensorMap const mapA, __grid_constant__ CUtensorMap const mapB, T* __restrict__ C,
     Epilogue epilogue) {
  extern __shared__ __align__(1024) uint8_t memory[];
  Shared& shared = *reinterpret_cast<Shared*>(memory);
  Work const work;
  if (threadIdx.x == Consumers) {
    CUTE_UNROLL
    for (int stage = 0; stage < Stages; ++stage) {
      Full::init(&shared.full[stage], 1);
      Empty::init(&shared.empty[stage], Consumers / 32);
    }
    cutlass::arch::fence_barrier_init();
  }
  __syncthreads();
  if (threadIdx.x >= Consumers) {
    if (threadIdx.x == Consumers) produce(shared, mapA, mapB, work);
    __syncwarp();
  } else {
    consume(shared, work);
  }
  cluster_sync();
  finish(shared.sums, C, work, epilogue);
  // No block may leave while others read its sums.
  cluster_sync();
}

// check: as in gemm_simt.cu

// maps: as in gemm_wgmma_16bit.cu

void launch(T const* A, T const* B, T* C, Epilogue epilogue, DLDevice device) {
  auto const stream = static_cast<cudaStream_t>(TVMFFIEnvGetStream(device.device_type, device.device_id));
  CUtensorMap const mapA = map_of_operand<OperandA, 1>(A), mapB = map_of_operand<OperandB, 1>(B);
  check(cudaFuncSetAttribute(gemm, cudaFuncAttributeMaxDynamicSharedMemorySize, SharedBytes), "shared memory");
  gemm<<<TilesM * TilesN * Batches * Cluster, Threads, SharedBytes, stream>>>(mapA, mapB, C, epilogue);
  check(cudaGetLastError(), "gemm");
}

}  // namespace product

// entry: as in gemm_simt.cu
