// begin header
// conv2d, relu: 1 loop nest.
//   loops0: 2 x 64 x 16 x 16, sum over 32 x 3 x 3; 1 stored
// playbook plan: {"knobs": {}, "recipe": "loops"}
// contract_3xtf32: 21 lines
using namespace cute;

namespace kernels {

// begin knobs
constexpr int kThreads = 256;  // a block
using Index = int;
// pointwise: 58 lines
// rows.cu: 10 lines
namespace contract {
using T = float;
using BLK_K = Int<16>;
constexpr int StepK = 16;       // k's between two additions to the sums in registers
constexpr int Products = 3;     // of what `multiply` does

// contract_3xtf32: 71 lines

// contract_3xtf32: 252 lines
// end arithmetic

// begin kernel
// m = i1:64, n = i0:2 x i2:16 x i3:16, k = r0:2 x r1:3 x r2:3 x r0p:16; shared memory: the larger of (64 + 64) x 16 x 4 x 4 and 64 x 64 x 4 = 32768 bytes
struct Contract0 {
  float const* pB;
  float const* pA;
  float* pOutput;
  static constexpr int M = 64, N = 512, K = 288, Batches = 1;
  static constexpr int Products = 3;  // of float32; 1 is plain TF32
  static constexpr bool Packs = true, Spares = false;
  static constexpr int StrideA = 0, Columns = 4, Apart = 256;
  using BLK_M = Int<64>;
  using BLK_N = Int<64>;
  using WARP_M = Int<32>;
  using WARP_N = Int<32>;
  static constexpr bool k_major = false;
  static constexpr int CopyRight = 1, Stages = 4, MinBlocks = 3;
  struct Row {
    float const* from;
    int at0, at1;
    bool kept;
  };
  CUTE_DEVICE float const* right_start() const { return pA; }
  CUTE_DEVICE Row row(int batch, int n) const {
    [[maybe_unused]] Index const i0 = n / 256;
    [[maybe_unused]] Index const i2 = n / 16 % 16;
    [[maybe_unused]] Index const i3 = n % 16;
    int const at0 = i2 - 1;
    int const at1 = i3 - 1;
    return {pA + (i0 * 8192 + i2 * 16 + i3 - 17), at0, at1, n < N && at0 >= -2 && at0 < 16 && at1 >= -2 && at1 < 16};
  }
  CUTE_DEVICE float const* left_start(int batch) const {
    return pB;
  }
  CUTE_DEVICE float left(int batch, int m, int k) const {
    Tensor mB = make_tensor(make_gmem_ptr(pB), Layout<Shape<Int<64>, Int<2>, Int<16>, Int<3>, Int<3>>, Stride<Int<288>, Int<144>, Int<9>, Int<3>, Int<1>>>{});  // (i1:64, r0:2, r0p:16, r1:3, r2:3)
    [[maybe_unused]] Index const i1 = m;
    [[maybe_unused]] Index const r0 = k / 144;
    [[maybe_unused]] Index const r1 = k / 48 % 3;
    [[maybe_unused]] Index const r2 = k / 16 % 3;
    [[maybe_unused]] Index const r0p = k % 16;
    return mB(i1, r0, r0p, r1, r2);
  }
  CUTE_DEVICE int4 step(int k) const {
    [[maybe_unused]] Index const r0 = k / 144;
    [[maybe_unused]] Index const r1 = k / 48 % 3;
    [[maybe_unused]] Index const r2 = k / 16 % 3;
    [[maybe_unused]] Index const r0p = k % 16;
    return make_int4(r0 * 4096 + r0p * 256 + r1 * 16 + r2, r1, r2, 0);
  }
  CUTE_DEVICE static bool inside(Row const& row, [[maybe_unused]] int4 const& step) {
    return row.kept && uint32_t(row.at0 + step.y) < 16 && uint32_t(row.at1 + step.z) < 16;
  }
  CUTE_DEVICE void store(int batch, int m, int n, float const (&x)[Columns]) const {
    Tensor mOutput = make_tensor(make_gmem_ptr(pOutput), Layout<Shape<Int<2>, Int<64>, Int<16>, Int<16>>, Stride<Int<16384>, Int<256>, Int<16>, Int<1>>>{});  // (i0:2, i1:64, i2:16, i3:16)
    [[maybe_unused]] Index const i1 = m;
    float y0[4];
    [[maybe_unused]] Index const i0 = n / 256;
    [[maybe_unused]] Index const i2 = n / 16 % 16;
    [[maybe_unused]] Index const i3first = n % 16;
    UNROLL
    for (int j = 0; j < 4; ++j) {
      [[maybe_unused]] Index const i3 = i3first + j;
      float const s0 = x[j];
      float const v1 = math::maximum(s0, 0.0f);  // aten.relu
      y0[j] = float(v1);
    }
    Index const i3 = i3first;
    *reinterpret_cast<float4*>(&mOutput(i0, i1, i2, i3)) = make_float4(y0[0], y0[1], y0[2], y0[3]);
  }
};
// Memory for what passes between kernels, from the caller's allocator, in the order of the stream.
struct Arena {
  tvm::ffi::Tensor held;
  Arena(int64_t bytes, DLDevice device)
      : held(tvm::ffi::Tensor::FromEnvAlloc(TVMFFIEnvTensorAlloc, {bytes}, DLDataType{kDLUInt, 8, 1}, device)) {}
  char* start() const { return static_cast<char*>(held.data_ptr()); }
};
// pointwise: 33 lines
void run(tvm::ffi::TensorView a, tvm::ffi::TensorView b, tvm::ffi::TensorView output) {
  require(a, "a", {2, 32, 16, 16}, {8192, 256, 16, 1}, kDLFloat, 32);
  require(b, "b", {64, 32, 3, 3}, {288, 9, 3, 1}, kDLFloat, 32);
  require(output, "output", {2, 64, 16, 16}, {16384, 256, 16, 1}, kDLFloat, 32);

  cudaStream_t const stream = stream_of(output);
  float const* const pA = static_cast<float const*>(a.data_ptr());
  float const* const pB = static_cast<float const*>(b.data_ptr());
  float* const pOutput = static_cast<float*>(output.data_ptr());
  { contract::check_aligned(pOutput); Arena const held(contract::HeldBytes<Contract0>, output.device()); contract::launch(Contract0{pB, pA, pOutput}, held.start(), stream); }
  launched();
}
TVM_FFI_DLL_EXPORT_TYPED_FUNC(run, run);
// end entry
