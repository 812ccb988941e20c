// begin header
// C(m,n,l) = epilogue(sum over k of A(m,k,l) * B(n,k,l)) in float32 on the SIMT cores: 16-byte loads. The next tile
// travels into registers while this one is multiplied, two tiles alternate in shared memory.
//   op class: gemm
//   architecture: sm_80
//   layouts: any strides; 16-byte loads along K or along the rows, where strides, extents and pointers allow them
//   tile: block 128 x 128 x 16, 256 threads, 8 x 8 of C a thread as 2 x 2 groups of 4 x 4
//   shared memory: A 132 x 16 x 2 x 4 = 16896 bytes, B 132 x 16 x 2 x 4 = 16896 bytes; 33792 bytes of at most 49152
//   reaches: H200, 4096 x 4096 x 4096: 2.98 ms with A K-major (46e12 operations a second), 0.92 of cuBLAS in float32;
//     with tiles of 8 k's 3.13 ms in every majorness
// end header
// includes: as in gemm_simt.cu

// Named: nvcc's host code cannot tell an unnamed namespace from CuTe's own.
namespace product {

using namespace cute;
using T = float;

// problem: as in gemm_simt.cu

// begin knobs
using BLK_M = Int<128>;       // multiples of 64
using BLK_N = Int<128>;
using BLK_K = Int<16>;
constexpr int MinBlocks = 2;  // blocks that a multiprocessor must hold: what caps the registers
constexpr int Group = 8;      // tile rows that run side by side, so that their tiles of B stay in the L2 cache
constexpr int CopyA = 4;      // elements one load moves along the contiguous dimension
constexpr int CopyB = 4;
constexpr int StoreC = 4;     // elements one store writes
// end knobs

// begin tiles
constexpr int Threads = 256;  // 16 x 16, each with groups of 4 rows and 4 columns, 64 apart
constexpr int GroupsM = BLK_M{} / _64{}, GroupsN = BLK_N{} / _64{};
constexpr int TilesM = ceil_div(M{}, BLK_M{}), TilesN = ceil_div(N{}, BLK_N{}), TilesK = ceil_div(K{}, BLK_K{});
constexpr int Batches = size<2>(LayoutC{});
// end tiles

// One operand seen as (rows, K). In shared memory rows are contiguous, whichever way the operand lies, so that threads
// read 4 rows at once; padding spreads the columns that a K-major operand is stored
// by over the banks.
template <class Global_, class Rows_, class Block_, int Copy_>
struct Operand {
  using Global = Global_;
  using Rows = Rows_;
  using Block = Block_;
  static constexpr bool k_major = stride<1>(Global{}) == 1;
  static constexpr bool whole = Rows::value % Block::value == 0 && K::value % BLK_K::value == 0;  // no edges
  using Shared = Layout<Shape<Block, BLK_K>, Stride<_1, Int<Block::value + 4>>>;  // (BLK,BLK_K)
  static constexpr int size = (Block::value + 4) * BLK_K::value;
  // A line is what lies contiguous in memory: K of one row, or rows of one k.
  static constexpr int Copy = Copy_, per_line = (k_major ? BLK_K::value : Block::value) / Copy;
  static constexpr int copies = Block::value * BLK_K::value / Copy / Threads;
  static_assert(copies * Copy * Threads == Block::value * BLK_K::value, "every thread copies as much");

  CUTE_DEVICE static int row(int thread, int copy) {
    int const index = thread + copy * Threads;
    return k_major ? index / per_line : index % per_line * Copy;
  }
  CUTE_DEVICE static int k(int thread, int copy) {
    int const index = thread + copy * Threads;
    return k_major ? index % per_line * Copy : index / per_line;
  }
};
using OperandA = Operand<LayoutA, M, BLK_M, CopyA>;
using OperandB = Operand<LayoutB, N, BLK_N, CopyB>;

// A thread's part of one tile on its way through registers. What lies outside the operand becomes zero.
template <class X>
struct Parcel {
  T values[X::copies][X::Copy];

