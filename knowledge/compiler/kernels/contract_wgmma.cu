// begin header
// A convolution on Hopper's tensor cores, in TF32 or in 16 bits, as an implicit GEMM:
// out(m,n) = sum over k of left(m,k) * right(n,k), where m is a channel that comes out, n a place of an image, and k a
// channel that goes in with a tap of the window.
// Here 16 images of 64 x 56 x 56, 128 channels out, windows of 3 x 3, a padding of 1, at float32 grade (3xTF32).
// Nothing is copied into a matrix first: a row n of `right` is an address and its place in the image, a k adds a step
// to each (a table that `prepare` writes). Producers read a tile of it, neighbouring threads neighbouring places,
// zeros for what misses the image; they round it to TF32 and lay it out as wgmma reads it, K-major and swizzled, and
// beside it, for three products, what rounding left over. The next two tiles travel meanwhile. The weights are packed
// once as they have to lie in shared memory, so that one bulk copy brings a tile. Blocks stay and take one tile after
// the other. Two warpgroups of consumers share a tile of three products; of one product each has its own, and one
// stores while the other multiplies. Results pass through shared memory, so that neighbouring threads write
// neighbouring elements.
//   op class: gemm
//   architecture: sm_90a
//   layouts: mX (image,channel,row,column), mWeight (channel,k), mOut as mX
//   tile: block 128 x 128 x 32, 2 consumer warpgroups of 64 x 128, 2 warpgroups of producers
//   shared memory: left 128 x 32 x 2 x 4 x 3 = 98304 bytes, right 128 x 32 x 2 x 4 x 3 = 98304 bytes, results 8 x 16 x
//     40 x 4 = 20480 bytes, barriers 8 x 2 x 3 + 16 = 64 bytes; 217152 bytes of at most 232448
// end header

// begin includes
// _standard: as in pointwise.cu

#include <cute/arch/copy_sm80.hpp>
#include <cute/arch/mma_sm80.hpp>
#include <cute/arch/mma_sm90.hpp>
#include <cute/tensor.hpp>
#include <cutlass/arch/barrier.h>
#include <cutlass/arch/reg_reconfig.h>
// _interface: as in pointwise.cu
// end includes

// begin engine
namespace background {
// What operands are in shared memory: float32, of which the tensor cores read TF32, or 16-bit numbers.
template <class P> using E = typename P::Element;
template <class P> using Multiplied = std::conditional_t<sizeof(E<P>) == 4, tfloat32_t, E<P>>;
template <class P> using BLK_K = Int<128 / sizeof(E<P>)>;
constexpr int Producers = 256, Consumers = 256, Threads = Producers + Consumers;
// Registers a thread, once producers have handed theirs over: 65536 in all.
constexpr uint32_t ProducerRegisters = 88, ConsumerRegisters = 168;
// With one product each warpgroup of consumers has a tile of its own, and one stores while the other multiplies. With
// three, whose sums of one tile take as many registers again, both share a tile.
template <class P> constexpr bool Alternates = P::Products == 1;
// A warp's results on their way to memory: 16 rows of 32, so far apart that no two of a store share a bank.
constexpr int PieceRows = 16, PieceColumns = 32, PieceStride = 40;

template <class P> constexpr int TilesM = ceil_div(P::M, P::BLK_M::value);
template <class P> constexpr int TilesN = ceil_div(P::N, P::BLK_N::value);
template <class P> constexpr int TilesK = ceil_div(P::K, BLK_K<P>::value);
template <class P> constexpr int PaddedK = TilesK<P> * BLK_K<P>::value;
template <class P> constexpr int Works = TilesM<P> * TilesN<P> * P::Batches;

// One operand's tiles in shared memory as wgmma reads them: rounded, and for three products what that left over.
template <class P, class Rows_>
struct Operand {
  using Rows = Rows_;
  static constexpr int Parts = P::Products == 3 ? 2 : 1;
  using Steps = BLK_K<P>;
  using Swizzled = Swizzle<3, sizeof(E<P>) == 4 ? 2 : 3, 3>;  // of 16 bytes
  using Part = decltype(composition(Swizzled{}, Layout<Shape<Rows, Steps>, Stride<Steps, _1>>{}));
  using Shared = decltype(tile_to_shape(GMMA::Layout_K_SW128_Atom<Multiplied<P>>{},
                                        Shape<Rows, Steps, Int<Parts * P::Stages>>{}));  // (BLK,BLK_K,Parts*Stages)
  static constexpr int part = Rows::value * Steps::value, size = Parts * part;           // elements of one tile

