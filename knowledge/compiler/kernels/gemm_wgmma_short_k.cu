// begin header
// C(m,n,l) = epilogue(sum over k of A(m,k,l) * B(n,k,l)) at float32 grade on Hopper's TF32 tensor cores (3xTF32), for K
// of at most 64, where storing C takes longest. Small kernels split the operands beforehand and lay them out as wgmma
// reads them. Blocks stay: each takes neighbouring tiles of one strip of C, whose rows of A stay in shared memory, and
// one thread keeps a ring of B's tiles filled by bulk copies. Two warpgroups take the tiles in turn: while one
// multiplies, the other writes its tile to shared memory, from where tensor copies bring it to C.
//   op class: gemm
//   architecture: sm_90a
//   layouts: any strides of A and B; C row by row, its rows at multiples of 16 bytes
//   tile: block 128 x 128 x K, by one of 2 warpgroups
//   shared memory: A 128 x 64 x 2 x 4 = 65536 bytes, B 128 x 32 x 2 x 4 x 4 = 131072 bytes, C 2 x 2 x 64 x 32 x 4 =
//     32768 bytes, barriers 8 x (2 x 4 + 3) = 88 bytes; 229464 bytes of at most 232448
//   reaches: not measured yet. At 32768 x 64 x 32768 C's 4.3 GB need 1.0 ms, the products 1.06 at 390e12 operations a
//     second; gemm_wgmma_fused, whose warpgroups store at the same time, takes 2.36
// end header
// includes: as in gemm_simt.cu
#include <cute/arch/copy_sm90.hpp>
#include <cute/arch/copy_sm90_desc.hpp>
#include <cute/arch/copy_sm90_tma.hpp>
// _hopper: as in gemm_wgmma_16bit.cu

// _product: as in gemm_simt.cu
using T = float;

// begin problem
using M = Int<32768>;
using N = Int<32768>;
using K = Int<64>;
using LayoutA = Layout<Shape<M, K, _1>, Stride<K, _1, _0>>;  // (M,K,L)
using LayoutB = Layout<Shape<N, K, _1>, Stride<_1, N, _0>>;  // (N,K,L)
using LayoutC = Layout<Shape<M, N, _1>, Stride<N, _1, _0>>;  // (M,N,L)
struct Epilogue {
  CUTE_HOST_DEVICE T operator()(T x, int, int, int) const { return x; }
};
// end problem

// begin knobs
using BLK_N = Int<128>;       // 64 or 128
constexpr int Stages = 4;     // tiles of B in shared memory, of 32 k's each
constexpr int Blocks = 132;   // that run at once: the multiprocessors
constexpr int CopyA = 4;      // elements one load of a K-major operand moves
constexpr int CopyB = 1;
// end knobs

using BLK_M = _128;
using BLK_K = _32;
constexpr int Warpgroups = 2, Producer = 128 * Warpgroups, Threads = Producer + 128;
constexpr int TilesM = ceil_div(M{}, BLK_M{}), TilesN = ceil_div(N{}, BLK_N{}), TilesK = ceil_div(K{}, BLK_K{});
constexpr int Cluster = 1, ClustersM = TilesM, Batches = size<2>(LayoutC{});
constexpr int64_t Works = int64_t(TilesM) * TilesN * Batches;
constexpr int Panels = 2, PanelN = 32, Panel = 64 * PanelN;  // pieces of C that a warpgroup has in shared memory
static_assert(TilesK <= 2 && TilesK <= Stages && Works < (1 << 30), "K is short");

// packing: as in gemm_wgmma_3xtf32.cu

using Atom = decltype(GMMA::ss_op_selector<tfloat32_t, tfloat32_t, float, Shape<_64, BLK_N, BLK_K>>());
using Mma = decltype(make_tiled_mma(Atom{}));

