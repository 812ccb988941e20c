// begin header
// Out(m,n) = sum over k of X(m,k) * W(n,k) for few rows m, where W is made on the way from a narrower tensor: here int8
// with a scale a row (W8A16), 16 x 4096 -> 11008. Reading that tensor is all the time, so it is read once, in words of
// 16 bytes that stay in registers: W(n,k) is the product's A, X its B, and no element of W is ever in memory. The k's
// of a step are dealt out anew, 16 neighbours a thread, which no sum notices as long as X's are, too. The warps of a
// block share K and add in shared memory, in the order of K.
//   op class: gemm
//   architecture: sm_80
//   layouts: mWeight (N,K) and mX (M,K) contiguous along K, mScale (N); any output
//   tile: block 16 x 16 x 4096, 8 warps along K in steps of 64 (MMA 16 x 8 x 16)
//   shared memory: sums 16 x 16 x 8 x 4 = 8192 bytes
// end header

// begin includes
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <initializer_list>
#include <limits>
#include <type_traits>

#include <cute/arch/mma_sm80.hpp>
#include <cute/tensor.hpp>
#include <tvm/ffi/container/tensor.h>
#include <tvm/ffi/error.h>
#include <tvm/ffi/extra/c_env_api.h>
#include <tvm/ffi/function.h>

#define UNROLL _Pragma("unroll")
// end includes

using namespace cute;

