// begin header
// output(m,n,l) = sum over k of a(m,k,l) * b(n,k,l); x = x < T(0) ? T(0) : x
// M=2048 N=2048 K=1024 L=1, float32: 8589934592 FLOPs, 33554432 bytes (every operand once)
// tile: block 128 x 128 x 8, 256 threads, 8 x 8 of C each, float32 cores
//   shared memory: A 132 x 8 x 1 x 4 = 4224 bytes, B 132 x 8 x 1 x 4 = 4224 bytes
// playbook plan: {"knobs": {"bk": 8, "bm": 128, "bn": 128, "kernel": "gemm_simt"}, "recipe": "gemm"}
// gemm_simt: 19 lines
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
// gemm_simt: 108 lines
// parts.cu: 27 lines
void run(tvm::ffi::TensorView a, tvm::ffi::TensorView b, tvm::ffi::TensorView output) {
  product::require(a, "a", {2048, 1024}, {1024, 1});
  product::require(b, "b", {1024, 2048}, {2048, 1});
  product::require(output, "output", {2048, 2048}, {2048, 1});
  product::launch(product::aligned(a, "a", 4), product::aligned(b, "b", 4), product::aligned(output, "output", 4), product::Epilogue{}, output.device());
}

TVM_FFI_DLL_EXPORT_TYPED_FUNC(run, run);
// end entry
