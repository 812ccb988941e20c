// begin header
// A convolution on Hopper's TF32 tensor cores that reads each element of an image once for all taps of a window:
// out(m,n) = sum over channels c and taps t of weight(m,c,t) * image(c, n + t).
// Here 16 images of 64 x 56 x 56, 32 channels out, windows of 3 x 3, a padding of 1, at float32 grade (3xTF32).
// A block has a box of places. Producers bring it with its rim, eight channels at a time, into shared memory as it is,
// zeros for what misses the image. Places are the rows of wgmma's left operand, which comes from registers: to a thread
// a tap is a number added to where it reads. Rounding to TF32, and for three products what it left over, happens on the
// way. Weights are packed once in the order in which they are needed, so that bulk copies bring them as wgmma reads
// them. The rings of boxes and of weights go on while results pass through shared memory, so that neighbouring threads
// write neighbouring elements.
//   op class: gemm
//   architecture: sm_90a
//   layouts: mX (image,channel,row,column), mWeight (channel,k), mOut as mX
//   tile: boxes of 64 x 4 places x 32 channels, 8 channels in at a time, 2 consumer warpgroups, 2 of producers
//   shared memory: boxes 8 x 424 x 4 x 4 = 54272 bytes, weights 9 x 32 x 8 x 2 x 4 x 8 = 147456 bytes, results 8 x 32 x
//     20 x 4 = 20480 bytes, barriers 16 x 12 = 192 bytes; 222400 bytes of at most 232448
// end header

// begin includes
// _standard: as in pointwise.cu

#include <cute/arch/copy_sm80.hpp>
#include <cute/arch/copy_sm90.hpp>
#include <cute/arch/mma_sm90.hpp>
#include <cute/tensor.hpp>
#include <cutlass/arch/barrier.h>
#include <cutlass/arch/reg_reconfig.h>
// _interface: as in pointwise.cu
// end includes