struct Shared {
  alignas(1024) T A[TilesK * OperandA::size];
  alignas(1024) T B[Stages * OperandB::size];
  alignas(1024) T C[Warpgroups * Panels * Panel];
  uint64_t full[Stages], empty[Stages], rows, turn[Warpgroups];
};
// _barriers: as in gemm_wgmma_16bit.cu

// _stage: as in gemm_wgmma_16bit.cu

// Where a block's tiles begin, counted along the strips of C and from one strip to the next.
CUTE_DEVICE int share(int block) { return int(Works * block / gridDim.x); }

// Brings a strip's rows of A, then B's tiles in turn, each stage as soon as the warpgroup that reads it has left it.
CUTE_DEVICE void produce(Shared& shared, T const* packedA, T const* packedB) {
  int const first = share(blockIdx.x), last = share(blockIdx.x + 1);
  Stage stage;
  for (int index = first; index < last; ++index) {
    int const strip = index / TilesN, l = strip / TilesM;
    if (index == first || index % TilesN == 0) {
      // The products with the rows before have ended when every stage is left.
      Stage each = stage;
      for (int i = 0; i < Stages; ++i, each.next()) Empty::wait(&shared.empty[each.index], each.phase ^ 1);
      constexpr int size = TilesK * OperandA::size;
      Full::arrive_and_expect_tx(&shared.rows, size * sizeof(T));
      SM90_BULK_COPY_G2S::copy(packedA + int64_t(strip) * size, &shared.rows, shared.A, size * sizeof(T));
    }
    T const* const mB = packedB + int64_t(l * TilesN + index % TilesN) * TilesK * OperandB::size;
    for (int k_tile = 0; k_tile < TilesK; ++k_tile, stage.next()) {
      Empty::wait(&shared.empty[stage.index], stage.phase ^ 1);
      Full::arrive_and_expect_tx(&shared.full[stage.index], OperandB::size * sizeof(T));
      SM90_BULK_COPY_G2S::copy(mB + k_tile * OperandB::size, &shared.full[stage.index],
                               shared.B + stage.index * OperandB::size, OperandB::size * sizeof(T));
    }
  }
}

// The element of C that its sum makes.
CUTE_DEVICE T finished(T sum, int m, int n, int l, T const* A, T const* B, Epilogue const& epilogue) {
  if (m >= M{} || n >= N{}) return T(0);
  if (!isfinite(sum)) sum = plain_sum(A + LayoutA{}(m, 0, l), B + LayoutB{}(n, 0, l));
  return epilogue(sum, m, n, l);
}

// Writes 64 rows from (m0, n0) on by way of the warpgroup's panels in shared memory, swizzled as tensor copies read
// them. A thread has 2 neighbours of rows lane / 4 and lane / 4 + 8 of its warp's 16 in every 8 columns.
template <class Fragment>
CUTE_DEVICE void store_panels(Fragment const& tCrC, T* panels, int& turn, CUtensorMap const& mapC, int m0, int n0,
                              int l, T const* A, T const* B, Epilogue const& epilogue, int warpgroup) {
  int const thread = threadIdx.x % 128, lane = thread % 32, row = thread / 32 * 16 + lane / 4;
  CUTE_UNROLL
  for (int column = 0; column < BLK_N::value; column += PanelN) {
    T* const panel = panels + turn * Panel;
    turn = turn + 1 == Panels ? 0 : turn + 1;
    if (thread == 0) tma_store_wait<Panels - 1>();
    cutlass::arch::NamedBarrier::sync(128, warpgroup);
    CUTE_UNROLL
    for (int i = 0; i < PanelN / 4; ++i) {
      int const r = row + i % 2 * 8, at = i / 2 * 8 + lane % 4 * 2, chunk = at / 4 ^ r % 8;
      int const m = m0 + r, n = n0 + column + at, place = column / 2 + 2 * i;
      T const first = finished(tCrC(place), m, n, l, A, B, epilogue);
      T const second = finished(tCrC(place + 1), m, n + 1, l, A, B, epilogue);
      *reinterpret_cast<float2*>(panel + r * PanelN + chunk * 4 + at % 4) = make_float2(first, second);
    }
    tma_store_fence();
    cutlass::arch::NamedBarrier::sync(128, warpgroup);
    if (thread == 0) {
      if (m0 < M{} && n0 + column < N{}) SM90_TMA_STORE_3D::copy(&mapC, panel, n0 + column, m0, l);
      tma_store_arrive();
    }
  }
}

