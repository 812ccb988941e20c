// begin header
// output(m,n,l) = sum over k of a(m,k,l) * b(n,k,l); x = x < T(0) ? T(0) : x
// M=2048 N=2048 K=1024 L=1, bfloat16: 8589934592 FLOPs, 16777216 bytes (every operand once)
// tile: block 128 x 128 x 64, 8 warps of 64 x 32, MMA 16 x 8 x 16, float32 sums
//   shared memory: A 128 x 64 x 2 x 2 = 32768 bytes, B 128 x 64 x 2 x 2 = 32768 bytes
// playbook plan: {"knobs": {"blocks": 2, "bm": 128, "bn": 128, "group": 8, "kernel": "gemm_16bit", "stages": 2, "vectors": 0, "wm": 2, "wn": 4}, "recipe": "gemm"}
// gemm_16bit: 21 lines
using T = bfloat16_t;
// gemm_simt.cu: 8 lines
  CUTE_HOST_DEVICE T operator()(float x, [[maybe_unused]] int m, [[maybe_unused]] int n, [[maybe_unused]] int l) const {
    x = x < float(0) ? float(0) : x;
    return T(x);
  }
// gemm_16bit: 6 lines
using BLK_K = Int<64>;
using WarpsM = Int<2>;
using WarpsN = Int<4>;
constexpr int Stages = 2;
constexpr int MinBlocks = 2;
constexpr int Group = 8;
constexpr int CopyA = 1;
constexpr int CopyB = 1;
constexpr int StoreC = 1;
// gemm_16bit: 150 lines
namespace product {

// Shape, strides in elements and element type the kernel was written for; a dimension of 1 may have any stride.
void require(tvm::ffi::TensorView t, char const* name, std::initializer_list<int64_t> shape,
             std::initializer_list<int64_t> strides) {
  bool fits = t.ndim() == int(shape.size()) && t.dtype().code == kDLBfloat && t.dtype().bits == 8 * sizeof(T);
// parts.cu: 21 lines
void run(tvm::ffi::TensorView a, tvm::ffi::TensorView b, tvm::ffi::TensorView output) {
  product::require(a, "a", {2048, 1024}, {1024, 1});
  product::require(b, "b", {1024, 2048}, {2048, 1});
  product::require(output, "output", {2048, 2048}, {2048, 1});
  product::launch(product::aligned(a, "a", 8), product::aligned(b, "b", 8), product::aligned(output, "output", 8), product::Epilogue{}, output.device());
}

TVM_FFI_DLL_EXPORT_TYPED_FUNC(run, run);
// end entry
