// begin header
// Out = layer_norm of X along its rows with Weight and Bias: the row stays in the registers of one block, so that mean
// and variance are taken one after the other (nothing cancels) at the price of one pass over memory.
//   op class: reduction
//   architecture: sm_80
//   layouts: mX, mOut (C/V,R):(1,C/V), mWeight, mBias (C/V,R):(1,0) over packs of V neighbours; C = 4096, R = 8192
//   tile: one row for a block of 256 threads, 16 elements in each thread's registers
//   shared memory: 2 turns x 8 warps x 8 bytes for each of the two sums = 256 bytes
// end header

// includes: as in softmax.cu

using namespace cute;

namespace kernels {

// begin knobs
constexpr int kGroup = 256;  // threads of a block that share a row
constexpr int kRows = 1;  // rows side by side in a block
constexpr int kThreads = kGroup * kRows;
constexpr bool kAcross = false;  // threads side by side take rows, not columns
constexpr int kCluster = 1;  // blocks that share a row and their shared memory
constexpr int kShares = 1;  // blocks that share a row
constexpr int kItems = 16;  // elements of a row in a thread's registers
[[maybe_unused]] constexpr int kVector = 4;  // elements a pack
[[maybe_unused]] constexpr bool kOnce = false;  // its data leaves the caches first
using Index = int;
// end knobs

// access: as in pointwise.cu

// reduce: as in softmax.cu

// begin arithmetic
__device__ inline void sweep0(float rX, float& rSum0) {
  rSum0 = rX;
}
__device__ inline void sweep1(float rX, float v1, float& rSum1) {
  float const v3 = rX - v1;  // aten.layer_norm
  float const v4 = v3 * v3;  // aten.layer_norm
  rSum1 = v4;
}
__device__ inline void sweep2(float rX, float rWeight, float rBias, float v1, float v6, float& rOut) {
  float const v10 = rX - v1;  // aten.layer_norm
  float const v11 = v10 * v6;  // aten.layer_norm
  float const v12 = v11 * rWeight;  // aten.layer_norm
  float const v13 = v12 + rBias;  // aten.layer_norm
  rOut = v13;
}
struct JoinSum0 {
  template <class T> __device__ T operator()(T a, T b) const { return T(a + b); }
};
struct JoinSum1 {
  template <class T> __device__ T operator()(T a, T b) const { return T(a + b); }
};
// end arithmetic

// begin kernel
template <int V>
__global__ void __launch_bounds__(kThreads) rows(float const* pX, float const* pWeight, float const* pBias,
    float* pOut) {
  Index const kCount = Index(4096 / V);  // packs a row
  [[maybe_unused]] Index const kRowCount = 8192;
  Tensor mX = make_tensor(make_gmem_ptr(packs<V>(pX)),  // (4096/V,8192)
      Layout<Shape<Int<4096 / V>, Int<8192>>, Stride<_1, Int<4096 / V>>>{});
  Tensor mWeight = make_tensor(make_gmem_ptr(packs<V>(pWeight)),  // (4096/V,8192)
      Layout<Shape<Int<4096 / V>, Int<8192>>, Stride<_1, Int<0 / V>>>{});
  Tensor mBias = make_tensor(make_gmem_ptr(packs<V>(pBias)),  // (4096/V,8192)
// begin _first_sweep
      Layout<Shape<Int<4096 / V>, Int<8192>>, Stride<_1, Int<0 / V>>>{});
  Tensor mOut = make_tensor(make_gmem_ptr(packs<V>(pOut)),  // (4096/V,8192)
      Layout<Shape<Int<4096 / V>, Int<8192>>, Stride<_1, Int<4096 / V>>>{});
  [[maybe_unused]] Index const thread = threadIdx.x % kGroup;
  [[maybe_unused]] Index const rank = blockIdx.x % kShares;
  constexpr int kPacks = kItems / V;  // of a row in a thread's registers
  Index const start = rank * (kPacks * kGroup) + thread;
  int const turn = 0;
  Index const row = Index(blockIdx.x / kShares) * kRows + threadIdx.x / kGroup;
  [[maybe_unused]] constexpr bool inside = true;
  Index const r = row;
  Pack<float, V> rX[kPacks];
  UNROLL
  for (int u = 0; u < kPacks; ++u) {
    [[maybe_unused]] Index const i = start + u * kGroup;
    {
      rX[u] = load<kOnce>(&mX(i, r));
    }
  }
  // sweep 0
  float partSum0[V];
  UNROLL
  for (int k = 0; k < V; ++k) { partSum0[k] = float(0); }
  UNROLL
  for (int u = 0; u < kPacks; ++u) {
    [[maybe_unused]] Index const i = start + u * kGroup;
    {
      UNROLL
      for (int k = 0; k < V; ++k) {
        float vSum0;
        sweep0(rX[u].lane[k], vSum0);
        partSum0[k] = JoinSum0{}(partSum0[k], vSum0);
      }
    }
  }
  double totalSum0 = double(partSum0[0]);
  UNROLL
  for (int k = 1; k < V; ++k) { totalSum0 = JoinSum0{}(totalSum0, double(partSum0[k])); }
  totalSum0 = reduced<0>(totalSum0, JoinSum0{}, turn);
// end _first_sweep
  float const vSum0 = float(totalSum0);  // aten.layer_norm
  float const v1 = vSum0 / 4096.0f;  // aten.layer_norm
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
        sweep1(rX[u].lane[k], v1, vSum1);
        partSum1[k] = JoinSum1{}(partSum1[k], vSum1);
      }
    }
  }
  double totalSum1 = double(partSum1[0]);
  UNROLL
  for (int k = 1; k < V; ++k) { totalSum1 = JoinSum1{}(totalSum1, double(partSum1[k])); }
  totalSum1 = reduced<1>(totalSum1, JoinSum1{}, turn);
  float const vSum1 = float(totalSum1);  // aten.layer_norm
  float const v3 = vSum1 / 4096.0f;  // aten.layer_norm
  float const v4 = v3 + 1e-05f;  // aten.layer_norm
  float const v5 = std::sqrt(v4);  // aten.layer_norm
  float const v6 = 1.0f / v5;  // aten.layer_norm
  // sweep 2
  UNROLL
  for (int u = 0; u < kPacks; ++u) {
    [[maybe_unused]] Index const i = start + u * kGroup;
    {
      Pack<float, V> rWeight;
      rWeight = load<false>(&mWeight(i, r));
      Pack<float, V> rBias;
      rBias = load<false>(&mBias(i, r));
      Pack<float, V> rOut;
      UNROLL
      for (int k = 0; k < V; ++k) {
        float vOut;
        sweep2(rX[u].lane[k], rWeight.lane[k], rBias.lane[k], v1, v6, vOut);
        rOut.lane[k] = vOut;
      }
      store<kOnce>(&mOut(i, r), rOut);
    }
  }
}
// end kernel