// Multiplies and stores every other of the block's tiles.
CUTE_DEVICE void consume(Shared& shared, T const* A, T const* B, CUtensorMap const& mapC, Epilogue const& epilogue) {
  int const warpgroup = threadIdx.x / 128, first = share(blockIdx.x), last = share(blockIdx.x + 1);
  auto* const pA = reinterpret_cast<tfloat32_t*>(shared.A);
  Tensor sA = make_tensor(make_smem_ptr(pA), typename OperandA::Shared{});  // (BLK_M,BLK_K,2*TilesK and more)
  auto* const pB = reinterpret_cast<tfloat32_t*>(shared.B);
  Tensor sB = make_tensor(make_smem_ptr(pB), typename OperandB::Shared{});  // (BLK_N,BLK_K,2*Stages)
  Mma mma;
  auto const thread_mma = mma.get_thread_slice(threadIdx.x % 128);
  Tensor tCrA = thread_mma.partition_fragment_A(sA);                        // (MMA,MMA_M,MMA_K,2*Stages)
  Tensor tCrB = thread_mma.partition_fragment_B(sB);                        // (MMA,MMA_N,MMA_K,2*Stages)
  Tensor tCrC = partition_fragment_C(mma, Shape<BLK_M, BLK_N>{});           // (MMA,MMA_M,MMA_N)
  T* const panels = shared.C + warpgroup * Panels * Panel;
  Stage stage;
  int panel = 0, order = warpgroup ^ 1;
  if (warpgroup == 1) stage.next(TilesK);

  for (int index = first + warpgroup; index < last; index += Warpgroups) {
    Empty::wait(&shared.turn[warpgroup], order);
    Stage left = stage;
    CUTE_UNROLL
    for (int k_tile = 0; k_tile < TilesK; ++k_tile, stage.next()) {
      Full::wait(&shared.full[stage.index], stage.phase);
      if (k_tile == 0) Full::wait(&shared.rows, (index / TilesN - first / TilesN) & 1);
      warpgroup_fence_operand(tCrC);
      warpgroup_arrive();
      mma.accumulate_ = k_tile == 0 ? GMMA::ScaleOut::Zero : GMMA::ScaleOut::One;
      CUTE_UNROLL
      for (int product = 0; product < 3; ++product) {
        int const a = 2 * k_tile + (product == 0), b = 2 * stage.index + (product == 1);
        CUTE_UNROLL
        for (int k = 0; k < size<2>(tCrA); ++k) {
          gemm(mma, tCrA(_, _, k, a), tCrB(_, _, k, b), tCrC);
          mma.accumulate_ = GMMA::ScaleOut::One;
        }
      }
      warpgroup_commit_batch();
    }
    // The other warpgroup's products follow these, and run while this one stores.
    if (threadIdx.x % 32 == 0) Empty::arrive(&shared.turn[warpgroup ^ 1]);
    order ^= 1;
    warpgroup_wait<0>();
    warpgroup_fence_operand(tCrC);
    for (int k_tile = 0; k_tile < TilesK; ++k_tile, left.next()) {
      if (threadIdx.x % 32 == 0) Empty::arrive(&shared.empty[left.index]);
    }
    stage.next(TilesK);
    int const m = index / TilesN % TilesM * BLK_M{}, n = index % TilesN * BLK_N{}, l = index / TilesN / TilesM;
    CUTE_UNROLL
    for (int i = 0; i < BLK_M{} / _64{}; ++i) {
      store_panels(tCrC(_, i, 0), panels, panel, mapC, m + 64 * i, n, l, A, B, epilogue, warpgroup);
    }
  }
  if (threadIdx.x % 128 == 0) tma_store_wait<0>();
}

