// begin header
// output(m,n,l) = sum over k of b(m,k,l) * a(n,k,l); x = x < T(0) ? T(0) : x
// M=4096 N=16 K=4096 L=1, bfloat16: 536870912 FLOPs, 33816576 bytes (every operand once)
// tile: block 64 x 16 x 64, one warpgroup, clusters of 2 along K, float32 sums
//   shared memory: A 64 x 64 x 9 x 2 = 73728 bytes, B 16 x 64 x 9 x 2 = 18432 bytes, sums 4096 bytes
// playbook plan: {"knobs": {"bn": 16, "cluster": 2, "kernel": "gemm_decode_16bit", "stages": 9}, "recipe": "gemm"}
// gemm_decode_16bit: 22 lines
using T = bfloat16_t;
using M = Int<4096>;
using N = Int<16>;
using K = Int<4096>;
using LayoutA = Layout<Shape<M, K, _1>, Stride<_1, Int<4096>, _0>>;  // (M,K,L)
using LayoutB = Layout<Shape<N, K, _1>, Stride<Int<4096>, _1, _0>>;  // (N,K,L)
using LayoutC = Layout<Shape<M, N, _1>, Stride<_1, Int<4096>, _0>>;  // (M,N,L)
// What follows the product, on one element.
struct Epilogue {
  CUTE_HOST_DEVICE T operator()(float x, [[maybe_unused]] int m, [[maybe_unused]] int n, [[maybe_unused]] int l) const {
    x = x < float(0) ? float(0) : x;
    return T(x);
  }
};
// end problem

// begin knobs
using BLK_N = Int<16>;
constexpr int Stages = 9;
constexpr int Cluster = 2;
// gemm_decode_16bit: 238 lines
// gemm_16bit.cu: 8 lines
  product::require(a, "a", {16, 4096}, {4096, 1});
  product::require(b, "b", {4096, 4096}, {4096, 1});
  product::require(output, "output", {16, 4096}, {4096, 1});
  product::launch(product::aligned(b, "b", 8), product::aligned(a, "a", 8), product::aligned(output, "output", 1), product::Epilogue{}, output.device());
}

TVM_FFI_DLL_EXPORT_TYPED_FUNC(run, run);
// end entry
