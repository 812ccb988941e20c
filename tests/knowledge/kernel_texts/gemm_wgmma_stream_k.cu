// begin header
// output(m,n,l) = sum over k of a(m,k,l) * b(n,k,l); x = x < T(0) ? T(0) : x
// M=2304 N=2048 K=1024 L=1, float32: 9663676416 FLOPs, 36700160 bytes (every operand once)
// tile: block 128 x 128 x 32, 2 warpgroups of 64 x 128 (TF32 wgmma), 256 threads that read and split
//   shared memory: A 128 x 32 x 2 x 3 x 4 = 98304 bytes, B 128 x 32 x 2 x 3 x 4 = 98304 bytes
//   partial sums: 2 x 132 x 128 x 128 x 4 = 17301504 bytes
// playbook plan: {"knobs": {"bn": 128, "group": 8, "kernel": "gemm_wgmma_stream_k", "producers": 256, "stages": 3}, "recipe": "gemm"}
// gemm_wgmma_stream_k: 22 lines
using M = Int<2304>;
// gemm_simt.cu: 11 lines
// gemm_wgmma_3xtf32.cu: 6 lines
// gemm_wgmma_fused.cu: 6 lines
// gemm_wgmma_stream_k: 346 lines
// parts.cu: 27 lines
void run(tvm::ffi::TensorView a, tvm::ffi::TensorView b, tvm::ffi::TensorView output) {
  product::require(a, "a", {2304, 1024}, {1024, 1});
  product::require(b, "b", {1024, 2048}, {2048, 1});
  product::require(output, "output", {2304, 2048}, {2048, 1});
  product::launch(product::aligned(a, "a", 4), product::aligned(b, "b", 4), product::aligned(output, "output", 4), product::Epilogue{}, output.device());
}

TVM_FFI_DLL_EXPORT_TYPED_FUNC(run, run);
// end entry