__global__ void __launch_bounds__(Threads, 1)
gemm(__grid_constant__ CUtensorMap const mapC, T const* __restrict__ packedA, T const* __restrict__ packedB,
     T const* __restrict__ A, T const* __restrict__ B, Epilogue epilogue) {
  extern __shared__ __align__(1024) uint8_t memory[];
  Shared& shared = *reinterpret_cast<Shared*>(memory);
  if (threadIdx.x == 0) {
    CUTE_UNROLL
    for (int stage = 0; stage < Stages; ++stage) {
      Full::init(&shared.full[stage], 1);
      Empty::init(&shared.empty[stage], 4);
    }
    Full::init(&shared.rows, 1);
    CUTE_UNROLL
    for (int warpgroup = 0; warpgroup < Warpgroups; ++warpgroup) Empty::init(&shared.turn[warpgroup], 4);
    cutlass::arch::fence_barrier_init();
  }
  __syncthreads();
  if (threadIdx.x >= Producer) {
    cutlass::arch::warpgroup_reg_dealloc<40>();
    if (threadIdx.x == Producer) produce(shared, packedA, packedB);
  } else {
    cutlass::arch::warpgroup_reg_alloc<232>();
    consume(shared, A, B, mapC, epilogue);
  }
}

// check: as in gemm_simt.cu

// scratch: as in gemm_3xtf32.cu

// What a tensor copy must know of C: (N, M, batch), of which it moves PanelN x 64.
CUtensorMap map_of(T* C) {
  CUtensorMap map{};
  constexpr int64_t pitch = stride<0>(LayoutC{}), step = stride<2>(LayoutC{});
  // A dimension that is not walked along may have any stride, and the copies ask for multiples of 16 bytes.
  cuuint64_t const extents[3] = {cuuint64_t(N::value), cuuint64_t(M::value), cuuint64_t(Batches)};
  cuuint64_t const pitches[2] = {M::value == 1 ? 16 : pitch * sizeof(T), Batches == 1 ? 16 : step * sizeof(T)};
  cuuint32_t const box[3] = {PanelN, 64, 1}, steps[3] = {1, 1, 1};
  CUresult const status = CUTLASS_CUDA_DRIVER_WRAPPER_CALL(cuTensorMapEncodeTiled)(
      &map, CU_TENSOR_MAP_DATA_TYPE_FLOAT32, cuuint32_t(3), C, extents, pitches, box, steps,
      CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_128B, CU_TENSOR_MAP_L2_PROMOTION_L2_256B,
      CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
  if (status != CUDA_SUCCESS) TVM_FFI_THROW(RuntimeError) << "a tensor map was refused: " << int(status);
  return map;
}

void launch(T const* A, T const* B, T* C, Epilogue epilogue, DLDevice device) {
  auto const stream = static_cast<cudaStream_t>(TVMFFIEnvGetStream(device.device_type, device.device_id));
  auto const held = scratch(size_t(OperandA::packed_size + OperandB::packed_size) * sizeof(T), device);
  T* const packed = static_cast<T*>(held.data_ptr());
  T* const packedB = packed + OperandA::packed_size;
  CUtensorMap const mapC = map_of(C);
  split<OperandA><<<TilesK * OperandA::Tiles * Batches, 256, 0, stream>>>(A, packed);
  split<OperandB><<<TilesK * OperandB::Tiles * Batches, 256, 0, stream>>>(B, packedB);
  check(cudaGetLastError(), "split");
  check(cudaFuncSetAttribute(gemm, cudaFuncAttributeMaxDynamicSharedMemorySize, SharedBytes), "shared memory");
  gemm<<<int(min(Works, int64_t(Blocks))), Threads, SharedBytes, stream>>>(mapC, packed, packedB, A, B, epilogue);
  check(cudaGetLastError(), "gemm");
}

}  // namespace product

// entry: as in gemm_simt.cu
