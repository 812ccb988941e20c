// begin header
// C(m,n,l) = epilogue(sum over k of A(m,k,l) * B(n,k,l)) for float16 or bfloat16 operands on Hopper's tensor cores,
// summed in float32. One warpgroup copies tiles asynchronously, 16 bytes at a time, into a ring in shared memory,
// swizzled as wgmma reads them, K-major or not as the operand lies; two warpgroups multiply. Blocks stay and take one
// tile of C after the other, so that the next one is on its way while this one is stored.
//   op class: gemm
//   architecture: sm_90a
//   layouts: A and B contiguous along K or along their rows, in pieces of 16 aligned bytes; C with any strides
//   tile: block 128 x 256 x 64, 2 consumer warpgroups of 64 x 256, and one of producers
//   shared memory: A 128 x 64 x 2 x 4 = 65536 bytes, B 256 x 64 x 2 x 4 = 131072 bytes, barriers 8 x 2 x 4 = 64 bytes;
//     196672 bytes of at most 232448
//   reaches: not measured yet
// end header
#include <cstdint>
#include <initializer_list>

#include <cute/tensor.hpp>
#include <cute/arch/copy_sm80.hpp>
#include <cute/arch/mma_sm90.hpp>
#include <cutlass/arch/barrier.h>
#include <cutlass/arch/reg_reconfig.h>
#include <tvm/ffi/container/tensor.h>
#include <tvm/ffi/error.h>
#include <tvm/ffi/extra/c_env_api.h>
#include <tvm/ffi/function.h>

// Named: nvcc's host code cannot tell an unnamed namespace from CuTe's own.
namespace product {

using namespace cute;

// begin problem
using T = half_t;  // or bfloat16_t
using M = Int<4096>;
using N = Int<4096>;
using K = Int<4096>;
using LayoutA = Layout<Shape<M, K, _1>, Stride<K, _1, _0>>;  // (M,K,L)
using LayoutB = Layout<Shape<N, K, _1>, Stride<_1, N, _0>>;  // (N,K,L)
using LayoutC = Layout<Shape<M, N, _1>, Stride<N, _1, _0>>;  // (M,N,L)
struct Epilogue {
  CUTE_HOST_DEVICE T operator()(T x, int, int, int) const { return x; }
};
// end problem

// begin knobs
using BLK_N = Int<256>;       // 64, 128 or 256
constexpr int Stages = 4;     // tiles of A and B in shared memory
constexpr int Blocks = 132;   // that run at once: the multiprocessors
constexpr int Group = 8;      // tile rows that run side by side, so that their tiles of B stay in the L2 cache
constexpr int StoreC = 2;     // elements one store writes: 2 or 1
// end knobs

using BLK_M = _128;
using BLK_K = _64;
constexpr int Copy = 8, Producers = 128, Consumers = BLK_M{} / _64{}, Threads = Producers + 128 * Consumers;
constexpr int TilesM = ceil_div(M{}, BLK_M{}), TilesN = ceil_div(N{}, BLK_N{}), TilesK = ceil_div(K{}, BLK_K{});
constexpr int Batches = size<2>(LayoutC{});
constexpr int Works = TilesM * TilesN * Batches;
static_assert(Stages >= 3, "two are held by the consumers while one is filled");

// One operand as (rows, K), and its tiles in shared memory as wgmma reads them.
template <class Global_, class Rows_, class Block_>
struct Operand {
  using Global = Global_;
  using Rows = Rows_;
  using Block = Block_;
  static constexpr bool k_major = stride<1>(Global{}) == 1;
  static_assert(k_major || stride<0>(Global{}) == 1, "16 bytes of neighbours");
  static constexpr GMMA::Major major = k_major ? GMMA::Major::K : GMMA::Major::MN;
  static constexpr bool whole = Rows::value % Block::value == 0 && K::value % BLK_K::value == 0;  // no edges
  using Piece = cute::conditional_t<k_major, GMMA::Layout_K_SW128_Atom<T>, GMMA::Layout_MN_SW128_Atom<T>>;
  using Shared = decltype(tile_to_shape(Piece{}, Shape<Block, BLK_K, Int<Stages>>{}));            // (BLK,BLK_K,Stages)
  static constexpr int size = Block::value * BLK_K::value, copies = size / Copy / Producers;
  static constexpr int per_line = (k_major ? BLK_K::value : Block::value) / Copy;
};
using OperandA = Operand<LayoutA, M, BLK_M>;
using OperandB = Operand<LayoutB, N, BLK_N>;

using Atom = decltype(GMMA::ss_op_selector<T, T, float, Shape<BLK_M, BLK_N, BLK_K>, OperandA::major,
                                           OperandB::major>());
using Mma = decltype(make_tiled_mma(Atom{}, Layout<Shape<Int<Consumers>, _1, _1>>{}));

struct Shared {
  T A[Stages * OperandA::size];
  T B[Stages * OperandB::size];
  uint64_t full[Stages], empty[Stages];
};

// Start copying one tile (rows from row0, k's from k0) into a stage; what lies outside the operand becomes zero.
template <class X>
CUTE_DEVICE void copy_tile(T const* x, T* shared, int stage, int row0, int k0) {
  // Unrolled further, the places of all pieces are kept in registers that a producer does not have.
#pragma unroll 2
  for (int copy = 0; copy < X::copies; ++copy) {
    int const index = threadIdx.x + copy * Producers, line = index / X::per_line, place = index % X::per_line * Copy;
    int const row = X::k_major ? line : place, k = X::k_major ? place : line;
    bool const inside = X::whole || (row0 + row < typename X::Rows{} && k0 + k < K{});
    T const* const from = inside ? x + typename X::Global{}(row0 + row, k0 + k, 0) : x;
    T* const to = shared + typename X::Shared{}(row, k, stage);
    SM80_CP_ASYNC_CACHEGLOBAL_ZFILL<uint128_t>::copy(*reinterpret_cast<uint128_t const*>(from),
                                                     *reinterpret_cast<uint128_t*>(to), inside);
  }
}

// A tile of C of one batch.
struct Tile {
  int m, n, l;
};

// Tiles in the order in which blocks run: `Group` rows of tiles at a time, column by column.
CUTE_DEVICE Tile tile_of(int work) {
  int const l = work / (TilesM * TilesN), index = work % (TilesM * TilesN);
  int const group = index / (Group * TilesN), rows = min(Group, TilesM - group * Group);
  int const rest = index % (Group * TilesN);
  return {group * Group + rest % rows, rest / rows, l};
}

using Barrier = cutlass::arch::ClusterBarrier;

// Place in the ring of stages, and the parity of its round.
struct Stage {
  int index = 0, phase = 0;