  CUTE_DEVICE static int at(int row, int k) { return typename Operand::Part{}(row, k); }
};
template <class P> using Left = Operand<P, typename P::BLK_M>;
template <class P> using Right = Operand<P, typename P::BLK_N>;
// What `prepare` writes: the steps along K, then the left operand tile by tile.
template <class P> constexpr int64_t StepBytes = int64_t(PaddedK<P>) * sizeof(int4);
template <class P> constexpr int64_t PackedTiles = int64_t(P::Batches) * TilesM<P> * TilesK<P>;
template <class P> constexpr int64_t HeldBytes = StepBytes<P> + PackedTiles<P> * Left<P>::size * int64_t(sizeof(E<P>));

template <class P>
struct Shared {
  E<P> A[P::Stages * Left<P>::size];   // (BLK_M,BLK_K,Parts*Stages)
  E<P> B[P::Stages * Right<P>::size];  // (BLK_N,BLK_K,Parts*Stages)
  float pieces[Consumers / 32][PieceRows * PieceStride];
  uint64_t full[P::Stages], empty[P::Stages], turn[2];
};

template <class P>
using Mma = decltype(make_tiled_mma(
    GMMA::ss_op_selector<Multiplied<P>, Multiplied<P>, float,
                         Shape<_64, Int<P::BLK_N::value * (Alternates<P> ? 128 : P::BLK_M::value) / 128>, BLK_K<P>>>(),
    std::conditional_t<Alternates<P>, Layout<Shape<_1, _1, _1>>,
                       Layout<Shape<Int<P::BLK_M::value / 64>, Int<128 / P::BLK_M::value>, _1>>>{}));

// begin _rounded
// Round to nearest, ties away from zero; NaN stays what it is where the carry would make a zero of it. The tensor core
// ignores the 13 lowest bits: they are cleared only where what is left over is computed.
template <bool Cleared>
CUTE_DEVICE float rounded(float x) {
  uint32_t const bits = __float_as_uint(x) + 0x1000u;
  return x == x ? __uint_as_float(Cleared ? bits & 0xffffe000u : bits) : x;
}
// end _rounded

// The left operand as tiles of (BLK_M,BLK_K), zeros beyond its edges, and what each k adds to a row of the right one.
template <class P>
__global__ void __launch_bounds__(kThreads) prepare(P const p, E<P>* packed, int4* steps) {
  using X = Left<P>;
  int64_t const first = int64_t(blockIdx.x) * kThreads + threadIdx.x;
  for (int64_t at = first; at < PackedTiles<P> * X::part; at += int64_t(gridDim.x) * kThreads) {
    int64_t const tile = at / X::part;
    int const row = int(at % X::part) / BLK_K<P>::value, near = int(at % BLK_K<P>::value);
    int const m = int(tile / TilesK<P> % TilesM<P>) * P::BLK_M::value + row;
    int const k = int(tile % TilesK<P>) * BLK_K<P>::value + near;
    float const x = m < P::M && k < P::K ? p.left(int(tile / (TilesK<P> * TilesM<P>)), m, k) : 0;
    E<P>* const to = packed + tile * X::size + X::at(row, near);
    if constexpr (sizeof(E<P>) == 4) {
      float const big = rounded<true>(x);
      *to = big;
      if constexpr (X::Parts == 2) to[X::part] = x - big;
    } else {
      *to = E<P>(x);
    }
  }
  for (int64_t k = first; k < PaddedK<P>; k += int64_t(gridDim.x) * kThreads) {
    steps[k] = k < P::K ? p.step(int(k)) : make_int4(0, 0, 0, 0);
  }
}

// An infinity splits into infinity - infinity: where the sum is not finite, take what plain float32 gives.
// A P that spares adds only what both operands hold: where one misses, the other may still be read.
template <class P>
__noinline__ __device__ float plain_sum(P const& p, int4 const* steps, int batch, int m, int n) {
  typename P::Row const row = p.row(batch, n);
  float sum = 0;
  for (int k = 0; k < P::K; ++k) {
    int4 const step = steps[k];
    bool const inside = P::inside(row, step);
    if constexpr (P::Spares) {
      if (!inside || !p.counts(batch, m, k)) continue;
    }
    sum = fmaf(p.left(batch, m, k), inside ? float(row.from[step.x]) : 0.0f, sum);
  }
  return sum;
}

// Tiles that read the same rows of the right operand run side by side, and so do those that write between each other.
template <class P>
struct Work {
  int m0, n0, batch;

