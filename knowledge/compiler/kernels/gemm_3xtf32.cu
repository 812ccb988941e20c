// begin header
// C(m,n,l) = epilogue(sum over k of A(m,k,l) * B(n,k,l)) at float32 grade on TF32 tensor cores (3xTF32): every
// operand x is split in registers into big = x rounded to TF32 and small = x - big, and small*big + big*small + big*big
// lacks only small*small, 2^-22 of a product. Tensor cores add with truncation, so that sums over a long K would drift:
// the products of 16 k's are summed from zero, and that sum is added to C's fragment in float32.
//   op class: gemm
//   architecture: sm_80
//   layouts: any strides; 16-byte copies and stores where strides, extents and pointers allow them
//   tile: block 128 x 128 x 16, 8 warps of 32 x 64, each in groups of 32 x 32 (MMA 16 x 8 x 8)
//   shared memory: A 128 x 16 x 4 x 4 = 32768 bytes, B 128 x 16 x 4 x 4 = 32768 bytes; 65536 bytes a block
//   reaches: H200, 4096 x 4096 x 4096: 2.22 ms (cuBLAS in float32 2.77), 2.10 with blocks of 256 x 128 x 16 and warps
//     of 64 x 64; error against float64 2.2e-7 (cuBLAS 8.4e-7; added in the tensor cores alone 4.3e-5)
//   also: batches, split-K (partial sums and a second kernel), triangles (empty tiles, and ranges of K that hold
//     only zeros, are skipped), one product instead of three under the precision tf32
// end header
// includes: as in gemm_simt.cu
#include <cute/arch/copy_sm80.hpp>
#include <cute/arch/mma_sm80.hpp>

// _product: as in gemm_simt.cu
using T = float;

// problem: as in gemm_simt.cu

// begin knobs
using BLK_M = Int<128>;
using BLK_N = Int<128>;
using BLK_K = Int<16>;
using WARP_M = Int<32>;       // a warp's part of the block's tile; multiples of 32
using WARP_N = Int<64>;
constexpr int Stages = 4;     // tiles of A and B in shared memory
constexpr int MinBlocks = 1;  // blocks that a multiprocessor must hold: what caps the registers
constexpr int Splits = 1;     // blocks that share one tile's K
constexpr int Group = 8;      // tile rows that run side by side, so that their tiles of B stay in the L2 cache
constexpr int CopyA = 4;      // elements one asynchronous copy moves
constexpr int CopyB = 4;
constexpr int StoreC = 4;     // elements one store writes
constexpr int Products = 3;   // 1 is plain TF32
constexpr int Triangle = 0;   // 1: only n - m >= Offset is kept; -1: only n - m <= Offset; the rest of C is zero
constexpr int Offset = 0;
constexpr bool SkipZeros = false;  // look first which k's of each band of A and of B are not all zero
// end knobs

constexpr int Threads = BLK_M{} / WARP_M{} * (BLK_N{} / WARP_N{}) * 32;
constexpr int TilesM = ceil_div(M{}, BLK_M{}), TilesN = ceil_div(N{}, BLK_N{}), TilesK = ceil_div(K{}, BLK_K{});
constexpr int Batches = size<2>(LayoutC{});
static_assert(Splits == 1 || !SkipZeros, "a tile whose range is found at run time is not shared");
constexpr int StepK = 16;  // k's between two additions to C's fragment

// begin operands
// One operand seen as (rows, K): its tile in shared memory, and how threads copy it there.
// A tile lies as the operand does. K-major: swizzled so that rows 16 apart differ in bank; else so that k's 4 apart do.
template <class Layout_, class Rows_, class Block_, int Copy_>
struct Operand {
  using Global = Layout_;
  using Rows = Rows_;
  using Block = Block_;
  static constexpr int Copy = Copy_;
  static constexpr int64_t row_stride = stride<0>(Global{}), k_stride = stride<1>(Global{});
  static constexpr bool k_major = k_stride == 1 || row_stride != 1;
  using Swizzled = cute::conditional_t<k_major, Swizzle<1, 4, log_2(unsigned(BLK_K::value))>,
                                       Swizzle<2, 2, log_2(unsigned(Block::value))>>;
  using Plain = cute::conditional_t<k_major, Layout<Shape<Block, BLK_K>, Stride<BLK_K, _1>>,
                                    Layout<Shape<Block, BLK_K>, Stride<_1, Block>>>;
  using Shared = decltype(composition(Swizzled{}, Plain{}));  // (BLK,BLK_K)
  static constexpr int size = Block::value * BLK_K::value;
  // A line is what lies contiguous in the tile: K of one row, or rows of one k.
  static constexpr int per_line = (k_major ? BLK_K::value : Block::value) / Copy;
  static constexpr int copies = size / Copy / Threads;
  static_assert(copies * Copy * Threads == size, "every thread copies as much");