  CUTE_DEVICE void next() {
    index = index + 1 == Stages ? 0 : index + 1;
    phase ^= index == 0;
  }
};

// Fills the stages in turn. A stage is handed over when the copies into the next one but one are on their way.
CUTE_DEVICE void produce(Shared& shared, T const* A, T const* B) {
  // The consumers keep a stage until they have the next one: it must be handed over before theirs is asked for.
  constexpr int Ahead = Stages > 3 ? 2 : 1;
  Stage filled, handed;
  int waiting = 0;
  auto const hand_over = [&] {
    cutlass::arch::fence_view_async_shared();
    Barrier::arrive(&shared.full[handed.index]);
    handed.next();
  };
  for (int work = blockIdx.x; work < Works; work += gridDim.x) {
    Tile const tile = tile_of(work);
    T const* const mA = A + LayoutA{}(0, 0, tile.l);  // (M,K)
    T const* const mB = B + LayoutB{}(0, 0, tile.l);  // (N,K)
    for (int k_tile = 0; k_tile < TilesK; ++k_tile) {
      Barrier::wait(&shared.empty[filled.index], filled.phase ^ 1);
      copy_tile<OperandA>(mA, shared.A, filled.index, tile.m * BLK_M{}, k_tile * BLK_K{});
      copy_tile<OperandB>(mB, shared.B, filled.index, tile.n * BLK_N{}, k_tile * BLK_K{});
      cp_async_fence();
      filled.next();
      if (waiting < Ahead) {
        ++waiting;
      } else {
        cp_async_wait<Ahead>();
        hand_over();
      }
    }
  }
  cp_async_wait<0>();
  for (; waiting > 0; --waiting) hand_over();
}

template <class Fragment, class Places>
CUTE_DEVICE void write(Fragment const& tCrC, Places const& tCcC, Tile tile, T* C, Epilogue const& epilogue) {
  CUTE_UNROLL
  for (int i = 0; i < size(tCrC); i += 2) {
    int const m = tile.m * BLK_M{} + get<0>(tCcC(i)), n = tile.n * BLK_N{} + get<1>(tCcC(i));
    if (m >= M{} || n >= N{}) continue;
    T* const to = C + LayoutC{}(m, n, tile.l);
    T const first = epilogue(T(tCrC(i)), m, n, tile.l);
    if constexpr (StoreC == 2) {
      T const second = epilogue(T(tCrC(i + 1)), m, n + 1, tile.l);
      *reinterpret_cast<uint32_t*>(to) = uint32_t(second.raw()) << 16 | first.raw();
    } else {
      *to = first;
      if (n + 1 < N{}) C[LayoutC{}(m, n + 1, tile.l)] = epilogue(T(tCrC(i + 1)), m, n + 1, tile.l);
    }
  }
}

CUTE_DEVICE void consume(Shared& shared, T* C, Epilogue const& epilogue) {
  Tensor sA = make_tensor(make_smem_ptr(shared.A), typename OperandA::Shared{});  // (BLK_M,BLK_K,Stages)
  Tensor sB = make_tensor(make_smem_ptr(shared.B), typename OperandB::Shared{});  // (BLK_N,BLK_K,Stages)
  Mma mma;
  auto const thread_mma = mma.get_thread_slice(threadIdx.x - Producers);
  Tensor tCrA = thread_mma.partition_fragment_A(sA);                              // (MMA,MMA_M,MMA_K,Stages)
  Tensor tCrB = thread_mma.partition_fragment_B(sB);                              // (MMA,MMA_N,MMA_K,Stages)
  Tensor tCrC = partition_fragment_C(mma, Shape<BLK_M, BLK_N>{});                 // (MMA,MMA_M,MMA_N)
  Tensor cC = make_identity_tensor(Shape<BLK_M, BLK_N>{});                        // (BLK_M,BLK_N) -> (m,n)
  Tensor tCcC = thread_mma.partition_C(cC);                                       // (MMA,MMA_M,MMA_N) -> (m,n)
  auto const release = [&](int stage) {
    if (threadIdx.x % 32 == 0) Barrier::arrive(&shared.empty[stage]);
  };
  Stage stage;
  for (int work = blockIdx.x; work < Works; work += gridDim.x) {
    mma.accumulate_ = GMMA::ScaleOut::Zero;
    int before = 0;
    for (int k_tile = 0; k_tile < TilesK; ++k_tile) {
      Barrier::wait(&shared.full[stage.index], stage.phase);
      warpgroup_fence_operand(tCrC);
      warpgroup_arrive();
      CUTE_UNROLL
      for (int k = 0; k < size<2>(tCrA); ++k) {
        gemm(mma, tCrA(_, _, k, stage.index), tCrB(_, _, k, stage.index), tCrC);
        mma.accumulate_ = GMMA::ScaleOut::One;
      }
      warpgroup_commit_batch();
      // The tile before this one has been read once this one alone is being multiplied.
      warpgroup_wait<1>();
      warpgroup_fence_operand(tCrC);
      if (k_tile > 0) release(before);
      before = stage.index;
      stage.next();
    }
    warpgroup_wait<0>();
    warpgroup_fence_operand(tCrC);
    release(before);
    write(tCrC, tCcC, tile_of(work), C, epilogue);
  }
}

__global__ void __launch_bounds__(Threads, 1)
gemm(T const* __restrict__ A, T const* __restrict__ B, T* __restrict__ C, Epilogue epilogue) {
  extern __shared__ __align__(1024) uint8_t memory[];
  Shared& shared = *reinterpret_cast<Shared*>(memory);
  if (threadIdx.x == 0) {
    CUTE_UNROLL
    for (int stage = 0; stage < Stages; ++stage) {
      Barrier::init(&shared.full[stage], Producers);
      Barrier::init(&shared.empty[stage], Consumers * 4);
    }
    cutlass::arch::fence_barrier_init();
  }
  __syncthreads();
  if (threadIdx.x < Producers) {
    cutlass::arch::warpgroup_reg_dealloc<56>();
    produce(shared, A, B);
  } else {
    cutlass::arch::warpgroup_reg_alloc<224>();
    consume(shared, C, epilogue);
  }
}

void check(cudaError_t status, char const* what) {
  if (status != cudaSuccess) TVM_FFI_THROW(RuntimeError) << what << ": " << cudaGetErrorString(status);
}

void launch(T const* A, T const* B, T* C, Epilogue epilogue, cudaStream_t stream) {
  check(cudaFuncSetAttribute(gemm, cudaFuncAttributeMaxDynamicSharedMemorySize, sizeof(Shared)), "shared memory");
  gemm<<<min(Works, Blocks), Threads, sizeof(Shared), stream>>>(A, B, C, epilogue);
  check(cudaGetLastError(), "gemm");
}

}  // namespace product

// begin entry
void run(tvm::ffi::TensorView A, tvm::ffi::TensorView B, tvm::ffi::TensorView C) {
  using namespace product;
  auto const data = [](tvm::ffi::TensorView t) {
    return reinterpret_cast<T*>(static_cast<char*>(t.data_ptr()) + t.byte_offset());
  };
  DLDevice const device = A.device();
  auto const stream = static_cast<cudaStream_t>(TVMFFIEnvGetStream(device.device_type, device.device_id));
  launch(data(A), data(B), data(C), Epilogue{}, stream);
}

TVM_FFI_DLL_EXPORT_TYPED_FUNC(run, run);
// end entry
