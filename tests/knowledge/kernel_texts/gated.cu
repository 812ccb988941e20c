// begin header
// output(m,n,l) = sum over k of a(m,k,l) * c_(n,k,l); x = (x / (T(1) + std::exp(-x))) * x
// M=512 N=512 K=256 L=1, bfloat16: 134217728 FLOPs, 1048576 bytes (every operand once)
// tile: block 64 x 64 x 64, 2 warpgroups that take tiles in turn, clusters of 2 in M, float32 sums
//   shared memory: A 64 x 64 x 8 x 2 = 65536 bytes, B 64 x 64 x 8 x 2 = 65536 bytes, C 32768 bytes
// playbook plan: {"knobs": {"bm": 64, "bn": 64, "cluster": 2, "group": 8, "kernel": "gemm_wgmma_16bit", "panels": 2, "pingpong": 1, "splits": 1, "stages": 8, "swept": 0}, "recipe": "gemm"}
// gemm_wgmma_16bit: 24 lines
using T = bfloat16_t;
using M = Int<512>;
using N = Int<512>;
using K = Int<256>;
using LayoutA = Layout<Shape<M, K, _1>, Stride<Int<256>, _1, _0>>;  // (M,K,L)
using LayoutB = Layout<Shape<N, K, _1>, Stride<_1, Int<512>, _0>>;  // (N,K,L)
using LayoutC = Layout<Shape<M, N, _1>, Stride<Int<512>, _1, _0>>;  // (M,N,L)
// 1 / y for y >= 1, to one unit of the last place (beyond 2^126, where it is denormal, to four).
__device__ inline float reciprocal(float y) {
  float result;
  asm("rcp.approx.f32 %0, %1;" : "=f"(result) : "f"(y));
  return result;
}
// What follows the product, on one element.
struct Epilogue {
  CUTE_DEVICE T operator()(float x, [[maybe_unused]] int m, [[maybe_unused]] int n, [[maybe_unused]] int l) const {
    x = (x * reciprocal(float(1) + std::exp(-x))) * x;
    return T(x);
  }
// gemm_3xtf32_cluster: 6 lines
constexpr int Stages = 8;
// gemm_wgmma_16bit.cu: 6 lines
constexpr bool PingPong = true;
constexpr bool TensorStore = true;
constexpr bool Paired = false;
// gemm_wgmma_16bit: 414 lines
// gemm_16bit.cu: 7 lines
void run(tvm::ffi::TensorView a, tvm::ffi::TensorView b, tvm::ffi::TensorView c_, tvm::ffi::TensorView output) {
  product::require(a, "a", {512, 256}, {256, 1});
  product::require(c_, "c_", {256, 512}, {512, 1});
  product::require(output, "output", {512, 512}, {512, 1});
  product::launch(product::aligned(a, "a", 8), product::aligned(c_, "c_", 8), product::aligned(output, "output", 8), product::Epilogue{}, output.device());
}

TVM_FFI_DLL_EXPORT_TYPED_FUNC(run, run);
// end entry