namespace kernels {

// begin knobs
constexpr int kTiles = 1;  // of 16 rows of W, a block
constexpr int kWarps = 8;  // of a block, which share K
constexpr int kDepth = 2;  // steps of a warp whose weights are on their way or in use
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

// begin arithmetic
// end arithmetic

// begin kernel
// What to multiply: 16 neighbouring k's of a row of W, as they lie in memory and as they are multiplied.
struct Weights {
  int8_t const* pWeight;
  bfloat16_t const* pScale;
  bfloat16_t const* pX;
  bfloat16_t* pOut;
  using T = bfloat16_t;
  static constexpr int M = 16, N = 11008, K = 4096;
  struct Raw {
    Held<int8_t, 16> rWeight;
    bfloat16_t rScale;
  };
  CUTE_DEVICE Raw raw(int n, int k) const {
    return {Held<int8_t, 16>::of(pWeight + (n * 4096 + k)), pScale[n]};
  }
  CUTE_DEVICE void weights(Raw const& raw, int, int, T (&w)[16]) const {
    UNROLL
    for (int j = 0; j < 16; ++j) {
      float const rWeight = static_cast<float>(raw.rWeight.lane(j));
      w[j] = T(rWeight * float(raw.rScale));
    }
  }
  CUTE_DEVICE T const* row(int m, int k) const { return pX + (m * 4096 + k); }
  CUTE_DEVICE void store(int m, int n, float x) const {
    Tensor mOut = make_tensor(make_gmem_ptr(pOut),  // (M,N)
        Layout<Shape<Int<16>, Int<11008>>, Stride<Int<11008>, _1>>{});
    mOut(m, n) = T(x);
  }
};
// end kernel

// begin engine
template <class T>
using Mma = cute::conditional_t<cute::is_same_v<T, half_t>, SM80_16x8x16_F32F16F16F32_TN,
                                SM80_16x8x16_F32BF16BF16F32_TN>;
constexpr int kStep = 64;  // k's of a step: 16 of each of the 4 threads that share a row
template <class P> constexpr int RowsW = 16 * kTiles;
template <class P> constexpr int GroupsM = (P::M + 7) / 8;
template <class P> constexpr int Blocks = (P::N + RowsW<P> - 1) / RowsW<P>;

// Two neighbours as the tensor cores take them.
template <class T>
CUTE_DEVICE uint32_t pair(T const* x) {
  return uint32_t(x[0].raw()) | uint32_t(x[1].raw()) << 16;
}

template <class P>
__global__ void __launch_bounds__(kThreads) multiply(P const p) {
  using T = typename P::T;
  constexpr int Steps = (P::K + kStep - 1) / kStep;
  int const lane = threadIdx.x % 32, warp = threadIdx.x / 32, group = lane / 4;
  int const n0 = blockIdx.x * RowsW<P>, k0 = lane % 4 * 16;
  typename P::Raw raws[kDepth][kTiles][2];
  float tCrC[kTiles][GroupsM<P>][4] = {};  // (kTiles,GroupsM,MMA)

  auto const fetch = [&](int step, int slot) {
    int const k = min(step * kStep + k0, P::K - 16);
    UNROLL
    for (int i = 0; i < kTiles * 2; ++i) {
      raws[slot][i / 2][i % 2] = p.raw(min(n0 + i * 8 + group, P::N - 1), k);
    }
  };
  auto const product = [&](int step, int slot) {
    int const k = step * kStep + k0;
    bool const inside = P::K % kStep == 0 || k < P::K;
    Pack<T, 16> rX[GroupsM<P>];  // which the caches hold
    UNROLL
    for (int j = 0; j < GroupsM<P>; ++j) {
      rX[j] = load<false>(packs<16>(p.row(min(j * 8 + group, P::M - 1), min(k, P::K - 16))));
    }
    UNROLL
    for (int i = 0; i < kTiles; ++i) {
      T w[2][16];
      UNROLL
      for (int half = 0; half < 2; ++half) {
        int const n = min(n0 + i * 16 + half * 8 + group, P::N - 1);
        p.weights(raws[slot][i][half], n, min(k, P::K - 16), w[half]);
      }
      UNROLL
      for (int s = 0; s < 16; s += 4) {
        UNROLL
        for (int j = 0; j < GroupsM<P>; ++j) {
          T const* const x = rX[j].lane + s;
          float(&c)[4] = tCrC[i][j];
          // Beyond K both are 0: an infinity of another k must not meet a zero.
          Mma<T>::fma(c[0], c[1], c[2], c[3],
                      inside ? pair(w[0] + s) : 0, inside ? pair(w[1] + s) : 0,
                      inside ? pair(w[0] + s + 2) : 0, inside ? pair(w[1] + s + 2) : 0,
                      inside ? pair(x) : 0, inside ? pair(x + 2) : 0, c[0], c[1], c[2], c[3]);
        }
      }
    }
  };
  UNROLL
  for (int ahead = 0; ahead < kDepth - 1; ++ahead) fetch(warp + ahead * kWarps, ahead);
  for (int first = warp; first < Steps; first += kWarps * kDepth) {
    UNROLL
    for (int slot = 0; slot < kDepth; ++slot) {
      int const step = first + slot * kWarps, next = step + (kDepth - 1) * kWarps;
      if (next < Steps) fetch(next, (slot + kDepth - 1) % kDepth);
      if (step < Steps) product(step, slot);
    }
  }

  // A lane holds rows group and group + 8 of W, columns 2 * (lane % 4) and the next of X.
  __shared__ float sums[kWarps][GroupsM<P> * 8][RowsW<P>];  // (kWarps,M,kTiles * 16)
  UNROLL
  for (int i = 0; i < kTiles * GroupsM<P> * 4; ++i) {
    int const v = i % 4, j = i / 4 % GroupsM<P>, tile = i / 4 / GroupsM<P>;
    sums[warp][j * 8 + lane % 4 * 2 + v % 2][tile * 16 + v / 2 * 8 + group] = tCrC[tile][j][v];
  }
  __syncthreads();
  for (int at = threadIdx.x; at < P::M * RowsW<P>; at += kThreads) {
    int const m = at / RowsW<P>, row = at % RowsW<P>;
    if (n0 + row >= P::N) continue;
    float x = 0;
    UNROLL
    for (int part = 0; part < kWarps; ++part) x += sums[part][m][row];
    p.store(m, n0 + row, x);
  }
}

// For what is read in words of 16 bytes.
void check_aligned(void const* start) {
  if (reinterpret_cast<uintptr_t>(start) % 16 == 0) return;
  TVM_FFI_THROW(ValueError) << "an operand is not aligned to 16 bytes";
}

template <class P>
void launch(P const& p, cudaStream_t stream) {
  multiply<P><<<Blocks<P>, kThreads, 0, stream>>>(p);
}
// end engine

// require: as in pointwise.cu

// launched: as in pointwise.cu

}  // namespace kernels

using namespace kernels;

// begin entry
void run(tvm::ffi::TensorView X, tvm::ffi::TensorView Weight, tvm::ffi::TensorView Scale, tvm::ffi::TensorView Out) {
  require(X, "X", {16, 4096}, {4096, 1}, kDLBfloat, 16);
  require(Weight, "Weight", {11008, 4096}, {4096, 1}, kDLInt, 8);
  require(Scale, "Scale", {11008}, {1}, kDLBfloat, 16);
  require(Out, "Out", {16, 11008}, {11008, 1}, kDLBfloat, 16);

  cudaStream_t const stream = stream_of(Out);
  auto const* pX = static_cast<bfloat16_t const*>(X.data_ptr());
  auto const* pWeight = static_cast<int8_t const*>(Weight.data_ptr());
  auto const* pScale = static_cast<bfloat16_t const*>(Scale.data_ptr());
  auto* pOut = static_cast<bfloat16_t*>(Out.data_ptr());
  check_aligned(pX);
  check_aligned(pWeight);
  launch(Weights{pWeight, pScale, pX, pOut}, stream);
  launched();
}
TVM_FFI_DLL_EXPORT_TYPED_FUNC(run, run);
// end entry
