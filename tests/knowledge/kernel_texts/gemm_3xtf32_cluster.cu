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
// gemm_simt.cu: 6 lines
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
// parts.cu: 27 lines
void run(tvm::ffi::TensorView a, tvm::ffi::TensorView b, tvm::ffi::TensorView output) {
  product::require(a, "a", {64, 1600}, {1600, 1});
  product::require(b, "b", {1600, 128}, {128, 1});
  product::require(output, "output", {64, 128}, {128, 1});
  product::launch(product::aligned(a, "a", 4), product::aligned(b, "b", 4), product::aligned(output, "output", 4), product::Epilogue{}, output.device());
}

TVM_FFI_DLL_EXPORT_TYPED_FUNC(run, run);
// end entry
