// begin header
// output(m,n,l) = sum over k of a(m,k,l) * b(n,k,l); x = x < T(0) ? T(0) : x
// M=64 N=128 K=1600 L=1, float32: 26214400 FLOPs, 1261568 bytes (every operand once)
// tile: block 64 x 64 x 32, 4 warps of 32 x 32, MMA 16 x 8 x 8 (TF32)
//   registers: tCrC 32 a lane
//   shared memory: A 64 x 32 x 3 x 4 = 24576 bytes, B 64 x 32 x 3 x 4 = 24576 bytes
//   clusters of 8 along K, which add in shared memory
// playbook plan: {"knobs": {"bk": 32, "blocks": 2, "bm": 64, "bn": 64, "kernel": "gemm_3xtf32_cluster", "products": 3, "splits": 8, "stages": 3, "wm": 32, "wn": 32}, "recipe": "gemm"}
// gemm_3xtf32_cluster: 22 lines
using M = Int<64>;
using N = Int<128>;
using K = Int<1600>;
using LayoutA = Layout<Shape<M, K, _1>, Stride<Int<1600>, _1, _0>>;  // (M,K,L)
using LayoutB = Layout<Shape<N, K, _1>, Stride<_1, Int<128>, _0>>;  // (N,K,L)
using LayoutC = Layout<Shape<M, N, _1>, Stride<Int<128>, _1, _0>>;  // (M,N,L)
// What follows the product, on one element.
struct Epilogue {
  CUTE_HOST_DEVICE T operator()(T x, [[maybe_unused]] int m, [[maybe_unused]] int n, [[maybe_unused]] int l) const {
    x = x < T(0) ? T(0) : x;
    return x;
  }
// gemm_3xtf32_cluster: 7 lines
using WARP_M = Int<32>;
using WARP_N = Int<32>;
constexpr int Stages = 3;
constexpr int MinBlocks = 2;
constexpr int Splits = 8;
constexpr int CopyA = 4;
constexpr int CopyB = 4;
constexpr int StoreC = 4;
constexpr int Products = 3;
// gemm_3xtf32_cluster: 265 lines
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
  product::require(a, "a", {64, 1600}, {1600, 1});
  product::require(b, "b", {1600, 128}, {128, 1});
  product::require(output, "output", {64, 128}, {128, 1});
  product::launch(product::aligned(a, "a", 4), product::aligned(b, "b", 4), product::aligned(output, "output", 4), product::Epilogue{}, output.device());
}

TVM_FFI_DLL_EXPORT_TYPED_FUNC(run, run);
// end entry
