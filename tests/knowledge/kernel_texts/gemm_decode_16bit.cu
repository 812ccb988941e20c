// begin header
// output(m,n,l) = sum over k of b(m,k,l) * a(n,k,l); x = x < T(0) ? T(0) : x
// M=4096 N=16 K=4096 L=1, bfloat16: 536870912 FLOPs, 33816576 bytes (every operand once)
// tile: block 64 x 16 x 64, one warpgroup, clusters of 2 along K, float32 sums
//   shared memory: A 64 x 64 x 9 x 2 = 73728 bytes, B 16 x 64 x 9 x 2 = 18432 bytes, sums 4096 bytes
// playbook plan: {"knobs": {"bn": 16, "cluster": 2, "kernel": "gemm_decode_16bit", "stages": 9}, "recipe": "gemm"}
// gemm_decode_16bit: 22 lines
using T = bfloat16_t;
using M = Int<4096>;
using N = Int<16>;
using K = Int<4096>;
using LayoutA = Layout<Shape<M, K, _1>, Stride<_1, Int<4096>, _0>>;  // (M,K,L)
using LayoutB = Layout<Shape<N, K, _1>, Stride<Int<4096>, _1, _0>>;  // (N,K,L)
using LayoutC = Layout<Shape<M, N, _1>, Stride<_1, Int<4096>, _0>>;  // (M,N,L)
// What follows the product, on one element.
struct Epilogue {
  CUTE_HOST_DEVICE T operator()(float x, [[maybe_unused]] int m, [[maybe_unused]] int n, [[maybe_unused]] int l) const {
    x = x < float(0) ? float(0) : x;
    return T(x);
  }
};
// end problem

// begin knobs
using BLK_N = Int<16>;
constexpr int Stages = 9;
constexpr int Cluster = 2;
// gemm_decode_16bit: 238 lines
namespace product {

// Shape, strides in elements and element type the kernel was written for; a dimension of 1 may have any stride.
void require(tvm::ffi::TensorView t, char const* name, std::initializer_list<int64_t> shape,
             std::initializer_list<int64_t> strides) {
  bool fits = t.ndim() == int(shape.size()) && t.dtype().code == kDLBfloat && t.dtype().bits == 8 * sizeof(T);
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

void run(tvm::ffi::TensorView a, tvm::ffi::TensorView b, tvm::ffi::TensorView output) {
  product::require(a, "a", {16, 4096}, {4096, 1});
  product::require(b, "b", {4096, 4096}, {4096, 1});
  product::require(output, "output", {16, 4096}, {4096, 1});
  product::launch(product::aligned(b, "b", 8), product::aligned(a, "a", 8), product::aligned(output, "output", 1), product::Epilogue{}, output.device());
}

TVM_FFI_DLL_EXPORT_TYPED_FUNC(run, run);
// end entry
