// begin header
// C(m,n,l) = epilogue(sum over k of A(m,k,l) * B(n,k,l)) in float32 on the SIMT cores: asynchronous copies run
// two tiles ahead in shared memory, which is swizzled instead of padded.
//   op class: gemm
//   architecture: sm_80
//   layouts: any strides; 16-byte copies along the rows, where strides, extents and pointers allow them
//   tile: block 128 x 128 x 16, 256 threads, 8 x 8 of C a thread as 2 x 2 groups of 4 x 4
//   shared memory: A 128 x 16 x 3 x 4 = 24576 bytes, B 128 x 16 x 3 x 4 = 24576 bytes; 49152 bytes a
//     block, two blocks a multiprocessor
//   reaches: H200, 4096 x 4096 x 4096: 2.74 ms where no operand is K-major (cuBLAS in float32: 2.74 ms), 3.52 ms
//     where one is, 4.42 ms where both are: the swizzle's addresses cost more instructions than padding
// end header
// includes: as in gemm_simt.cu
#include <cute/arch/copy_sm80.hpp>

// Named: nvcc's host code cannot tell an unnamed namespace from CuTe's own.
namespace product {

using namespace cute;
using T = float;

// problem: as in gemm_simt.cu

// knobs: as in gemm_simt_multistage.cu

// tiles: as in gemm_simt_vectorized.cu

// One operand seen as (rows, K). In shared memory rows are contiguous, whichever way the operand lies, so that threads
// read 4 rows at once; the swizzle spreads the columns that a K-major operand is
// stored by over the banks, and costs no memory.
template <class Global_, class Rows_, class Block_, int Copy_>
struct Operand {
  using Global = Global_;
  using Rows = Rows_;
  using Block = Block_;
  static constexpr bool k_major = stride<1>(Global{}) == 1;
  static constexpr bool whole = Rows::value % Block::value == 0 && K::value % BLK_K::value == 0;  // no edges
  // K-major operands arrive 8 k's at a time, column by column: bits of k choose the group of 4 banks.
  using Swizzled = Swizzle<k_major ? 3 : 0, 2, log_2(unsigned(Block::value)) - 2>;
  using Shared = decltype(composition(Swizzled{}, Layout<Shape<Block, BLK_K>, Stride<_1, Block>>{}));  // (BLK,BLK_K)
  static constexpr int size = Block::value * BLK_K::value;
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

// store: as in gemm_simt_vectorized.cu

// order: as in gemm_simt_vectorized.cu

// multiply: as in gemm_simt_vectorized.cu

// kernel: as in gemm_simt_multistage.cu

// check: as in gemm_simt.cu

// launch: as in gemm_simt_multistage.cu

}  // namespace product

// entry: as in gemm_simt.cu
