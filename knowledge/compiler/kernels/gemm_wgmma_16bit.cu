// begin header
// C(m,n,l) = epilogue(sum over k of A(m,k,l) * B(n,k,l)) for float16 or bfloat16 operands on Hopper's tensor cores,
// summed in float32. Blocks stay and take one tile of C after the other; one thread of each starts the tensor copies
// that keep a ring of tiles in shared memory filled, two warpgroups multiply them. They share a tile, each with half of
// its rows, or take tiles in turn ("ping-pong"), so that one stores while the other multiplies. The blocks of a
// cluster lie one below the other and share B's tile: each copies a part of it to all of them. A finished tile goes by
// stmatrix to shared memory, and from there by tensor copies to C while the next one is multiplied. Where tiles are
// few, several blocks share each one's K, and a second kernel adds their sums in the order of K. Of two products with
// the same A a tile has half of its columns from each, so that one thread has both elements that go into one of C.
//   op class: gemm
//   architecture: sm_90a
//   layouts: A and B contiguous along K or across it, every other stride a multiple of 16 bytes; any C, by tensor
//     copies where the same holds for it and N is contiguous
//   tile: block 128 x 256 x 64, 2 warpgroups of 64 x 256, clusters of 2 in M
//   shared memory: A 128 x 64 x 4 x 2 = 65536 bytes, B 256 x 64 x 4 x 2 = 131072 bytes, C 2 x 2 x 64 x 64 x 2 = 32768
//     bytes, barriers 8 x (2 x 4 + 2) = 80 bytes; 229456 bytes of at most 232448
//   reaches: H200, bfloat16, B transposed, ms (cuBLAS): 0.176 (0.177) at 4096 x 4096 x 4096, 0.185 without clusters;
//     1.355 (1.376) at 8192 x 8192 x 8192, 812e12 operations a second; 0.485 (0.499) at 4096 x 11008 x 4096; 0.0502
//     (0.0499) at 1024 x 4096 x 4096; with bias and GELU at 4096 x 11008 x 4096, tiles of 128 x 128 in turn, 0.522
//     (eager 0.587)
// end header
// includes: as in gemm_simt.cu
#include <cute/arch/cluster_sm90.hpp>
#include <cute/arch/copy_sm90.hpp>
#include <cute/arch/copy_sm90_tma.hpp>
// begin _hopper
#include <cute/arch/mma_sm90.hpp>
#include <cutlass/arch/barrier.h>
#include <cutlass/arch/reg_reconfig.h>
// end _hopper

// _product: as in gemm_simt.cu

// problem: as in gemm_16bit.cu

// begin knobs
using BLK_M = Int<128>;            // a multiple of 64, of 128 where the warpgroups share a tile
using BLK_N = Int<256>;            // 64, 128, 192 or 256
constexpr int Stages = 4;          // tiles of A and B in shared memory
constexpr int Cluster = 2;         // blocks, one below the other, that share each tile of B: 1, 2 or 4
constexpr bool PingPong = false;   // the warpgroups take tiles in turn, instead of sharing each
constexpr int Blocks = 132;        // that run at once: the multiprocessors
constexpr int Group = 8;           // rows of clusters that run side by side, for the L2 cache's sake
constexpr int Panels = 2;          // pieces of C, 64 x 64, that a warpgroup has in shared memory
constexpr bool TensorStore = true;  // C is written by tensor copies
constexpr int StoreC = 2;          // else elements one store writes: 2 or 1
constexpr int Splits = 1;          // blocks that share one tile's K
constexpr bool Paired = false;     // C is made of two products, with B and with U, which lies as B does
// end knobs

using BLK_K = _64;                 // 128 bytes, the widest swizzle
constexpr int Producers = 128, Warpgroups = 2, Threads = Producers + 128 * Warpgroups;
constexpr int Sharing = PingPong ? 1 : Warpgroups;    // warpgroups that share a tile
constexpr int Rows = BLK_M::value / Sharing;          // of a tile that one warpgroup multiplies
constexpr int Columns = BLK_N::value / (Paired ? 2 : 1);  // of C that a tile makes
constexpr int TilesM = ceil_div(M{}, BLK_M{}), TilesN = ceil_div(N{}, Int<Columns>{}), TilesK = ceil_div(K{}, BLK_K{});
constexpr int ClustersM = ceil_div(TilesM, Cluster), Batches = size<2>(LayoutC{});
constexpr int64_t Works = int64_t(ClustersM) * TilesN * Batches * Splits;  // tiles of a whole cluster
constexpr bool Whole = M::value % (BLK_M::value * Cluster) == 0 && N::value % Columns == 0;
static_assert(Rows % 64 == 0 && Columns % 64 == 0 && Works < (1 << 30));
static_assert(Splits == 1 || (!PingPong && !Paired && Splits <= TilesK), "whoever shares K has one sum of some tiles");

