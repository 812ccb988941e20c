// begin header
// output(m,n,l) = sum over k of a(m,k,l) * b(n,k,l); x = x < T(0) ? T(0) : x
// M=2048 N=2048 K=1024 L=1, bfloat16: 8589934592 FLOPs, 16777216 bytes (every operand once)
// tile: block 128 x 256 x 64, 2 warpgroups that share a tile, clusters of 2 in M, float32 sums
//   shared memory: A 128 x 64 x 4 x 2 = 65536 bytes, B 256 x 64 x 4 x 2 = 131072 bytes, C 32768 bytes
// playbook plan: {"knobs": {"bm": 128, "bn": 256, "cluster": 2, "group": 8, "kernel": "gemm_wgmma_16bit", "panels": 2, "pingpong": 0, "splits": 1, "stages": 4, "swept": 0}, "recipe": "gemm"}
// gemm_wgmma_16bit: 24 lines
// gemm_16bit.cu: 6 lines
};
// end problem

// begin knobs
using BLK_M = Int<128>;
using BLK_N = Int<256>;
constexpr int Stages = 4;
constexpr int Cluster = 2;
constexpr int Group = 8;
constexpr int Panels = 2;
constexpr int Splits = 1;
constexpr int Blocks = 132;
constexpr int StoreC = 2;
constexpr bool PingPong = false;
constexpr bool TensorStore = true;
constexpr bool Paired = false;
// gemm_wgmma_16bit: 414 lines
// gemm_16bit.cu: 16 lines