// require: as in pointwise.cu

// launched: as in pointwise.cu

}  // namespace kernels

using namespace kernels;

// begin entry
void run(tvm::ffi::TensorView X, tvm::ffi::TensorView Weight, tvm::ffi::TensorView Bias, tvm::ffi::TensorView Out) {
  require(X, "X", {8192, 4096}, {4096, 1}, kDLFloat, 32);
  require(Weight, "Weight", {4096}, {1}, kDLFloat, 32);
  require(Bias, "Bias", {4096}, {1}, kDLFloat, 32);
  require(Out, "Out", {8192, 4096}, {4096, 1}, kDLFloat, 32);

  cudaStream_t const stream = stream_of(Out);
  auto const* pX = static_cast<float const*>(X.data_ptr());
  auto const* pWeight = static_cast<float const*>(Weight.data_ptr());
  auto const* pBias = static_cast<float const*>(Bias.data_ptr());
  auto* pOut = static_cast<float*>(Out.data_ptr());
  if (aligned<kVector>(pX, pWeight, pBias, pOut)) {
    rows<kVector><<<8192, kThreads, 0, stream>>>(pX, pWeight, pBias, pOut);
  } else {
    rows<1><<<8192, kThreads, 0, stream>>>(pX, pWeight, pBias, pOut);
  }
  launched();
}
TVM_FFI_DLL_EXPORT_TYPED_FUNC(run, run);
// end entry
