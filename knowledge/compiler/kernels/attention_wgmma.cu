// begin header
// O = softmax(Q K^T) V for every head on Hopper's tensor cores, for float16 or bfloat16, summed in float32; the scores
// are never written. Blocks stay and take one tile of rows after the other. One thread of a block starts the tensor
// copies that bring Q and keep a ring of tiles of K and V filled; each of its warpgroups has 64 rows. It starts the
// product of Q with the next tile of K and that of its weights with the last tile of V, and while the latter runs makes
// weights of the former's scores, carrying for each row the largest score so far and the sum of the exponentials.
// Warpgroups start their products in turn, so that the products of one run beside the exponentials of another. The
// registers that hold scores are, rounded, just those from which wgmma takes weights.
//   op class: reduction
//   architecture: sm_90a
//   layouts: columns of Q, K and V contiguous, every other stride a multiple of 16 bytes; any O
//   tile: block of 128 rows x 128 keys, 2 warpgroups of 64 rows
//   shared memory: Q 2 x 64 x 128 x 2 = 32768 bytes, K and V 2 x 128 x 128 x 2 x 2 = 131072 bytes, barriers
//     8 x 2 x 6 = 96 bytes; 163936 bytes of at most 232448
//   reaches: H200, bfloat16, 4 x 32 heads of 4096 x 128, ms (cuDNN, flash attention): 1.64 (1.81, 3.13), 670e12
//     operations a second, causal 0.93 (1.08, 1.71); of 4096 x 64, 3 warpgroups, 1.19 (1.19, 1.89), causal 0.60 (0.63,
//     0.97); 4 x 16 heads of 1024 x 64, causal, 0.0345 (0.0370, 0.0587)
// end header
// includes: as in attention.cu
#include <cute/arch/cluster_sm90.hpp>
#include <cute/arch/copy_sm90.hpp>
#include <cute/arch/copy_sm90_tma.hpp>
// _hopper: as in gemm_wgmma_16bit.cu

// A function that stays one keeps what wgmma adds to in memory, and waits for each product: 20 times as long.
#define INLINED __attribute__((always_inline))

// Named: nvcc's host code cannot tell an unnamed namespace from CuTe's own.
namespace attending {

using namespace cute;

// begin problem
// end problem

// begin knobs
constexpr int Warpgroups = 2;   // of 64 rows each: 2 or 3
constexpr int BlockKeys = 128;  // of a tile: 64, 96 or 128
constexpr int Stages = 2;       // tiles of K and of V in shared memory
constexpr bool InTurn = true;   // warpgroups start their products one after the other
constexpr int Blocks = 132;     // that run at once: the multiprocessors
constexpr int Group = 1;        // heads whose tiles run side by side, those that see most keys first
constexpr bool Vectors = true;  // whether 2 neighbours are stored at once
// end knobs

constexpr int Producers = 128, Threads = Producers + 128 * Warpgroups, BlockRows = 64 * Warpgroups;
constexpr int TilesM = ceil_div(Rows, BlockRows), Works = TilesM * Heads;
constexpr bool Edges = Causal || Windowed || Keys % BlockKeys != 0;  // whether some scores count for nothing
constexpr int up(int extent) { return (extent + 63) / 64 * 64; }
using Columns = Int<up(Inner)>;    // of Q and K, with zeros
using ColumnsV = Int<up(Outer)>;
static_assert(Columns::value <= 256 && ColumnsV::value <= 256, "a thread keeps its rows in registers");

// Tiles in shared memory: panels of 64 columns, 128 bytes a row, swizzled as tensor copies write and wgmma reads them.
using LayoutQ = decltype(tile_to_shape(GMMA::Layout_K_SW128_Atom<T>{}, Shape<_64, Columns>{}));
using LayoutK =
    decltype(tile_to_shape(GMMA::Layout_K_SW128_Atom<T>{}, Shape<Int<BlockKeys>, Columns, Int<Stages>>{}));
using LayoutV = decltype(tile_to_shape(GMMA::Layout_MN_SW128_Atom<T>{}, Shape<ColumnsV, Int<BlockKeys>, Int<Stages>>{},
                                       Step<_2, _1, _3>{}));
using MmaS = decltype(make_tiled_mma(GMMA::ss_op_selector<T, T, float, Shape<_64, Int<BlockKeys>, Columns>,
                                                          GMMA::Major::K, GMMA::Major::K>()));
using MmaO = decltype(make_tiled_mma(GMMA::rs_op_selector<T, T, float, Shape<_64, ColumnsV, Int<BlockKeys>>,
                                                          GMMA::Major::K, GMMA::Major::MN>()));
constexpr int SizeQ = 64 * Columns::value, SizeK = BlockKeys * Columns::value, SizeV = BlockKeys * ColumnsV::value;

struct Shared {
  alignas(1024) T Q[Warpgroups * SizeQ];
  alignas(1024) T K[Stages * SizeK];
  alignas(1024) T V[Stages * SizeV];
  uint64_t fullQ[Warpgroups], emptyQ[Warpgroups], fullK[Stages], emptyK[Stages], fullV[Stages], emptyV[Stages];
};
// _barriers: as in gemm_wgmma_16bit.cu

// Place in a ring of stages, and the parity of its round.
struct Stage {
  int index = 0, phase = 0;