  CUTE_DEVICE static int line(int thread, int copy) {
    return Threads >= per_line ? thread / per_line + copy * (Threads / per_line) : copy / (per_line / Threads);
  }
  CUTE_DEVICE static int place(int thread, int copy) {
    return Copy * (Threads >= per_line ? thread % per_line : thread + copy % (per_line / Threads) * Threads);
  }
};
using OperandA = Operand<LayoutA, M, BLK_M, CopyA>;
using OperandB = Operand<LayoutB, N, BLK_N, CopyB>;
constexpr int SharedBytes = Stages * (OperandA::size + OperandB::size) * int(sizeof(T));

// Start copying one tile (rows from row0, k's from k0) into shared memory; what lies outside the operand becomes zero.
template <class X>
CUTE_DEVICE void copy_tile(T const* x, T* shared, int row0, int k0, int thread) {
  using Word = cute::uint_bit_t<32 * X::Copy>;
  constexpr bool whole = X::Rows::value % X::Block::value == 0 && K::value % BLK_K::value == 0;
  CUTE_UNROLL
  for (int copy = 0; copy < X::copies; ++copy) {
    int const line = X::line(thread, copy), place = X::place(thread, copy);
    int const row = X::k_major ? line : place, k = X::k_major ? place : line;
    T const* from = x + (row0 + row) * X::row_stride + (k0 + k) * X::k_stride;
    Word* to = reinterpret_cast<Word*>(shared + typename X::Shared{}(row, k));
    bool const inside = whole || (row0 + row < X::Rows::value && k0 + k < K::value);
    if constexpr (X::Copy == 4) {
      SM80_CP_ASYNC_CACHEGLOBAL_ZFILL<Word>::copy(*reinterpret_cast<Word const*>(inside ? from : x), *to, inside);
    } else {
      SM80_CP_ASYNC_CACHEALWAYS_ZFILL<Word>::copy(*reinterpret_cast<Word const*>(inside ? from : x), *to, inside);
    }
  }
}

// end operands

// begin fragments
// Places in a group of 32 rows (of A, or of B): a lane's slot in the MMA goes with 4 neighbouring rows, `4 * spread`
// on. With it, 16-byte reads of both majors hit every bank once, and 4 lanes store 64 contiguous bytes of C.
CUTE_HOST_DEVICE constexpr int spread(int slot) { return slot / 2 + slot % 2 * 4; }

// A lane's values of one group of 32 rows and 16 k's: rows 4 * spread(lane / 4) + i, k's 4 * (lane % 4) + j.
struct Fragment {
  uint32_t big[4][4], small[4][4];  // (i,j)

  CUTE_DEVICE void set(int i, int j, T x) {
    // Round to nearest, ties away from zero; the tensor core ignores the 13 lowest bits of `small`.
    big[i][j] = (__float_as_uint(x) + 0x1000u) & 0xffffe000u;
    small[i][j] = __float_as_uint(x - __uint_as_float(big[i][j]));
  }
};

// Where a lane reads its fragments in a tile: the swizzle flips one bit of K-major offsets, so there are two bases.
template <class X>
struct Reader {
  T const* base[2];

  CUTE_DEVICE Reader(T const* shared, int row0, int lane) {
    int const row = row0 + 4 * spread(lane / 4), k = 4 * (lane % 4);
    T const* first = shared + typename X::Shared{}(row, k);
    int const flip = X::k_major ? 16 * (row / 16 % 2) : 0;
    base[0] = first;
    base[1] = first - 2 * flip;
  }

  // Group `group` of 32 rows, k's from 16 * step on, tile `stage`.
  CUTE_DEVICE void read(int group, int step, int stage, Fragment& fragment) const {
    CUTE_UNROLL
    for (int v = 0; v < 4; ++v) {
      int const at = X::k_major ? (32 * group + v) * BLK_K::value + StepK * step
                                : (StepK * step + v) * X::Block::value + 32 * group;
      T const* from = base[X::k_major ? at / 16 % 2 : 0] + at;
      float4 const x = *reinterpret_cast<float4 const*>(from + stage * X::size);
      T const values[4] = {x.x, x.y, x.z, x.w};
      CUTE_UNROLL
      for (int w = 0; w < 4; ++w) X::k_major ? fragment.set(v, w, values[w]) : fragment.set(w, v, values[w]);
    }
  }
};

using Mma = SM80_16x8x8_F32TF32TF32F32_TN;

