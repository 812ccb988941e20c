// begin header
// Out(m,n) = sum over k of X(m,k) * W(n,k) for few rows m, where W is made on the way from a narrower tensor: here int8
// with a scale a row (W8A16), 16 x 4096 -> 11008. Reading that tensor is all the time, so it is read once, in words of
// 16 bytes that stay in registers: W(n,k) is the product's A, X its B, and no element of W is ever in memory. The k's
// of a step are dealt out anew, 16 neighbours a thread, which no sum notices as long as X's are, too. A block takes
// tiles of W in turn, and has the next tile's words on their way while it multiplies this one's. Its warps share K and
// add in shared memory, in the order of K. X comes from the L1 cache, which blocks of a multiprocessor share; up to 8
// rows of it lie in shared memory.
//   op class: gemm
//   architecture: sm_80
//   layouts: mWeight (N,K) and mX (M,K) contiguous along K, mScale (N); any output
//   tile: block 16 x 16 x 4096, 8 warps along K in steps of 64 (MMA 16 x 8 x 16)
//   shared memory: sums 2 x 8 x 16 x 20 x 4 = 20,480 bytes
//   reaches: H100, 16 x 4096 -> 11008: 0.0250 ms, 1.83 TB/s of the copy's 2.97
// end header

// begin includes
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <initializer_list>
#include <limits>
#include <type_traits>

#include <cute/arch/copy_sm80.hpp>
#include <cute/arch/mma_sm80.hpp>
#include <cute/tensor.hpp>
// _interface: as in pointwise.cu
// end includes

using namespace cute;

namespace kernels {

// begin knobs
constexpr int kTiles = 1;        // of 16 rows of W, which a block takes at once
constexpr int kWarps = 8;        // of a block, which share K
constexpr int kDepth = 2;        // steps of a warp whose weights are on their way or in use
constexpr int kBlocks = 792;     // at most, which take tiles in turn
constexpr bool kShared = false;  // whether X is in shared memory
constexpr int kThreads = 32 * kWarps;
using Index = int;
// end knobs

// access: as in pointwise.cu

// begin held
// V neighbours as they lie in memory, in whole words: bytes apart would take a register each.
template <class T, int V>
struct Held {
  Pack<uint32_t, int(sizeof(T)) * V / 4> words;