// begin engine
namespace window {
using T = float;
using BLK_K = _8;  // channels at a time: the depth of wgmma
constexpr int Consumers = 256, Producers = 256, Threads = Consumers + Producers, Loaders = Producers - 32;
// Registers a thread, once producers have handed theirs over: 65536 in all.
constexpr uint32_t ProducerRegisters = 40, ConsumerRegisters = 216;
// A warp's results on their way to memory: 32 channels of 16 places, so far apart that no two of a store share a bank.
constexpr int PieceRows = 32, PieceColumns = 16, PieceStride = 20;

// Taps written one after the other: of small windows all. For three products their sum begins at zero and is added in
// float32, for tensor cores add with truncation.
template <class P> constexpr int Run = P::Products == 3 || P::Taps > 9 ? 4 : P::Taps;

template <class P> constexpr int Parts = P::Products == 3 ? 2 : 1;
template <class P> constexpr int Chunks = ceil_div(P::Channels, BLK_K::value);
template <class P> constexpr int TilesM = ceil_div(P::M, P::BLK_N::value);
// Places of a block's box, of its rim, and of a warpgroup's products of 64 rows.
template <class P> constexpr int Places = size(typename P::Box{});
template <class P> constexpr int Groups = Places<P> / 128;
template <class P> using Boxes = decltype(ceil_div(typename P::Image{}, typename P::Box{}));  // (x,y,z) of an image
template <class P> constexpr int Images = P::N / size(typename P::Image{});
template <class P> constexpr int Works = TilesM<P> * size(Boxes<P>{}) * Images<P> * P::Batches;
// Channels lie so far apart that the 8 places and 4 channels that a warp reads at once are on 32 banks.
template <class P> constexpr int Rim = size(typename P::Rim{});
template <class P> constexpr int Apart = Rim<P> + (40 - Rim<P> % 32) % 32;
template <class P> constexpr int BoxSize = BLK_K::value * Apart<P>;
// Of one tap: both parts, as wgmma reads them, four k's of all rows beside each other.
template <class P> using Weights = decltype(tile_to_shape(GMMA::Layout_K_INTER_Atom<tfloat32_t>{},
    Shape<typename P::BLK_N, BLK_K, Int<Parts<P> * P::TapsAtOnce * P::WeightStages>>{}));  // (BLK_N,BLK_K,...)
template <class P> constexpr int PartSize = P::BLK_N::value * BLK_K::value;
template <class P> constexpr int StageSize = P::TapsAtOnce * Parts<P> * PartSize<P>;
template <class P> constexpr int Steps = P::Taps / P::TapsAtOnce;  // of weights, for each chunk of channels
template <class P> constexpr int64_t Packed = int64_t(P::Batches) * TilesM<P> * Chunks<P> * P::Taps * PartSize<P>;
template <class P> constexpr int64_t HeldBytes = Packed<P> * Parts<P> * int64_t(sizeof(T));

template <class P>
struct Shared {
  T weights[P::WeightStages * StageSize<P>];  // (BLK_N,BLK_K,Parts,TapsAtOnce,WeightStages)
  T boxes[P::BoxStages * BoxSize<P>];         // (Rim,BLK_K:Apart,BoxStages)
  T pieces[Consumers / 32][PieceRows * PieceStride];
  uint64_t box_full[P::BoxStages], box_empty[P::BoxStages];
  uint64_t weights_full[P::WeightStages], weights_empty[P::WeightStages];
};

template <class P>
using Mma = decltype(make_tiled_mma(
    GMMA::rs_op_selector<tfloat32_t, tfloat32_t, float, Shape<_64, typename P::BLK_N, BLK_K>>()));

// _rounded: as in contract_wgmma.cu

template <class P>
__global__ void __launch_bounds__(kThreads) prepare(P const p, T* packed) {
  int64_t const first = int64_t(blockIdx.x) * kThreads + threadIdx.x;
  for (int64_t at = first; at < Packed<P>; at += int64_t(gridDim.x) * kThreads) {
    int const near = int(at % 4), row = int(at / 4 % P::BLK_N::value), half = int(at / 4 / P::BLK_N::value % 2);
    int64_t const tap = at / PartSize<P>, chunk = tap / P::Taps, tile = chunk / Chunks<P>;
    int const m = int(tile % TilesM<P>) * P::BLK_N::value + row;
    int const channel = int(chunk % Chunks<P>) * BLK_K::value + half * 4 + near;
    bool const inside = m < P::M && channel < P::Channels;
    T const x = inside ? p.left(int(tile / TilesM<P>), m, P::k_of(channel, int(tap % P::Taps))) : T(0);
    T const big = rounded<true>(x);
    T* const to = packed + tap * Parts<P> * PartSize<P> + at % PartSize<P>;
    *to = big;
    if constexpr (Parts<P> == 2) to[PartSize<P>] = x - big;
  }
}

// An infinity splits into infinity - infinity: where the sum is not finite, take what plain float32 gives.
// A P that spares adds only what both operands hold: where one misses, the other may still be read.
template <class P>
__noinline__ __device__ float plain_sum(P const& p, int batch, int m, int n) {
  typename P::Row const row = p.row(batch, n);
  float sum = 0;
  for (int k = 0; k < P::K; ++k) {
    int4 const step = p.step(k);
    bool const inside = P::inside(row, step);
    if constexpr (P::Spares) {
      if (!inside || !p.counts(batch, m, k)) continue;
    }
    sum = fmaf(p.left(batch, m, k), inside ? T(row.from[step.x]) : T(0), sum);
  }
  return sum;
}

// Boxes side by side run side by side, for their rims are shared; so do those that write between each other.
template <class P>
struct Work {
  int m0, batch, image, x, y, z;

  CUTE_DEVICE explicit Work(int index)
      : m0(index % TilesM<P> * P::BLK_N::value), batch(index / TilesM<P> % P::Batches) {
    int const box = index / (TilesM<P> * P::Batches);
    auto const [bx, by, bz] = idx2crd(box % int(size(Boxes<P>{})), Boxes<P>{});
    image = box / int(size(Boxes<P>{}));
    x = bx * get<0>(typename P::Box{}), y = by * get<1>(typename P::Box{}), z = bz * get<2>(typename P::Box{});
  }

