// begin header
// O = softmax(score(Q K^T)) V for every head, never writing the scores: a block keeps some rows of Q, walks over tiles
// of K and V, and carries for each row the largest score so far, the sum of the exponentials and the sum of their
// products with V, all rescaled when the largest score grows. 16-bit types multiply as they are; float32 as 3xTF32: an
// element is split in registers into big + small, and small*big + big*small + big*big is within 2^-21 of the product.
// Where rows are few, as in decoding, blocks share a head's keys, and a second kernel joins what they found in order.
//   op class: reduction
//   architecture: sm_80
//   layouts: any strides; 16-byte copies where strides, extents and pointers allow them
//   tile: block of 128 rows x 64 keys, 8 warps of 16 rows, MMA 16 x 8 x 16
//   shared memory: Q 128 x 136 x 2 = 34816 bytes, K and V 64 x 136 x 2 x 2 x 2 = 69632 bytes; 104448 bytes a block
//   reaches: H200, bfloat16, 4 x 32 heads of 4096 x 128: 4.49 ms, with 4 warps of 32 rows 3.65 (301e12 operations a
//     second; flash attention 3.15, cuDNN, which uses wgmma, 1.71), causal 2.07; float32, 8 x 16 heads of 2048 x 64,
//     4 warps of 32 rows, 32 keys: 2.14 (eager 3.99, spelled out 5.74)
//   error: of float32 as eager's own; tensor cores add with truncation, so that the products of 32 keys are summed from
//     zero, and that sum is added in float32
// end header

// begin includes
#include <cmath>
#include <cstdint>
#include <initializer_list>
#include <limits>

#include <cute/tensor.hpp>
#include <tvm/ffi/container/tensor.h>
#include <tvm/ffi/error.h>
#include <tvm/ffi/extra/c_env_api.h>
#include <tvm/ffi/function.h>
// end includes
#include <cute/arch/copy_sm75.hpp>
#include <cute/arch/copy_sm80.hpp>
#include <cute/arch/mma_sm80.hpp>

