// begin header
// Out = X * Vector, a matrix times a vector: sums along rows of 2048 x 1048576.
//   op class: gemm
//   architecture: sm_80
//   layouts: mX (C/V,R):(1,C/V), mVector (C/V,R):(1,0) over packs of V neighbours, mOut (C/V,R):(0,1);
//     C = 1048576, R = 2048
//   tile: 4 rows for a block of 512 threads, 2 packs of each row in flight a thread; each pack of Vector
//     is read once for the 4 rows, since it comes from the L2 cache, whose bandwidth X needs
//   shared memory: 2 turns x 16 warps x 8 bytes = 256 bytes for the partial sums
//   reaches: 1.96 ms on an H200, 4.39 TB/s; eager PyTorch 2.37 ms
//   error: normalized L2 3.3e-8 against float64, eager PyTorch 5.2e-8; sums of 64 packs in float, all above in double
// end header

// includes: as in softmax.cu

using namespace cute;

namespace kernels {

// begin knobs
constexpr int kGroup = 512;  // threads of a block that share a row
constexpr int kRows = 1;  // rows side by side in a block
constexpr int kThreads = kGroup * kRows;
constexpr bool kAcross = false;  // threads side by side take rows, not columns
constexpr int kCluster = 1;  // blocks that share a row and their shared memory
constexpr int kShares = 1;  // blocks that share a row
constexpr int kItems = 2;  // packs in flight a thread
[[maybe_unused]] constexpr int kVector = 4;  // elements a pack
[[maybe_unused]] constexpr bool kOnce = true;  // its data leaves the caches first
using Index = int64_t;
constexpr int kEach = 4;  // rows that a thread takes at once
// end knobs

// access: as in pointwise.cu

// reduce: as in softmax.cu

// begin arithmetic
__device__ inline void sweep0(float rX, float rVector, float& rSum0) {
  float const v2 = rX * rVector;  // aten.matmul
  rSum0 = v2;
}
struct JoinSum0 {
  template <class T> __device__ T operator()(T a, T b) const { return T(a + b); }
};
// end arithmetic

// begin kernel
template <int V>
__global__ void __launch_bounds__(kThreads) rows(float const* pX, float const* pVector, float* pOut) {
  Index const kCount = Index(1048576ll / V);  // packs a row
  [[maybe_unused]] Index const kRowCount = 2048;
  Tensor mX = make_tensor(make_gmem_ptr(packs<V>(pX)),  // (1048576/V,2048)
      Layout<Shape<Int<1048576 / V>, Int<2048>>, Stride<_1, Int<1048576 / V>>>{});
  Tensor mVector = make_tensor(make_gmem_ptr(packs<V>(pVector)),  // (1048576/V,2048)
      Layout<Shape<Int<1048576 / V>, Int<2048>>, Stride<_1, Int<0 / V>>>{});
  Tensor mOut = make_tensor(make_gmem_ptr(pOut),  // (1048576/V,2048)
      Layout<Shape<Int<1048576 / V>, Int<2048>>, Stride<Int<0 * V>, Int<1>>>{});
  [[maybe_unused]] Index const thread = threadIdx.x % kGroup;
  [[maybe_unused]] Index const rank = blockIdx.x % kShares;
  constexpr int kPacks = kItems;  // in flight a thread
  Index const start = rank * kGroup + thread;
  Index const kStep = kGroup * kShares;
  Index const row = Index(blockIdx.x / kShares) * kRows + threadIdx.x / kGroup;
  float partSum0[kEach][V];
  double totalSum0[kEach];
  UNROLL
  for (int e = 0; e < kEach; ++e) {
    totalSum0[e] = double(0);
    UNROLL
    for (int k = 0; k < V; ++k) { partSum0[e][k] = float(0); }
  }
  int filled0 = 0;
  for (Index base = start; base < kCount; base += kPacks * kStep) {
    Pack<float, V> rX[kPacks][kEach];
    Pack<float, V> rVector[kPacks];
    UNROLL
    for (int u = 0; u < kPacks; ++u) {
      Index const i = base + u * kStep;
      if (i < kCount) {
        rVector[u] = load<false>(&mVector(i, 0));
        UNROLL
        for (int e = 0; e < kEach; ++e) {
          Index const r = min(row * kEach + e, kRowCount - 1);
          rX[u][e] = load<kOnce>(&mX(i, r));
        }
      }
    }
    UNROLL
    for (int u = 0; u < kPacks; ++u) {
      Index const i = base + u * kStep;
      if (i < kCount) {
        UNROLL
        for (int e = 0; e < kEach; ++e) {
          UNROLL
          for (int k = 0; k < V; ++k) {
            float vSum0;
            sweep0(rX[u][e].lane[k], rVector[u].lane[k], vSum0);
            partSum0[e][k] = JoinSum0{}(partSum0[e][k], vSum0);
          }
        }
      }
    }
    if (++filled0 % 32 == 0) {
      UNROLL
      for (int e = 0; e < kEach; ++e) {
        UNROLL
        for (int k = 0; k < V; ++k) { totalSum0[e] = JoinSum0{}(totalSum0[e], double(partSum0[e][k])); }
        UNROLL
        for (int k = 0; k < V; ++k) { partSum0[e][k] = float(0); }
      }
    }
  }
  UNROLL
  for (int e = 0; e < kEach; ++e) {
    Index const r = min(row * kEach + e, kRowCount - 1);
    bool const inside = row * kEach + e < kRowCount;
    UNROLL
    for (int k = 0; k < V; ++k) { totalSum0[e] = JoinSum0{}(totalSum0[e], double(partSum0[e][k])); }
    double const totalSum0_ = reduced<0>(totalSum0[e], JoinSum0{}, e % 2);
    float const vSum0 = float(totalSum0_);  // aten.matmul
    if (inside && thread == 0 && rank == 0) {
      mOut(0, r) = float(vSum0);
    }
  }
}
// end kernel

// require: as in pointwise.cu

// launched: as in pointwise.cu

}  // namespace kernels

using namespace kernels;

// begin entry
void run(tvm::ffi::TensorView X, tvm::ffi::TensorView Vector, tvm::ffi::TensorView Out) {
  require(X, "X", {2048, 1048576}, {1048576, 1}, kDLFloat, 32);
  require(Vector, "Vector", {1048576, 1}, {1, 1}, kDLFloat, 32);
  require(Out, "Out", {2048, 1}, {1, 1}, kDLFloat, 32);

  cudaStream_t const stream = stream_of(Out);
  auto const* pX = static_cast<float const*>(X.data_ptr());
  auto const* pVector = static_cast<float const*>(Vector.data_ptr());
  auto* pOut = static_cast<float*>(Out.data_ptr());
  if (aligned<kVector>(pX, pVector)) {
    rows<kVector><<<512, kThreads, 0, stream>>>(pX, pVector, pOut);
  } else {
    rows<1><<<512, kThreads, 0, stream>>>(pX, pVector, pOut);
  }
  launched();
}
TVM_FFI_DLL_EXPORT_TYPED_FUNC(run, run);
// end entry
