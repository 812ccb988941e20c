// begin header
// softmax(q k^T) v of 2 x 2 x 1 heads, 4 rows, 4096 keys.
//   bfloat16, 64 columns of q and k, 64 of v
//   tile: 16 rows x 32 keys; shared memory: 29952 bytes a block
// playbook plan: {"knobs": {"blocks": 2, "keys": 32, "rows": 16, "splits": 32, "stages": 3, "warps": 1}, "recipe": "attention"}
// attention: 24 lines
using T = bfloat16_t;
constexpr int Heads = 4;          // of Q, all batches together
constexpr int Rows = 4;          // of Q
constexpr int Keys = 4096;          // rows of K and V
// attention.cu: 25 lines
  int64_t const i0 = head / 2;
  int64_t const i1 = head % 2;
  return {i0 * 512 + i1 * 256, i0 * 524288 + i1 * 262144, i0 * 524288 + i1 * 262144, i0 * 512 + i1 * 256};
// attention.cu: 13 lines
constexpr int WarpRows = 16;
constexpr int Warps = 1;
constexpr int BlockKeys = 32;
constexpr int Stages = 3;
constexpr int MinBlocks = 2;
constexpr int CopyQ = 8;
constexpr int CopyK = 8;
constexpr int CopyV = 8;
constexpr int Products = 3;
constexpr int Splits = 32;
constexpr bool Vectors = true;
// attention: 491 lines
void run(tvm::ffi::TensorView a, tvm::ffi::TensorView b, tvm::ffi::TensorView c_, tvm::ffi::TensorView output) {
  using namespace attending;
  require(a, "a", {2, 8, 1, 64}, {512, 64, 64, 1}, kDLBfloat, 16);
  require(b, "b", {2, 2, 4096, 64}, {524288, 262144, 64, 1}, kDLBfloat, 16);
  require(c_, "c_", {2, 2, 4096, 64}, {524288, 262144, 64, 1}, kDLBfloat, 16);
  require(output, "output", {2, 8, 1, 64}, {512, 64, 64, 1}, kDLBfloat, 16);

  launch(data(a, "a", 8), data(c_, "c_", 8), data(c_, "c_", 8), data(output, "output", 2), Terms{}, output.device());
}
TVM_FFI_DLL_EXPORT_TYPED_FUNC(run, run);
// end entry