// Named: nvcc's host code cannot tell an unnamed namespace from CuTe's own.
namespace attending {

using namespace cute;

// begin problem
// end problem

// begin knobs
constexpr int WarpRows = 16;   // of Q a warp; 16 or 32
constexpr int Warps = 8;
constexpr int BlockKeys = 64;  // a multiple of 32
constexpr int Stages = 2;      // tiles of K and V in shared memory
constexpr int MinBlocks = 1;   // blocks that a multiprocessor must hold: what caps the registers
constexpr int CopyQ = 8;       // elements that one copy moves
constexpr int CopyK = 8;
constexpr int CopyV = 8;
constexpr bool Vectors = true; // whether 2 (of 16 bits) or 4 neighbours are stored at once
constexpr int Products = 3;    // of float32; 1 is plain TF32
constexpr int Splits = 1;      // blocks that share the keys of some rows
// end knobs

constexpr bool narrow = sizeof(T) == 2;
constexpr int Threads = 32 * Warps, BlockRows = WarpRows * Warps, Atoms = WarpRows / 16;
constexpr int TilesM = ceil_div(Rows, BlockRows), TilesN = ceil_div(Keys, BlockKeys);
constexpr int up(int extent, int by) { return (extent + by - 1) / by * by; }

// One operand's tile in shared memory, row by row. The pitch spreads rows over the banks: for ldmatrix an odd number of
// 16 bytes; for float32 so that the 8 lanes whose 16 bytes are read at once (2 rows x 4 words of Q and K, 4 rows x 2
// words of V) hit every bank once.
template <class Strides, int Extent_, int Columns_, int Block_, int Copy_, bool Values>
struct Operand {
  static constexpr int Extent = Extent_, Columns = Columns_, Block = Block_, Copy = Copy_;
  static constexpr int64_t row_stride = stride<0>(Layout<Shape<_1, _1>, Strides>{});
  static constexpr int64_t column_stride = stride<1>(Layout<Shape<_1, _1>, Strides>{});
  static constexpr int Padded = up(Columns, Values && !narrow ? 32 : 16);
  static constexpr int Pitch = narrow ? Padded + 8 : Values ? Padded + 4 : Padded % 32 ? Padded : Padded + 16;
  static constexpr int size = Block * Pitch;
  static_assert(Columns % Copy == 0 && (Copy == 1 || column_stride == 1), "a copy is inside or outside as a whole");
};
using OperandQ = Operand<StridesQ, Rows, Inner, BlockRows, CopyQ, false>;
using OperandK = Operand<StridesK, Keys, Inner, BlockKeys, CopyK, false>;
using OperandV = Operand<StridesV, Keys, Outer, BlockKeys, CopyV, true>;
constexpr int SharedBytes = (OperandQ::size + Stages * (OperandK::size + OperandV::size)) * int(sizeof(T));
constexpr int TilesS = BlockKeys / 8, TilesO = OperandV::Padded / 8;  // MMAs side by side

// Start copying the rows from row0 on; what lies outside the operand becomes zero.
template <class X>
CUTE_DEVICE void copy_tile(T const* x, T* shared, int row0, int thread) {
  constexpr int per_row = X::Padded / X::Copy, count = X::Block * per_row;
#pragma unroll (X::Copy * sizeof(T) == 16 ? 8 : 2)
  for (int at = thread; at < count; at += Threads) {
    int const row = at / per_row, column = at % per_row * X::Copy;
    bool const inside = row0 + row < X::Extent && column < X::Columns;
    T const* const from = inside ? x + (row0 + row) * X::row_stride + column * X::column_stride : x;
    T* const to = shared + row * X::Pitch + column;
    if constexpr (X::Copy * sizeof(T) == 16) {
      SM80_CP_ASYNC_CACHEGLOBAL_ZFILL<uint128_t>::copy(*reinterpret_cast<uint128_t const*>(from),
                                                       *reinterpret_cast<uint128_t*>(to), inside);
    } else if constexpr (X::Copy * sizeof(T) == 4) {
      SM80_CP_ASYNC_CACHEALWAYS_ZFILL<uint32_t>::copy(*reinterpret_cast<uint32_t const*>(from),
                                                      *reinterpret_cast<uint32_t*>(to), inside);
    } else {
      *to = inside ? *from : T(0);
    }
  }
}

// A number as what TF32 takes of it, and what it leaves.
struct Split {
  uint32_t big, small;

  CUTE_DEVICE void set(float x) {
    // To nearest, ties away from zero; the tensor core ignores the 13 lowest bits of `small`.
    big = (__float_as_uint(x) + 0x1000u) & 0xffffe000u;
    small = __float_as_uint(x - __uint_as_float(big));
  }
};

// Two neighbours of a 16-bit type.
template <class X>
CUTE_DEVICE uint32_t pair(float x, float y) {
  X const low(x), high(y);
  return uint32_t(high.raw()) << 16 | low.raw();
}

// begin narrow
// Fragments of 16-bit types. A lane has rows lane / 4 and lane / 4 + 8 of 16, columns 2 * (lane % 4) + {0, 1} of 8.
template <class X>
struct Narrow {
  using Mma = cute::conditional_t<cute::is_same_v<X, half_t>, SM80_16x8x16_F32F16F16F32_TN,
                                  SM80_16x8x16_F32BF16BF16F32_TN>;

  CUTE_DEVICE static void mma(float (&d)[4], uint32_t const (&a)[4], uint32_t b0, uint32_t b1) {
    Mma::fma(d[0], d[1], d[2], d[3], a[0], a[1], a[2], a[3], b0, b1, d[0], d[1], d[2], d[3]);
  }

