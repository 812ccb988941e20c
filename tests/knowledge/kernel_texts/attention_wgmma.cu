// begin header
// softmax(q k^T) v of 2 x 8 heads, 512 rows, 512 keys.
//   bfloat16, 64 columns of q and k, 64 of v
//   tile: 128 rows x 128 keys; shared memory: 82944 bytes a block
// playbook plan: {"knobs": {"group": 1, "kernel": "attention_wgmma", "keys": 128, "stages": 2, "turn": 1, "warpgroups": 2}, "recipe": "attention"}
// attention_wgmma: 29 lines
using T = bfloat16_t;
constexpr int Heads = 16;          // of Q, all batches together
// attention.cu: 12 lines
using StridesO = Stride<Int<64>, Int<1>>;

// Where an operand's heads are: its first element, and up to two coordinates' extents and steps beside that of a row.
struct Spread {
  int64_t first, row;
  int extents[2];
  int64_t steps[2];
};
constexpr Spread SpreadQ{0, 64, {2, 8}, {262144, 32768}};
constexpr Spread SpreadK{0, 64, {2, 8}, {262144, 32768}};
constexpr Spread SpreadV{0, 64, {2, 8}, {262144, 32768}};

// A head's coordinates, and where its rows of the result begin.
struct Places {
  int q[2], k[2], v[2];
  int64_t o;
};
CUTE_HOST_DEVICE Places places_of([[maybe_unused]] int head) {
  int64_t const i0 = int64_t(head) / 8;
  int64_t const i1 = int64_t(head) % 8;
  return {{int(i0), int(i1)}, {int(i0), int(i1)}, {int(i0), int(i1)}, i0 * 262144 + i1 * 32768};
}
// end problem

// begin knobs
constexpr int Warpgroups = 2;
constexpr int BlockKeys = 128;
constexpr int Stages = 2;
constexpr int Blocks = 132;
constexpr int Group = 1;
constexpr bool InTurn = true;
constexpr bool Vectors = true;
// attention_wgmma: 439 lines
void run(tvm::ffi::TensorView a, tvm::ffi::TensorView b, tvm::ffi::TensorView c_, tvm::ffi::TensorView output) {
  using namespace attending;
  require(a, "a", {2, 8, 512, 64}, {262144, 32768, 64, 1}, kDLBfloat, 16);
  require(b, "b", {2, 8, 512, 64}, {262144, 32768, 64, 1}, kDLBfloat, 16);
  require(c_, "c_", {2, 8, 512, 64}, {262144, 32768, 64, 1}, kDLBfloat, 16);
  require(output, "output", {2, 8, 512, 64}, {262144, 32768, 64, 1}, kDLBfloat, 16);

  launch(data(c_, "c_", 8), data(c_, "c_", 8), data(c_, "c_", 8), data(output, "output", 2), output.device());
}
TVM_FFI_DLL_EXPORT_TYPED_FUNC(run, run);
// end entry
