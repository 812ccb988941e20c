// begin header
// output(m,n,l) = sum over k of a(m,k,l) * b(n,k,l); x = x < T(0) ? T(0) : x
// M=2048 N=2048 K=1024 L=1, float32: 8589934592 FLOPs, 33554432 bytes (every operand once)
// tile: block 128 x 128 x 32, 2 warpgroups of 64 x 128 (TF32 wgmma), 256 threads that read and split
//   shared memory: A 128 x 32 x 2 x 3 x 4 = 98304 bytes, B 128 x 32 x 2 x 3 x 4 = 98304 bytes
// playbook plan: {"knobs": {"bn": 128, "group": 8, "kernel": "gemm_wgmma_fused", "producers": 256, "spans": 0, "splits": 1, "stages": 3}, "recipe": "gemm"}
// gemm_wgmma_fused: 22 lines
// gemm_wgmma_3xtf32.cu: 7 lines
constexpr int Producers = 256;
constexpr int Blocks = 132;
constexpr int Group = 8;
constexpr int CopyA = 4;
constexpr int CopyB = 1;
constexpr int StoreC = 2;
constexpr int Splits = 1;
constexpr int Triangle = 0;
constexpr int Offset = 0;
constexpr bool Even = false;
constexpr bool SkipZeros = false;
// gemm_wgmma_fused: 413 lines
// gemm_simt.cu: 10 lines