  // S = Q K^T of a warp's rows.
  CUTE_DEVICE static void scores(T const* q, T const* k, int lane, float (&s)[Atoms][TilesS][4]) {
    CUTE_UNROLL
    for (int step = 0; step < OperandK::Padded / 16; ++step) {
      uint32_t a[Atoms][4];
      CUTE_UNROLL
      for (int m = 0; m < Atoms; ++m) {
        T const* const at = q + (16 * m + lane % 16) * OperandQ::Pitch + 16 * step + lane / 16 * 8;
        SM75_U32x4_LDSM_N::copy(*reinterpret_cast<uint128_t const*>(at), a[m][0], a[m][1], a[m][2], a[m][3]);
      }
      CUTE_UNROLL
      for (int n = 0; n < TilesS; n += 2) {
        T const* const at = k + (8 * n + lane / 16 * 8 + lane % 8) * OperandK::Pitch + 16 * step + lane / 8 % 2 * 8;
        uint32_t b[4];
        SM75_U32x4_LDSM_N::copy(*reinterpret_cast<uint128_t const*>(at), b[0], b[1], b[2], b[3]);
        CUTE_UNROLL
        for (int m = 0; m < Atoms; ++m) mma(s[m][n], a[m], b[0], b[1]), mma(s[m][n + 1], a[m], b[2], b[3]);
      }
    }
  }

  // O = O * rescale + P V.
  CUTE_DEVICE static void add(float const (&p)[Atoms][TilesS][4], T const* v, int lane,
                              float const (&rescale)[Atoms][2], float (&o)[Atoms][TilesO][4]) {
    CUTE_UNROLL
    for (int m = 0; m < Atoms; ++m) {
      CUTE_UNROLL
      for (int i = 0; i < TilesO * 4; ++i) o[m][i / 4][i % 4] *= rescale[m][i % 4 / 2];
    }
    CUTE_UNROLL
    for (int step = 0; step < BlockKeys / 16; ++step) {
      uint32_t a[Atoms][4];
      CUTE_UNROLL
      for (int m = 0; m < Atoms; ++m) {
        CUTE_UNROLL
        for (int i = 0; i < 4; ++i) {
          float const (&from)[4] = p[m][2 * step + i / 2];
          a[m][i] = pair<X>(from[i % 2 * 2], from[i % 2 * 2 + 1]);
        }
      }
      CUTE_UNROLL
      for (int n = 0; n < TilesO; n += 2) {
        T const* const at = v + (16 * step + lane % 16) * OperandV::Pitch + 8 * n + lane / 16 * 8;
        uint32_t b[4];
        SM75_U16x8_LDSM_T::copy(*reinterpret_cast<uint128_t const*>(at), b[0], b[1], b[2], b[3]);
        CUTE_UNROLL
        for (int m = 0; m < Atoms; ++m) mma(o[m][n], a[m], b[0], b[1]), mma(o[m][n + 1], a[m], b[2], b[3]);
      }
    }
  }

  // The neighbours along a row that a lane holds in one fragment, and the first one's column.
  static constexpr int Near = 2;
  CUTE_DEVICE static int column(int piece, int lane) { return 8 * piece + 2 * (lane % 4); }
  CUTE_DEVICE static float held(float const (&o)[TilesO][4], int piece, int half, int i) {
    return o[piece][2 * half + i];
  }
};
// end narrow

// Fragments of float32. The order of what is summed is free, and so is that of O's columns: both are such that a lane
// reads 16 bytes at once.
template <class X>
struct Wide {
  using Mma = SM80_16x8x8_F32TF32TF32F32_TN;
  static constexpr int Chunk = 32;  // columns, or keys, whose products are summed from zero

  template <int Count>
  CUTE_DEVICE static void read(X const* at, Split (&to)[Count], int first) {
    float4 const x = *reinterpret_cast<float4 const*>(at);
    to[first].set(x.x), to[first + 1].set(x.y), to[first + 2].set(x.z), to[first + 3].set(x.w);
  }

  CUTE_DEVICE static void product(float (&d)[4], uint32_t a0, uint32_t a1, uint32_t a2, uint32_t a3, uint32_t b0,
                                  uint32_t b1) {
    Mma::fma(d[0], d[1], d[2], d[3], a0, a1, a2, a3, b0, b1, d[0], d[1], d[2], d[3]);
  }
  CUTE_DEVICE static void mma(float (&d)[4], Split a0, Split a1, Split a2, Split a3, Split b0, Split b1) {
    if constexpr (Products == 3) {
      product(d, a0.small, a1.small, a2.small, a3.small, b0.big, b1.big);
      product(d, a0.big, a1.big, a2.big, a3.big, b0.small, b1.small);
    }
    product(d, a0.big, a1.big, a2.big, a3.big, b0.big, b1.big);
  }