// begin operands
// One operand as (rows, K), and its tiles in shared memory as tensor copies write them and wgmma reads them.
template <class Global_, class Rows_, class Block_>
struct Operand {
  using Global = Global_;
  using Rows = Rows_;
  using Block = Block_;
  static constexpr bool k_major = stride<1>(Global{}) == 1;
  static constexpr GMMA::Major major = k_major ? GMMA::Major::K : GMMA::Major::MN;
  using Atom = cute::conditional_t<k_major, GMMA::Layout_K_SW128_Atom<T>, GMMA::Layout_MN_SW128_Atom<T>>;
  using Order = cute::conditional_t<k_major, Step<_1, _2, _3>, Step<_2, _1, _3>>;
  using Shared = decltype(tile_to_shape(Atom{}, Shape<Block, BLK_K, Int<Stages>>{}, Order{}));  // (BLK,BLK_K,Stages)
  static constexpr int size = Block::value * BLK_K::value;                                      // elements of one tile
};
using OperandA = Operand<LayoutA, M, BLK_M>;
using OperandB = Operand<LayoutB, N, BLK_N>;

// A batch that all products share has no coordinate of its own.
template <class Layout>
CUTE_HOST_DEVICE constexpr int batch_of(int l) {
  return stride<2>(Layout{}) == 0 ? 0 : l;
}

using Atom = decltype(GMMA::ss_op_selector<T, T, float, Shape<Int<64 * Sharing>, BLK_N, BLK_K>, OperandA::major,
                                           OperandB::major>());
using Mma = decltype(make_tiled_mma(Atom{}, Layout<Shape<Int<Sharing>, _1, _1>>{}));
// end operands

using PartB = Operand<LayoutB, N, Int<Columns>>;        // what one of the two products has of a tile
constexpr int Panel = 64 * 64;                        // elements
struct Shared {
  alignas(1024) T A[Stages * OperandA::size];
  alignas(1024) T B[Stages * OperandB::size];
  alignas(1024) T C[TensorStore ? Warpgroups * Panels * Panel : 8];
  uint64_t full[Stages], empty[Stages], turn[Warpgroups];
};
// begin _barriers
constexpr int SharedBytes = sizeof(Shared);

using Full = cutlass::arch::ClusterTransactionBarrier;
using Empty = cutlass::arch::ClusterBarrier;
// end _barriers

// begin copies
// begin _stage
// Place in the ring of stages, and the parity of its round.
struct Stage {
  int index = 0, phase = 0;

  CUTE_DEVICE void next(int count = 1) {
    int const at = index + count;
    phase ^= at / Stages & 1;
    index = at % Stages;
  }
};
// end _stage

// The box at (row, k) of an operand into shared memory, where Shares > 1 of all blocks of the cluster.
template <class X, int Shares>
CUTE_DEVICE void copy_box(CUtensorMap const& map, T* to, uint64_t* barrier, int row, int k, int l) {
  constexpr auto hint = uint64_t(TMA::CacheHintSm90::EVICT_NORMAL);
  int const first = X::k_major ? k : row, second = X::k_major ? row : k;
  if constexpr (Shares == 1) {
    SM90_TMA_LOAD_3D::copy(&map, barrier, hint, to, first, second, l);
  } else {
    SM90_TMA_LOAD_MULTICAST_3D::copy(&map, barrier, uint16_t((1 << Shares) - 1), hint, to, first, second, l);
  }
}

// One tile, or of its `Shares` parts the one of number `part`, into all blocks that share it: of an operand that is
// K-major some of its rows, of another some of the k's of every 64 rows.
template <class X, int Shares>
CUTE_DEVICE void copy_tile(CUtensorMap const& map, T* to, uint64_t* barrier, int row0, int k0, int l, int part) {
  if constexpr (X::k_major) {
    constexpr int rows = X::Block::value / Shares;
    copy_box<X, Shares>(map, to + part * rows * BLK_K{}, barrier, row0 + part * rows, k0, l);
  } else {
    constexpr int depth = BLK_K::value / Shares;
    CUTE_UNROLL
    for (int row = 0; row < X::Block::value; row += 64) {
      copy_box<X, Shares>(map, to + row * BLK_K{} + part * depth * 64, barrier, row0 + row, k0 + part * depth, l);
    }
  }
}
// end copies