  CUTE_DEVICE void next() {
    index = index + 1 == Stages ? 0 : index + 1;
    phase ^= index == 0;
  }
};

// Some rows of one head.
struct Work {
  int head, row0, begin, last;  // tiles of keys that they see: begin to last - 1

  // The tiles of `Group` heads go one after the other from those that see most keys on; few heads, so that their keys
  // stay in the L2 cache.
  CUTE_DEVICE explicit Work(int index) {
    int const first = index / (Group * TilesM) * Group, rest = index % (Group * TilesM);
    int const heads = min(Group, Heads - first);
    head = first + rest % heads;
    row0 = (Causal ? TilesM - 1 - rest / heads : rest / heads) * BlockRows;
    int const reach = max(row0 + BlockRows + Diagonal, Prefix), seen = !Causal || reach > Keys ? Keys : reach;
    begin = Windowed ? max(0, row0 + First) / BlockKeys : 0;
    last = seen > begin * BlockKeys ? (seen - 1) / BlockKeys + 1 : begin;
  }
};

// Calls a function with each of the block's works. Every other round goes backwards, which evens out what blocks have.
template <class Function>
CUTE_DEVICE void for_each_work(Function const& function) {
  int const block = blockIdx.x, blocks = gridDim.x;
  for (int first = 0, round = 0; first < Works; first += blocks, round ^= 1) {
    int const index = first + (round ? blocks - 1 - block : block);
    if (index < Works) function(Work(index));
  }
}

// Some rows of a head, panel by panel.
template <int Count, int Wide>
CUTE_DEVICE void copy_rows(CUtensorMap const& map, T* to, uint64_t* full, int row0, int const (&at)[2]) {
  constexpr auto hint = uint64_t(TMA::CacheHintSm90::EVICT_NORMAL);
  Full::arrive_and_expect_tx(full, Count * Wide * sizeof(T));
  CUTE_UNROLL
  for (int column = 0; column < Wide; column += 64) {
    SM90_TMA_LOAD_4D::copy(&map, full, hint, to + column * Count, column, row0, at[0], at[1]);
  }
}

// Brings every tile in the order in which it is needed, as soon as every warp has left its place.
CUTE_DEVICE void produce(Shared& shared, CUtensorMap const& mapQ, CUtensorMap const& mapK, CUtensorMap const& mapV) {
  Stage stageK, stageV;
  int phase = 1;
  for_each_work([&](Work const& work) INLINED {
    Places const places = places_of(work.head);
    if (work.last == work.begin) return;
    for (int warpgroup = 0; warpgroup < Warpgroups; ++warpgroup) {
      Empty::wait(&shared.emptyQ[warpgroup], phase);
      copy_rows<64, Columns::value>(mapQ, shared.Q + warpgroup * SizeQ, &shared.fullQ[warpgroup],
                                    work.row0 + 64 * warpgroup, places.q);
    }
    phase ^= 1;
    for (int tile = work.last - 1; tile >= work.begin - 1; --tile) {
      if (tile >= work.begin) {
        Empty::wait(&shared.emptyK[stageK.index], stageK.phase ^ 1);
        copy_rows<BlockKeys, Columns::value>(mapK, shared.K + stageK.index * SizeK, &shared.fullK[stageK.index],
                                             tile * BlockKeys, places.k);
        stageK.next();
      }
      if (tile + 1 < work.last) {
        Empty::wait(&shared.emptyV[stageV.index], stageV.phase ^ 1);
        copy_rows<BlockKeys, ColumnsV::value>(mapV, shared.V + stageV.index * SizeV, &shared.fullV[stageV.index],
                                              (tile + 1) * BlockKeys, places.v);
        stageV.next();
      }
    }
  });
}

// Leaves a place in shared memory: the producer waits for every warp.
CUTE_DEVICE void release(uint64_t* empty) {
  if (threadIdx.x % 32 == 0) Empty::arrive(empty);
}

CUTE_DEVICE float power_of_two(float x) {
  float result;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(result) : "f"(x));
  return result;
}

