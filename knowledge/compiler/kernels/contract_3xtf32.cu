// begin header
// A convolution on tensor cores at float32 grade, as an implicit GEMM: out(m,n) = sum over k of left(m,k) * right(n,k),
// where m is a channel that comes out, n a place of an image, and k a channel that goes in with a tap of the window.
// Here 16 images of 64 x 56 x 56, 128 channels out, windows of 3 x 3, a padding of 1.
// Nothing is copied into a matrix first: a row n of `right` is an address and its place in the image, a k adds a step
// to each (a table that `prepare` writes), and asynchronous copies of 4 bytes, or of 16 where neighbours lie aligned,
// gather a tile; what misses the image becomes zero. The 16 k's of a tile are channels under one tap where there are
// so many, and one test does for all. The weights are packed once, in that order, padded along K.
//   op class: gemm
//   architecture: sm_80
//   layouts: mX (image,channel,row,column), mWeight (channel,k), mOut as mX
//   tile: block 128 x 128 x 16, 8 warps of 32 x 64, each in groups of 32 x 32 (MMA 16 x 8 x 8)
//   shared memory: left 128 x 16 x 4 x 4 = 32768 bytes, right 128 x 16 x 4 x 4 = 32768 bytes; 65536 bytes a block
// end header

// begin includes
// _standard: as in pointwise.cu

#include <cute/arch/copy_sm80.hpp>
#include <cute/arch/mma_sm80.hpp>
#include <cute/tensor.hpp>
// _interface: as in pointwise.cu
// end includes

// begin steps
namespace contract {
using T = float;
using BLK_K = Int<16>;
constexpr int StepK = 16;       // k's between two additions to the sums in registers
constexpr int Products = 3;     // of what `multiply` does
// end steps

// fragments: as in gemm_3xtf32.cu

// begin engine
// One operand's tile in shared memory, and who copies what: the operand's rows, and the k's of a step.
// K-major: swizzled so that rows 16 apart differ in bank; else so that k's 4 apart do.
template <int Rows, int Copy_, int Threads, bool k_major_>
struct Tile {
  using Block = Int<Rows>;
  static constexpr bool k_major = k_major_;
  static constexpr int Copy = Copy_;
  using Swizzled = cute::conditional_t<k_major, Swizzle<1, 4, log_2(unsigned(BLK_K::value))>,
                                       Swizzle<2, 2, log_2(unsigned(Rows))>>;
  using Plain = cute::conditional_t<k_major, Layout<Shape<Block, BLK_K>, Stride<BLK_K, _1>>,
                                    Layout<Shape<Block, BLK_K>, Stride<_1, Block>>>;
  using Shared = decltype(composition(Swizzled{}, Plain{}));  // (BLK,BLK_K)
  static constexpr int size = Rows * BLK_K::value;
  // A line is what lies contiguous in the tile: K of one row, or rows of one k.
  static constexpr int per_line = (k_major ? BLK_K::value : Rows) / Copy;
  static constexpr int copies = size / Copy / Threads;
  static constexpr bool long_lines = per_line > Threads;  // than threads
  static constexpr int rows = k_major ? copies : long_lines ? per_line / Threads : 1;  // that a thread copies of
  static_assert(copies * Copy * Threads == size, "every thread copies as much");

