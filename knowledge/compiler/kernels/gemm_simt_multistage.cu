// begin header
// C(m,n,l) = epilogue(sum over k of A(m,k,l) * B(n,k,l)) in float32 on the SIMT cores: asynchronous copies run
// two tiles ahead in shared memory.
//   op class: gemm
//   architecture: sm_80
//   layouts: any strides; 16-byte copies along the rows, where strides, extents and pointers allow them
//   tile: block 128 x 128 x 16, 256 threads, 8 x 8 of C a thread as 2 x 2 groups of 4 x 4
//   shared memory: A 132 x 16 x 3 x 4 = 25344 bytes, B 132 x 16 x 3 x 4 = 25344 bytes; 50688 bytes a
//     block, two blocks a multiprocessor
//   reaches: H200, 4096 x 4096 x 4096: 2.80 ms where no operand is K-major (0.97 of cuBLAS in float32), 3.10 ms
//     where one is, 3.45 ms where both are
// end header
// includes: as in gemm_simt.cu
#include <cute/arch/copy_sm80.hpp>

// Named: nvcc's host code cannot tell an unnamed namespace from CuTe's own.
namespace product {

using namespace cute;
using T = float;

// problem: as in gemm_simt.cu

// begin knobs
using BLK_M = Int<128>;       // multiples of 64
using BLK_N = Int<128>;
using BLK_K = Int<16>;
constexpr int Stages = 3;     // tiles of A and B in shared memory
constexpr int MinBlocks = 2;  // blocks that a multiprocessor must hold: what caps the registers
constexpr int Group = 8;      // tile rows that run side by side, so that their tiles of B stay in the L2 cache
constexpr int CopyA = 1;      // elements one asynchronous copy moves: K-major operands are transposed, one at a time
constexpr int CopyB = 4;
constexpr int StoreC = 4;     // elements one store writes
// end knobs

// tiles: as in gemm_simt_vectorized.cu

// begin layout
// A tile in shared memory. Rows are contiguous, whichever way the operand lies, so that threads read 4 rows at once;
// padding spreads the columns that a K-major operand is stored by over the banks.
constexpr int Padding = 4;
template <class Block, bool k_major>
using TileLayout = Layout<Shape<Block, BLK_K>, Stride<_1, Int<Block::value + Padding>>>;  // (BLK,BLK_K)
// end layout

// begin copies
// One operand seen as (rows, K).
template <class Global_, class Rows_, class Block_, int Copy_>
struct Operand {
  using Global = Global_;
  using Rows = Rows_;
  using Block = Block_;
  static constexpr bool k_major = stride<1>(Global{}) == 1;
  static constexpr bool whole = Rows::value % Block::value == 0 && K::value % BLK_K::value == 0;  // no edges
  using Shared = TileLayout<Block, k_major>;
  static constexpr int size = (Block::value + Padding) * BLK_K::value;
  static constexpr int Copy = Copy_, copies = Block::value * BLK_K::value / Copy / Threads;
  static_assert(Copy == 1 || !k_major, "a K-major operand is transposed element by element");
  static_assert(copies * Copy * Threads == Block::value * BLK_K::value, "every thread copies as much");