// The largest power of two that is not above x.
constexpr float power_below(float x) {
  float power = 1;
  while (power > x) power /= 2;
  while (2 * power <= x) power *= 2;
  return power;
}

constexpr float Factor = Scale * 1.4426950408889634f;
// Exponents are a product with Factor, rounded once `base` has left it. `base`'s own rounding is in every exponent of a
// row: it falls out of the weights, but where it is itself an exponent beyond the type. That far up Factor is a power
// of two, which rounds nothing, for scores that differ at all differ there by more than weights show.
constexpr float Far = 0x1p26f, FactorFar = power_below(Factor);

// What a thread knows of its two rows of the 64, lane / 4 and lane / 4 + 8 of its warp's 16.
struct Softmax {
  float top[2] = {-INFINITY, -INFINITY}, sum[2] = {0, 0}, rescale[2];

  // Scores become exponentials, `top` and `sum` (a thread's own part) take them in; `rescale` is for what came before.
  template <class Scores>
  CUTE_DEVICE void operator()(Scores& s) {
    CUTE_UNROLL
    for (int half = 0; half < 2; ++half) {
      float most = top[half];
      CUTE_UNROLL
      for (int i = 0; i < BlockKeys / 2; i += 4) most = fmaxf(most, fmaxf(s(i + 2 * half), s(i + 2 * half + 1)));
      most = fmaxf(most, __shfl_xor_sync(0xffffffffu, most, 1));
      most = fmaxf(most, __shfl_xor_sync(0xffffffffu, most, 2));
      // Nothing seen yet: exponents are -infinity, not NaN.
      float const shift = most == -INFINITY ? 0.0f : most;
      float const factor = fabsf(shift) < Far / Factor ? Factor : FactorFar, base = shift * factor;
      rescale[half] = power_of_two((top[half] - shift) * factor);
      top[half] = most;
      float added = 0;
      CUTE_UNROLL
      for (int i = 0; i < BlockKeys / 2; ++i) {
        if (i % 4 / 2 != half) continue;
        s(i) = power_of_two(fmaf(s(i), factor, -base));
        added += s(i);
      }
      sum[half] = fmaf(sum[half], rescale[half], added);
    }
  }
};

// Scores of keys from key0 on that the rows do not see become -infinity.
template <class Scores>
CUTE_DEVICE void hide(Scores& s, int row, int key0) {
  int const left = threadIdx.x % 4 * 2;
  CUTE_UNROLL
  for (int half = 0; half < 2; ++half) {
    int const reach = Causal ? min(Keys, max(row + 8 * half + Diagonal + 1, Prefix)) : Keys;
    int const seen = reach - key0 - left;
    [[maybe_unused]] int const first = row + 8 * half + First - key0 - left;
    CUTE_UNROLL
    for (int i = 0; i < BlockKeys / 2; ++i) {
      if (i % 4 / 2 != half) continue;
      int const key = i / 4 * 8 + i % 2;
      if (key >= seen || (Windowed && key < first)) s(i) = -INFINITY;
    }
  }
}