  CUTE_DEVICE static void scores(T const* q, T const* k, int lane, float (&s)[Atoms][TilesS][4]) {
    int const g = lane / 4, t = lane % 4;
    CUTE_UNROLL
    for (int first = 0; first < OperandK::Padded; first += Chunk) {
      constexpr int Steps = Chunk / 16;
      float sum[Atoms][TilesS][4] = {};
      CUTE_UNROLL
      for (int step = 0; step < Steps; ++step) {
        int const at = first + 16 * step + 4 * t;
        if (first + 16 * step >= OperandK::Padded) break;
        Split a[Atoms][8];
        CUTE_UNROLL
        for (int m = 0; m < Atoms; ++m) {
          read(q + (16 * m + g) * OperandQ::Pitch + at, a[m], 0);
          read(q + (16 * m + g + 8) * OperandQ::Pitch + at, a[m], 4);
        }
        CUTE_UNROLL
        for (int n = 0; n < TilesS; ++n) {
          Split b[4];
          read(k + (8 * n + g) * OperandK::Pitch + at, b, 0);
          CUTE_UNROLL
          for (int i = 0; i < 4; i += 2) {
            CUTE_UNROLL
            for (int m = 0; m < Atoms; ++m) {
              mma(sum[m][n], a[m][i], a[m][4 + i], a[m][i + 1], a[m][5 + i], b[i], b[i + 1]);
            }
          }
        }
      }
      CUTE_UNROLL
      for (int i = 0; i < Atoms * TilesS * 4; ++i) {
        s[i / (TilesS * 4)][i / 4 % TilesS][i % 4] += sum[i / (TilesS * 4)][i / 4 % TilesS][i % 4];
      }
    }
  }

  CUTE_DEVICE static void add(float const (&p)[Atoms][TilesS][4], T const* v, int lane,
                              float const (&rescale)[Atoms][2], float (&o)[Atoms][TilesO][4]) {
    int const g = lane / 4, t = lane % 4;
    CUTE_UNROLL
    for (int first = 0; first < BlockKeys; first += Chunk) {
      CUTE_UNROLL
      for (int group = 0; group < TilesO; group += 4) {
        float sum[Atoms][4][4] = {};
        CUTE_UNROLL
        for (int step = 0; step < Chunk / 8; ++step) {
          Split b[2][4];
          T const* const at = v + (first + 8 * step + 2 * t) * OperandV::Pitch + 8 * group + 4 * g;
          read(at, b[0], 0);
          read(at + OperandV::Pitch, b[1], 0);
          CUTE_UNROLL
          for (int m = 0; m < Atoms; ++m) {
            float const (&from)[4] = p[m][first / 8 + step];
            Split a[4];
            a[0].set(from[0]), a[1].set(from[2]), a[2].set(from[1]), a[3].set(from[3]);
            CUTE_UNROLL
            for (int w = 0; w < 4; ++w) mma(sum[m][w], a[0], a[1], a[2], a[3], b[0][w], b[1][w]);
          }
        }
        CUTE_UNROLL
        for (int i = 0; i < Atoms * 16; ++i) {
          float& to = o[i / 16][group + i / 4 % 4][i % 4];
          float const part = sum[i / 16][i / 4 % 4][i % 4];
          to = first == 0 ? fmaf(to, rescale[i / 16][i % 4 / 2], part) : to + part;
        }
      }
    }
  }

  static constexpr int Near = 4;
  CUTE_DEVICE static int column(int piece, int lane) { return 32 * (piece / 2) + 8 * (lane % 4) + 4 * (piece % 2); }
  CUTE_DEVICE static float held(float const (&o)[TilesO][4], int piece, int half, int i) {
    return o[piece / 2 * 4 + i][2 * half + piece % 2];
  }
};
// begin fragments
using Fragments = cute::conditional_t<narrow, Narrow<T>, Wide<T>>;
// end fragments

CUTE_DEVICE float power_of_two(float x) {
  float result;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(result) : "f"(x));
  return result;
}

constexpr float Factor = (Plain ? Scale : 1.0f) * 1.4426950408889634f;

