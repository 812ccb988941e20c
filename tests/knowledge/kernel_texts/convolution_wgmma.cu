// begin header
// conv2d: 1 loop nest.
//   loops0: 32 x 128 x 1156, sum over 64; 1 stored
// playbook plan: {"knobs": {}, "recipe": "loops"}
// contract_wgmma: 24 lines
// convolution.cu: 8 lines
// contract_wgmma: 476 lines
// end arithmetic

// begin kernel
// m = i1:128, n = i0:32 x i2:1156, k = r0:4 x r0p:16; shared memory: (128 + 128) x 128 x 2 x 3, results 20480, barriers 16 x 3 + 16 = 217152 bytes
struct Contract0 {
  float const* pB;
  float const* pA;
  float* pOutput;
  static constexpr int M = 128, N = 36992, K = 64, Batches = 1;
  static constexpr int Products = 3;  // of float32; 1 is plain TF32
  static constexpr bool Packs = false, Spares = false;
  static constexpr int StrideA = 64, Columns = 4, Apart = 1156;
  using Element = float;
  static constexpr bool Wide = false, Down = false;
  using BLK_M = Int<128>;
  using BLK_N = Int<128>;
  static constexpr int Stages = 3, Blocks = 132;  // at once
  struct Row {
    float const* from;
    bool kept;
  };
  CUTE_DEVICE float const* right_start() const { return pA; }
  CUTE_DEVICE Row row(int batch, int n) const {
    [[maybe_unused]] Index const i0 = n / 1156;
    [[maybe_unused]] Index const i2 = n % 1156;
    return {pA + (i0 * 73984 + i2), n < N};
  }
  CUTE_DEVICE float const* left_start(int batch) const {
    return pB + (0);
  }
  CUTE_DEVICE float left(int batch, int m, int k) const {
    Tensor mB = make_tensor(make_gmem_ptr(pB), Layout<Shape<Int<128>, Int<4>, Int<16>>, Stride<Int<64>, Int<16>, Int<1>>>{});  // (i1:128, r0:4, r0p:16)
    [[maybe_unused]] Index const i1 = m;
    [[maybe_unused]] Index const r0 = k / 16;
    [[maybe_unused]] Index const r0p = k % 16;
    return __ldg(&mB(i1, r0, r0p));
  }
  CUTE_DEVICE int4 step(int k) const {
    [[maybe_unused]] Index const r0 = k / 16;
    [[maybe_unused]] Index const r0p = k % 16;
    return make_int4(r0 * 18496 + r0p * 1156, 0, 0, 0);
  }
  CUTE_DEVICE static bool inside(Row const& row, [[maybe_unused]] int4 const& step) {
    return row.kept;
  }
  CUTE_DEVICE void store(int batch, int m, int n, float const (&x)[Columns]) const {
    Tensor mOutput = make_tensor(make_gmem_ptr(pOutput), Layout<Shape<Int<32>, Int<128>, Int<1156>>, Stride<Int<147968>, Int<1156>, Int<1>>>{});  // (i0:32, i1:128, i2:1156)
    [[maybe_unused]] Index const i1 = m;
    float y0[4];
    [[maybe_unused]] Index const i0 = n / 1156;
    [[maybe_unused]] Index const i2first = n % 1156;
    UNROLL
    for (int j = 0; j < 4; ++j) {
      [[maybe_unused]] Index const i2 = i2first + j;
      float const s0 = x[j];
      y0[j] = float(s0);
    }
    Index const i2 = i2first;
    *reinterpret_cast<float4*>(&mOutput(i0, i1, i2)) = make_float4(y0[0], y0[1], y0[2], y0[3]);
// convolution.cu: 11 lines
  require(a, "a", {32, 64, 34, 34}, {73984, 1156, 34, 1}, kDLFloat, 32);
  require(b, "b", {128, 64, 1, 1}, {64, 1, 1, 1}, kDLFloat, 32);
  require(output, "output", {32, 128, 34, 34}, {147968, 1156, 34, 1}, kDLFloat, 32);

  cudaStream_t const stream = stream_of(output);
  float const* const pA = static_cast<float const*>(a.data_ptr());
  float const* const pB = static_cast<float const*>(b.data_ptr());
  float* const pOutput = static_cast<float*>(output.data_ptr());
  { background::check_aligned(pOutput); Arena const held(background::HeldBytes<Contract0>, output.device()); background::launch(Contract0{pB, pA, pOutput}, held.start(), stream); }
  launched();
}
TVM_FFI_DLL_EXPORT_TYPED_FUNC(run, run);
// end entry