  CUTE_DEVICE static Held of(T const* from) {
    return {load<true>(reinterpret_cast<decltype(words) const*>(from))};
  }
  CUTE_DEVICE T lane(int j) const {
    constexpr int kEach = 4 / sizeof(T);  // elements a word
    uint32_t const bits = words.lane[j / kEach] >> j % kEach * 8 * int(sizeof(T));
    T value;
    memcpy(&value, &bits, sizeof(T));
    return value;
  }
};
// end held

// begin pairs
// Two numbers of 16 bits in one register, as one instruction computes them. Every operation rounds.
template <class T>
CUTE_DEVICE uint32_t pair(T a, T b) {
  return uint32_t(a.raw()) | uint32_t(b.raw()) << 16;
}
template <class T>
CUTE_DEVICE uint32_t both(T a) {
  return pair(a, a);
}
template <class T>
using Two = cute::conditional_t<cute::is_same_v<T, half_t>, __half2, __nv_bfloat162>;
template <class T>
CUTE_DEVICE Two<T> two(uint32_t bits) {
  Two<T> numbers;
  memcpy(&numbers, &bits, 4);
  return numbers;
}
template <class V>
CUTE_DEVICE uint32_t bits_of(V numbers) {
  uint32_t bits;
  memcpy(&bits, &numbers, 4);
  return bits;
}
template <class T>
CUTE_DEVICE uint32_t add(uint32_t a, uint32_t b) { return bits_of(__hadd2_rn(two<T>(a), two<T>(b))); }
template <class T>
CUTE_DEVICE uint32_t sub(uint32_t a, uint32_t b) { return bits_of(__hsub2_rn(two<T>(a), two<T>(b))); }
template <class T>
CUTE_DEVICE uint32_t mul(uint32_t a, uint32_t b) { return bits_of(__hmul2_rn(two<T>(a), two<T>(b))); }

// What the Bits from `at` on of both halves of a word say, less `Less`: they become the last bits of a number's
// fraction, and what that number is without them is subtracted. bfloat16 has seven such bits: an eighth comes apart.
template <class T, int Bits, bool Signed, int Less>
CUTE_DEVICE uint32_t integers(uint32_t word, int at) {
  constexpr bool kHalf = cute::is_same_v<T, half_t>;
  constexpr float kBase = kHalf ? 1024 : 128;  // beside its fraction such a number has 0x64, or 0x43
  static_assert(Bits < 8 ? !Signed : Bits == 8, "no such integers");
  if (Bits < 8) word = word >> at % 8 & ((1u << Bits) - 1) * 0x01010101u;
  if (kHalf && Signed) word ^= 0x80808080u;
  uint32_t const x = __byte_perm(word, kHalf ? 0x64646464u : 0x43434343u, at < 8 ? 0x4240 : 0x4341);
  if constexpr (kHalf || Bits < 8) {
    return sub<T>(x, both(T(kBase + Less + (Signed ? 128 : 0))));
  } else if constexpr (Signed) {
    return sub<T>(x & 0x437f437f, x & 0x43804380);
  } else {
    return add<T>(sub<T>(x & 0x437f437f, both(T(kBase))), (x & 0x00800080) / 128 * 0x4300);
  }
}
// end pairs

// begin arithmetic
// end arithmetic

// begin kernel
// end kernel

// begin engine
template <class T>
using Mma = cute::conditional_t<cute::is_same_v<T, half_t>, SM80_16x8x16_F32F16F16F32_TN,
                                SM80_16x8x16_F32BF16BF16F32_TN>;
constexpr int kStep = 64;  // k's of a step: 16 of each of the 4 threads that share a row
constexpr int kRowsW = 16 * kTiles, kPitch = kRowsW + 4;
template <class P> constexpr int GroupsM = (P::M + 7) / 8;
template <class P> constexpr int TilesN = (P::N + kRowsW - 1) / kRowsW;
template <class P> constexpr int Steps = (P::K + kStep - 1) / kStep;
template <class P> constexpr int Rounds = (Steps<P> + kWarps * kDepth - 1) / (kWarps * kDepth);
template <class P> constexpr int Blocks = cute::min(TilesN<P>, kBlocks);
// Rows of X begin 16 bytes apart within the banks, those of sums 16 or 48: no two lanes of a step meet in one.
template <class P> constexpr int PitchX = Steps<P> * kStep + 8;
template <class P> constexpr int SizeX = kShared ? P::M * PitchX<P> * 2 : 0;
template <class P> constexpr int Sums = kWarps * GroupsM<P> * 8 * kPitch;
template <class P> constexpr int Mine = P::M * kRowsW;  // sums of a tile
template <class P> constexpr int SharedBytes = (SizeX<P> + 15) / 16 * 16 + 2 * Sums<P> * 4;

template <class P>
__global__ void __launch_bounds__(kThreads) multiply(P const p) {
  extern __shared__ __align__(128) uint8_t memory[];
  using T = typename P::T;
  T* const sX = reinterpret_cast<T*>(memory);  // (M,PitchX)
  float* const sums = reinterpret_cast<float*>(memory + (SizeX<P> + 15) / 16 * 16);  // (2,kWarps,GroupsM * 8,kPitch)
  int const lane = threadIdx.x % 32, warp = threadIdx.x / 32, group = lane / 4, quarter = lane % 4 * 16;
  typename P::Raw raws[kDepth][kTiles][2];

  auto const fetch = [&](int tile, int round, int slot) {
    int const step = (round * kDepth + slot) * kWarps + warp;
    if (tile >= TilesN<P> || step >= Steps<P>) return;
    int const k = min(step * kStep + quarter, P::K - 16);
    UNROLL
    for (int i = 0; i < kTiles * 2; ++i) {
      raws[slot][i / 2][i % 2] = p.raw(min(tile * kRowsW + i * 8 + group, P::N - 1), k);
    }
  };
  int tile = blockIdx.x;
  UNROLL
  for (int slot = 0; slot < kDepth; ++slot) fetch(tile, 0, slot);

  if (kShared) {  // X, by pieces of 16 k's that their thread then puts in order
    constexpr int kPieces = Steps<P> * (kStep / 16);
    for (int at = threadIdx.x; at < P::M * kPieces; at += kThreads) {
      int const m = at / kPieces, piece = at % kPieces, k = piece * 16;
      T const* const from = p.row(m, min(k, P::K - 16));
      UNROLL
      for (int half = 0; half < 16; half += 8) {
        using Copy = SM80_CP_ASYNC_CACHEGLOBAL_ZFILL<cute::uint128_t>;
        Copy::copy(*reinterpret_cast<cute::uint128_t const*>(from + half),
                   *reinterpret_cast<cute::uint128_t*>(sX + m * PitchX<P> + piece * 16 + half), k < P::K);
      }
    }
    cp_async_fence();
    cp_async_wait<0>();
    for (int at = threadIdx.x; at < P::M * kPieces; at += kThreads) {
      auto* const piece = packs<16>(sX + at / kPieces * PitchX<P> + at % kPieces * 16);
      Pack<T, 16> const old = *piece;
      Pack<T, 16> sorted;
      UNROLL
      for (int j = 0; j < 16; ++j) sorted.lane[j] = old.lane[P::order(j)];
      *piece = sorted;
    }
    __syncthreads();
  }

  float tCrC[kTiles][GroupsM<P>][4];  // (kTiles,GroupsM,MMA)
  auto const product = [&](int round, int slot) {
    int const step = (round * kDepth + slot) * kWarps + warp;
    if (step >= Steps<P>) return;
    int const k = step * kStep + quarter;
    bool const inside = P::K % kStep == 0 || k < P::K;
    uint32_t x[GroupsM<P>][8];
    UNROLL
    for (int j = 0; j < GroupsM<P>; ++j) {
      int const m = min(j * 8 + group, P::M - 1);
      if (kShared) {
        memcpy(x[j], packs<16>(sX + m * PitchX<P> + step * kStep + quarter), 32);
      } else {
        Pack<T, 16> const rX = load<false>(packs<16>(p.row(m, min(k, P::K - 16))));
        UNROLL
        for (int s = 0; s < 8; ++s) x[j][s] = pair(rX.lane[P::order(2 * s)], rX.lane[P::order(2 * s + 1)]);
      }
    }
    UNROLL
    for (int i = 0; i < kTiles; ++i) {
      uint32_t w[2][8];
      UNROLL
      for (int half = 0; half < 2; ++half) {
        int const n = min(tile * kRowsW + i * 16 + half * 8 + group, P::N - 1);
        p.weights(raws[slot][i][half], n, min(k, P::K - 16), w[half]);
      }
      UNROLL
      for (int s = 0; s < 8; s += 2) {
        UNROLL
        for (int j = 0; j < GroupsM<P>; ++j) {
          float(&c)[4] = tCrC[i][j];
          // Beyond K both are 0: an infinity of another k must not meet a zero.
          Mma<T>::fma(c[0], c[1], c[2], c[3], inside ? w[0][s] : 0, inside ? w[1][s] : 0, inside ? w[0][s + 1] : 0,
                      inside ? w[1][s + 1] : 0, inside ? x[j][s] : 0, inside ? x[j][s + 1] : 0, c[0], c[1], c[2],
                      c[3]);
        }
      }
    }
  };

  for (int turn = 0; tile < TilesN<P>; tile += Blocks<P>, turn ^= 1) {
    UNROLL
    for (int i = 0; i < kTiles * GroupsM<P> * 4; ++i) tCrC[i / 4 / GroupsM<P>][i / 4 % GroupsM<P>][i % 4] = 0;
    for (int round = 0; round < Rounds<P>; ++round) {
      bool const last = round + 1 == Rounds<P>;
      UNROLL
      for (int slot = 0; slot < kDepth; ++slot) {
        product(round, slot);
        fetch(last ? tile + Blocks<P> : tile, last ? 0 : round + 1, slot);
      }
    }
    // A lane holds rows group and group + 8 of W, columns 2 * (lane % 4) and the next of X.
    float* const mine = sums + turn * Sums<P>;
    UNROLL
    for (int i = 0; i < kTiles * GroupsM<P> * 4; ++i) {
      int const v = i % 4, j = i / 4 % GroupsM<P>, at = i / 4 / GroupsM<P>;
      int const m = warp * GroupsM<P> * 8 + j * 8 + lane % 4 * 2 + v % 2;
      mine[m * kPitch + at * 16 + v / 2 * 8 + group] = tCrC[at][j][v];
    }
    __syncthreads();
    for (int at = threadIdx.x; at < Mine<P>; at += kThreads) {
      int const m = at / kRowsW, row = at % kRowsW, n = tile * kRowsW + row;
      float x = 0;
      UNROLL
      for (int each = 0; each < kWarps; ++each) x += mine[(each * GroupsM<P> * 8 + m) * kPitch + row];
      if (n < P::N) p.store(m, n, x);
    }
  }
}

// For what is read in words of 16 bytes.
void check_aligned(void const* start) {
  if (reinterpret_cast<uintptr_t>(start) % 16 == 0) return;
  TVM_FFI_THROW(ValueError) << "an operand is not aligned to 16 bytes";
}

template <class P>
void launch(P const& p, cudaStream_t stream) {
  constexpr int bytes = SharedBytes<P>;
  if constexpr (bytes > 48 << 10) {
    cudaFuncSetAttribute(multiply<P>, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes);
  }
  multiply<P><<<Blocks<P>, kThreads, bytes, stream>>>(p);
}
// end engine

// require: as in pointwise.cu

// launched: as in pointwise.cu

}  // namespace kernels

using namespace kernels;

// begin entry
// end entry