// Scores of rows from row0 on and keys from key0 on, those of what is not seen -infinity.
CUTE_DEVICE void finish(float (&s)[Atoms][TilesS][4], int row0, int key0, int head, Terms const& terms, int lane) {
  CUTE_UNROLL
  for (int i = 0; i < Atoms * TilesS * 4; ++i) {
    int const m = i / (TilesS * 4), n = i / 4 % TilesS;
    int const row = row0 + 16 * m + lane / 4 + i % 4 / 2 * 8, key = key0 + 8 * n + 2 * (lane % 4) + i % 2;
    float& x = s[m][n][i % 4];
    bool const seen = key < Keys && row < Rows && (!Causal || key <= row + Diagonal || key < Prefix) &&
                      (!Windowed || key >= row + First || key < Sinks);
    if constexpr (Plain) {
      x = seen ? x : -INFINITY;
    } else {
      x = seen ? score(x, row, key, head, terms) : -INFINITY;
    }
  }
}

// Whether the terms show one of a tile's keys to one of a warp's rows.
CUTE_DEVICE bool some_seen(int row0, int key0, int head, Terms const& terms, int lane) {
  bool seen = false;
  for (int i = lane; i < WarpRows * BlockKeys && !seen; i += 32) {
    int const row = row0 + i / BlockKeys, key = key0 + i % BlockKeys;
    seen = key < Keys && row < Rows && shown(row, key, head, terms);
  }
  return __any_sync(0xffffffffu, seen);
}

// The scores become exponentials; `top` and `sum` (a lane's own part) take them in, `rescale` is for what came before.
CUTE_DEVICE void soften(float (&s)[Atoms][TilesS][4], float (&top)[Atoms][2], float (&sum)[Atoms][2],
                        float (&rescale)[Atoms][2]) {
  CUTE_UNROLL
  for (int m = 0; m < Atoms; ++m) {
    CUTE_UNROLL
    for (int half = 0; half < 2; ++half) {
      float most = top[m][half];
      CUTE_UNROLL
      for (int n = 0; n < TilesS; ++n) most = fmaxf(most, fmaxf(s[m][n][2 * half], s[m][n][2 * half + 1]));
      most = fmaxf(most, __shfl_xor_sync(0xffffffffu, most, 1));
      most = fmaxf(most, __shfl_xor_sync(0xffffffffu, most, 2));
      // Nothing seen yet: exponents are -infinity, not NaN.
      float const base = most == -INFINITY ? 0.0f : most;
      rescale[m][half] = power_of_two((top[m][half] - base) * Factor);
      top[m][half] = most;
      float added = 0;
      CUTE_UNROLL
      for (int n = 0; n < TilesS; ++n) {
        CUTE_UNROLL
        for (int i = 2 * half; i < 2 * half + 2; ++i) {
          s[m][n][i] = power_of_two((s[m][n][i] - base) * Factor);
          added += s[m][n][i];
        }
      }
      sum[m][half] = fmaf(sum[m][half], rescale[m][half], added);
    }
  }
}

template <class X>
CUTE_DEVICE void store(X* to, float const (&x)[Fragments::Near], int column) {
  if constexpr (!Vectors) {
    CUTE_UNROLL
    for (int i = 0; i < Fragments::Near; ++i) {
      if (column + i < Outer) to[(column + i) * int64_t(stride<1>(Layout<Shape<_1, _1>, StridesO>{}))] = X(x[i]);
    }
  } else if constexpr (narrow) {
    if (column < Outer) *reinterpret_cast<uint32_t*>(to + column) = pair<X>(x[0], x[1]);
  } else {
    if (column < Outer) *reinterpret_cast<float4*>(to + column) = make_float4(x[0], x[1], x[2], x[3]);
  }
}

// What a row's sums are multiplied by.
CUTE_DEVICE float portion(float top, float total) {
  return Safe && top == -INFINITY && total == 0 ? 0.0f : 1.0f / total;
}

// What one block found for one row over its share of the keys: the products' sums, not divided yet.
struct Share {
  float o[OperandV::Padded], top, sum;
};