// Two neighbours rounded.
CUTE_DEVICE uint32_t pair(float x, float y) {
  if constexpr (cute::is_same_v<T, half_t>) {
    __half2 const both = __floats2half2_rn(x, y);
    return reinterpret_cast<uint32_t const&>(both);
  } else {
    __nv_bfloat162 const both = __floats2bfloat162_rn(x, y);
    return reinterpret_cast<uint32_t const&>(both);
  }
}

// Weights as operands of wgmma: in the same places as the scores, two to a register.
template <class Scores, class Weights>
CUTE_DEVICE void round_weights(Scores const& s, Weights& p) {
  Tensor pairs = recast<uint32_t>(p);  // (BlockKeys/4)
  CUTE_UNROLL
  for (int i = 0; i < BlockKeys / 2; i += 2) pairs(i / 2) = pair(s(i), s(i + 1));
}

CUTE_DEVICE void store(T* to, float x, float y, int column) {
  if constexpr (Vectors) {
    if (column < Outer) *reinterpret_cast<uint32_t*>(to + column) = pair(x, y);
  } else {
    constexpr int64_t step = stride<1>(Layout<Shape<_1, _1>, StridesO>{});
    if (column < Outer) to[column * step] = T(x);
    if (column + 1 < Outer) to[(column + 1) * step] = T(y);
  }
}

// Rows of the result, by their sums.
template <class Sums>
CUTE_DEVICE void finish(Sums const& o, Softmax const& softmax, T* O, int row) {
  CUTE_UNROLL
  for (int half = 0; half < 2; ++half) {
    float total = softmax.sum[half];
    total += __shfl_xor_sync(0xffffffffu, total, 1);
    total += __shfl_xor_sync(0xffffffffu, total, 2);
    float const share = Safe && softmax.top[half] == -INFINITY && total == 0 ? 0.0f : 1.0f / total;
    if (row + 8 * half >= Rows) continue;
    T* const to = O + (row + 8 * half) * int64_t(stride<0>(Layout<Shape<_1, _1>, StridesO>{}));
    CUTE_UNROLL
    for (int i = 2 * half; i < ColumnsV::value / 2; i += 4) {
      store(to, o(i) * share, o(i + 1) * share, i / 4 * 8 + threadIdx.x % 4 * 2);
    }
  }
}

