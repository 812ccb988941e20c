// begin header
// A product of 16 rows with weights made on the way: 16 x 512 -> 64.
//   weights in memory: 32896 bytes
//   shared memory: 20480 bytes
// playbook plan: {"knobs": {"blocks": 6, "depth": 2, "shared": 0, "tiles": 1, "warps": 8}, "recipe": "narrow weights"}
// gemm_narrow_weights: 30 lines
constexpr int kBlocks = 648;     // at most, which take tiles in turn
// gemm_narrow_weights: 131 lines

// end arithmetic

// begin kernel
// m = i0:16, n = i1:64, k = r0:32 x r0p:16
struct Weights {
  bfloat16_t const* pC;
  int8_t const* pB;
  bfloat16_t const* pA;
  bfloat16_t* pOutput;
  using T = bfloat16_t;
  static constexpr int M = 16, N = 64, K = 512;
  struct Raw {
    bfloat16_t rC;
    Held<int8_t, 16> rB;
  };
  CUTE_DEVICE Raw raw(int n, int k) const {
    [[maybe_unused]] Index const i1 = n;
    [[maybe_unused]] Index const r0 = (k / 16);
    return {pC[i1], Held<int8_t, 16>::of(pB + (i1 * 512 + r0 * 16))};
  }
  // Which of the 16 k's the halves of the 8 registers hold.
  CUTE_DEVICE static constexpr int order(int j) { return j / 4 * 4 + j % 4 / 2 + j % 2 * 2; }
  CUTE_DEVICE void weights(Raw const& raw, [[maybe_unused]] int n, [[maybe_unused]] int k, uint32_t (&w)[8]) const {
    UNROLL
    for (int j = 0; j < 8; ++j) {
      uint32_t const v0 = integers<T, 8, true, 0>(raw.rB.words.lane[j / 2], j % 2 * 8);  // aten.to.dtype
      uint32_t const v1 = both(raw.rC);  // aten.mul.Tensor
      uint32_t const v2 = mul<T>(v0, v1);  // aten.mul.Tensor
      w[j] = v2;
    }
  }
  CUTE_DEVICE T const* row([[maybe_unused]] int m, int k) const {
    [[maybe_unused]] Index const i0 = m;
    [[maybe_unused]] Index const r0 = (k / 16);
    return pA + (i0 * 512 + r0 * 16);
  }
  CUTE_DEVICE void store([[maybe_unused]] int m, int n, float s0) const {
    Tensor mOutput = make_tensor(make_gmem_ptr(pOutput), Layout<Shape<Int<16>, Int<64>>, Stride<Int<64>, Int<1>>>{});  // (i0:16, i1:64)
    [[maybe_unused]] Index const i0 = m;
    [[maybe_unused]] Index const i1 = n;
    mOutput(i0, i1) = bfloat16_t(s0);
  }
};
// gemm_narrow_weights: 184 lines
void run(tvm::ffi::TensorView a, tvm::ffi::TensorView b, tvm::ffi::TensorView c_, tvm::ffi::TensorView output) {
  require(a, "a", {16, 512}, {512, 1}, kDLBfloat, 16);
  require(b, "b", {64, 512}, {512, 1}, kDLInt, 8);
  require(c_, "c_", {64}, {1}, kDLBfloat, 16);
  require(output, "output", {16, 64}, {64, 1}, kDLBfloat, 16);

  cudaStream_t const stream = stream_of(output);
  auto* const pC = static_cast<bfloat16_t const*>(c_.data_ptr());
  auto* const pB = static_cast<int8_t const*>(b.data_ptr());
  auto* const pA = static_cast<bfloat16_t const*>(a.data_ptr());
  auto* const pOutput = static_cast<bfloat16_t*>(output.data_ptr());
  check_aligned(pA);
  check_aligned(pB);
  launch(Weights{pC, pB, pA, pOutput}, stream);
  launched();
}
TVM_FFI_DLL_EXPORT_TYPED_FUNC(run, run);
// end entry