// A tile of C of one batch, and the tiles of K from `first` to `last` of it.
struct Work {
  int m, n, l, split, first, last;

  // Of the works, in the order in which `Group` rows of clusters run side by side, the one of number `index`.
  CUTE_DEVICE Work(int index) {
    split = index / (ClustersM * TilesN * Batches);
    first = int(int64_t(TilesK) * split / Splits), last = int(int64_t(TilesK) * (split + 1) / Splits);
    l = index / (ClustersM * TilesN) % Batches, index %= ClustersM * TilesN;
    int const top = index / (Group * TilesN) * Group, rows = min(Group, ClustersM - top);
    int const rest = index % (Group * TilesN);
    m = ((top + rest % rows) * Cluster + int(blockIdx.x % Cluster)) * BLK_M{}, n = rest / rows * Columns;
  }
};

// Calls a function with each of the block's works.
template <class Function>
CUTE_DEVICE void for_each_work(Function const& function, int first = 0, int step = 1) {
  int const clusters = gridDim.x / Cluster;
  for (int index = blockIdx.x / Cluster + first * clusters; index < Works; index += step * clusters) {
    function(Work(index));
  }
}

// Fills the stages in turn, each as soon as every warp of the cluster that reads it has left it.
CUTE_DEVICE void produce(Shared& shared, CUtensorMap const& mapA, CUtensorMap const& mapB, CUtensorMap const& mapU) {
  Stage stage;
  for_each_work([&](Work const& work) {
    for (int k_tile = work.first; k_tile < work.last; ++k_tile, stage.next()) {
      Empty::wait(&shared.empty[stage.index], stage.phase ^ 1);
      uint64_t* const full = &shared.full[stage.index];
      Full::arrive_and_expect_tx(full, (OperandA::size + OperandB::size) * sizeof(T));
      copy_tile<OperandA, 1>(mapA, shared.A + stage.index * OperandA::size, full, work.m, k_tile * BLK_K{},
                             batch_of<LayoutA>(work.l), 0);
      T* const to = shared.B + stage.index * OperandB::size;
      int const k0 = k_tile * BLK_K{}, l = batch_of<LayoutB>(work.l), part = blockIdx.x % Cluster;
      copy_tile<PartB, Cluster>(mapB, to, full, work.n, k0, l, part);
      if constexpr (Paired) copy_tile<PartB, Cluster>(mapU, to + PartB::size, full, work.n, k0, l, part);
    }
  });
}

// Leaves a stage: the producers of all blocks that fill it wait for every warp.
CUTE_DEVICE void release(uint64_t* empty) {
  int const lane = threadIdx.x % 32;
  if constexpr (Cluster == 1) {
    if (lane == 0) Empty::arrive(empty);
  } else {
    Empty::arrive(empty, lane, lane < Cluster);
  }
}

// begin store
// The element of C whose sum is a fragment's of number `at`, and whose other product's lies a part of a tile further.
template <class Fragment>
CUTE_DEVICE T element(Fragment const& tCrC, int at, int m, int n, int l, Epilogue const& epilogue) {
  if (!Whole && (m >= M{} || n >= N{})) return T(0);
  if constexpr (Paired) {
    return epilogue(tCrC(at), m, n, l, tCrC(at + Columns / 2));
  } else {
    return epilogue(tCrC(at), m, n, l);
  }
}

// A pair of neighbouring elements after the epilogue; zero outside of C.
template <class Fragment>
CUTE_DEVICE uint32_t finished(Fragment const& tCrC, int at, int m, int n, int l, Epilogue const& epilogue) {
  T const first = element(tCrC, at, m, n, l, epilogue), second = element(tCrC, at + 1, m, n + 1, l, epilogue);
  return uint32_t(second.raw()) << 16 | first.raw();
}

