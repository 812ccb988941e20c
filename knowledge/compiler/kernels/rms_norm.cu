// begin header
// Out = X * Weight / sqrt(mean(X * X) + eps) (RMS norm) along rows that stay in the registers of one block.
//   op class: reduction
//   architecture: sm_80
//   layouts: mX, mOut (C/V,R):(1,C/V), mWeight (C/V,R):(1,0) over packs of V neighbours; C = 4096, R = 8192
//   tile: one row for a block of 256 threads, 16 elements in each thread's registers
//   shared memory: 2 turns x 8 warps x 8 bytes for the sum of squares = 128 bytes
// end header

// includes: as in softmax.cu

using namespace cute;

namespace kernels {

// knobs: as in layer_norm.cu

// access: as in pointwise.cu

// reduce: as in softmax.cu

// begin arithmetic
__device__ inline void sweep0(float rX, float& rSum0) {
  float const v1 = rX * rX;  // aten.rms_norm
  rSum0 = v1;
}
__device__ inline void sweep1(float rX, float rWeight, float v4, float& rOut) {
  float const v7 = rX * v4;  // aten.rms_norm
  float const v8 = v7 * rWeight;  // aten.rms_norm
  rOut = v8;
}
struct JoinSum0 {
  template <class T> __device__ T operator()(T a, T b) const { return T(a + b); }
};
// end arithmetic

// begin kernel
template <int V>
__global__ void __launch_bounds__(kThreads) rows(float const* pX, float const* pWeight, float* pOut) {
  Index const kCount = Index(4096 / V);  // packs a row
  [[maybe_unused]] Index const kRowCount = 8192;
  Tensor mX = make_tensor(make_gmem_ptr(packs<V>(pX)),  // (4096/V,8192)
      Layout<Shape<Int<4096 / V>, Int<8192>>, Stride<_1, Int<4096 / V>>>{});
  Tensor mWeight = make_tensor(make_gmem_ptr(packs<V>(pWeight)),  // (4096/V,8192)
// _first_sweep: as in layer_norm.cu
  float const vSum0 = float(totalSum0);  // aten.rms_norm
  float const v1 = vSum0 / 4096.0f;  // aten.rms_norm
  float const v2 = v1 + 1e-06f;  // aten.rms_norm
  float const v3 = std::sqrt(v2);  // aten.rms_norm
  float const v4 = 1.0f / v3;  // aten.rms_norm
  // sweep 1
  UNROLL
  for (int u = 0; u < kPacks; ++u) {
    [[maybe_unused]] Index const i = start + u * kGroup;
    {
      Pack<float, V> rWeight;
      rWeight = load<false>(&mWeight(i, r));
      Pack<float, V> rOut;
      UNROLL
      for (int k = 0; k < V; ++k) {
        float vOut;
        sweep1(rX[u].lane[k], rWeight.lane[k], v4, vOut);
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
void run(tvm::ffi::TensorView X, tvm::ffi::TensorView Weight, tvm::ffi::TensorView Out) {
  require(X, "X", {8192, 4096}, {4096, 1}, kDLFloat, 32);
  require(Weight, "Weight", {4096}, {1}, kDLFloat, 32);
  require(Out, "Out", {8192, 4096}, {4096, 1}, kDLFloat, 32);

  cudaStream_t const stream = stream_of(Out);
  auto const* pX = static_cast<float const*>(X.data_ptr());
  auto const* pWeight = static_cast<float const*>(Weight.data_ptr());
  auto* pOut = static_cast<float*>(Out.data_ptr());
  if (aligned<kVector>(pX, pWeight, pOut)) {
    rows<kVector><<<8192, kThreads, 0, stream>>>(pX, pWeight, pOut);
  } else {
    rows<1><<<8192, kThreads, 0, stream>>>(pX, pWeight, pOut);
  }
  launched();
}
TVM_FFI_DLL_EXPORT_TYPED_FUNC(run, run);
// end entry