__global__ void __launch_bounds__(Threads, MinBlocks)
attention(T const* __restrict__ Q, T const* __restrict__ K, T const* __restrict__ V, T* __restrict__ O,
          Share* __restrict__ shares, Terms terms) {
  extern __shared__ __align__(128) uint8_t memory[];
  T* const sQ = reinterpret_cast<T*>(memory);        // (BlockRows,Inner)
  T* const sK = sQ + OperandQ::size;                 // (BlockKeys,Inner,Stages)
  T* const sV = sK + Stages * OperandK::size;        // (BlockKeys,Outer,Stages)
  int const thread = threadIdx.x, lane = thread % 32, warp = thread / 32;
  // Blocks of one head run side by side, so that its keys stay in the L2 cache; those that see most keys first.
  int const head = blockIdx.x / TilesM, tile = Causal ? TilesM - 1 - blockIdx.x % TilesM : blockIdx.x % TilesM;
  int const row0 = tile * BlockRows, warp_row0 = row0 + warp * WarpRows;
  int const reach = max(row0 + BlockRows + Diagonal, Prefix), seen = !Causal || reach > Keys ? Keys : reach;  // keys
  int const begin = Windowed ? max(0, row0 + First) / BlockKeys : 0, split = blockIdx.y;  // tiles of keys before
  int const sinks = min(begin, ceil_div(Sinks, BlockKeys));  // tiles of keys seen before those
  int const tiles = sinks + (seen > begin * BlockKeys ? (seen - 1) / BlockKeys + 1 - begin : 0);
  int const first = tiles * split / Splits, last = tiles * (split + 1) / Splits;  // among those that are seen
  Places const places = places_of(head);

  auto const tile_at = [&](int number) { return number < sinks ? number : number - sinks + begin; };
  auto const fetch = [&](int number, int stage) {
    if (number < last) {
      int const key_tile = tile_at(number);
      copy_tile<OperandK>(K + places.k, sK + stage * OperandK::size, key_tile * BlockKeys, thread);
      copy_tile<OperandV>(V + places.v, sV + stage * OperandV::size, key_tile * BlockKeys, thread);
    }
    cp_async_fence();
  };
  copy_tile<OperandQ>(Q + places.q, sQ, row0, thread);
  CUTE_UNROLL
  for (int stage = 0; stage < Stages - 1; ++stage) fetch(first + stage, stage);

  float o[Atoms][TilesO][4] = {}, top[Atoms][2], sum[Atoms][2] = {};
  CUTE_UNROLL
  for (int i = 0; i < Atoms * 2; ++i) top[i / 2][i % 2] = -INFINITY;

  for (int number = first, stage = 0; number < last; ++number, stage = stage + 1 == Stages ? 0 : stage + 1) {
    cp_async_wait<Stages - 2>();
    __syncthreads();
    fetch(number + Stages - 1, stage == 0 ? Stages - 1 : stage - 1);
    int const key_tile = tile_at(number), key0 = key_tile * BlockKeys;
    if (Tested && !some_seen(warp_row0, key0, head, terms, lane)) continue;
    float s[Atoms][TilesS][4] = {}, rescale[Atoms][2];
    Fragments::scores(sQ + warp * WarpRows * OperandQ::Pitch, sK + stage * OperandK::size, lane, s);
    bool const edge = (Keys % BlockKeys != 0 && key_tile == TilesN - 1) ||
                      (Causal && key0 + BlockKeys > max(warp_row0 + Diagonal + 1, Prefix)) ||
                      (Windowed && key0 + BlockKeys > Sinks && key0 < warp_row0 + WarpRows - 1 + First);
    if (!Plain || edge) finish(s, warp_row0, key0, head, terms, lane);
    soften(s, top, sum, rescale);
    Fragments::add(s, sV + stage * OperandV::size, lane, rescale, o);
  }

  CUTE_UNROLL
  for (int i = 0; i < Atoms * 2; ++i) {
    int const m = i / 2, half = i % 2, row = warp_row0 + 16 * m + lane / 4 + 8 * half;
    float total = sum[m][half];
    total += __shfl_xor_sync(0xffffffffu, total, 1);
    total += __shfl_xor_sync(0xffffffffu, total, 2);
    if (row >= Rows) continue;
    [[maybe_unused]] int64_t const found = (int64_t(head) * Rows + row) * Splits + split;
    if constexpr (Splits > 1) {
      if (lane % 4 == 0) shares[found].top = top[m][half], shares[found].sum = total;
    }
    float const share = Splits > 1 ? 1.0f : portion(top[m][half], total);
    T* const to = O + places.o + row * int64_t(stride<0>(Layout<Shape<_1, _1>, StridesO>{}));
    CUTE_UNROLL
    for (int piece = 0; piece < TilesO * 2 / Fragments::Near; ++piece) {
      float x[Fragments::Near];
      CUTE_UNROLL
      for (int k = 0; k < Fragments::Near; ++k) {
        x[k] = Fragments::held(o[m], piece, half, k) * share;
        if constexpr (Splits > 1) shares[found].o[Fragments::column(piece, lane) + k] = x[k];
      }
      if constexpr (Splits == 1) store(to, x, Fragments::column(piece, lane));
    }
  }
}