// Writes 64 rows of a warpgroup, from (m0, n0) on, by way of its panels in shared memory, which are swizzled as tensor
// copies read them. A thread has 2 neighbours of rows lane / 4 and lane / 4 + 8 of its warp's 16 in every 8 columns.
template <class Fragment>
CUTE_DEVICE void store_panels(Fragment const& tCrC, T* panels, int& turn, CUtensorMap const& mapC, int m0, int n0,
                              int l, Epilogue const& epilogue, int warpgroup) {
  int const thread = threadIdx.x % 128, lane = thread % 32, row = thread / 32 * 16 + lane % 16;
  int const m = m0 + thread / 32 * 16 + lane / 4, n = n0 + lane % 4 * 2;
  CUTE_UNROLL
  for (int column = 0; column < Columns; column += 64) {
    T* const panel = panels + turn * Panel;
    turn = turn + 1 == Panels ? 0 : turn + 1;
    uint32_t values[4][4];
    CUTE_UNROLL
    for (int i = 0; i < 16; ++i) {
      values[i / 4][i % 4] =
          finished(tCrC, column / 2 + 2 * i, m + i % 2 * 8, n + column + i / 2 * 8, l, epilogue);
    }
    if (thread == 0) tma_store_wait<Panels - 1>();
    cutlass::arch::NamedBarrier::sync(128, warpgroup);
    CUTE_UNROLL
    for (int i = 0; i < 4; ++i) {
      int const chunk = (2 * i + lane / 16) ^ (row % 8);
      SM90_U32x4_STSM_N::copy(values[i][0], values[i][1], values[i][2], values[i][3],
                              *reinterpret_cast<uint128_t*>(panel + row * 64 + chunk * 8));
    }
    tma_store_fence();
    cutlass::arch::NamedBarrier::sync(128, warpgroup);
    if (thread == 0) {
      if (m0 < M{} && n0 + column < N{}) SM90_TMA_STORE_3D::copy(&mapC, panel, n0 + column, m0, l);
      tma_store_arrive();
    }
  }
}

// Writes 64 rows of a warpgroup, from (m0, n0) on, straight to C.
template <class Fragment>
CUTE_DEVICE void store_directly(Fragment const& tCrC, T* C, int m0, int n0, int l, Epilogue const& epilogue) {
  int const thread = threadIdx.x % 128, lane = thread % 32;
  CUTE_UNROLL
  for (int i = 0; i < Columns / 2; i += 2) {
    int const m = m0 + thread / 32 * 16 + lane / 4 + i / 2 % 2 * 8, n = n0 + i / 4 * 8 + lane % 4 * 2;
    if (!Whole && (m >= M{} || n >= N{})) continue;
    uint32_t const pair = finished(tCrC, i, m, n, l, epilogue);
    T* const to = C + LayoutC{}(m, n, l);
    if constexpr (StoreC == 2) {
      *reinterpret_cast<uint32_t*>(to) = pair;
    } else {
      *to = T::bitcast(uint16_t(pair));
      if (n + 1 < N{}) C[LayoutC{}(m, n + 1, l)] = T::bitcast(uint16_t(pair >> 16));
    }
  }
}

// Writes the sums over a share of K of 64 rows of a warpgroup, from (m0, n0) on.
template <class Fragment>
CUTE_DEVICE void store_partial(Fragment const& tCrC, float* partial, int m0, int n0, int l) {
  int const thread = threadIdx.x % 128, lane = thread % 32;
  CUTE_UNROLL
  for (int i = 0; i < Columns / 2; i += 2) {
    int const m = m0 + thread / 32 * 16 + lane / 4 + i / 2 % 2 * 8, n = n0 + i / 4 * 8 + lane % 4 * 2;
    if (!Whole && (m >= M{} || n >= N{})) continue;
    float* const to = partial + (int64_t(l) * M{} + m) * N{} + n;
    if constexpr (N::value % 2 == 0) {
      *reinterpret_cast<float2*>(to) = make_float2(tCrC(i), tCrC(i + 1));
    } else {
      to[0] = tCrC(i);
      if (n + 1 < N{}) to[1] = tCrC(i + 1);
    }
  }
}
// end store

