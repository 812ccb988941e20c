// begin header
// output(m,n,l) = sum over k of a(m,k,l) * b(n,k,l); x = x < T(0) ? T(0) : x
// M=2048 N=2048 K=1024 L=1, float32: 8589934592 FLOPs, 33554432 bytes (every operand once)
// tile: block 64 x 128 x 32, 4 warps of 32 x 64, MMA 16 x 8 x 8 (TF32)
//   registers: tCrC 64 a lane
//   shared memory: A 64 x 32 x 3 x 4 = 24576 bytes, B 128 x 32 x 3 x 4 = 49152 bytes
// playbook plan: {"knobs": {"bk": 32, "blocks": 2, "bm": 64, "bn": 128, "group": 8, "kernel": "gemm_3xtf32", "products": 3, "spans": 0, "splits": 1, "stages": 3, "wm": 32, "wn": 64}, "recipe": "gemm"}
// gemm_3xtf32: 21 lines
// gemm_simt.cu: 12 lines
};
// end problem

// begin knobs
using BLK_M = Int<64>;
using BLK_N = Int<128>;
using BLK_K = Int<32>;
using WARP_M = Int<32>;
using WARP_N = Int<64>;
constexpr int Stages = 3;
constexpr int MinBlocks = 2;
constexpr int Splits = 1;
// parts.cu: 8 lines
// gemm_3xtf32: 373 lines
// gemm_simt.cu: 10 lines
