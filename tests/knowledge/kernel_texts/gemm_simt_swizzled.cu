// begin header
// output(m,n,l) = sum over k of a(m,k,l) * b(n,k,l); x = x < T(0) ? T(0) : x
// M=2048 N=2048 K=1024 L=1, float32: 8589934592 FLOPs, 33554432 bytes (every operand once)
// tile: block 128 x 128 x 16, 256 threads, 8 x 8 of C each, float32 cores
//   shared memory: A 128 x 16 x 3 x 4 = 24576 bytes, B 128 x 16 x 3 x 4 = 24576 bytes
// playbook plan: {"knobs": {"bk": 16, "blocks": 2, "bm": 128, "bn": 128, "group": 8, "kernel": "gemm_simt_swizzled", "stages": 3}, "recipe": "gemm"}
// gemm_simt_swizzled: 20 lines
using M = Int<2048>;
using N = Int<2048>;
using K = Int<1024>;
using LayoutA = Layout<Shape<M, K, _1>, Stride<Int<1024>, _1, _0>>;  // (M,K,L)
using LayoutB = Layout<Shape<N, K, _1>, Stride<_1, Int<2048>, _0>>;  // (N,K,L)
using LayoutC = Layout<Shape<M, N, _1>, Stride<Int<2048>, _1, _0>>;  // (M,N,L)
// What follows the product, on one element.
struct Epilogue {
  CUTE_HOST_DEVICE T operator()(T x, [[maybe_unused]] int m, [[maybe_unused]] int n, [[maybe_unused]] int l) const {
    x = x < T(0) ? T(0) : x;
    return x;
  }
// gemm_3xtf32: 7 lines
constexpr int MinBlocks = 2;
constexpr int Group = 8;
constexpr int CopyA = 1;
constexpr int CopyB = 4;
constexpr int StoreC = 4;
constexpr int Stages = 3;
// gemm_simt_swizzled: 183 lines
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

void run(tvm::ffi::TensorView a, tvm::ffi::TensorView b, tvm::ffi::TensorView output) {
  product::require(a, "a", {2048, 1024}, {1024, 1});
  product::require(b, "b", {1024, 2048}, {2048, 1});
  product::require(output, "output", {2048, 2048}, {2048, 1});
  product::launch(product::aligned(a, "a", 4), product::aligned(b, "b", 4), product::aligned(output, "output", 4), product::Epilogue{}, output.device());
}

TVM_FFI_DLL_EXPORT_TYPED_FUNC(run, run);
// end entry
