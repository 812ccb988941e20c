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
#include <cstdint>
#include <initializer_list>

#include <cute/tensor.hpp>
#include <cute/arch/copy_sm80.hpp>
#include <tvm/ffi/container/tensor.h>
#include <tvm/ffi/error.h>
#include <tvm/ffi/extra/c_env_api.h>
#include <tvm/ffi/function.h>

// Named: nvcc's host code cannot tell an unnamed namespace from CuTe's own.
namespace product {

using namespace cute;
using T = float;

// begin problem
using M = Int<4096>;
using N = Int<4096>;
using K = Int<4096>;
using LayoutA = Layout<Shape<M, K, _1>, Stride<K, _1, _0>>;  // (M,K,L)
using LayoutB = Layout<Shape<N, K, _1>, Stride<_1, N, _0>>;  // (N,K,L)
using LayoutC = Layout<Shape<M, N, _1>, Stride<N, _1, _0>>;  // (M,N,L)
struct Epilogue {
  CUTE_HOST_DEVICE T operator()(T x, int, int, int) const { return x; }
};
// end problem

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

constexpr int Threads = 256;  // 16 x 16, each with groups of 4 rows and 4 columns, 64 apart
constexpr int GroupsM = BLK_M{} / _64{}, GroupsN = BLK_N{} / _64{};
constexpr int TilesM = ceil_div(M{}, BLK_M{}), TilesN = ceil_div(N{}, BLK_N{}), TilesK = ceil_div(K{}, BLK_K{});
constexpr int Batches = size<2>(LayoutC{});

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

// Writes 4 neighbouring columns of one row.
CUTE_DEVICE void store(T* C, T const (&x)[4], int m, int n, int l, Epilogue const& epilogue) {
  if (m >= M{}) return;
  if constexpr (StoreC == 4) {
    if (n >= N{}) return;
    float4 const y = make_float4(epilogue(x[0], m, n, l), epilogue(x[1], m, n + 1, l), epilogue(x[2], m, n + 2, l),
                                 epilogue(x[3], m, n + 3, l));
    *reinterpret_cast<float4*>(C + LayoutC{}(m, n, l)) = y;
  } else {
    CUTE_UNROLL
    for (int j = 0; j < 4; ++j) {
      if (n + j < N{}) C[LayoutC{}(m, n + j, l)] = epilogue(x[j], m, n + j, l);
    }
  }
}

// Tiles in the order in which blocks run: `Group` rows of tiles at a time, column by column.
CUTE_DEVICE int2 tile_of(int index) {
  int const group = index / (Group * TilesN), rows = min(Group, TilesM - group * Group);
  int const rest = index % (Group * TilesN);
  return {group * Group + rest % rows, rest / rows};
}

// A thread's groups of 4 rows (of A, or of B) of one k, out of shared memory.
template <class X, int Groups>
CUTE_DEVICE void read(T const* shared, int row0, int k, T (&x)[Groups][4]) {
  CUTE_UNROLL
  for (int group = 0; group < Groups; ++group) {
    float4 const v = *reinterpret_cast<float4 const*>(shared + typename X::Shared{}(row0 + 64 * group, k));
    x[group][0] = v.x, x[group][1] = v.y, x[group][2] = v.z, x[group][3] = v.w;
  }
}

// C += A * B over the k's of one tile.
CUTE_DEVICE void multiply(T const* sA, T const* sB, int m_thread, int n_thread, T (&c)[GroupsM][4][GroupsN][4]) {
  CUTE_UNROLL
  for (int k = 0; k < BLK_K{}; ++k) {
    T a[GroupsM][4], b[GroupsN][4];
    read<OperandA>(sA, m_thread, k, a);
    read<OperandB>(sB, n_thread, k, b);
    CUTE_UNROLL
    for (int i = 0; i < GroupsM * 4; ++i) {
      CUTE_UNROLL
      for (int j = 0; j < GroupsN * 4; ++j) {
        T& x = c[i / 4][i % 4][j / 4][j % 4];
        x = fma(a[i / 4][i % 4], b[j / 4][j % 4], x);
      }
    }
  }
}

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

void check(cudaError_t status, char const* what) {
  if (status != cudaSuccess) TVM_FFI_THROW(RuntimeError) << what << ": " << cudaGetErrorString(status);
}

void launch(T const* A, T const* B, T* C, Epilogue epilogue, cudaStream_t stream) {
  check(cudaFuncSetAttribute(gemm, cudaFuncAttributeMaxDynamicSharedMemorySize, SharedBytes), "shared memory");
  gemm<<<TilesM * TilesN * Batches, Threads, SharedBytes, stream>>>(A, B, C, epilogue);
  check(cudaGetLastError(), "gemm");
}

}  // namespace product

// begin entry
void run(tvm::ffi::TensorView A, tvm::ffi::TensorView B, tvm::ffi::TensorView C) {
  using namespace product;
  auto const data = [](tvm::ffi::TensorView t) {
    return reinterpret_cast<T*>(static_cast<char*>(t.data_ptr()) + t.byte_offset());
  };
  DLDevice const device = A.device();
  auto const stream = static_cast<cudaStream_t>(TVMFFIEnvGetStream(device.device_type, device.device_id));
  launch(data(A), data(B), data(C), Epilogue{}, stream);
}

TVM_FFI_DLL_EXPORT_TYPED_FUNC(run, run);
// end entry
