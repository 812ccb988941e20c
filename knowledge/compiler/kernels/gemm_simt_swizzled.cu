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

// begin layout
// A tile in shared memory. Rows are contiguous, whichever way the operand lies, so that threads read 4 rows at once;
// a swizzle spreads the columns that a K-major operand is stored by over the banks, and costs no memory: such operands
// arrive 8 k's at a time, column by column, and bits of k choose the group of 4 banks.
constexpr int Padding = 0;
template <class Block, bool k_major>
using TileLayout = decltype(composition(Swizzle<k_major ? 3 : 0, 2, log_2(unsigned(Block::value)) - 2>{},
                                        Layout<Shape<Block, BLK_K>, Stride<_1, Block>>{}));  // (BLK,BLK_K)
// end layout

// copies: as in gemm_simt_multistage.cu

// store: as in gemm_simt_vectorized.cu

// order: as in gemm_simt_vectorized.cu

// multiply: as in gemm_simt_vectorized.cu

// kernel: as in gemm_simt_multistage.cu

// check: as in gemm_simt.cu

// launch: as in gemm_simt_multistage.cu

}  // namespace product

// entry: as in gemm_simt.cu