  CUTE_DEVICE static int line(int thread, int copy) {
    return long_lines ? copy / (per_line / Threads) : thread / per_line + copy * (Threads / per_line);
  }
  CUTE_DEVICE static int place(int thread, int copy) {
    return Copy * (long_lines ? thread + copy % (per_line / Threads) * Threads : thread % per_line);
  }
  CUTE_DEVICE static int row(int thread, int copy) { return k_major ? line(thread, copy) : place(thread, copy); }
  CUTE_DEVICE static int k(int thread, int copy) { return k_major ? place(thread, copy) : line(thread, copy); }
};

// Elements of two bytes become floats on their way, which no asynchronous copy does: TF32 holds either type exactly.
template <int Copy, class From>
CUTE_DEVICE void copy_in(From const* from, T* to, bool inside) {
  using Word = cute::uint_bit_t<16 * Copy>;
  Word const word = inside ? *reinterpret_cast<Word const*>(from) : Word(0);
  auto const* const x = reinterpret_cast<From const*>(&word);
  if constexpr (Copy == 4) {
    *reinterpret_cast<float4*>(to) = make_float4(T(x[0]), T(x[1]), T(x[2]), T(x[3]));
  } else {
    *to = T(x[0]);
  }
}

// Start one asynchronous copy of `Copy` elements; zeros where it is not `inside`.
template <int Copy>
CUTE_DEVICE void copy_in(T const* from, T* to, bool inside) {
  using Word = cute::uint_bit_t<32 * Copy>;
  if constexpr (Copy == 4) {
    SM80_CP_ASYNC_CACHEGLOBAL_ZFILL<Word>::copy(*reinterpret_cast<Word const*>(from), *reinterpret_cast<Word*>(to),
                                                inside);
  } else {
    SM80_CP_ASYNC_CACHEALWAYS_ZFILL<Word>::copy(*reinterpret_cast<Word const*>(from), *reinterpret_cast<Word*>(to),
                                                inside);
  }
}

template <class P> constexpr int TilesK = ceil_div(P::K, BLK_K::value);
template <class P> constexpr int PaddedK = TilesK<P> * BLK_K::value;
template <class P> constexpr int TilesM = ceil_div(P::M, P::BLK_M::value);
template <class P> constexpr int TilesN = ceil_div(P::N, P::BLK_N::value);
template <class P> constexpr int Warps = P::BLK_M::value / P::WARP_M::value * (P::BLK_N::value / P::WARP_N::value);
template <class P> constexpr int Threads = 32 * Warps<P>;
template <class P> using Left = Tile<P::BLK_M::value, 4, Threads<P>, true>;
template <class P> using Right = Tile<P::BLK_N::value, P::CopyRight, Threads<P>, P::k_major>;
template <class P> constexpr int StageElements = P::Stages * (Left<P>::size + Right<P>::size);
template <class P> constexpr int SumElements = P::BLK_M::value * P::BLK_N::value;
template <class P> constexpr int SharedBytes = cute::max(StageElements<P>, SumElements<P>) * int(sizeof(T));
// What `prepare` writes: the steps along K, then the left operand unless it is read where it lies.
template <class P> constexpr int64_t StepBytes = int64_t(PaddedK<P>) * sizeof(int4);
template <class P> constexpr int64_t PackedElements = P::Packs ? int64_t(P::Batches) * P::M * PaddedK<P> : 0;
template <class P> constexpr int64_t HeldBytes = StepBytes<P> + PackedElements<P> * int64_t(sizeof(T));

// The left operand as (batch, m, k), K padded with zeros, and what each k adds to a row of the right one.
template <class P>
__global__ void __launch_bounds__(kThreads) prepare(P const p, T* packed, int4* steps) {
  int64_t const first = int64_t(blockIdx.x) * kThreads + threadIdx.x;
  for (int64_t at = first; at < PackedElements<P>; at += int64_t(gridDim.x) * kThreads) {
    int const k = int(at % PaddedK<P>), m = int(at / PaddedK<P> % P::M), batch = int(at / PaddedK<P> / P::M);
    packed[at] = k < P::K ? p.left(batch, m, k) : T(0);
  }
  for (int64_t k = first; k < PaddedK<P>; k += int64_t(gridDim.x) * kThreads) {
    steps[k] = k < P::K ? p.step(int(k)) : make_int4(0, 0, 0, 0);
  }
}

// 32 x 32 of C in plain TF32: as `multiply`, of the three products the largest alone.
CUTE_DEVICE void multiply_once(float (&c)[2][4][4], Fragment const& a, Fragment const& b) {
  CUTE_UNROLL
  for (int step = 0; step < 2 * 2 * 4; ++step) {
    int const n = step % 4, m = step / 4 % 2, s = step / 8;
    mma(c[m][n], a.big, b.big, m, n, s);
  }
}

// An infinity splits into infinity - infinity: where the sum is not finite, take what plain float32 gives.
// A P that spares adds only what both operands hold: where one misses, the other may still be read.
template <class P>
__noinline__ __device__ float plain_sum(P const& p, T const* left, int4 const* steps, int batch, int m, int n) {
  typename P::Row const row = p.row(batch, n);
  float sum = 0;
  for (int k = 0; k < P::K; ++k) {
    int4 const step = steps[k];
    bool const inside = P::inside(row, step);
    if constexpr (P::Spares) {
      if (!inside || !p.counts(batch, m, k)) continue;
    }
    sum = fmaf(left[k], inside ? T(row.from[step.x]) : T(0), sum);
  }
  return sum;
}

template <class P>
__global__ void __launch_bounds__(Threads<P>, P::MinBlocks)
contract(P const p, T const* __restrict__ packed, int4 const* __restrict__ steps) {
  extern __shared__ __align__(128) T shared[];
  T* const sA = shared;                                   // (BLK_M,BLK_K,Stages)
  T* const sB = shared + P::Stages * Left<P>::size;       // (BLK_N,BLK_K,Stages)
  int const thread = threadIdx.x, lane = thread % 32, warp = thread / 32;
  // Tiles that read the same rows of the right operand run side by side, and so do those that write between each other.
  int const m0 = int(blockIdx.x % TilesM<P>) * P::BLK_M::value;
  int const batch = int(blockIdx.x / TilesM<P> % P::Batches);
  int const n0 = int(blockIdx.x / (TilesM<P> * P::Batches)) * P::BLK_N::value;
  constexpr int StrideA = P::Packs ? PaddedK<P> : P::StrideA;
  T const* const mA = P::Packs ? packed + int64_t(batch) * P::M * StrideA : p.left_start(batch);  // (M,K)

  typename P::Row rows[Right<P>::rows];
  CUTE_UNROLL
  for (int slot = 0; slot < Right<P>::rows; ++slot) rows[slot] = p.row(batch, n0 + Right<P>::row(thread, slot));
  // Places of a transposed convolution that no tap reaches are tiles of their own: nothing to add up.
  __shared__ int reached[1];
  if (thread == 0) reached[0] = 0;
  __syncthreads();
  CUTE_UNROLL
  for (int slot = 0; slot < Right<P>::rows; ++slot) {
    if (rows[slot].kept) reached[0] = 1;
  }
  __syncthreads();
  int const tiles_k = reached[0] ? TilesK<P> : 0;
  auto const fetch = [&](int k_tile, int stage) {
    if (k_tile < tiles_k) {
      int const k0 = k_tile * BLK_K::value;
      CUTE_UNROLL
      for (int copy = 0; copy < Left<P>::copies; ++copy) {
        int const row = Left<P>::row(thread, copy), k = Left<P>::k(thread, copy);
        bool const inside = (P::M % P::BLK_M::value == 0 || m0 + row < P::M) && (P::Packs || k0 + k < P::K);
        T* const to = sA + stage * Left<P>::size + typename Left<P>::Shared{}(row, k);
        copy_in<4>(inside ? mA + int64_t(m0 + row) * StrideA + k0 + k : mA, to, inside);
      }
      int4 step = steps[k0];
      CUTE_UNROLL
      for (int copy = 0; copy < Right<P>::copies; ++copy) {
        int const row = Right<P>::row(thread, copy), k = Right<P>::k(thread, copy);
        if constexpr (P::Apart == 0) step = steps[k0 + k];
        typename P::Row const& at = rows[copy % Right<P>::rows];
        bool const inside = (P::K % BLK_K::value == 0 || k0 + k < P::K) && P::inside(at, step);
        auto const* const from = (inside ? at.from + step.x : p.right_start()) + k * P::Apart;
        copy_in<P::CopyRight>(from, sB + stage * Right<P>::size + typename Right<P>::Shared{}(row, k), inside);
      }
    }
    cp_async_fence();
  };
  CUTE_UNROLL
  for (int stage = 0; stage < P::Stages - 1; ++stage) fetch(stage, stage);

  constexpr int GroupsM = P::WARP_M::value / 32, GroupsN = P::WARP_N::value / 32;
  constexpr int WarpsM = P::BLK_M::value / P::WARP_M::value;
  int const warp_m = warp % WarpsM * P::WARP_M::value, warp_n = warp / WarpsM * P::WARP_N::value;
  Reader<Left<P>> const tAsA(sA, warp_m, lane);
  Reader<Right<P>> const tBsB(sB, warp_n, lane);
  float tCrC[GroupsM][GroupsN][2][4][4] = {};             // (GroupsM,GroupsN,MMA_M,MMA_N,MMA)

  for (int k_tile = 0, stage = 0; k_tile < tiles_k; ++k_tile) {
    cp_async_wait<P::Stages - 2>();
    __syncthreads();
    fetch(k_tile + P::Stages - 1, stage == 0 ? P::Stages - 1 : stage - 1);
    Fragment tCrA[GroupsM];
    CUTE_UNROLL
    for (int i = 0; i < GroupsM; ++i) tAsA.read(i, 0, stage, tCrA[i]);
    CUTE_UNROLL
    for (int j = 0; j < GroupsN; ++j) {
      Fragment tCrB;
      tBsB.read(j, 0, stage, tCrB);
      CUTE_UNROLL
      for (int i = 0; i < GroupsM; ++i) {
        if constexpr (P::Products == 3) {
          multiply(tCrC[i][j], tCrA[i], tCrB);
        } else {
          multiply_once(tCrC[i][j], tCrA[i], tCrB);
        }
      }
    }
    stage = stage + 1 == P::Stages ? 0 : stage + 1;
  }

  // A lane holds, for every group of 32 x 32, rows 4 * spread(lane / 4) + i and columns 16 * e + 4 * (lane % 4) + j.
  // They go through shared memory, so that a thread keeps to its column and a warp stores whole lines.
  cp_async_wait<0>();
  __syncthreads();
  T* const sC = shared;  // (BLK_M,BLK_N), the halves of 32 columns swapped in every other 16 rows
  constexpr int BLK_N = P::BLK_N::value;
  CUTE_UNROLL
  for (int piece = 0; piece < GroupsM * GroupsN * 8; ++piece) {
    int const e = piece % 2, i = piece / 2 % 4, group_n = piece / 8 % GroupsN, group_m = piece / 8 / GroupsN;
    int const row = warp_m + 4 * spread(lane / 4) + 32 * group_m + i;
    int const column = warp_n + 4 * (lane % 4) + 32 * group_n + 16 * e;
    float const(&x)[4][4] = tCrC[group_m][group_n][i / 2];
    int const v = 2 * (i % 2) + e;
    *reinterpret_cast<float4*>(sC + row * BLK_N + (column ^ row / 16 % 2 * 16)) =
        make_float4(x[0][v], x[1][v], x[2][v], x[3][v]);
  }
  __syncthreads();
  constexpr int Lines = BLK_N / P::Columns, Across = Lines < Threads<P> ? Lines : Threads<P>;
  CUTE_UNROLL
  for (int line = 0; line < Lines; line += Across) {
    int const column = (line + thread % Across) * P::Columns, n = n0 + column;
#pragma unroll 4
    for (int row = thread / Across; row < P::BLK_M::value; row += Threads<P> / Across) {
      if (m0 + row >= P::M || n >= P::N) continue;
      float x[P::Columns];
      CUTE_UNROLL
      for (int j = 0; j < P::Columns; ++j) {
        x[j] = sC[row * BLK_N + (column + j ^ row / 16 % 2 * 16)];
        T const* const left = mA + int64_t(m0 + row) * StrideA;
        if (!isfinite(x[j])) x[j] = plain_sum(p, left, steps, batch, m0 + row, n + j);
      }
      p.store(batch, m0 + row, n, x);
    }
  }
}

// begin _checks
void granted(cudaError_t error) {
  if (error != cudaSuccess) { TVM_FFI_THROW(RuntimeError) << "shared memory: " << cudaGetErrorString(error); }
}

// For what is read or written four elements at a time.
void check_aligned(void const* start) {
  if (reinterpret_cast<uintptr_t>(start) % 16 == 0) return;
  TVM_FFI_THROW(ValueError) << "an operand is not aligned to 16 bytes";
}
// end _checks

// `held` are HeldBytes<P>, aligned to 16.
template <class P>
void launch(P const& p, char* held, cudaStream_t stream) {
  auto* const steps = reinterpret_cast<int4*>(held);
  auto* const packed = reinterpret_cast<T*>(held + StepBytes<P>);
  int const blocks = int(std::min<int64_t>(std::max<int64_t>(PackedElements<P>, PaddedK<P>) / kThreads + 1, 1024));
  prepare<P><<<blocks, kThreads, 0, stream>>>(p, packed, steps);
  constexpr int tiles = TilesM<P> * TilesN<P> * P::Batches, threads = Threads<P>, bytes = SharedBytes<P>;
  granted(cudaFuncSetAttribute(contract<P>, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes));
  contract<P><<<tiles, threads, bytes, stream>>>(p, packed, steps);
}
}  // namespace contract
// end engine
