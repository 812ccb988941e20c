// begin header
// Along rows: softmax.
//   64 rows of 262144, read from memory 1 time
//   tile: 1 rows, 8 blocks of 512 threads on each
//   shared memory: 0 bytes for the next row, and the partial results
//   bytes moved at least: 134217728; operations: 83886080
// playbook plan: {"knobs": {"cluster": 8, "group": 512, "items": 64, "keep": 1, "rows": 1, "vector": 1}, "recipe": "rows"}
// softmax: 28 lines
constexpr int kGroup = 512;  // threads of a block that share a row
constexpr int kRows = 1;  // rows side by side in a block
constexpr int kThreads = kGroup * kRows;
constexpr bool kAcross = false;  // threads side by side take rows, not columns
constexpr int kCluster = 8;  // blocks that share a row and their shared memory
constexpr int kShares = 8;  // blocks that share a row
constexpr int kItems = 64;  // elements of a row in a thread's registers
// rows.cu: 37 lines
__global__ void __launch_bounds__(kThreads) __cluster_dims__(8) rows(float const* pA, float* pOutput) {
  Index const kCount = Index(262144 / V);  // packs a row
  [[maybe_unused]] Index const kRowCount = 64;
  Tensor mA = make_tensor(make_gmem_ptr(packs<V>(pA)),  // (262144/V,64)
      Layout<Shape<Int<262144 / V>, Int<64>>, Stride<_1, Int<262144 / V>>>{});
  Tensor mOutput = make_tensor(make_gmem_ptr(packs<V>(pOutput)),  // (262144/V,64)
      Layout<Shape<Int<262144 / V>, Int<64>>, Stride<_1, Int<262144 / V>>>{});
  [[maybe_unused]] Index const thread = threadIdx.x % kGroup;
  [[maybe_unused]] Index const rank = blockIdx.x % kShares;
  constexpr int kPacks = kItems / V;  // of a row in a thread's registers
  Index const start = rank * (kPacks * kGroup) + thread;
  cluster_sync();  // every block of the cluster must run before its shared memory is written
// rows.cu: 8 lines
    {
// rows.cu: 11 lines
    {
// rows.cu: 20 lines
    {
// rows.cu: 19 lines
    {
// rows.cu: 13 lines
  require(a, "a", {64, 262144}, {262144, 1}, kDLFloat, 32);
  require(output, "output", {64, 262144}, {262144, 1}, kDLFloat, 32);

  cudaStream_t const stream = stream_of(output);
  auto const* pA = static_cast<float const*>(a.data_ptr());
  auto* pOutput = static_cast<float*>(output.data_ptr());
  if (aligned<kVector>(pA, pOutput)) {
    rows<kVector><<<512, kThreads, 0, stream>>>(pA, pOutput);
  } else {
    rows<1><<<512, kThreads, 0, stream>>>(pA, pOutput);
  }
  launched();
}
TVM_FFI_DLL_EXPORT_TYPED_FUNC(run, run);
// end entry
