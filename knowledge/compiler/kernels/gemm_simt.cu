// begin header
// C(m,n,l) = epilogue(sum over k of A(m,k,l) * B(n,k,l)) in float32 on the SIMT cores: the plain form, a block's tile
// of C in registers, tiles of A and B through shared memory, one element a load.
//   op class: gemm
//   architecture: sm_80
//   layouts: any strides; loads are coalesced whichever dimension of an operand is contiguous
//   tile: block 128 x 128 x 8, 256 threads, 8 x 8 of C a thread, 16 apart
//   shared memory: A 132 x 8 x 4 = 4224 bytes, B 132 x 8 x 4 = 4224 bytes; 8448 bytes of at most 49152
//   reaches: H200, 4096 x 4096 x 4096: 4.2 to 4.5 ms (32e12 operations a second), 0.63 of cuBLAS in float32
//   limited by: a wait for every tile, and one shared-memory word a read
// end header
// begin includes
#include <cstdint>
#include <initializer_list>

#include <cute/tensor.hpp>
#include <tvm/ffi/container/tensor.h>
#include <tvm/ffi/error.h>
#include <tvm/ffi/extra/c_env_api.h>
#include <tvm/ffi/function.h>
// end includes

// begin _product
// Named: nvcc's host code cannot tell an unnamed namespace from CuTe's own.
namespace product {

using namespace cute;
// end _product
using T = float;

// begin problem
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
using BLK_M = Int<128>;
using BLK_N = Int<128>;
using BLK_K = Int<8>;
// end knobs

using ThreadsC = Layout<Shape<_16, _16>, Stride<_1, _16>>;  // (m,n) -> thread
constexpr int Threads = size(ThreadsC{});
constexpr int TilesM = ceil_div(M{}, BLK_M{}), TilesN = ceil_div(N{}, BLK_N{}), Batches = size<2>(LayoutC{});

// A long chain of float32 sums drifts: beyond 4096 k's pieces of 64 tiles are summed apart, from zero.
constexpr bool Apart = K::value > 4096;
constexpr int Piece = 64;

// One operand as (rows, K): its tile in shared memory, rows padded to spread a column over the banks, and which thread
// copies what: neighbours along the operand's contiguous dimension.
template <class Global, class Block>
struct Operand {
  static constexpr bool k_major = stride<1>(Global{}) == 1;
  using Shared = Layout<Shape<Block, BLK_K>, Stride<_1, Int<Block::value + 4>>>;                    // (BLK,BLK_K)
  using Copies = cute::conditional_t<k_major, Layout<Shape<Int<Threads / BLK_K::value>, BLK_K>, Stride<BLK_K, _1>>,
                                     Layout<Shape<_32, Int<Threads / 32>>, Stride<_1, _32>>>;       // (row,k) -> thread
  static constexpr int size = (Block::value + 4) * BLK_K::value;
};
using OperandA = Operand<LayoutA, BLK_M>;
using OperandB = Operand<LayoutB, BLK_N>;

// Copies a thread's part of one tile; what lies outside the operand becomes zero.
template <class Global, class Places, class Shared, class Extents>
CUTE_DEVICE void copy_tile(Global const& from, Places const& places, Shared&& to, Extents const& extents) {
  CUTE_UNROLL
  for (int i = 0; i < size(to); ++i) to(i) = elem_less(places(i), extents) ? from(i) : T(0);
}

__global__ void __launch_bounds__(Threads)
gemm(T const* __restrict__ A, T const* __restrict__ B, T* __restrict__ C, Epilogue epilogue) {
  __shared__ T sharedA[OperandA::size], sharedB[OperandB::size];
  int const thread = threadIdx.x, m_tile = blockIdx.x % TilesM, n_tile = blockIdx.x / TilesM % TilesN;
  int const l = blockIdx.x / (TilesM * TilesN);

  auto const at_m = make_coord(m_tile, _), at_n = make_coord(n_tile, _);
  auto const tile_a = make_shape(BLK_M{}, BLK_K{}), tile_b = make_shape(BLK_N{}, BLK_K{});
  Tensor mA = make_tensor(make_gmem_ptr(A + LayoutA{}(0, 0, l)), take<0, 2>(LayoutA{}));  // (M,K)
  Tensor mB = make_tensor(make_gmem_ptr(B + LayoutB{}(0, 0, l)), take<0, 2>(LayoutB{}));  // (N,K)
  Tensor mC = make_tensor(make_gmem_ptr(C + LayoutC{}(0, 0, l)), take<0, 2>(LayoutC{}));  // (M,N)
  Tensor gA = local_tile(mA, tile_a, at_m);                                               // (BLK_M,BLK_K,k)
  Tensor gB = local_tile(mB, tile_b, at_n);                                               // (BLK_N,BLK_K,k)
  Tensor cA = local_tile(make_identity_tensor(shape(mA)), tile_a, at_m);                  // (BLK_M,BLK_K,k) -> (m,k)
  Tensor cB = local_tile(make_identity_tensor(shape(mB)), tile_b, at_n);                  // (BLK_N,BLK_K,k) -> (n,k)
  Tensor sA = make_tensor(make_smem_ptr(sharedA), typename OperandA::Shared{});           // (BLK_M,BLK_K)
  Tensor sB = make_tensor(make_smem_ptr(sharedB), typename OperandB::Shared{});           // (BLK_N,BLK_K)

  Tensor tAgA = local_partition(gA, OperandA::Copies{}, thread);                          // (THR_M,THR_K,k)
  Tensor tAcA = local_partition(cA, OperandA::Copies{}, thread);                          // (THR_M,THR_K,k)
  Tensor tAsA = local_partition(sA, OperandA::Copies{}, thread);                          // (THR_M,THR_K)
  Tensor tBgB = local_partition(gB, OperandB::Copies{}, thread);                          // (THR_N,THR_K,k)
  Tensor tBcB = local_partition(cB, OperandB::Copies{}, thread);                          // (THR_N,THR_K,k)
  Tensor tBsB = local_partition(sB, OperandB::Copies{}, thread);                          // (THR_N,THR_K)

  Tensor cC = local_tile(make_identity_tensor(shape(mC)), make_shape(BLK_M{}, BLK_N{}), make_coord(m_tile, n_tile));
  Tensor tCsA = local_partition(sA, ThreadsC{}, thread, Step<_1, X>{});                   // (THR_M,BLK_K)
  Tensor tCsB = local_partition(sB, ThreadsC{}, thread, Step<X, _1>{});                   // (THR_N,BLK_K)
  Tensor tCcC = local_partition(cC, ThreadsC{}, thread);                                  // (THR_M,THR_N) -> (m,n)
  Tensor tCrC = make_tensor<T>(shape(tCcC));                                              // (THR_M,THR_N)
  Tensor tCrT = make_tensor<T>(shape(tCcC));                                              // (THR_M,THR_N), of a piece
  auto& tCrS = Apart ? tCrT : tCrC;                                                       // (THR_M,THR_N)
  clear(tCrC);
  clear(tCrS);

  for (int k_tile = 0; k_tile < size<2>(gA); ++k_tile) {
    copy_tile(tAgA(_, _, k_tile), tAcA(_, _, k_tile), tAsA, shape(mA));
    copy_tile(tBgB(_, _, k_tile), tBcB(_, _, k_tile), tBsB, shape(mB));
    __syncthreads();
    gemm(tCsA, tCsB, tCrS);
    __syncthreads();
    if (Apart && (k_tile % Piece == Piece - 1 || k_tile == size<2>(gA) - 1)) {
      CUTE_UNROLL
      for (int i = 0; i < size(tCrC); ++i) tCrC(i) += tCrS(i);
      clear(tCrS);
    }
  }
  CUTE_UNROLL
  for (int i = 0; i < size(tCrC); ++i) {
    auto const [m, n] = tCcC(i);
    if (m < M{} && n < N{}) mC(m, n) = epilogue(tCrC(i), m, n, l);
  }
}

// begin check
void check(cudaError_t status, char const* what) {
  if (status != cudaSuccess) TVM_FFI_THROW(RuntimeError) << what << ": " << cudaGetErrorString(status);
}
// end check

// begin launch
void launch(T const* A, T const* B, T* C, Epilogue epilogue, DLDevice device) {
  auto const stream = static_cast<cudaStream_t>(TVMFFIEnvGetStream(device.device_type, device.device_id));
  gemm<<<TilesM * TilesN * Batches, Threads, 0, stream>>>(A, B, C, epilogue);
  check(cudaGetLastError(), "gemm");
}
// end launch

}  // namespace product

// begin entry
void run(tvm::ffi::TensorView A, tvm::ffi::TensorView B, tvm::ffi::TensorView C) {
  using namespace product;
  auto const data = [](tvm::ffi::TensorView t) {
    return reinterpret_cast<T*>(static_cast<char*>(t.data_ptr()) + t.byte_offset());
  };
  launch(data(A), data(B), data(C), Epilogue{}, A.device());
}

TVM_FFI_DLL_EXPORT_TYPED_FUNC(run, run);
// end entry