// One warpgroup's rows of every work.
CUTE_DEVICE void consume(Shared& shared, T* O) {
  int const warpgroup = threadIdx.x / 128 - 1, next = warpgroup + 1 == Warpgroups ? 0 : warpgroup + 1;
  int const own_row = 64 * warpgroup + threadIdx.x % 128 / 32 * 16 + threadIdx.x % 32 / 4;
  int const thread = threadIdx.x % 128;
  Tensor sQ = make_tensor(make_smem_ptr(shared.Q + warpgroup * SizeQ), LayoutQ{});  // (64,Columns)
  Tensor sK = make_tensor(make_smem_ptr(shared.K), LayoutK{});                       // (BlockKeys,Columns,Stages)
  Tensor sV = make_tensor(make_smem_ptr(shared.V), LayoutV{});                       // (ColumnsV,BlockKeys,Stages)
  MmaS mmaS;
  MmaO mmaO;
  mmaO.accumulate_ = GMMA::ScaleOut::One;
  Tensor tSrQ = mmaS.get_slice(thread).partition_fragment_A(sQ);   // (MMA,1,MMA_K)
  Tensor tSrK = mmaS.get_slice(thread).partition_fragment_B(sK);   // (MMA,1,MMA_K,Stages)
  Tensor tOrV = mmaO.get_slice(thread).partition_fragment_B(sV);   // (MMA,1,MMA_K,Stages)
  Tensor s = partition_fragment_C(mmaS, Shape<_64, Int<BlockKeys>>{});  // (MMA,1,1)
  Tensor o = partition_fragment_C(mmaO, Shape<_64, ColumnsV>{});        // (MMA,1,1)
  Tensor p = make_tensor<T>(Layout<Shape<Shape<_2, _2, _2>, _1, Int<BlockKeys / 16>>>{});  // (MMA,1,MMA_K)
  Stage stageK, stageV;
  int phase = 0;

  // s = Q K^T, started.
  auto const start_scores = [&]() INLINED {
    Full::wait(&shared.fullK[stageK.index], stageK.phase);
    if constexpr (InTurn) cutlass::arch::NamedBarrier::sync(256, 1 + warpgroup);
    warpgroup_fence_operand(s);
    warpgroup_arrive();
    mmaS.accumulate_ = GMMA::ScaleOut::Zero;
    CUTE_UNROLL
    for (int k = 0; k < Columns::value / 16; ++k) {
      cute::gemm(mmaS, tSrQ(_, _, k), tSrK(_, _, k, stageK.index), s);
      mmaS.accumulate_ = GMMA::ScaleOut::One;
    }
    warpgroup_commit_batch();
  };
  // o += P V, started.
  auto const start_sums = [&]() INLINED {
    Full::wait(&shared.fullV[stageV.index], stageV.phase);
    warpgroup_fence_operand(o);
    warpgroup_fence_operand(p);
    warpgroup_arrive();
    CUTE_UNROLL
    for (int k = 0; k < BlockKeys / 16; ++k) cute::gemm(mmaO, p(_, _, k), tOrV(_, _, k, stageV.index), o);
    warpgroup_commit_batch();
  };
  auto const pass_on = [&]() INLINED {
    if constexpr (InTurn) cutlass::arch::NamedBarrier::arrive(256, 1 + next);
  };
  auto const leave_keys = [&]() INLINED {
    warpgroup_fence_operand(s);
    release(&shared.emptyK[stageK.index]);
    stageK.next();
  };
  auto const leave_values = [&]() INLINED {
    warpgroup_fence_operand(o);
    release(&shared.emptyV[stageV.index]);
    stageV.next();
  };

  if (InTurn && next == 0) pass_on();
  for_each_work([&](Work const& work) INLINED {
    Softmax softmax;
    int const row = work.row0 + own_row;
    clear(o);
    if (work.last > work.begin) {
      Full::wait(&shared.fullQ[warpgroup], phase);
      phase ^= 1;
      int tile = work.last - 1;
      start_scores();
      pass_on();
      warpgroup_wait<0>();
      leave_keys();
      if constexpr (Edges) hide(s, row, tile * BlockKeys);
      softmax(s);
      round_weights(s, p);
      auto const step = [&](auto edge) INLINED {
        start_scores();
        start_sums();
        pass_on();
        warpgroup_wait<1>();
        leave_keys();
        if constexpr (decltype(edge)::value) hide(s, row, tile * BlockKeys);
        softmax(s);
        warpgroup_wait<0>();
        leave_values();
        round_weights(s, p);
        CUTE_UNROLL
        for (int i = 0; i < ColumnsV::value / 2; ++i) o(i) *= softmax.rescale[i % 4 / 2];
      };
      --tile;
      if constexpr (Causal) {
        // Tiles in which some row of the warpgroup does not see some key.
        int const whole = max(Prefix, work.row0 + 64 * warpgroup + Diagonal + 1) / BlockKeys;
        CUTE_NO_UNROLL
        for (; tile >= max(whole, work.begin); --tile) step(cute::true_type{});
      }
      // The first tile of which every row of the warpgroup sees every key.
      int const lowest = max(0, work.row0 + 64 * warpgroup + 63 + First);
      int const inside = Windowed ? (lowest + BlockKeys - 1) / BlockKeys : 0;
      CUTE_NO_UNROLL
      for (; tile >= max(inside, work.begin); --tile) step(cute::false_type{});
      if constexpr (Windowed) {
        CUTE_NO_UNROLL
        for (; tile >= work.begin; --tile) step(cute::true_type{});
      }
      release(&shared.emptyQ[warpgroup]);
      start_sums();
      warpgroup_wait<0>();
      leave_values();
    }
    finish(o, softmax, O + places_of(work.head).o, row);
  });
  if (InTurn && warpgroup == 0) cutlass::arch::NamedBarrier::sync(256, 1);
}

