// 2 kernels, one after the other; what passes between them lies in memory of their own.
// playbook plan: {"knobs": {"1.cluster": 1, "1.group": 32, "1.items": 8, "1.keep": 1, "1.rows": 8, "1.vector": 1, "2.bk": 32, "2.blocks": 4, "2.bm": 64, "2.bn": 64, "2.group": 8, "2.kernel": "gemm_3xtf32", "2.products": 3, "2.spans": 0, "2.splits": 8, "2.stages": 3, "2.wm": 32, "2.wn": 32}, "recipe": "stages"}
#include <cuda_runtime.h>
#include <tvm/ffi/extra/c_env_api.h>
// softmax: 6 lines
// softmax: 7 lines
#include <tvm/ffi/function.h>
#include <cute/arch/copy_sm80.hpp>
#include <cute/arch/mma_sm80.hpp>

// Along rows: layer_norm.
//   64 rows of 256, read from memory 1 time
//   tile: 8 rows, 1 blocks of 32 threads on each
//   shared memory: 0 bytes for the next row, and the partial results
//   bytes moved at least: 131072; operations: 81920
namespace part1 {

#define UNROLL _Pragma("unroll")

using namespace cute;

namespace kernels {

// rows.cu: 6 lines
constexpr int kItems = 8;  // elements of a row in a thread's registers
[[maybe_unused]] constexpr int kVector = 4;  // elements a pack
[[maybe_unused]] constexpr bool kOnce = false;  // its data leaves the caches first
using Index = int;

// softmax: 52 lines

// softmax: 67 lines

__device__ inline void sweep0(float rA, float& rSum0) {
  rSum0 = rA;
}
__device__ inline void sweep1(float rA, float v1, float& rSum1) {
  float const v3 = rA - v1;  // aten.layer_norm
  float const v4 = v3 * v3;  // aten.layer_norm
  rSum1 = v4;
}
__device__ inline void sweep2(float rA, float v1, float v6, float& rLayerNorm) {
  float const v8 = rA - v1;  // aten.layer_norm
  float const v9 = v8 * v6;  // aten.layer_norm
  rLayerNorm = v9;
}
struct JoinSum0 {
  template <class T> __device__ T operator()(T a, T b) const { return T(a + b); }
};
struct JoinSum1 {
  template <class T> __device__ T operator()(T a, T b) const { return T(a + b); }
};

template <int V>
__global__ void __launch_bounds__(kThreads) rows(float const* pA, float* pLayerNorm) {
  Index const kCount = Index(256 / V);  // packs a row
  [[maybe_unused]] Index const kRowCount = 64;
  Tensor mA = make_tensor(make_gmem_ptr(packs<V>(pA)),  // (256/V,64)
      Layout<Shape<Int<256 / V>, Int<64>>, Stride<_1, Int<256 / V>>>{});
  Tensor mLayerNorm = make_tensor(make_gmem_ptr(packs<V>(pLayerNorm)),  // (256/V,64)
      Layout<Shape<Int<256 / V>, Int<64>>, Stride<_1, Int<256 / V>>>{});
// rows.cu: 12 lines
    {
      rA[u] = load<kOnce>(&mA(i, r));
    }
  }
  // sweep 0
  float partSum0[V];
  UNROLL
  for (int k = 0; k < V; ++k) { partSum0[k] = float(0); }
  UNROLL
  for (int u = 0; u < kPacks; ++u) {
    [[maybe_unused]] Index const i = start + u * kGroup;
    {
      UNROLL
      for (int k = 0; k < V; ++k) {
        float vSum0;
        sweep0(rA[u].lane[k], vSum0);
        partSum0[k] = JoinSum0{}(partSum0[k], vSum0);
      }
    }
  }
  double totalSum0 = double(partSum0[0]);
  UNROLL
  for (int k = 1; k < V; ++k) { totalSum0 = JoinSum0{}(totalSum0, double(partSum0[k])); }
  totalSum0 = reduced<0>(totalSum0, JoinSum0{}, turn);
  float const vSum0 = float(totalSum0);  // aten.layer_norm
  float const v1 = vSum0 / 256.0f;  // aten.layer_norm
// rows.cu: 7 lines
    {
      UNROLL
      for (int k = 0; k < V; ++k) {
        float vSum1;
        sweep1(rA[u].lane[k], v1, vSum1);
        partSum1[k] = JoinSum1{}(partSum1[k], vSum1);
// rows.cu: 7 lines
  float const vSum1 = float(totalSum1);  // aten.layer_norm
  float const v3 = vSum1 / 256.0f;  // aten.layer_norm
  float const v4 = v3 + 1e-05f;  // aten.layer_norm
  float const v5 = std::sqrt(v4);  // aten.layer_norm
  float const v6 = 1.0f / v5;  // aten.layer_norm
  // sweep 2
  UNROLL
  for (int u = 0; u < kPacks; ++u) {
    [[maybe_unused]] Index const i = start + u * kGroup;
    {
      Pack<float, V> rLayerNorm;
      UNROLL
      for (int k = 0; k < V; ++k) {
        float vLayerNorm;
        sweep2(rA[u].lane[k], v1, v6, vLayerNorm);
        rLayerNorm.lane[k] = vLayerNorm;
      }
      store<kOnce>(&mLayerNorm(i, r), rLayerNorm);
    }
  }
}

// softmax: 12 lines

// softmax: 8 lines

}  // namespace kernels

using namespace kernels;

void run(tvm::ffi::TensorView a, tvm::ffi::TensorView layer_norm) {
  require(a, "a", {64, 256}, {256, 1}, kDLFloat, 32);
  require(layer_norm, "layer_norm", {64, 256}, {256, 1}, kDLFloat, 32);

  cudaStream_t const stream = stream_of(layer_norm);
  auto const* pA = static_cast<float const*>(a.data_ptr());
  auto* pLayerNorm = static_cast<float*>(layer_norm.data_ptr());
  if (aligned<kVector>(pA, pLayerNorm)) {
    rows<kVector><<<8, kThreads, 0, stream>>>(pA, pLayerNorm);
  } else {
    rows<1><<<8, kThreads, 0, stream>>>(pA, pLayerNorm);
  }
  launched();
}
#undef UNROLL
}  // namespace part1

// output(m,n,l) = sum over k of layer_norm(m,k,l) * b(n,k,l)
// M=64 N=128 K=256 L=1, float32: 4194304 FLOPs, 229376 bytes (every operand once)
// tile: block 64 x 64 x 32, 4 warps of 32 x 32, MMA 16 x 8 x 8 (TF32)
//   registers: tCrC 32 a lane
//   shared memory: A 64 x 32 x 3 x 4 = 24576 bytes, B 64 x 32 x 3 x 4 = 24576 bytes
//   partial sums: 8 x L x M x N x 4 = 262144 bytes of device memory
namespace part2 {
// gemm_3xtf32: 7 lines
using M = Int<64>;
using N = Int<128>;
using K = Int<256>;
using LayoutA = Layout<Shape<M, K, _1>, Stride<Int<256>, _1, _0>>;  // (M,K,L)
using LayoutB = Layout<Shape<N, K, _1>, Stride<_1, Int<128>, _0>>;  // (N,K,L)
using LayoutC = Layout<Shape<M, N, _1>, Stride<Int<128>, _1, _0>>;  // (M,N,L)
// What follows the product, on one element.
struct Epilogue {
  CUTE_HOST_DEVICE T operator()(T x, [[maybe_unused]] int m, [[maybe_unused]] int n, [[maybe_unused]] int l) const {
    return x;
  }
};

using BLK_M = Int<64>;
using BLK_N = Int<64>;
using BLK_K = Int<32>;
using WARP_M = Int<32>;
using WARP_N = Int<32>;
constexpr int Stages = 3;
constexpr int MinBlocks = 4;
constexpr int Splits = 8;
constexpr int CopyA = 4;
constexpr int CopyB = 4;
constexpr int StoreC = 4;
constexpr int Products = 3;
constexpr int Group = 8;
constexpr int Triangle = 0;
constexpr int Offset = 0;
constexpr bool SkipZeros = false;
// gemm_3xtf32: 7 lines
// gemm_3xtf32: 52 lines
// gemm_3xtf32: 71 lines

// gemm_3xtf32: 6 lines

// gemm_3xtf32: 68 lines
// gemm_3xtf32: 16 lines
// gemm_3xtf32: 35 lines
// gemm_3xtf32: 46 lines
// gemm_3xtf32: 11 lines

void check(cudaError_t status, char const* what) {
  if (status != cudaSuccess) TVM_FFI_THROW(RuntimeError) << what << ": " << cudaGetErrorString(status);
}

// From the caller's allocator, which hands it out again in the order of the stream: given back at the end of its scope.
tvm::ffi::Tensor scratch(size_t bytes, DLDevice device) {
  return tvm::ffi::Tensor::FromEnvAlloc(TVMFFIEnvTensorAlloc, {int64_t(bytes)}, DLDataType{kDLUInt, 8, 1}, device);
}

// gemm_3xtf32: 25 lines

}  // namespace product

namespace product {

// Shape, strides in elements and element type the kernel was written for; a dimension of 1 may have any stride.
void require(tvm::ffi::TensorView t, char const* name, std::initializer_list<int64_t> shape,
             std::initializer_list<int64_t> strides) {
  bool fits = t.ndim() == int(shape.size()) && t.dtype().code == kDLFloat && t.dtype().bits == 8 * sizeof(T);
  for (int i = 0; fits && i < t.ndim(); ++i) {
    fits = t.size(i) == shape.begin()[i] && (t.size(i) == 1 || t.stride(i) == strides.begin()[i]);
  }
  if (!fits) TVM_FFI_THROW(ValueError) << name << ": other shape, strides or element type than the kernel's";
  if (t.device().device_type != kDLCUDA) TVM_FFI_THROW(ValueError) << name << ": not in the GPU's memory";
}

T* data(tvm::ffi::TensorView t) {
  return reinterpret_cast<T*>(static_cast<char*>(t.data_ptr()) + t.byte_offset());
}

// A tensor that starts in the middle of a vector cannot be read or written by vectors.
T* aligned(tvm::ffi::TensorView t, char const* name, int elements) {
  if (reinterpret_cast<uintptr_t>(data(t)) % (elements * sizeof(T)) != 0) {
    TVM_FFI_THROW(ValueError) << name << ": its first element is not aligned to " << elements * sizeof(T) << " bytes";
  }
  return data(t);
}

}  // namespace product

void run(tvm::ffi::TensorView b, tvm::ffi::TensorView layer_norm, tvm::ffi::TensorView output) {
  product::require(b, "b", {256, 128}, {128, 1});
  product::require(layer_norm, "layer_norm", {64, 256}, {256, 1});
  product::require(output, "output", {64, 128}, {128, 1});
  product::launch(product::aligned(layer_norm, "layer_norm", 4), product::aligned(b, "b", 4), product::aligned(output, "output", 4), product::Epilogue{}, output.device());
}

}  // namespace part2

// A tensor between two parts, from the caller's allocator, which hands it out again in the order of the stream.
struct Between {
  tvm::ffi::Tensor held;
  DLTensor tensor;
  Between(DLDevice device, DLDataType type, int64_t* shape, int64_t* strides, int ndim, size_t bytes)
      : held(tvm::ffi::Tensor::FromEnvAlloc(
            TVMFFIEnvTensorAlloc, {static_cast<int64_t>(bytes)}, DLDataType{kDLUInt, 8, 1}, device)),
        tensor{held.data_ptr(), device, ndim, type, shape, strides, 0} {}
  Between(Between const&) = delete;
};

void run(tvm::ffi::TensorView a, tvm::ffi::TensorView b, tvm::ffi::TensorView output) {
  int64_t shape_between_layer_norm[3] = {64, 256, 1};
  int64_t strides_between_layer_norm[3] = {256, 1, 1};
  Between between_layer_norm(a.device(), DLDataType{kDLFloat, 32, 1}, shape_between_layer_norm, strides_between_layer_norm, 2, 65536);
  part1::run(a, &between_layer_norm.tensor);
  part2::run(b, &between_layer_norm.tensor, output);
}
TVM_FFI_DLL_EXPORT_TYPED_FUNC(run, run);
