// begin header
// A matrix times a vector: C(m,l) = epilogue(sum over k of A(m,k,l) * B(k,l)), A read along K.
//   op class: gemm
//   architecture: sm_90a
//   layouts: A (M,K,L):(K,1,0), B (K,L):(1,0), C (M,L):(1,0); any strides, packs of kVector where A's and B's are 1
//   tile: 8 rows x 256 threads x 2 packs of 4, and a cluster of 4 blocks shares the rows' K; every pack of B is used
//     for all rows of the tile, since B comes from the L2 cache, whose bandwidth A needs
//   shared memory: 2 turns x 8 warps x 4 blocks x 8 bytes for each row's partial results = 4096 bytes
//   error: partial sums of 32 packs are joined in double
// end header

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <initializer_list>
#include <type_traits>

#include <cute/tensor.hpp>
#include <cute/arch/cluster_sm90.hpp>
#include <tvm/ffi/container/tensor.h>
#include <tvm/ffi/error.h>
#include <tvm/ffi/extra/c_env_api.h>
#include <tvm/ffi/function.h>

#define UNROLL _Pragma("unroll")

using namespace cute;

namespace kernels {

using Index = int;

// begin problem
using T = float;
using M = Int<2048>;
using K = Int<1048576>;
using L = Int<1>;
template <int V> using LayoutA = Layout<Shape<M, Int<K{} / V>, _1>, Stride<Int<1048576 / V>, _1, _0>>;  // (M,K/V,L)
template <int V> using LayoutB = Layout<Shape<Int<K{} / V>, _1>, Stride<_1, _0>>;  // (K/V,L)
using LayoutC = Layout<Shape<M, _1>, Stride<_1, _0>>;  // (M,L)
struct Epilogue {
  __device__ T operator()(T x, int, int) const { return x; }
};
// end problem

// begin knobs
constexpr int kVector = 4;     // elements a pack
constexpr int kGroup = 256;    // threads of a block that share a tile's rows
constexpr int kThreads = 256;  // a block
constexpr int kCluster = 4;    // blocks that share a tile's K
constexpr int kRows = 8;       // rows a tile: they share the loads of B
constexpr int kPacks = 2;      // packs of each row in flight a thread
constexpr bool kOnce = true;   // A leaves no trace in the caches
// end knobs

// begin access
// V neighbours in memory, moved in words of up to 16 bytes.
template <class T, int V>
struct alignas(sizeof(T) * V < 16 ? sizeof(T) * V : 16) Pack {
  T lane[V];
};

template <int Bytes> struct Word { using type = uint4; };
template <> struct Word<8> { using type = uint2; };
template <> struct Word<4> { using type = uint32_t; };
template <> struct Word<2> { using type = unsigned short; };
template <> struct Word<1> { using type = unsigned char; };

// Once: the data is not needed again, so that it is the first to leave the caches.
template <bool Once, class P>
__device__ inline P load(P const* from) {
  using W = typename Word<(sizeof(P) < 16 ? sizeof(P) : 16)>::type;
  constexpr int kWords = sizeof(P) / sizeof(W);
  union Bits {
    W word[kWords];
    P pack;
    __device__ Bits() {}
  } bits;
  UNROLL
  for (int w = 0; w < kWords; ++w) {
    W const* at = reinterpret_cast<W const*>(from) + w;
    bits.word[w] = Once ? __ldcs(at) : *at;
  }
  return bits.pack;
}

template <bool Once, class P>
__device__ inline void store(P* to, P const& pack) {
  using W = typename Word<(sizeof(P) < 16 ? sizeof(P) : 16)>::type;
  UNROLL
  for (int w = 0; w < int(sizeof(P) / sizeof(W)); ++w) {
    W const word = reinterpret_cast<W const*>(&pack)[w];
    W* at = reinterpret_cast<W*>(to) + w;
    if (Once) { __stcs(at, word); } else { *at = word; }
  }
}

// A tensor's memory as packs of V elements.
template <int V, class T>
__device__ inline Pack<T, V> const* packs(T const* start) { return reinterpret_cast<Pack<T, V> const*>(start); }
template <int V, class T>
__device__ inline Pack<T, V>* packs(T* start) { return reinterpret_cast<Pack<T, V>*>(start); }

// Whether packs of V elements may be moved from all of these on.
template <int V, class... T>
bool aligned(T const*... start) {
  return ((reinterpret_cast<uintptr_t>(start) % std::min<size_t>(sizeof(T) * V, 16) == 0) && ...);
}
// end access

// begin reduce
template <class T>
__device__ inline T exchanged(T value, int mask) {
  if constexpr (sizeof(T) < 4) {
    return T(__shfl_xor_sync(~0u, int(value), mask));
  } else {
    return __shfl_xor_sync(~0u, value, mask);
  }
}

// An extremum and where it stands.
template <class T>
struct Best {
  T value;
  int64_t index;
};

template <class T>
__device__ inline Best<T> exchanged(Best<T> best, int mask) {
  return {exchanged(best.value, mask), exchanged(best.index, mask)};
}

// Joins the values of all threads that share a row, in every one of them: within a warp by shuffles, then through the
// shared memory of all the cluster's blocks that share it. `turn` alternates between rows, so that one barrier a
// reduction is enough; `Slot` tells the kernel's reductions apart.
template <int Slot, class T, class Join>
__device__ inline T reduced(T value, Join join, [[maybe_unused]] int turn) {
  constexpr int kLanes = kGroup < 32 ? kGroup : 32;
  UNROLL
  for (int mask = kLanes / 2; mask > 0; mask /= 2) { value = join(value, exchanged(value, mask)); }
  if constexpr (kGroup > 32 || kCluster > 1) {
    constexpr int kWarps = (kGroup + 31) / 32, kParts = kWarps * kCluster;
    __shared__ __align__(16) char memory[2][kThreads / kGroup][kParts][sizeof(T)];
    int const lane = threadIdx.x % 32, warp = threadIdx.x % kGroup / 32;
    T* parts = reinterpret_cast<T*>(&memory[turn][threadIdx.x / kGroup]);  // (kParts)
    if constexpr (kCluster > 1) {
#if __CUDA_ARCH__ >= 900
      if (lane < kCluster) {
        T* mine = parts + blockIdx.x % kCluster * kWarps + warp;
        *static_cast<T*>(__cluster_map_shared_rank(mine, lane)) = value;
      }
      cluster_sync();
#endif
    } else {
      if (lane == 0) { parts[warp] = value; }
      __syncthreads();
    }
    value = parts[lane % kParts];
    for (int part = lane + 32; part < kParts; part += 32) { value = join(value, parts[part]); }
    constexpr int kLeft = kParts < 32 ? kParts : 32;
    UNROLL
    for (int mask = kLeft / 2; mask > 0; mask /= 2) { value = join(value, exchanged(value, mask)); }
  }
  return value;
}
// end reduce

constexpr int kFlush = 32;  // packs after which a partial sum moves to double
constexpr int kTiles = ceil_div(M{}, Int<kRows>{});

// Sum of one thread's part of kRows rows.
template <int V>
__global__ void __cluster_dims__(kCluster) __launch_bounds__(kThreads)
    gemv(T const* A, T const* B, T* C, Epilogue epilogue) {
  Tensor mA = make_tensor(make_gmem_ptr(packs<V>(A)), LayoutA<V>{});  // (M,K/V,L)
  Tensor mB = make_tensor(make_gmem_ptr(packs<V>(B)), LayoutB<V>{});  // (K/V,L)
  Tensor mC = make_tensor(make_gmem_ptr(C), LayoutC{});               // (M,L)
  constexpr Index kCount = K{} / V;                                   // packs a row
  constexpr Index kStep = kGroup * kCluster;
  int const rank = blockIdx.x % kCluster, thread = threadIdx.x % kGroup;
  int const tile = blockIdx.x / kCluster * (kThreads / kGroup) + threadIdx.x / kGroup;
  int const l = min(tile / kTiles, L{} - 1), first = tile % kTiles * kRows;

  T part[kRows][V] = {};
  double total[kRows] = {};
  auto const flush = [&] {
    UNROLL
    for (int m = 0; m < kRows; ++m) {
      UNROLL
      for (int k = 0; k < V; ++k) {
        total[m] += double(part[m][k]);
        part[m][k] = T(0);
      }
    }
  };
  int filled = 0;
  for (Index base = rank * kGroup + thread; base < kCount; base += kPacks * kStep) {
    Pack<T, V> rA[kPacks][kRows], rB[kPacks];
    UNROLL
    for (int u = 0; u < kPacks; ++u) {
      Index const i = base + u * kStep;
      if (i < kCount) {
        rB[u] = load<false>(&mB(i, l));
        UNROLL
        for (int m = 0; m < kRows; ++m) { rA[u][m] = load<kOnce>(&mA(min(first + m, M{} - 1), i, l)); }
      }
    }
    UNROLL
    for (int u = 0; u < kPacks; ++u) {
      if (base + u * kStep < kCount) {
        UNROLL
        for (int m = 0; m < kRows; ++m) {
          UNROLL
          for (int k = 0; k < V; ++k) { part[m][k] += rA[u][m].lane[k] * rB[u].lane[k]; }
        }
      }
    }
    filled += kPacks;
    if (filled >= kFlush) {
      flush();
      filled = 0;
    }
  }
  flush();
  auto const join = [](double a, double b) { return a + b; };
  if constexpr (kCluster > 1) { cluster_sync(); }
  for_each(make_int_sequence<kRows>{}, [&](auto m) {
    double const sum = reduced<int(m)>(total[m], join, 0);
    bool const mine = thread == 0 && rank == 0 && first + m < M{} && tile < kTiles * L{};
    if (mine) { mC(first + m, l) = epilogue(T(sum), first + m, l); }
  });
}

// begin require
// Refuses a tensor that is not what this kernel was written for. Strides of extents of 1 mean nothing.
void require(tvm::ffi::TensorView const& tensor, char const* name, std::initializer_list<int64_t> shape,
             std::initializer_list<int64_t> strides, int code, int bits) {
  bool same = tensor.ndim() == int(shape.size()) && tensor.dtype().code == code && tensor.dtype().bits == bits;
  for (int dim = 0; same && dim < tensor.ndim(); ++dim) {
    same = tensor.size(dim) == shape.begin()[dim] &&
           (tensor.size(dim) <= 1 || tensor.stride(dim) == strides.begin()[dim]);
  }
  if (!same) {
    TVM_FFI_THROW(ValueError) << name << " has another shape, strides or element type than this kernel was written for";
  }
}

cudaStream_t stream_of(tvm::ffi::TensorView const& tensor) {
  return static_cast<cudaStream_t>(TVMFFIEnvGetStream(tensor.device().device_type, tensor.device().device_id));
}

void launched() {
  cudaError_t const error = cudaGetLastError();
  if (error != cudaSuccess) { TVM_FFI_THROW(RuntimeError) << "the launch failed: " << cudaGetErrorString(error); }
}
// end require

}  // namespace kernels

using namespace kernels;

// begin entry
void run(tvm::ffi::TensorView A, tvm::ffi::TensorView B, tvm::ffi::TensorView C) {
  require(A, "A", {2048, 1048576}, {1048576, 1}, kDLFloat, 32);
  require(B, "B", {1048576, 1}, {1, 1}, kDLFloat, 32);
  require(C, "C", {2048, 1}, {1, 1}, kDLFloat, 32);

  cudaStream_t const stream = stream_of(C);
  auto const* pA = static_cast<float const*>(A.data_ptr());
  auto const* pB = static_cast<float const*>(B.data_ptr());
  auto* pC = static_cast<float*>(C.data_ptr());
  int const blocks = ceil_div(kTiles * L{}, kThreads / kGroup) * kCluster;
  if (aligned<kVector>(pA, pB)) {
    gemv<kVector><<<blocks, kThreads, 0, stream>>>(pA, pB, pC, Epilogue{});
  } else {
    gemv<1><<<blocks, kThreads, 0, stream>>>(pA, pB, pC, Epilogue{});
  }
  launched();
}
TVM_FFI_DLL_EXPORT_TYPED_FUNC(run, run);
// end entry