// Multiplies the tiles of the block's works, or in turn with the other warpgroup those of every other one.
CUTE_DEVICE void consume(Shared& shared, CUtensorMap const& mapC, T* C, float* partial, Epilogue const& epilogue) {
  int const warpgroup = (threadIdx.x - Producers) / 128;
  Tensor sA = make_tensor(make_smem_ptr(shared.A), typename OperandA::Shared{});  // (BLK_M,BLK_K,Stages)
  Tensor sB = make_tensor(make_smem_ptr(shared.B), typename OperandB::Shared{});  // (BLK_N,BLK_K,Stages)
  Mma mma;
  auto const thread_mma = mma.get_thread_slice((threadIdx.x - Producers) % (128 * Sharing));
  Tensor tCrA = thread_mma.partition_fragment_A(sA);                            // (MMA,MMA_M,MMA_K,Stages)
  Tensor tCrB = thread_mma.partition_fragment_B(sB);                            // (MMA,MMA_N,MMA_K,Stages)
  Tensor tCrC = partition_fragment_C(mma, Shape<BLK_M, BLK_N>{});               // (MMA,MMA_M,MMA_N)
  static_assert(decltype(size<1>(tCrC))::value == Rows / 64 && decltype(size<2>(tCrC))::value == 1);
  T* const panels = shared.C + warpgroup * Panels * Panel;
  Stage stage;
  int panel = 0, order = warpgroup ^ 1;
  if (PingPong && warpgroup == 1) stage.next(TilesK);

  for_each_work([&](Work const& work) {
    if constexpr (PingPong) Empty::wait(&shared.turn[warpgroup], order);
    mma.accumulate_ = GMMA::ScaleOut::Zero;
    int left = 0;
    for (int k_tile = work.first; k_tile < work.last; ++k_tile, stage.next()) {
      Full::wait(&shared.full[stage.index], stage.phase);
      warpgroup_fence_operand(tCrC);
      warpgroup_arrive();
      CUTE_UNROLL
      for (int k = 0; k < size<2>(tCrA); ++k) {
        cute::gemm(mma, tCrA(_, _, k, stage.index), tCrB(_, _, k, stage.index), tCrC);
        mma.accumulate_ = GMMA::ScaleOut::One;
      }
      warpgroup_commit_batch();
      // The products of the tile before have ended when only these are left.
      warpgroup_wait<1>();
      warpgroup_fence_operand(tCrC);
      if (k_tile > work.first) release(&shared.empty[left]);
      left = stage.index;
    }
    if constexpr (PingPong) {
      if (threadIdx.x % 32 == 0) Empty::arrive(&shared.turn[warpgroup ^ 1]);
      order ^= 1;
      stage.next(TilesK);
    }
    warpgroup_wait<0>();
    warpgroup_fence_operand(tCrC);
    release(&shared.empty[left]);
    CUTE_UNROLL
    for (int i = 0; i < Rows / 64; ++i) {
      // The atoms of a tile's rows go by turns to the warpgroups that share it.
      int const m = work.m + (i * Sharing + (PingPong ? 0 : warpgroup)) * 64;
      if constexpr (Splits > 1) {
        store_partial(tCrC(_, i, 0), partial, m, work.n, work.split * Batches + work.l);
      } else if constexpr (TensorStore) {
        store_panels(tCrC(_, i, 0), panels, panel, mapC, m, work.n, work.l, epilogue, warpgroup);
      } else {
        store_directly(tCrC(_, i, 0), C, m, work.n, work.l, epilogue);
      }
    }
  }, PingPong ? warpgroup : 0, PingPong ? Warpgroups : 1);
  if constexpr (TensorStore) {
    if (threadIdx.x % 128 == 0) tma_store_wait<0>();
  }
}

__global__ void __cluster_dims__(Cluster, 1, 1) __launch_bounds__(Threads, 1)
gemm(__grid_constant__ CUtensorMap const mapA, __grid_constant__ CUtensorMap const mapB,
     __grid_constant__ CUtensorMap const mapU, __grid_constant__ CUtensorMap const mapC, T* __restrict__ C,
     float* __restrict__ partial, Epilogue epilogue) {
  extern __shared__ __align__(1024) uint8_t memory[];
  Shared& shared = *reinterpret_cast<Shared*>(memory);
  if (threadIdx.x == 0) {
    CUTE_UNROLL
    for (int stage = 0; stage < Stages; ++stage) {
      Full::init(&shared.full[stage], 1);
      Empty::init(&shared.empty[stage], Cluster * Sharing * 4);
    }
    CUTE_UNROLL
    for (int warpgroup = 0; warpgroup < Warpgroups; ++warpgroup) Empty::init(&shared.turn[warpgroup], 4);
    cutlass::arch::fence_barrier_init();
  }
  cluster_sync();
  if (threadIdx.x < Producers) {
    cutlass::arch::warpgroup_reg_dealloc<40>();
    if (threadIdx.x == 0) produce(shared, mapA, mapB, mapU);
  } else {
    cutlass::arch::warpgroup_reg_alloc<232>();
    consume(shared, mapC, C, partial, epilogue);
  }
  // No block may leave while others copy into its shared memory or arrive at its barriers.
  __syncwarp();
  cluster_sync();
}