  // Of a place in the box; -1 where the image has none.
  CUTE_DEVICE int n(int dx, int dy, int dz) const {
    auto const [ex, ey, ez] = typename P::Image{};
    bool const inside = x + dx < ex && y + dy < ey && z + dz < ez;
    return inside ? ((image * ez + z + dz) * ey + y + dy) * ex + x + dx : -1;
  }
};

using Barrier = cutlass::arch::ClusterTransactionBarrier;

// Place in a ring of stages, and the parity of its round.
template <int Count>
struct Stage {
  int index = 0, phase = 0;

  CUTE_DEVICE void next() {
    index = index + 1 == Count ? 0 : index + 1;
    phase ^= index == 0;
  }
};

template <class P>
CUTE_DEVICE void bring_boxes(Shared<P>& shared, P const& p) {
  int const thread = threadIdx.x - Consumers - 32;
  Stage<P::BoxStages> stage;
  for (int index = blockIdx.x; index < Works<P>; index += gridDim.x) {
    Work<P> const work(index);
    typename P::Row row = p.row(work.batch, work.n(0, 0, 0));
    row.kept = true;
    for (int chunk = 0; chunk < Chunks<P>; ++chunk) {
      Barrier::wait(&shared.box_empty[stage.index], stage.phase ^ 1);
      T* const box = shared.boxes + stage.index * BoxSize<P>;
#pragma unroll 1
      for (int place = thread; place < Rim<P>; place += Loaders) {
        auto const [x, y, z] = idx2crd(place, typename P::Rim{});
        int4 const step = P::reached(chunk * BLK_K::value, x, y, z);
        bool const inside = P::inside(row, step);
        T const* const from = inside ? row.from + step.x : p.right_start();
        CUTE_UNROLL
        for (int c = 0; c < BLK_K::value; ++c) {
          bool const counts = inside && (P::Channels % BLK_K::value == 0 || chunk * BLK_K::value + c < P::Channels);
          T const* const at = counts ? from + c * P::ChannelStride : from;
          SM80_CP_ASYNC_CACHEALWAYS_ZFILL<T>::copy(*at, box[c * Apart<P> + place], counts);
        }
      }
      cutlass::arch::cpasync_barrier_arrive_noinc(&shared.box_full[stage.index]);
      stage.next();
    }
  }
}

template <class P>
CUTE_DEVICE void bring_weights(Shared<P>& shared, T const* packed) {
  constexpr uint32_t bytes = StageSize<P> * sizeof(T);
  Stage<P::WeightStages> stage;
  for (int index = blockIdx.x; index < Works<P>; index += gridDim.x) {
    Work<P> const work(index);
    int64_t const tile = int64_t(work.batch) * TilesM<P> + work.m0 / P::BLK_N::value;
    T const* from = packed + tile * (Chunks<P> * Steps<P> * StageSize<P>);
    for (int step = 0; step < Chunks<P> * Steps<P>; ++step, from += StageSize<P>) {
      Barrier::wait(&shared.weights_empty[stage.index], stage.phase ^ 1);
      Barrier::arrive_and_expect_tx(&shared.weights_full[stage.index], bytes);
      SM90_BULK_COPY_G2S::copy(from, &shared.weights_full[stage.index],
                               shared.weights + stage.index * StageSize<P>, bytes);
      stage.next();
    }
  }
}

// Again what a thread has stored, with the sums that are not finite as plain float32 gives them.
template <class P>
__noinline__ __device__ void repair(P const& p, T const* piece, int batch, int m0, int n, int first, int rows) {
  for (int row = first; row < rows; row += 32 / (PieceColumns / P::Columns)) {
    float y[P::Columns];
    for (int i = 0; i < P::Columns; ++i) {
      y[i] = piece[row * PieceStride + i];
      if (!isfinite(y[i])) y[i] = plain_sum(p, batch, m0 + row, n + i);
    }
    p.store(batch, m0 + row, n, y);
  }
}

// 16 places of a warp, piece by piece through shared memory, so that neighbouring threads write neighbours.
template <class P, class Fragment>
CUTE_DEVICE void write(T* piece, Fragment const& tCrC, int octet, Work<P> const& work, P const& p) {
  using Octets = decltype(make_shape(shape_div(get<0>(typename P::Box{}), _8{}), get<1>(typename P::Box{}),
                                     get<2>(typename P::Box{})));
  constexpr int across = PieceColumns / P::Columns, down = 32 / across;  // threads along places, and rows
  // Phases of a place are neighbouring rows, and neighbours in memory.
  int const lane = threadIdx.x % 32, place = lane / P::Phases % across * P::Columns;
  int const own = lane / (across * P::Phases) * P::Phases + lane % P::Phases;
  auto const [x, y, z] = idx2crd(octet + place / 8, Octets{});
  int const n = work.n(x * 8 + place % 8, y, z);
  constexpr int pieces = ceil_div(P::BLK_N::value, PieceRows);
  CUTE_UNROLL
  for (int first = 0; first < pieces; ++first) {
    constexpr int most = cute::min(P::BLK_N::value, PieceRows);  // the last piece may have fewer
    __syncwarp();
    CUTE_UNROLL
    for (int at = first * PieceRows / 2; at < first * PieceRows / 2 + most / 2; ++at) {
      if (at >= size(tCrC)) break;  // (2,2,BLK_N/8): channel, place + 8, channel + 8
      int const channel = at / 4 * 8 - first * PieceRows + lane % 4 * 2 + at % 2;
      piece[channel * PieceStride + lane / 4 + at / 2 % 2 * 8] = tCrC(at);
    }
    __syncwarp();
    if (n < 0) continue;
    int const m0 = work.m0 + first * PieceRows;
    int const rows = cute::min(most, cute::min(P::BLK_N::value - first * PieceRows, P::M - m0));
    bool finite = true;
#pragma unroll 4
    for (int row = own; row < rows; row += down) {
      float y[P::Columns];
      CUTE_UNROLL
      for (int i = 0; i < P::Columns; ++i) {
        y[i] = piece[row * PieceStride + place + i];
        finite &= isfinite(y[i]);
      }
      p.store(work.batch, m0 + row, n, y);
    }
    if (!finite) repair(p, piece + place, work.batch, m0, n, own, rows);
  }
}

template <class P>
CUTE_DEVICE void consume(Shared<P>& shared, P const& p) {
  using Octets = decltype(make_shape(shape_div(get<0>(typename P::Box{}), _8{}), get<1>(typename P::Box{}),
                                     get<2>(typename P::Box{})));
  constexpr int groups = Groups<P>;
  int const thread = threadIdx.x % 128, warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  Mma<P> mma;
  auto const thread_mma = mma.get_thread_slice(thread);
  auto* const pB = reinterpret_cast<tfloat32_t*>(shared.weights);
  Tensor sB = make_tensor(make_smem_ptr(pB), Weights<P>{});            // (BLK_N,BLK_K,Parts*Taps*Stages)
  Tensor tCrB = thread_mma.partition_fragment_B(sB);                   // (MMA,MMA_N,1,Parts*Taps*Stages)
  using RowsOfGroups = Shape<Int<64 * groups>, typename P::BLK_N>;
  Tensor tCrC = partition_fragment_C(mma, RowsOfGroups{});             // (MMA,groups,MMA_N)
  Tensor tCrT = make_fragment_like(tCrC);                              // (MMA,groups,MMA_N), of a run's three products
  Tensor tCrS = make_fragment_like(tCrC);                              // (MMA,groups,MMA_N), of what was left over
  // Of one tap and the next: (place + 8, k + 4) of each group, for three products with what rounding left over.
  using Operands = Shape<Shape<_2, _2>, Int<groups>, Int<Parts<P>>, _2>;
  Tensor tCrA = make_tensor<tfloat32_t>(Operands{});                   // (MMA,groups,Parts,2)
  // Where this thread's two rows of each group begin.
  int from[2 * groups];
  CUTE_UNROLL
  for (int i = 0; i < 2 * groups; ++i) {
    int const octet = (warp / 4 * groups + i / 2) * 8 + warp % 4 * 2 + i % 2;
    auto const [x, y, z] = idx2crd(octet, Octets{});
    auto const [sx, sy, sz] = typename P::Strides{};
    int const place = crd2idx(make_coord((x * 8 + lane / 4) * sx, y * sy, z * sz), typename P::Rim{});
    from[i] = lane % 4 * Apart<P> + place;
  }
  Stage<P::BoxStages> box;
  Stage<P::WeightStages> weights;
  bool begun = false;  // this box's sums
  auto const leave = [&](uint64_t& barrier) CUTLASS_LAMBDA_FUNC_INLINE {
    __syncwarp();
    if (lane == 0) Barrier::arrive(&barrier);
  };
  auto const load = [&](int tap, auto slot) CUTLASS_LAMBDA_FUNC_INLINE {
    constexpr int s = decltype(slot)::value;
    T const* const sA = shared.boxes + box.index * BoxSize<P> + P::tap(tap);
    CUTE_UNROLL
    for (int group = 0; group < groups; ++group) {
      CUTE_UNROLL
      for (int i = 0; i < 4; ++i) {
        float const x = sA[from[2 * group + i % 2] + i / 2 * 4 * Apart<P>], big = rounded<Parts<P> == 2>(x);
        tCrA(i, group, 0, s) = tfloat32_t::bitcast(__float_as_uint(big));
        if constexpr (Parts<P> == 2) tCrA(i, group, 1, s) = tfloat32_t::bitcast(__float_as_uint(x - big));
      }
    }
  };
  // One tap's products; those of the tap before are done when it returns, after a run's last what the next one needs.
  auto const multiply = [&](int tap, auto place, auto last) CUTLASS_LAMBDA_FUNC_INLINE {
    constexpr int at = decltype(place)::value, s = at % 2;
    int const part = tap % P::TapsAtOnce;
    if (part == 0) Barrier::wait(&shared.weights_full[weights.index], weights.phase);
    int const b = (weights.index * P::TapsAtOnce + part) * Parts<P>;
    warpgroup_fence_operand(tCrC);
    if constexpr (Parts<P> == 2) {
      warpgroup_fence_operand(tCrS);
      warpgroup_fence_operand(tCrT);
      warpgroup_arrive();
      mma.accumulate_ = begun ? GMMA::ScaleOut::One : GMMA::ScaleOut::Zero;
      cute::gemm(mma, tCrA(_, _, 1, s), tCrB(_, _, 0, b), tCrS);
      mma.accumulate_ = GMMA::ScaleOut::One;
      cute::gemm(mma, tCrA(_, _, 0, s), tCrB(_, _, 0, b + 1), tCrS);
      mma.accumulate_ = at == 0 ? GMMA::ScaleOut::Zero : GMMA::ScaleOut::One;
      cute::gemm(mma, tCrA(_, _, 0, s), tCrB(_, _, 0, b), tCrT);
    } else {
      warpgroup_arrive();
      mma.accumulate_ = begun ? GMMA::ScaleOut::One : GMMA::ScaleOut::Zero;
      cute::gemm(mma, tCrA(_, _, 0, s), tCrB(_, _, 0, b), tCrC);
    }
    warpgroup_commit_batch();
    if constexpr (decltype(last)::value && (Parts<P> == 2 || s == 0)) {
      warpgroup_wait<0>();
    } else {
      warpgroup_wait<1>();
    }
    if constexpr (decltype(last)::value && Parts<P> == 2) {
      warpgroup_fence_operand(tCrT);
      CUTE_UNROLL
      for (int i = 0; i < size(tCrC); ++i) tCrC(i) += tCrT(i);
    }
    if (part == 0 && begun) leave(shared.weights_empty[(weights.index == 0 ? P::WeightStages : weights.index) - 1]);
    begun = true;
    if (part + 1 == P::TapsAtOnce) weights.next();
  };
  // So many taps: each one's operand is read while the one before is multiplied.
  auto const run = [&](int first, auto taps) CUTLASS_LAMBDA_FUNC_INLINE {
    constexpr int size = decltype(taps)::value;
    for_each(make_int_sequence<size>{}, [&](auto place) CUTLASS_LAMBDA_FUNC_INLINE {
      constexpr int at = decltype(place)::value;
      multiply(first + at, place, bool_constant<at + 1 == size>{});
      if constexpr (at + 1 < size || (size == Run<P> && size < P::Taps)) {
        int const next = first + at + 1;
        load(next < P::Taps ? next : 0, Int<(at + 1) % 2>{});
      }
    });
  };
  for (int index = blockIdx.x; index < Works<P>; index += gridDim.x) {
    begun = false;
    if constexpr (Parts<P> == 2) clear(tCrC);
#pragma unroll 1
    for (int chunk = 0; chunk < Chunks<P>; ++chunk) {
      Barrier::wait(&shared.box_full[box.index], box.phase);
      load(0, _0{});
#pragma unroll 1
      for (int tap = 0; tap + Run<P> <= P::Taps; tap += Run<P>) run(tap, Int<Run<P>>{});
      if constexpr (P::Taps % Run<P> != 0) run(P::Taps / Run<P> * Run<P>, Int<P::Taps % Run<P>>{});
      leave(shared.box_empty[box.index]);
      box.next();
    }
    warpgroup_wait<0>();
    warpgroup_fence_operand(tCrC);
    if constexpr (Parts<P> == 2) {
      warpgroup_fence_operand(tCrS);
      CUTE_UNROLL
      for (int i = 0; i < size(tCrC); ++i) tCrC(i) += tCrS(i);
    }
    leave(shared.weights_empty[(weights.index == 0 ? P::WeightStages : weights.index) - 1]);
    Work<P> const work(index);
    CUTE_UNROLL
    for (int group = 0; group < groups; ++group) {
      int const octet = (warp / 4 * groups + group) * 8 + warp % 4 * 2;
      write(shared.pieces[warp], tCrC(_, group, _), octet, work, p);
    }
  }
}

template <class P>
__global__ void __launch_bounds__(Threads, 1) contract(P const p, T const* __restrict__ packed) {
  extern __shared__ __align__(128) uint8_t memory[];
  Shared<P>& shared = *reinterpret_cast<Shared<P>*>(memory);
  if (threadIdx.x == 0) {
    for (int stage = 0; stage < P::BoxStages; ++stage) {
      Barrier::init(&shared.box_full[stage], Loaders);
      Barrier::init(&shared.box_empty[stage], Consumers / 32);
    }
    for (int stage = 0; stage < P::WeightStages; ++stage) {
      Barrier::init(&shared.weights_full[stage], 1);
      Barrier::init(&shared.weights_empty[stage], Consumers / 32);
    }
    cutlass::arch::fence_barrier_init();
  }
  __syncthreads();
  if (threadIdx.x < Consumers) {
    cutlass::arch::warpgroup_reg_alloc<ConsumerRegisters>();
    consume<P>(shared, p);
  } else {
    cutlass::arch::warpgroup_reg_dealloc<ProducerRegisters>();
    if (threadIdx.x == Consumers) bring_weights<P>(shared, packed);
    if (threadIdx.x >= Consumers + 32) bring_boxes<P>(shared, p);
  }
}

// _checks: as in contract_3xtf32.cu

// `held` are HeldBytes<P>, aligned to 16.
template <class P>
void launch(P const& p, char* held, cudaStream_t stream) {
  auto* const packed = reinterpret_cast<T*>(held);
  prepare<P><<<int(std::min<int64_t>(Packed<P> / kThreads + 1, 1024)), kThreads, 0, stream>>>(p, packed);
  constexpr int bytes = sizeof(Shared<P>), threads = Threads, blocks = std::min(Works<P>, P::Blocks);
  granted(cudaFuncSetAttribute(contract<P>, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes));
  contract<P><<<blocks, threads, bytes, stream>>>(p, packed);
}
}  // namespace window
// end engine
