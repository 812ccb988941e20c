// begin header
// output(m,n,l) = sum over k of a(m,k,l) * b(n,k,l); x = x < T(0) ? T(0) : x
// M=8192 N=8192 K=64 L=1, float32: 8589934592 FLOPs, 272629760 bytes (every operand once)
// tile: block 128 x 128 x 64, by one of 2 warpgroups in turn (TF32 wgmma)
//   shared memory: A 128 x 64 x 2 x 4 = 65536 bytes, B 128 x 32 x 2 x 4 x 4 = 131072 bytes, C 32768 bytes
//   scratch: A and B as two TF32 parts each, 8388608 bytes of device memory
// playbook plan: {"knobs": {"bn": 128, "kernel": "gemm_wgmma_short_k", "stages": 4}, "recipe": "gemm"}
// gemm_wgmma_short_k: 25 lines
using M = Int<8192>;
using N = Int<8192>;
using K = Int<64>;
using LayoutA = Layout<Shape<M, K, _1>, Stride<Int<64>, _1, _0>>;  // (M,K,L)
using LayoutB = Layout<Shape<N, K, _1>, Stride<_1, Int<8192>, _0>>;  // (N,K,L)
using LayoutC = Layout<Shape<M, N, _1>, Stride<Int<8192>, _1, _0>>;  // (M,N,L)
// gemm_simt.cu: 6 lines
};
// end problem

// begin knobs
using BLK_N = Int<128>;
constexpr int Stages = 4;
constexpr int Blocks = 132;
constexpr int CopyA = 4;
// gemm_wgmma_short_k: 320 lines
// parts.cu: 27 lines
void run(tvm::ffi::TensorView a, tvm::ffi::TensorView b, tvm::ffi::TensorView output) {
  product::require(a, "a", {8192, 64}, {64, 1});
  product::require(b, "b", {64, 8192}, {8192, 1});
  product::require(output, "output", {8192, 8192}, {8192, 1});
  product::launch(product::aligned(a, "a", 4), product::aligned(b, "b", 4), product::aligned(output, "output", 4), product::Epilogue{}, output.device());
}

TVM_FFI_DLL_EXPORT_TYPED_FUNC(run, run);
// end entry
