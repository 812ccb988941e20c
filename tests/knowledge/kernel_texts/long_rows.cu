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
[[maybe_unused]] constexpr int kVector = 4;  // elements a pack
[[maybe_unused]] constexpr bool kOnce = false;  // its data leaves the caches first
using Index = int;
// softmax: 128 lines
namespace math {
// The larger one; NaN where either is NaN.
template <class V> __device__ inline V maximum(V a, V b) { return ((a > b) | (a != a)) ? a : b; }
template <> __device__ inline float maximum(float a, float b) {
  float result;
  asm("max.NaN.f32 %0, %1, %2;" : "=f"(result) : "f"(a), "f"(b));
  return result;
}
}  // namespace math

__device__ inline void sweep0(float rA, float& rAmax0) {
  rAmax0 = rA;
}
__device__ inline void sweep1(float rA, float vAmax0, float& rSum1, float& rKept0) {
  float const v2 = rA - vAmax0;  // aten.softmax.int
  float const v3 = std::exp(v2);  // aten.softmax.int
  rSum1 = v3;
  rKept0 = v3;
}
__device__ inline void sweep2(float rKept0, float vSum1, float& rOutput) {
  float const v3 = rKept0 / vSum1;  // aten.softmax.int
  rOutput = v3;
}
struct JoinAmax0 {
  template <class T> __device__ T operator()(T a, T b) const { return T(math::maximum(a, b)); }
};
struct JoinSum1 {
  template <class T> __device__ T operator()(T a, T b) const { return T(a + b); }
};
// end arithmetic

// begin kernel
template <int V>
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
  int const turn = 0;
  Index const row = Index(blockIdx.x / kShares) * kRows + threadIdx.x / kGroup;
  [[maybe_unused]] constexpr bool inside = true;
  Index const r = row;
  Pack<float, V> rA[kPacks];
  UNROLL
  for (int u = 0; u < kPacks; ++u) {
    [[maybe_unused]] Index const i = start + u * kGroup;
    {
      rA[u] = load<kOnce>(&mA(i, r));
    }
  }
  float rKept0[kPacks][V];  // aten.softmax.int
  // sweep 0
  float partAmax0[V];
  UNROLL
  for (int k = 0; k < V; ++k) { partAmax0[k] = -float(INFINITY); }
  UNROLL
  for (int u = 0; u < kPacks; ++u) {
    [[maybe_unused]] Index const i = start + u * kGroup;
    {
      UNROLL
      for (int k = 0; k < V; ++k) {
        float vAmax0;
        sweep0(rA[u].lane[k], vAmax0);
        partAmax0[k] = JoinAmax0{}(partAmax0[k], vAmax0);
      }
    }
  }
  float totalAmax0 = float(partAmax0[0]);
  UNROLL
  for (int k = 1; k < V; ++k) { totalAmax0 = JoinAmax0{}(totalAmax0, float(partAmax0[k])); }
  totalAmax0 = reduced<0>(totalAmax0, JoinAmax0{}, turn);
  float const vAmax0 = float(totalAmax0);  // aten.softmax.int
  // sweep 1
  float partSum1[V];
  UNROLL
  for (int k = 0; k < V; ++k) { partSum1[k] = float(0); }
  UNROLL
  for (int u = 0; u < kPacks; ++u) {
    [[maybe_unused]] Index const i = start + u * kGroup;
    {
      UNROLL
      for (int k = 0; k < V; ++k) {
        float vSum1;
        float vKept0;
        sweep1(rA[u].lane[k], vAmax0, vSum1, vKept0);
        partSum1[k] = JoinSum1{}(partSum1[k], vSum1);
        rKept0[u][k] = vKept0;
      }
    }
  }
  double totalSum1 = double(partSum1[0]);
  UNROLL
  for (int k = 1; k < V; ++k) { totalSum1 = JoinSum1{}(totalSum1, double(partSum1[k])); }
  totalSum1 = reduced<1>(totalSum1, JoinSum1{}, turn);
  float const vSum1 = float(totalSum1);  // aten.softmax.int
  // sweep 2
  UNROLL
  for (int u = 0; u < kPacks; ++u) {
    [[maybe_unused]] Index const i = start + u * kGroup;
    {
      Pack<float, V> rOutput;
      UNROLL
      for (int k = 0; k < V; ++k) {
        float vOutput;
        sweep2(rKept0[u][k], vSum1, vOutput);
        rOutput.lane[k] = vOutput;
      }
      store<kOnce>(&mOutput(i, r), rOutput);
    }
  }
}
// softmax: 33 lines
void run(tvm::ffi::TensorView a, tvm::ffi::TensorView output) {
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