  CUTE_DEVICE explicit Work(int index)
      : m0(index % TilesM<P> * P::BLK_M::value),
        n0(index / (TilesM<P> * P::Batches) * P::BLK_N::value),
        batch(index / TilesM<P> % P::Batches) {}
};

// __ldg knows no 16-bit floats of CUTLASS.
template <class T>
CUTE_DEVICE T read_only(T const* from) {
  if constexpr (sizeof(T) == 4) {
    return __ldg(from);
  } else {
    return T::bitcast(__ldg(reinterpret_cast<uint16_t const*>(from)));
  }
}

// A thread's part of a tile of the right operand on its way: half a row; neighbouring threads read neighbouring rows.
template <class P>
struct Parcel {
  using X = Right<P>;
  using T = E<P>;
  static constexpr int Rows = P::BLK_N::value, Word = 16 / sizeof(T);
  static_assert(Producers % Rows == 0, "a producer's thread keeps to one row");
  static constexpr int words = X::part / Word / Producers, size = Word * words;
  // Neighbouring k's that share a step.
  static constexpr int Even = 16;
  static_assert(size % Even == 0, "a producer's thread reads whole steps");
  union {
    uint4 values[words];
    float4 floats[words];
  };

  CUTE_DEVICE Parcel() {}
  CUTE_DEVICE static int row(int thread) { return thread % Rows; }
  CUTE_DEVICE static int k(int thread, int word) { return Word * (thread / Rows * words + word); }

  // Of the tile's first k of this thread, or of its first 16 k's where they are inside or not together.
  CUTE_DEVICE static int4 step(int4 const* steps, int k_tile, int thread) {
    return __ldg(steps + k_tile * BLK_K<P>::value + k(thread, 0));
  }

  CUTE_DEVICE void load(typename P::Row const& at, int4 const* steps, int4 const step, int k_tile, int thread) {
    int const first = k_tile * BLK_K<P>::value + k(thread, 0);
    union {
      T v[size];
      uint4 v4[words];
    };
    if constexpr (P::Apart != 0) {
      CUTE_UNROLL
      for (int even = 0; even < size; even += Even) {
        int4 const own = even == 0 ? step : __ldg(steps + first + even);
        bool const inside = (P::K % BLK_K<P>::value == 0 || first + even < P::K) && P::inside(at, own);
        auto const* const from = at.from + own.x;
        if constexpr (P::Wide) {
          CUTE_UNROLL
          for (int i = even; i < even + Even; i += Word) {
            uint4 const* const whole = reinterpret_cast<uint4 const*>(from + (i - even));
            v4[i / Word] = inside ? __ldg(whole) : make_uint4(0, 0, 0, 0);
          }
        } else {
          CUTE_UNROLL
          for (int i = even; i < even + Even; ++i) v[i] = inside ? read_only(from + (i - even) * P::Apart) : T(0);
        }
      }
    } else {
      CUTE_UNROLL
      for (int i = 0; i < size; ++i) {
        int4 const own = i == 0 ? step : __ldg(steps + first + i);
        bool const inside = (P::K % BLK_K<P>::value == 0 || first + i < P::K) && P::inside(at, own);
        v[i] = inside ? read_only(at.from + own.x) : T(0);
      }
    }
    CUTE_UNROLL
    for (int word = 0; word < words; ++word) values[word] = v4[word];
  }

  // What is left over is not rounded: the tensor core ignores its 13 lowest bits.
  CUTE_DEVICE void store(T* shared, int thread) const {
    CUTE_UNROLL
    for (int word = 0; word < words; ++word) {
      T* const to = shared + X::at(row(thread), k(thread, word));
      if constexpr (sizeof(T) == 4) {
        constexpr bool cleared = X::Parts == 2;
        float4 const x = floats[word];
        float4 const big = make_float4(rounded<cleared>(x.x), rounded<cleared>(x.y), rounded<cleared>(x.z),
                                       rounded<cleared>(x.w));
        *reinterpret_cast<float4*>(to) = big;
        if constexpr (X::Parts == 2) {
          *reinterpret_cast<float4*>(to + X::part) = make_float4(x.x - big.x, x.y - big.y, x.z - big.z, x.w - big.w);
        }
      } else {
        *reinterpret_cast<uint4*>(to) = values[word];
      }
    }
  }
};

using Barrier = cutlass::arch::ClusterTransactionBarrier;

// Place in the ring of stages, and the parity of its round.
template <class P>
struct Stage {
  int index = 0, phase = 0;