__global__ void __launch_bounds__(Threads, 1)
attention(__grid_constant__ CUtensorMap const mapQ, __grid_constant__ CUtensorMap const mapK,
          __grid_constant__ CUtensorMap const mapV, T* __restrict__ O) {
  extern __shared__ __align__(1024) uint8_t memory[];
  Shared& shared = *reinterpret_cast<Shared*>(memory);
  if (threadIdx.x == 0) {
    CUTE_UNROLL
    for (int warpgroup = 0; warpgroup < Warpgroups; ++warpgroup) {
      Full::init(&shared.fullQ[warpgroup], 1);
      Empty::init(&shared.emptyQ[warpgroup], 4);
    }
    CUTE_UNROLL
    for (int stage = 0; stage < Stages; ++stage) {
      Full::init(&shared.fullK[stage], 1);
      Full::init(&shared.fullV[stage], 1);
      Empty::init(&shared.emptyK[stage], 4 * Warpgroups);
      Empty::init(&shared.emptyV[stage], 4 * Warpgroups);
    }
    cutlass::arch::fence_barrier_init();
  }
  __syncthreads();
  if (threadIdx.x < Producers) {
    cutlass::arch::warpgroup_reg_dealloc<Warpgroups == 2 ? 24 : 32>();
    if (threadIdx.x == 0) produce(shared, mapQ, mapK, mapV);
  } else {
    cutlass::arch::warpgroup_reg_alloc<Warpgroups == 2 ? 240 : 160>();
    consume(shared, O);
  }
}

// check: as in gemm_simt.cu

// What a tensor copy must know of an operand: columns, rows and two coordinates of heads, and the box that it moves.
CUtensorMap map_of(T const* x, Spread const& spread, int columns, int rows, int box_rows) {
  CUtensorMap map{};
  auto const pitch = [](int extent, int64_t step) { return cuuint64_t(extent == 1 ? 16 : step * int64_t(sizeof(T))); };
  cuuint64_t const extents[4] = {cuuint64_t(columns), cuuint64_t(rows), cuuint64_t(spread.extents[0]),
                                 cuuint64_t(spread.extents[1])};
  cuuint64_t const pitches[3] = {pitch(rows, spread.row), pitch(spread.extents[0], spread.steps[0]),
                                 pitch(spread.extents[1], spread.steps[1])};
  cuuint32_t const boxes[4] = {64, cuuint32_t(box_rows), 1, 1}, steps[4] = {1, 1, 1, 1};
  constexpr auto type = cute::is_same_v<T, half_t> ? CU_TENSOR_MAP_DATA_TYPE_FLOAT16 : CU_TENSOR_MAP_DATA_TYPE_BFLOAT16;
  CUresult const status = CUTLASS_CUDA_DRIVER_WRAPPER_CALL(cuTensorMapEncodeTiled)(
      &map, type, cuuint32_t(4), const_cast<T*>(x + spread.first), extents, pitches, boxes, steps,
      CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_128B, CU_TENSOR_MAP_L2_PROMOTION_L2_256B,
      CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
  if (status != CUDA_SUCCESS) TVM_FFI_THROW(RuntimeError) << "a tensor map was refused: " << int(status);
  return map;
}

void launch(T const* Q, T const* K, T const* V, T* O, DLDevice device) {
  auto const stream = static_cast<cudaStream_t>(TVMFFIEnvGetStream(device.device_type, device.device_id));
  CUtensorMap const mapQ = map_of(Q, SpreadQ, Inner, Rows, 64), mapK = map_of(K, SpreadK, Inner, Keys, BlockKeys),
                    mapV = map_of(V, SpreadV, Outer, Keys, BlockKeys);
  check(cudaFuncSetAttribute(attention, cudaFuncAttributeMaxDynamicSharedMemorySize, SharedBytes), "shared memory");
  int const grid = min(Works, Blocks);
  attention<<<grid, Threads, SharedBytes, stream>>>(mapQ, mapK, mapV, O);
  check(cudaGetLastError(), "attention");
}

// require: as in pointwise.cu

// data: as in attention.cu

}  // namespace attending

// begin entry
// end entry
