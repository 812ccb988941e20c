// begin header
// output(m,n,l) = sum over k of a(m,k,l) * b(n,k,l); x = x < T(0) ? T(0) : x
// M=2048 N=2048 K=1024 L=1, float32: 8589934592 FLOPs, 33554432 bytes (every operand once)
// tile: block 128 x 128 x 32, 2 warpgroups of 64 x 128 (TF32 wgmma), clusters of 2 in M
//   shared memory: A 128 x 32 x 2 x 3 x 4 = 98304 bytes, B 128 x 32 x 2 x 3 x 4 = 98304 bytes
//   scratch: A and B as two TF32 parts each, 33554432 bytes of device memory
// playbook plan: {"knobs": {"blocks": 1, "bn": 128, "cluster": 2, "group": 4, "kernel": "gemm_wgmma_3xtf32", "stages": 3}, "recipe": "gemm"}
// gemm_wgmma_3xtf32: 24 lines
// gemm_simt.cu: 12 lines
};
// end problem

// begin knobs
using BLK_N = Int<128>;
constexpr int Stages = 3;
constexpr int Cluster = 2;
constexpr int Group = 4;
constexpr int Blocks = 1;
constexpr int CopyA = 4;
constexpr int CopyB = 1;
constexpr int StoreC = 2;
// gemm_wgmma_3xtf32: 285 lines
// gemm_simt.cu: 10 lines