  CUTE_DEVICE void fetch(T const* x, int row0, int k0, int thread) {
    CUTE_UNROLL
    for (int copy = 0; copy < X::copies; ++copy) {
      int const row = row0 + X::row(thread, copy), k = k0 + X::k(thread, copy);
      bool const inside = X::whole || (row < typename X::Rows{} && k < K{});
      T const* const from = x + typename X::Global{}(row, k, 0);
      if constexpr (X::Copy == 4) {
        float4 const v = inside ? *reinterpret_cast<float4 const*>(from) : float4{};
        values[copy][0] = v.x, values[copy][1] = v.y, values[copy][2] = v.z, values[copy][3] = v.w;
      } else {
        values[copy][0] = inside ? *from : T(0);
      }
    }
  }

  CUTE_DEVICE void put(T* shared, int thread) const {
    CUTE_UNROLL
    for (int copy = 0; copy < X::copies; ++copy) {
      CUTE_UNROLL
      for (int i = 0; i < X::Copy; ++i) {
        int const row = X::row(thread, copy) + (X::k_major ? 0 : i), k = X::k(thread, copy) + (X::k_major ? i : 0);
        shared[typename X::Shared{}(row, k)] = values[copy][i];
      }
    }
  }
};

// begin store
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
// end store

// begin order
// Tiles in the order in which blocks run: `Group` rows of tiles at a time, column by column.
CUTE_DEVICE int2 tile_of(int index) {
  int const group = index / (Group * TilesN), rows = min(Group, TilesM - group * Group);
  int const rest = index % (Group * TilesN);
  return {group * Group + rest % rows, rest / rows};
}
// end order

// begin multiply
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
// end multiply

__global__ void __launch_bounds__(Threads, MinBlocks)
gemm(T const* __restrict__ A, T const* __restrict__ B, T* __restrict__ C, Epilogue epilogue) {
  __shared__ __align__(16) T sA[2][OperandA::size];             // (BLK_M,BLK_K,2)
  __shared__ __align__(16) T sB[2][OperandB::size];             // (BLK_N,BLK_K,2)
  int const thread = threadIdx.x, lane = thread % 32, warp = thread / 32;
  int const l = blockIdx.x / (TilesM * TilesN);
  auto const [m_tile, n_tile] = tile_of(blockIdx.x % (TilesM * TilesN));
  int const m0 = m_tile * BLK_M{}, n0 = n_tile * BLK_N{};
  T const* const mA = A + LayoutA{}(0, 0, l);                   // (M,K)
  T const* const mB = B + LayoutB{}(0, 0, l);                   // (N,K)
  // A warp is 8 x 4 threads: its reads of A and of B are 8 and 4 different words of 16 bytes.
  int const m_thread = 4 * (lane % 8 + warp % 2 * 8), n_thread = 4 * (lane / 8 + warp / 2 * 4);
  T tCrC[GroupsM][4][GroupsN][4] = {};                          // (GroupsM,4,GroupsN,4)

  Parcel<OperandA> tArA;                                        // (copies,CopyA)
  Parcel<OperandB> tBrB;                                        // (copies,CopyB)
  auto const fetch = [&](int k_tile) {
    tArA.fetch(mA, m0, k_tile * BLK_K{}, thread);
    tBrB.fetch(mB, n0, k_tile * BLK_K{}, thread);
  };
  auto const put = [&](int stage) {
    tArA.put(sA[stage], thread);
    tBrB.put(sB[stage], thread);
  };
  fetch(0);
  put(0);
  __syncthreads();
  for (int k_tile = 0; k_tile < TilesK; ++k_tile) {
    int const stage = k_tile % 2;
    if (k_tile + 1 < TilesK) fetch(k_tile + 1);
    multiply(sA[stage], sB[stage], m_thread, n_thread, tCrC);
    if (k_tile + 1 < TilesK) put(1 - stage);
    __syncthreads();
  }

  CUTE_UNROLL
  for (int piece = 0; piece < GroupsM * 4 * GroupsN; ++piece) {
    int const j = piece % GroupsN, i = piece / GroupsN % 4, group = piece / GroupsN / 4;
    store(C, tCrC[group][i][j], m0 + m_thread + 64 * group + i, n0 + n_thread + 64 * j, l, epilogue);
  }
}

// check: as in gemm_simt.cu

// launch: as in gemm_simt.cu

}  // namespace product

// entry: as in gemm_simt.cu