  CUTE_DEVICE void next() {
    index = index + 1 == P::Stages ? 0 : index + 1;
    phase ^= index == 0;
  }

  CUTE_DEVICE void skip(int stages) {
    phase ^= (index + stages) / P::Stages % 2;
    index = (index + stages) % P::Stages;
  }
};

// Fills the stages in turn; the loads of two tiles travel while the one before them is rounded.
template <class P>
CUTE_DEVICE void produce(Shared<P>& shared, P const& p, E<P> const* packed, int4 const* steps) {
  constexpr uint32_t bytes = Left<P>::size * sizeof(E<P>);
  int const thread = threadIdx.x;
  Stage<P> stage;
  Parcel<P> even, odd;
  int loaded = 0, delivered = 0;
  int index = blockIdx.x, oldest_k = 0;  // of the oldest parcel that is not delivered
  Work<P> oldest(index);
  auto const deliver = [&](Parcel<P> const& parcel) {
    Barrier::wait(&shared.empty[stage.index], stage.phase ^ 1);
    if (thread == 0) {
      int64_t const tile = (int64_t(oldest.batch) * TilesM<P> + oldest.m0 / P::BLK_M::value) * TilesK<P> + oldest_k;
      Barrier::arrive_and_expect_tx(&shared.full[stage.index], bytes);
      SM90_BULK_COPY_G2S::copy(packed + tile * Left<P>::size, &shared.full[stage.index],
                               shared.A + stage.index * Left<P>::size, bytes);
    }
    parcel.store(shared.B + stage.index * Right<P>::size, thread);
    cutlass::arch::fence_view_async_shared();
    __syncwarp();  // one arrival a warp: arrivals at a barrier wait for each other
    if (thread % 32 == 0) Barrier::arrive(&shared.full[stage.index]);
    stage.next();
    ++delivered;
    if (++oldest_k == TilesK<P>) {
      oldest_k = 0, index += gridDim.x;
      oldest = Work<P>(index);
    }
  };
  int4 step = Parcel<P>::step(steps, 0, thread);
  for (int at = blockIdx.x; at < Works<P>; at += gridDim.x) {
    Work<P> const work(at);
    typename P::Row const row = p.row(work.batch, work.n0 + Parcel<P>::row(thread));
    for (int k_tile = 0; k_tile < TilesK<P>; ++k_tile, ++loaded) {
      int4 const next = Parcel<P>::step(steps, k_tile + 1 < TilesK<P> ? k_tile + 1 : 0, thread);
      if (loaded % 2 == 0) {
        if (loaded >= 2) deliver(even);
        even.load(row, steps, step, k_tile, thread);
      } else {
        if (loaded >= 2) deliver(odd);
        odd.load(row, steps, step, k_tile, thread);
      }
      step = next;
    }
  }
  while (delivered < loaded) {
    if (delivered % 2 == 0) {
      deliver(even);
    } else {
      deliver(odd);
    }
  }
}

// A warp's 16 rows from m0 on, piece by piece through shared memory, so that neighbouring threads write neighbours,
// which are rows where a P stores down.
template <class P, class Fragment>
CUTE_DEVICE void write(float* piece, Fragment const& tCrC, int m0, int n0, int batch, P const& p, int4 const* steps) {
  constexpr int across = PieceColumns / P::Columns;  // threads along a row
  int const lane = threadIdx.x % 32, column = lane % across * P::Columns;
  CUTE_UNROLL
  for (int first = 0; first < size(tCrC) / 16; ++first) {
    __syncwarp();
    CUTE_UNROLL
    for (int at = 16 * first; at < 16 * first + 16; at += 2) {  // of (2,2,BLK_N/8): column, row, columns 8 apart
      float* const to = piece + (lane / 4 + at / 2 % 2 * 8) * PieceStride + at % 16 / 4 * 8 + lane % 4 * 2;
      *reinterpret_cast<float2*>(to) = make_float2(tCrC(at), tCrC(at + 1));
    }
    __syncwarp();
    if constexpr (P::Down) {
      static_assert(P::Columns == 1);
      int const row = lane % PieceRows, m = m0 + row;
#pragma unroll 4
      for (int at = lane / PieceRows; at < PieceColumns; at += 32 / PieceRows) {
        int const n = n0 + first * PieceColumns + at;
        if (m >= P::M || n >= P::N) continue;
        float x[1] = {piece[row * PieceStride + at]};
        if (!isfinite(x[0])) x[0] = plain_sum(p, steps, batch, m, n);
        p.store(batch, m, n, x);
      }
      continue;
    }
    int const n = n0 + first * PieceColumns + column;
    if (n >= P::N) continue;
    constexpr int rows = PieceRows * across / 32;  // of a thread
    float x[rows][P::Columns];
    bool finite = true;
    CUTE_UNROLL
    for (int at = 0; at < rows; ++at) {
      CUTE_UNROLL
      for (int i = 0; i < P::Columns; ++i) {
        x[at][i] = piece[(lane / across + at * (32 / across)) * PieceStride + column + i];
        finite &= isfinite(x[at][i]);
      }
    }
    int const m = m0 + lane / across;
    if (finite && m0 + PieceRows <= P::M) {  // nothing to ask on the way: the stores of all rows overlap
#pragma unroll 4
      for (int at = 0; at < rows; ++at) p.store(batch, m + at * (32 / across), n, x[at]);
    } else {
#pragma unroll 1
      for (int at = m; at < m0 + PieceRows && at < P::M; at += 32 / across) {
        float y[P::Columns];
        for (int i = 0; i < P::Columns; ++i) {
          y[i] = piece[(at - m0) * PieceStride + column + i];
          if (!isfinite(y[i])) y[i] = plain_sum(p, steps, batch, at, n + i);
        }
        p.store(batch, at, n, y);
      }
    }
  }
}

template <class P>
CUTE_DEVICE void consume(Shared<P>& shared, P const& p, int4 const* steps) {
  using BLK_M = typename P::BLK_M;
  using BLK_N = typename P::BLK_N;
  using OperandA = Left<P>;
  using OperandB = Right<P>;
  auto* const pA = reinterpret_cast<Multiplied<P>*>(shared.A);
  Tensor sA = make_tensor(make_smem_ptr(pA), typename OperandA::Shared{});  // (BLK_M,BLK_K,Parts*Stages)
  auto* const pB = reinterpret_cast<Multiplied<P>*>(shared.B);
  Tensor sB = make_tensor(make_smem_ptr(pB), typename OperandB::Shared{});  // (BLK_N,BLK_K,Parts*Stages)
  Mma<P> mma;
  int const thread = threadIdx.x - Producers, warp = thread / 32, lane = thread % 32;
  auto const thread_mma = mma.get_thread_slice(Alternates<P> ? thread % 128 : thread);
  Tensor tCrA = thread_mma.partition_fragment_A(sA);                        // (MMA,MMA_M,MMA_K,Parts*Stages)
  Tensor tCrB = thread_mma.partition_fragment_B(sB);                        // (MMA,MMA_N,MMA_K,Parts*Stages)
  Tensor tCrC = partition_fragment_C(mma, Shape<BLK_M, BLK_N>{});           // (MMA,MMA_M,MMA_N)
  Tensor tCrT = make_fragment_like(tCrC);                                   // (MMA,MMA_M,MMA_N), of one tile
  Tensor cC = make_identity_tensor(Shape<BLK_M, BLK_N>{});                  // (BLK_M,BLK_N) -> (m,n)
  Tensor tCcC = thread_mma.partition_C(cC);                                 // (MMA,MMA_M,MMA_N) -> (m,n)
  Stage<P> stage;
  auto const leave = [&](int index) {
    if (lane == 0) Barrier::arrive(&shared.empty[index]);
  };
  int const group = thread / 128;
  int tile = 0;  // of this block's
  for (int index = blockIdx.x; index < Works<P>; index += gridDim.x, ++tile) {
    if constexpr (Alternates<P>) {
      if (tile % 2 != group) {
        stage.skip(TilesK<P>);
        continue;
      }
      // A barrier tells one round from the next only: the other one must have seen its tile's.
      Barrier::wait(&shared.turn[group], tile / 2 % 2 ^ 1 ^ group);
    }
    Work<P> const work(index);
    clear(tCrC);
    for (int k_tile = 0; k_tile < TilesK<P>; ++k_tile) {
      Barrier::wait(&shared.full[stage.index], stage.phase);
      if constexpr (P::Products == 3) {
        // From zero, the small ones first, and added in float32: tensor cores add with truncation.
        warpgroup_fence_operand(tCrT);
        warpgroup_arrive();
        mma.accumulate_ = GMMA::ScaleOut::Zero;
        CUTE_UNROLL
        for (int product = 0; product < 3; ++product) {
          int const a = 2 * stage.index + (product == 0), b = 2 * stage.index + (product == 1);
          CUTE_UNROLL
          for (int k = 0; k < size<2>(tCrA); ++k) {
            gemm(mma, tCrA(_, _, k, a), tCrB(_, _, k, b), tCrT);
            mma.accumulate_ = GMMA::ScaleOut::One;
          }
        }
        warpgroup_commit_batch();
        warpgroup_wait<0>();
        warpgroup_fence_operand(tCrT);
        leave(stage.index);
        CUTE_UNROLL
        for (int i = 0; i < size(tCrC); ++i) tCrC(i) += tCrT(i);
      } else {
        int const a = stage.index, b = stage.index;
        warpgroup_fence_operand(tCrC);
        warpgroup_arrive();
        mma.accumulate_ = k_tile == 0 ? GMMA::ScaleOut::Zero : GMMA::ScaleOut::One;
        CUTE_UNROLL
        for (int k = 0; k < size<2>(tCrA); ++k) {
          gemm(mma, tCrA(_, _, k, a), tCrB(_, _, k, b), tCrC);
          mma.accumulate_ = GMMA::ScaleOut::One;
        }
        warpgroup_commit_batch();
        // One tile's products run while the next one is waited for.
        warpgroup_wait<1>();
        if (k_tile > 0) leave(stage.index == 0 ? P::Stages - 1 : stage.index - 1);
      }
      stage.next();
    }
    if constexpr (Alternates<P>) {
      if (thread % 128 == 0) Barrier::arrive(&shared.turn[group ^ 1]);
      warpgroup_wait<0>();
      warpgroup_fence_operand(tCrC);
      leave(stage.index == 0 ? P::Stages - 1 : stage.index - 1);
    }
    CUTE_UNROLL
    for (int m = 0; m < size<1>(tCrC); ++m) {
      auto const at = tCcC(0, m, 0);  // of a warp's first thread: its first row and column
      int const m0 = work.m0 + get<0>(at) - lane / 4, n0 = work.n0 + get<1>(at) - lane % 4 * 2;
      write(shared.pieces[warp], tCrC(_, m, 0), m0, n0, work.batch, p, steps);
    }
  }
}

template <class P>
__global__ void __launch_bounds__(Threads, 1)
contract(P const p, E<P> const* __restrict__ packed, int4 const* __restrict__ steps) {
  extern __shared__ __align__(1024) uint8_t memory[];
  Shared<P>& shared = *reinterpret_cast<Shared<P>*>(memory);
  if (threadIdx.x == 0) {
    Barrier::init(&shared.turn[0], 1);
    Barrier::init(&shared.turn[1], 1);
    CUTE_UNROLL
    for (int stage = 0; stage < P::Stages; ++stage) {
      Barrier::init(&shared.full[stage], Producers / 32 + 1);
      Barrier::init(&shared.empty[stage], Consumers / 32 / (Alternates<P> ? 2 : 1));
    }
    cutlass::arch::fence_barrier_init();
  }
  __syncthreads();
  if (threadIdx.x < Producers) {
    cutlass::arch::warpgroup_reg_dealloc<ProducerRegisters>();
    produce<P>(shared, p, packed, steps);
  } else {
    cutlass::arch::warpgroup_reg_alloc<ConsumerRegisters>();
    consume<P>(shared, p, steps);
  }
}

// _checks: as in contract_3xtf32.cu

// `held` are HeldBytes<P>, aligned to 16.
template <class P>
void launch(P const& p, char* held, cudaStream_t stream) {
  auto* const steps = reinterpret_cast<int4*>(held);
  auto* const packed = reinterpret_cast<E<P>*>(held + StepBytes<P>);
  int const some = int(std::min<int64_t>(PackedTiles<P> * Left<P>::part / kThreads + 1, 1024));
  prepare<P><<<some, kThreads, 0, stream>>>(p, packed, steps);
  constexpr int bytes = sizeof(Shared<P>), threads = Threads, blocks = std::min(Works<P>, P::Blocks);
  granted(cudaFuncSetAttribute(contract<P>, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes));
  contract<P><<<blocks, threads, bytes, stream>>>(p, packed, steps);
}
}  // namespace background
// end engine