CUTE_DEVICE void mma(float (&d)[4], uint32_t const (&a)[4][4], uint32_t const (&b)[4][4], int mma_m, int mma_n, int s) {
  Mma::fma(d[0], d[1], d[2], d[3], a[2 * mma_m][2 * s], a[2 * mma_m + 1][2 * s], a[2 * mma_m][2 * s + 1],
           a[2 * mma_m + 1][2 * s + 1], b[mma_n][2 * s], b[mma_n][2 * s + 1], d[0], d[1], d[2], d[3]);
}

// 32 x 32 of C, as two rows of four MMAs: C += A * B over 16 k's, the smallest products first.
CUTE_DEVICE void multiply(float (&c)[2][4][4], Fragment const& a, Fragment const& b) {
  CUTE_UNROLL
  for (int n = 0; n < 4; ++n) {
    float sum[2][4] = {};
    CUTE_UNROLL
    for (int s = 0; s < 2; ++s) {
      CUTE_UNROLL
      for (int m = 0; m < 2 && Products == 3; ++m) mma(sum[m], a.small, b.big, m, n, s);
      CUTE_UNROLL
      for (int m = 0; m < 2 && Products == 3; ++m) mma(sum[m], a.big, b.small, m, n, s);
    }
    CUTE_UNROLL
    for (int s = 0; s < 2; ++s) {
      CUTE_UNROLL
      for (int m = 0; m < 2; ++m) mma(sum[m], a.big, b.big, m, n, s);
    }
    CUTE_UNROLL
    for (int i = 0; i < 8; ++i) c[i / 4][n][i % 4] += sum[i / 4][i % 4];
  }
}
// end fragments

// begin plain_sum
// An infinity splits into infinity - infinity: where the sum is not finite, take what plain float32 gives.
__noinline__ __device__ float plain_sum(T const* a, T const* b, int k_begin, int k_end) {
  float sum = 0;
  for (int k = k_begin; k < k_end; ++k) sum = fmaf(a[k * OperandA::k_stride], b[k * OperandB::k_stride], sum);
  return sum;
}
// end plain_sum

// begin ranges
struct Tile {
  int m, n;
};

// Tiles in the order in which blocks run: `Group` rows of tiles at a time, column by column. In a triangle the bands
// with the longest sums come first, so that the last blocks to run are short ones.
CUTE_DEVICE Tile tile_of(int index) {
  if constexpr (Triangle > 0) return {index % TilesM, TilesN - 1 - index / TilesM};
  if constexpr (Triangle < 0) return {TilesM - 1 - index / TilesN, index % TilesN};
  int const group = index / (Group * TilesN), rows = min(Group, TilesM - group * Group);
  int const rest = index % (Group * TilesN);
  return {group * Group + rest % rows, rest / rows};
}

// The k's of a band of BLK rows that are not zero in every row: from `begin` to `-end`. Both start at `Never`.
struct Span {
  int begin, end;
};
constexpr int Never = 0x7f7f7f7f;
constexpr int SpanK = 128;  // k's that one block looks at
struct Spans {
  Span a[Batches * TilesM], b[Batches * TilesN];
  int all_finite;  // 0 where an element is infinite or NaN, whose product with zero is NaN
};

template <class X>
CUTE_DEVICE void find_span(T const* x, Span& span, int& all_finite, int row0, int k0) {
  int begin = Never, end = Never;
  constexpr int per_line = X::k_major ? SpanK : X::Block::value;
  for (int at = threadIdx.x; at < SpanK * X::Block::value; at += blockDim.x) {
    int const line = at / per_line, place = at % per_line;
    int const row = row0 + (X::k_major ? line : place), k = k0 + (X::k_major ? place : line);
    T const value = row < X::Rows::value && k < K{} ? x[row * X::row_stride + k * X::k_stride] : T(0);
    if (value != 0) begin = min(begin, k), end = min(end, -(k + 1));
    if (!isfinite(value)) all_finite = 0;
  }
  begin = __reduce_min_sync(0xffffffffu, begin), end = __reduce_min_sync(0xffffffffu, end);
  if (threadIdx.x % 32 == 0 && begin != Never) atomicMin(&span.begin, begin), atomicMin(&span.end, end);
}

__global__ void find_spans(T const* __restrict__ A, T const* __restrict__ B, Spans* __restrict__ spans) {
  int const k0 = blockIdx.y * SpanK, l = blockIdx.z;
  if (blockIdx.x < TilesM) {
    int const tile = blockIdx.x;
    find_span<OperandA>(A + LayoutA{}(0, 0, l), spans->a[l * TilesM + tile], spans->all_finite, tile * BLK_M{}, k0);
  } else {
    int const tile = blockIdx.x - TilesM;
    find_span<OperandB>(B + LayoutB{}(0, 0, l), spans->b[l * TilesN + tile], spans->all_finite, tile * BLK_N{}, k0);
  }
}