  // A warp takes 8 k's of 4 rows, or neighbouring rows of one k.
  CUTE_DEVICE static int row(int thread, int copy) {
    int const index = thread + copy * Threads;
    return k_major ? index / 8 % Block::value : index % (Block::value / Copy) * Copy;
  }
  CUTE_DEVICE static int k(int thread, int copy) {
    int const index = thread + copy * Threads;
    return k_major ? index % 8 + index / (8 * Block::value) * 8 : index / (Block::value / Copy);
  }
};
using OperandA = Operand<LayoutA, M, BLK_M, CopyA>;
using OperandB = Operand<LayoutB, N, BLK_N, CopyB>;
constexpr int SharedBytes = Stages * (OperandA::size + OperandB::size) * int(sizeof(T));

// Start copying one tile (rows from row0, k's from k0) into shared memory; what lies outside the operand becomes zero.
template <class X>
CUTE_DEVICE void copy_tile(T const* x, T* shared, int row0, int k0, int thread) {
  using Word = cute::uint_bit_t<32 * X::Copy>;
  CUTE_UNROLL
  for (int copy = 0; copy < X::copies; ++copy) {
    int const row = X::row(thread, copy), k = X::k(thread, copy);
    bool const inside = X::whole || (row0 + row < typename X::Rows{} && k0 + k < K{});
    Word const& from = *reinterpret_cast<Word const*>(inside ? x + typename X::Global{}(row0 + row, k0 + k, 0) : x);
    Word& to = *reinterpret_cast<Word*>(shared + typename X::Shared{}(row, k));
    if constexpr (X::Copy == 4) {
      SM80_CP_ASYNC_CACHEGLOBAL_ZFILL<Word>::copy(from, to, inside);
    } else {
      SM80_CP_ASYNC_CACHEALWAYS_ZFILL<Word>::copy(from, to, inside);
    }
  }
}
// end copies

// store: as in gemm_simt_vectorized.cu

// order: as in gemm_simt_vectorized.cu

// multiply: as in gemm_simt_vectorized.cu

// begin kernel
__global__ void __launch_bounds__(Threads, MinBlocks)
gemm(T const* __restrict__ A, T const* __restrict__ B, T* __restrict__ C, Epilogue epilogue) {
  extern __shared__ __align__(16) T shared[];
  T* const sA = shared;                                         // (BLK_M,BLK_K,Stages)
  T* const sB = shared + Stages * OperandA::size;               // (BLK_N,BLK_K,Stages)
  int const thread = threadIdx.x, lane = thread % 32, warp = thread / 32;
  int const l = blockIdx.x / (TilesM * TilesN);
  auto const [m_tile, n_tile] = tile_of(blockIdx.x % (TilesM * TilesN));
  int const m0 = m_tile * BLK_M{}, n0 = n_tile * BLK_N{};
  T const* const mA = A + LayoutA{}(0, 0, l);                   // (M,K)
  T const* const mB = B + LayoutB{}(0, 0, l);                   // (N,K)
  // A warp is 8 x 4 threads: its reads of A and of B are 8 and 4 different words of 16 bytes.
  int const m_thread = 4 * (lane % 8 + warp % 2 * 8), n_thread = 4 * (lane / 8 + warp / 2 * 4);
  T tCrC[GroupsM][4][GroupsN][4] = {};                          // (GroupsM,4,GroupsN,4)

  auto const fetch = [&](int k_tile, int stage) {
    if (k_tile < TilesK) {
      copy_tile<OperandA>(mA, sA + stage * OperandA::size, m0, k_tile * BLK_K{}, thread);
      copy_tile<OperandB>(mB, sB + stage * OperandB::size, n0, k_tile * BLK_K{}, thread);
    }
    cp_async_fence();
  };
  CUTE_UNROLL
  for (int stage = 0; stage < Stages - 1; ++stage) fetch(stage, stage);
  for (int k_tile = 0, stage = 0; k_tile < TilesK; ++k_tile) {
    cp_async_wait<Stages - 2>();
    __syncthreads();
    fetch(k_tile + Stages - 1, stage == 0 ? Stages - 1 : stage - 1);
    multiply(sA + stage * OperandA::size, sB + stage * OperandB::size, m_thread, n_thread, tCrC);
    stage = stage + 1 == Stages ? 0 : stage + 1;
  }

  CUTE_UNROLL
  for (int piece = 0; piece < GroupsM * 4 * GroupsN; ++piece) {
    int const j = piece % GroupsN, i = piece / GroupsN % 4, group = piece / GroupsN / 4;
    store(C, tCrC[group][i][j], m0 + m_thread + 64 * group + i, n0 + n_thread + 64 * j, l, epilogue);
  }
}
// end kernel

// check: as in gemm_simt.cu

// begin launch
void launch(T const* A, T const* B, T* C, Epilogue epilogue, DLDevice device) {
  auto const stream = static_cast<cudaStream_t>(TVMFFIEnvGetStream(device.device_type, device.device_id));
  check(cudaFuncSetAttribute(gemm, cudaFuncAttributeMaxDynamicSharedMemorySize, SharedBytes), "shared memory");
  gemm<<<TilesM * TilesN * Batches, Threads, SharedBytes, stream>>>(A, B, C, epilogue);
  check(cudaGetLastError(), "gemm");
}
// end launch

}  // namespace product

// entry: as in gemm_simt.cu