// Joins the shares of the keys of one row, in their order; a thread has some columns.
__global__ void join(Share const* __restrict__ shares, T* __restrict__ O) {
  int const head = blockIdx.x / Rows, row = blockIdx.x % Rows;
  Share const* const found = shares + int64_t(blockIdx.x) * Splits;
  float top = -INFINITY, total = 0;
  CUTE_UNROLL
  for (int split = 0; split < Splits; ++split) top = fmaxf(top, found[split].top);
  float const base = top == -INFINITY ? 0.0f : top;
  float weights[Splits];
  CUTE_UNROLL
  for (int split = 0; split < Splits; ++split) {
    weights[split] = power_of_two((found[split].top - base) * Factor);
    total = fmaf(found[split].sum, weights[split], total);
  }
  float const share = portion(top, total);
  T* const to = O + places_of(head).o + row * int64_t(stride<0>(Layout<Shape<_1, _1>, StridesO>{}));
  for (int column = threadIdx.x; column < Outer; column += blockDim.x) {
    float x = 0;
    CUTE_UNROLL
    for (int split = 0; split < Splits; ++split) x = fmaf(found[split].o[column], weights[split], x);
    to[column * int64_t(stride<1>(Layout<Shape<_1, _1>, StridesO>{}))] = T(x * share);
  }
}

// check: as in gemm_simt.cu

// scratch: as in gemm_3xtf32.cu

void launch(T const* Q, T const* K, T const* V, T* O, Terms terms, DLDevice device) {
  auto const stream = static_cast<cudaStream_t>(TVMFFIEnvGetStream(device.device_type, device.device_id));
  tvm::ffi::Tensor held;
  Share* shares = nullptr;
  if constexpr (Splits > 1) {
    held = scratch(size_t(Heads) * Rows * Splits * sizeof(Share), device);
    shares = static_cast<Share*>(held.data_ptr());
  }
  dim3 const grid(TilesM * Heads, Splits);
  check(cudaFuncSetAttribute(attention, cudaFuncAttributeMaxDynamicSharedMemorySize, SharedBytes), "shared memory");
  attention<<<grid, Threads, SharedBytes, stream>>>(Q, K, V, O, shares, terms);
  check(cudaGetLastError(), "attention");
  if constexpr (Splits > 1) {
    join<<<Heads * Rows, 128, 0, stream>>>(shares, O);
    check(cudaGetLastError(), "join");
  }
}

// require: as in pointwise.cu

// begin data
// Its first element. What starts in the middle of a copy cannot be copied by so many elements at once.
T* data(tvm::ffi::TensorView const& t, char const* name, int elements) {
  T* const first = reinterpret_cast<T*>(static_cast<char*>(t.data_ptr()) + t.byte_offset());
  if (reinterpret_cast<uintptr_t>(first) % (elements * sizeof(T)) != 0) {
    TVM_FFI_THROW(ValueError) << name << ": its first element is not aligned to " << elements * sizeof(T) << " bytes";
  }
  return first;
}
// end data

}  // namespace attending

// begin entry
// end entry