// reduce: as in gemm_3xtf32.cu

// check: as in gemm_simt.cu

// scratch: as in gemm_3xtf32.cu

// begin maps
// What a tensor copy must know of an operand: (contiguous, across, batch), and the box that one copy moves.
CUtensorMap map_of(T const* x, int64_t contiguous, int64_t across, int64_t batches, int64_t pitch, int64_t step,
                   int box, int box_across) {
  CUtensorMap map{};
  // A dimension that is not walked along may have any stride, and the copies ask for multiples of 16 bytes.
  cuuint64_t const extents[3] = {cuuint64_t(contiguous), cuuint64_t(across), cuuint64_t(step == 0 ? 1 : batches)};
  cuuint64_t const pitches[2] = {across == 1 ? 16 : pitch * sizeof(T), extents[2] == 1 ? 16 : step * sizeof(T)};
  cuuint32_t const boxes[3] = {cuuint32_t(box), cuuint32_t(box_across), 1}, steps[3] = {1, 1, 1};
  constexpr auto type = cute::is_same_v<T, half_t> ? CU_TENSOR_MAP_DATA_TYPE_FLOAT16 : CU_TENSOR_MAP_DATA_TYPE_BFLOAT16;
  CUresult const status = CUTLASS_CUDA_DRIVER_WRAPPER_CALL(cuTensorMapEncodeTiled)(
      &map, type, cuuint32_t(3), const_cast<T*>(x), extents, pitches, boxes, steps, CU_TENSOR_MAP_INTERLEAVE_NONE,
      CU_TENSOR_MAP_SWIZZLE_128B, CU_TENSOR_MAP_L2_PROMOTION_L2_256B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
  if (status != CUDA_SUCCESS) TVM_FFI_THROW(RuntimeError) << "a tensor map was refused: " << int(status);
  return map;
}

template <class X, int Shares>
CUtensorMap map_of_operand(T const* x) {
  constexpr typename X::Global layout{};
  constexpr int64_t rows = X::Rows::value, batches = size<2>(layout), step = stride<2>(layout);
  if constexpr (X::k_major) {
    return map_of(x, K{}, rows, batches, stride<0>(layout), step, BLK_K{}, X::Block::value / Shares);
  } else {
    return map_of(x, rows, K{}, batches, stride<1>(layout), step, 64, BLK_K::value / Shares);
  }
}
// end maps

void launch(T const* A, T const* B, T* C, Epilogue epilogue, DLDevice device, T const* U = nullptr) {
  auto const stream = static_cast<cudaStream_t>(TVMFFIEnvGetStream(device.device_type, device.device_id));
  CUtensorMap const mapA = map_of_operand<OperandA, 1>(A), mapB = map_of_operand<PartB, Cluster>(B);
  CUtensorMap const mapU = Paired ? map_of_operand<PartB, Cluster>(U) : mapB;
  CUtensorMap mapC{};
  if constexpr (TensorStore && Splits == 1) {
    mapC = map_of(C, N{}, M{}, Batches, stride<0>(LayoutC{}), stride<2>(LayoutC{}), 64, 64);
  }
  tvm::ffi::Tensor held;
  float* partial = nullptr;
  if constexpr (Splits > 1) {
    held = scratch(size_t(Splits) * Batches * M{} * N{} * sizeof(float), device);
    partial = static_cast<float*>(held.data_ptr());
  }
  check(cudaFuncSetAttribute(gemm, cudaFuncAttributeMaxDynamicSharedMemorySize, SharedBytes), "shared memory");
  int const grid = int(min(Works * Cluster, int64_t(Blocks / Cluster * Cluster)));
  gemm<<<grid, Threads, SharedBytes, stream>>>(mapA, mapB, mapU, mapC, C, partial, epilogue);
  check(cudaGetLastError(), "gemm");
  if constexpr (Splits > 1) {
    int const blocks = int(min(int64_t(1) << 16, ceil_div(int64_t(Batches) * M{} * N{}, int64_t(256))));
    reduce<<<blocks, 256, 0, stream>>>(partial, C, epilogue);
    check(cudaGetLastError(), "reduce");
  }
}

}  // namespace product

// entry: as in gemm_simt.cu
