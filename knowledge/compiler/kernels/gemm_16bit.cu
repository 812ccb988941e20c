// begin header
// C(m,n,l) = epilogue(sum over k of A(m,k,l) * B(n,k,l)) for float16 or bfloat16 operands on tensor cores, summed in
// float32. Asynchronous copies keep a ring of tiles in shared memory; ldmatrix brings them into registers, transposing
// on the way where an operand is not K-major.
//   op class: gemm
//   architecture: sm_80
//   layouts: any strides; 16-byte copies where strides, extents and pointers allow them
//   tile: block 128 x 128 x 64, 8 warps of 64 x 32, MMA 16 x 8 x 16
//   shared memory: A 128 x 64 x 3 x 2 = 49152 bytes, B 128 x 64 x 3 x 2 = 49152 bytes; 98304 bytes a block
//   reaches: H200, 4096 x 4096 x 4096: 0.36 ms in every majorness (378e12 operations a second), 0.34 ms with 4
//     warps of 64 x 64; cuBLAS, which uses wgmma, 0.18 to 0.20 ms
// end header
// includes: as in gemm_simt.cu
#include <cute/arch/copy_sm80.hpp>
#include <cute/atom/mma_atom.hpp>
#include <cute/atom/copy_atom.hpp>

// _product: as in gemm_simt.cu

// begin problem
using T = half_t;  // or bfloat16_t
using M = Int<4096>;
using N = Int<4096>;
using K = Int<4096>;
using LayoutA = Layout<Shape<M, K, _1>, Stride<K, _1, _0>>;  // (M,K,L)
using LayoutB = Layout<Shape<N, K, _1>, Stride<_1, N, _0>>;  // (N,K,L)
using LayoutC = Layout<Shape<M, N, _1>, Stride<N, _1, _0>>;  // (M,N,L)
struct Epilogue {
  CUTE_HOST_DEVICE T operator()(float x, int, int, int) const { return T(x); }
};
// end problem

// begin knobs
using BLK_M = Int<128>;
using BLK_N = Int<128>;
using BLK_K = Int<64>;        // a multiple of 64
using WarpsM = Int<2>;
using WarpsN = Int<4>;
constexpr int Stages = 3;     // tiles of A and B in shared memory
constexpr int MinBlocks = 2;  // blocks that a multiprocessor must hold: what caps the registers
constexpr int Group = 8;      // tile rows that run side by side, so that their tiles of B stay in the L2 cache
constexpr int CopyA = 8;      // elements one copy moves: 8, 2 or 1
constexpr int CopyB = 8;
constexpr int StoreC = 2;     // elements one store writes: 2 or 1
// end knobs

constexpr int Threads = 32 * WarpsM::value * WarpsN::value;
constexpr int TilesM = ceil_div(M{}, BLK_M{}), TilesN = ceil_div(N{}, BLK_N{}), TilesK = ceil_div(K{}, BLK_K{});
constexpr int Batches = size<2>(LayoutC{});

using Atom = cute::conditional_t<cute::is_same_v<T, half_t>, SM80_16x8x16_F32F16F16F32_TN,
                                 SM80_16x8x16_F32BF16BF16F32_TN>;
using Mma = decltype(make_tiled_mma(Atom{}, Layout<Shape<WarpsM, WarpsN, _1>>{},
                                    Tile<Int<16 * WarpsM::value>, Int<16 * WarpsN::value>, _16>{}));

// One operand seen as (rows, K). Its tiles lie as the operand does, swizzled so that the 8 rows, or 8 k's, which
// ldmatrix reads at once lie in different banks.
template <class Global_, class Rows_, class Block_, int Copy_>
struct Operand {
  using Global = Global_;
  using Rows = Rows_;
  using Block = Block_;
  static constexpr bool k_major = stride<1>(Global{}) == 1;
  static constexpr bool whole = Rows::value % Block::value == 0 && K::value % BLK_K::value == 0;  // no edges
  using Piece = cute::conditional_t<k_major, Layout<Shape<_8, _64>, Stride<_64, _1>>,
                                    Layout<Shape<_64, _8>, Stride<_1, _64>>>;
  using Shared = decltype(tile_to_shape(composition(Swizzle<3, 3, 3>{}, Piece{}),
                                        Shape<Block, BLK_K, Int<Stages>>{}));                 // (BLK,BLK_K,Stages)
  using Reader = Copy_Atom<cute::conditional_t<k_major, SM75_U32x4_LDSM_N, SM75_U16x8_LDSM_T>, T>;
  static constexpr int Copy = Copy_, size = Block::value * BLK_K::value, copies = size / Copy / Threads;
  static constexpr int per_line = (k_major ? BLK_K::value : Block::value) / Copy;
  static_assert(copies * Copy * Threads == size, "every thread copies as much");
};
using OperandA = Operand<LayoutA, M, BLK_M, CopyA>;
using OperandB = Operand<LayoutB, N, BLK_N, CopyB>;
constexpr int SharedBytes = Stages * (OperandA::size + OperandB::size) * int(sizeof(T));