// Tiles of K from `first` to `last`.
struct Range {
  int first, last;
};

CUTE_DEVICE Range range_of(Tile tile, int l, int split, Spans const* spans) {
  int const m0 = tile.m * BLK_M{}, n0 = tile.n * BLK_N{};
  if (Triangle > 0 && n0 + BLK_N{} - 1 - m0 < Offset) return {0, 0};
  if (Triangle < 0 && n0 - (m0 + BLK_M{} - 1) > Offset) return {0, 0};
  if (SkipZeros && spans->all_finite != 0) {
    Span const a = spans->a[l * TilesM + tile.m], b = spans->b[l * TilesN + tile.n];
    int const begin = max(a.begin, b.begin), end = -max(a.end, b.end);
    if (begin >= end) return {0, 0};
    return {begin / BLK_K{}, ceil_div(end, BLK_K{})};
  }
  return {int(int64_t(TilesK) * split / Splits), int(int64_t(TilesK) * (split + 1) / Splits)};
}
// end ranges

__global__ void __launch_bounds__(Threads, MinBlocks)
gemm(T const* __restrict__ A, T const* __restrict__ B, T* __restrict__ C, T* __restrict__ partial, Epilogue epilogue,
     Spans const* __restrict__ spans) {
  extern __shared__ __align__(128) T shared[];
  T* const sA = shared;                             // (BLK_M,BLK_K,Stages)
  T* const sB = shared + Stages * OperandA::size;   // (BLK_N,BLK_K,Stages)
  int const thread = threadIdx.x, lane = thread % 32, warp = thread / 32;
  int const l = blockIdx.x / (TilesM * TilesN), split = blockIdx.y;
  Tile const tile = tile_of(blockIdx.x % (TilesM * TilesN));
  T const* const mA = A + LayoutA{}(0, 0, l);       // (M,K)
  T const* const mB = B + LayoutB{}(0, 0, l);       // (N,K)
  int const m0 = tile.m * BLK_M{}, n0 = tile.n * BLK_N{};
  auto const [first_tile, last_tile] = range_of(tile, l, split, spans);
  int const first = first_tile, last = last_tile;

// begin loop
  auto const fetch = [&](int k_tile, int stage) {
    if (k_tile < last) {
      copy_tile<OperandA>(mA, sA + stage * OperandA::size, m0, k_tile * BLK_K{}, thread);
      copy_tile<OperandB>(mB, sB + stage * OperandB::size, n0, k_tile * BLK_K{}, thread);
    }
    cp_async_fence();
  };
  CUTE_UNROLL
  for (int stage = 0; stage < Stages - 1; ++stage) fetch(first + stage, stage);

  constexpr int GroupsM = WARP_M{} / 32, GroupsN = WARP_N{} / 32;
  int const warp_m = warp % (BLK_M{} / WARP_M{}) * WARP_M{}, warp_n = warp / (BLK_M{} / WARP_M{}) * WARP_N{};
  Reader<OperandA> const tAsA(sA, warp_m, lane);
  Reader<OperandB> const tBsB(sB, warp_n, lane);
  float tCrC[GroupsM][GroupsN][2][4][4] = {};       // (GroupsM,GroupsN,MMA_M,MMA_N,MMA)

  for (int k_tile = first, stage = 0; k_tile < last; ++k_tile) {
    cp_async_wait<Stages - 2>();
    __syncthreads();
    fetch(k_tile + Stages - 1, stage == 0 ? Stages - 1 : stage - 1);
    CUTE_UNROLL
    for (int step = 0; step < BLK_K{} / StepK; ++step) {
      Fragment tCrA[GroupsM];
      CUTE_UNROLL
      for (int i = 0; i < GroupsM; ++i) tAsA.read(i, step, stage, tCrA[i]);
      CUTE_UNROLL
      for (int j = 0; j < GroupsN; ++j) {
        Fragment tCrB;
        tBsB.read(j, step, stage, tCrB);
        CUTE_UNROLL
        for (int i = 0; i < GroupsM; ++i) multiply(tCrC[i][j], tCrA[i], tCrB);
      }
    }
    stage = stage + 1 == Stages ? 0 : stage + 1;
  }
// end loop

  // A lane holds, for every group of 32 x 32, rows 4 * spread(lane / 4) + i and columns 16 * e + 4 * (lane % 4) + j.
  int const m_lane = m0 + warp_m + 4 * spread(lane / 4), n_lane = n0 + warp_n + 4 * (lane % 4);
  CUTE_UNROLL
  for (int piece = 0; piece < GroupsM * GroupsN * 8; ++piece) {
    int const e = piece % 2, i = piece / 2 % 4, group_n = piece / 8 % GroupsN, group_m = piece / 8 / GroupsN;
    int const m = m_lane + 32 * group_m + i, n = n_lane + 32 * group_n + 16 * e;
    if (m >= M{} || n >= N{}) continue;
    float x[4];
    CUTE_UNROLL
    for (int j = 0; j < 4; ++j) {
      x[j] = tCrC[group_m][group_n][i / 2][j][2 * (i % 2) + e];
      if (n + j < N{} && !isfinite(x[j])) {
        x[j] = plain_sum(mA + m * OperandA::row_stride, mB + (n + j) * OperandB::row_stride, first * BLK_K{},
                         min(last * BLK_K{}, K{}));
      }
    }
    if constexpr (Splits > 1) {
      T* const to = partial + ((int64_t(split) * Batches + l) * M{} + m) * N{} + n;
      if constexpr (N::value % 4 == 0) {
        *reinterpret_cast<float4*>(to) = make_float4(x[0], x[1], x[2], x[3]);
      } else {
        CUTE_UNROLL
        for (int j = 0; j < 4; ++j) {
          if (n + j < N{}) to[j] = x[j];
        }
      }
    } else {
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
  }
}

// A block for each tile, or for each share of its K.
dim3 grid() { return dim3(TilesM * TilesN * Batches, Splits); }

// begin reduce
// C = epilogue of the partial sums, added in the order of K.
__global__ void reduce(float const* __restrict__ partial, T* __restrict__ C, Epilogue epilogue) {
  int64_t const count = int64_t(Batches) * M{} * N{};
  for (int64_t at = blockIdx.x * int64_t(blockDim.x) + threadIdx.x; at < count; at += int64_t(gridDim.x) * blockDim.x) {
    float x = 0;
    CUTE_UNROLL
    for (int split = 0; split < Splits; ++split) x += partial[split * count + at];
    int const n = int(at % N{}), m = int(at / N{} % M{}), l = int(at / N{} / M{});
    C[LayoutC{}(m, n, l)] = epilogue(x, m, n, l);
  }
}
// end reduce

// check: as in gemm_simt.cu

// begin scratch
// From the caller's allocator, which hands it out again in the order of the stream: given back at the end of its scope.
tvm::ffi::Tensor scratch(size_t bytes, DLDevice device) {
  return tvm::ffi::Tensor::FromEnvAlloc(TVMFFIEnvTensorAlloc, {int64_t(bytes)}, DLDataType{kDLUInt, 8, 1}, device);
}
// end scratch

// begin launch
void launch(T const* A, T const* B, T* C, Epilogue epilogue, DLDevice device) {
  auto const stream = static_cast<cudaStream_t>(TVMFFIEnvGetStream(device.device_type, device.device_id));
  tvm::ffi::Tensor held_sums, held_spans;
  T* partial = nullptr;
  if constexpr (Splits > 1) {
    held_sums = scratch(size_t(Splits) * Batches * M{} * N{} * sizeof(T), device);
    partial = static_cast<T*>(held_sums.data_ptr());
  }
  Spans* spans = nullptr;
  if constexpr (SkipZeros) {
    held_spans = scratch(sizeof(Spans), device);
    spans = static_cast<Spans*>(held_spans.data_ptr());
    check(cudaMemsetAsync(spans, 0x7f, sizeof(Spans), stream), "memory for spans");
    find_spans<<<dim3(TilesM + TilesN, ceil_div(K{}, SpanK), Batches), 256, 0, stream>>>(A, B, spans);
    check(cudaGetLastError(), "find_spans");
  }
  check(cudaFuncSetAttribute(gemm, cudaFuncAttributeMaxDynamicSharedMemorySize, SharedBytes), "shared memory");
  gemm<<<grid(), Threads, SharedBytes, stream>>>(A, B, C, partial, epilogue, spans);
  check(cudaGetLastError(), "gemm");
  if constexpr (Splits > 1) {
    int const blocks = int(min(int64_t(1) << 16, ceil_div(int64_t(Batches) * M{} * N{}, int64_t(256))));
    reduce<<<blocks, 256, 0, stream>>>(partial, C, epilogue);
    check(cudaGetLastError(), "reduce");
  }
}
// end launch

}  // namespace product

// entry: as in gemm_simt.cu