// Start copying one tile (rows from row0, k's from k0) into a stage; what lies outside the operand becomes zero.
template <class X>
CUTE_DEVICE void copy_tile(T const* x, T* shared, int stage, int row0, int k0, int thread) {
  // Single elements, or pairs, are too many to have all of their places in registers.
#pragma unroll (X::Copy == 8 ? X::copies : 4)
  for (int copy = 0; copy < X::copies; ++copy) {
    int const index = thread + copy * Threads, line = index / X::per_line, place = index % X::per_line * X::Copy;
    int const row = X::k_major ? line : place, k = X::k_major ? place : line;
    bool const inside = X::whole || (row0 + row < typename X::Rows{} && k0 + k < K{});
    T const* const from = inside ? x + typename X::Global{}(row0 + row, k0 + k, 0) : x;
    T* const to = shared + typename X::Shared{}(row, k, stage);
    if constexpr (X::Copy == 8) {
      SM80_CP_ASYNC_CACHEGLOBAL_ZFILL<uint128_t>::copy(*reinterpret_cast<uint128_t const*>(from),
                                                       *reinterpret_cast<uint128_t*>(to), inside);
    } else if constexpr (X::Copy == 2) {
      SM80_CP_ASYNC_CACHEALWAYS_ZFILL<uint32_t>::copy(*reinterpret_cast<uint32_t const*>(from),
                                                      *reinterpret_cast<uint32_t*>(to), inside);
    } else {
      *to = inside ? *from : T(0);
    }
  }
}

// begin order
// Tiles in the order in which blocks run: `Group` rows of tiles at a time, column by column.
CUTE_DEVICE int2 tile_of(int index) {
  int const group = index / (Group * TilesN), rows = min(Group, TilesM - group * Group);
  int const rest = index % (Group * TilesN);
  return {group * Group + rest % rows, rest / rows};
}
// end order

__global__ void __launch_bounds__(Threads, MinBlocks)
gemm(T const* __restrict__ A, T const* __restrict__ B, T* __restrict__ C, Epilogue epilogue) {
  extern __shared__ __align__(1024) uint8_t memory[];
  T* const pA = reinterpret_cast<T*>(memory);
  T* const pB = pA + Stages * OperandA::size;
  int const thread = threadIdx.x, l = blockIdx.x / (TilesM * TilesN);
  auto const [m_tile, n_tile] = tile_of(blockIdx.x % (TilesM * TilesN));
  int const m0 = m_tile * BLK_M{}, n0 = n_tile * BLK_N{};
  T const* const mA = A + LayoutA{}(0, 0, l);                                 // (M,K)
  T const* const mB = B + LayoutB{}(0, 0, l);                                 // (N,K)
  Tensor sA = make_tensor(make_smem_ptr(pA), typename OperandA::Shared{});    // (BLK_M,BLK_K,Stages)
  Tensor sB = make_tensor(make_smem_ptr(pB), typename OperandB::Shared{});    // (BLK_N,BLK_K,Stages)

  auto const fetch = [&](int k_tile, int stage) {
    if (k_tile < TilesK) {
      copy_tile<OperandA>(mA, pA, stage, m0, k_tile * BLK_K{}, thread);
      copy_tile<OperandB>(mB, pB, stage, n0, k_tile * BLK_K{}, thread);
    }
    cp_async_fence();
  };
  CUTE_UNROLL
  for (int stage = 0; stage < Stages - 1; ++stage) fetch(stage, stage);

  Mma mma;
  auto const thread_mma = mma.get_thread_slice(thread);
  Tensor tCrA = thread_mma.partition_fragment_A(sA(_, _, 0));                 // (MMA,MMA_M,MMA_K)
  Tensor tCrB = thread_mma.partition_fragment_B(sB(_, _, 0));                 // (MMA,MMA_N,MMA_K)
  Tensor tCrC = partition_fragment_C(mma, Shape<BLK_M, BLK_N>{});             // (MMA,MMA_M,MMA_N)
  clear(tCrC);
  auto const copy_a = make_tiled_copy_A(typename OperandA::Reader{}, mma);
  auto const copy_b = make_tiled_copy_B(typename OperandB::Reader{}, mma);
  Tensor tXsA = copy_a.get_slice(thread).partition_S(sA);                     // (CPY,MMA_M,MMA_K,Stages)
  Tensor tXrA = copy_a.get_slice(thread).retile_D(tCrA);                      // (CPY,MMA_M,MMA_K)
  Tensor tXsB = copy_b.get_slice(thread).partition_S(sB);                     // (CPY,MMA_N,MMA_K,Stages)
  Tensor tXrB = copy_b.get_slice(thread).retile_D(tCrB);                      // (CPY,MMA_N,MMA_K)

  for (int k_tile = 0, stage = 0; k_tile < TilesK; ++k_tile) {
    cp_async_wait<Stages - 2>();
    __syncthreads();
    fetch(k_tile + Stages - 1, stage == 0 ? Stages - 1 : stage - 1);
    CUTE_UNROLL
    for (int k = 0; k < size<2>(tCrA); ++k) {
      copy(copy_a, tXsA(_, _, k, stage), tXrA(_, _, k));
      copy(copy_b, tXsB(_, _, k, stage), tXrB(_, _, k));
      cute::gemm(mma, tCrA(_, _, k), tCrB(_, _, k), tCrC);
    }
    stage = stage + 1 == Stages ? 0 : stage + 1;
  }

  Tensor cC = make_identity_tensor(Shape<BLK_M, BLK_N>{});                    // (BLK_M,BLK_N) -> (m,n)
  Tensor tCcC = thread_mma.partition_C(cC);                                   // (MMA,MMA_M,MMA_N) -> (m,n)
  CUTE_UNROLL
  for (int i = 0; i < size(tCrC); i += 2) {
    int const m = m0 + get<0>(tCcC(i)), n = n0 + get<1>(tCcC(i));
    if (m >= M{} || n >= N{}) continue;
    T* const to = C + LayoutC{}(m, n, l);
    T const first = epilogue(tCrC(i), m, n, l);
    if constexpr (StoreC == 2) {
      T const second = epilogue(tCrC(i + 1), m, n + 1, l);
      *reinterpret_cast<uint32_t*>(to) = uint32_t(second.raw()) << 16 | first.raw();
    } else {
      *to = first;
      if (n + 1 < N{}) C[LayoutC{}(m, n + 1, l)] = epilogue(tCrC(i + 1), m, n + 1, l);
    }
  }
}

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
