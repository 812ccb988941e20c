// begin header
// Out = diag(Diagonal) * X, a diagonal matrix times a dense one: every row of X scaled, nothing summed.
//   op class: elementwise
//   architecture: sm_80
//   layouts: mX, mOut (N/V,M):(1,N/V), mDiagonal (N/V,M):(0,1) over packs of V neighbours; M = N = 4096
//   tile: 128 threads x 1 pack x 4 elements of 4 bytes = 512 elements a block
//   shared memory: 0 bytes
//   reaches: 0.036 ms on an H200, 87 % of what a copy's rate allows; eager PyTorch 0.052 ms
// end header

// includes: as in pointwise.cu

using namespace cute;

namespace kernels {

// knobs: as in pointwise.cu

// access: as in pointwise.cu

// begin arithmetic
__device__ inline void element(float rDiagonal, float rX, float& rOut) {
  float const v2 = rDiagonal * rX;  // aten.mul.Tensor
  rOut = v2;
}
// end arithmetic

// begin kernel
template <int V>
__global__ void __launch_bounds__(kThreads) pointwise(float const* pDiagonal, float const* pX, float* pOut) {
  Tensor mDiagonal = make_tensor(make_gmem_ptr(pDiagonal),  // ((4096/V,4096))
      Layout<Shape<Int<4096 / V>, Int<4096>>, Stride<Int<0 * V>, Int<1>>>{});
  Tensor mX = make_tensor(make_gmem_ptr(packs<V>(pX)),  // ((4096/V,4096))
      Layout<Shape<Int<4096 / V>, Int<4096>>, Stride<_1, Int<4096 / V>>>{});
  Tensor mOut = make_tensor(make_gmem_ptr(packs<V>(pOut)),  // ((4096/V,4096))
      Layout<Shape<Int<4096 / V>, Int<4096>>, Stride<_1, Int<4096 / V>>>{});
  Index const kCount = Index(16777216 / V);  // packs
  Index const first = Index(blockIdx.x) * (kThreads * kPacks) + threadIdx.x;
  float rDiagonal[kPacks];
  Pack<float, V> rX[kPacks];
  UNROLL
  for (int u = 0; u < kPacks; ++u) {
    Index const i = first + u * kThreads;
    if (i < kCount) {
      rDiagonal[u] = load<false>(&mDiagonal(i));
      rX[u] = load<kOnce>(&mX(i));
    }
  }
  UNROLL
  for (int u = 0; u < kPacks; ++u) {
    Index const i = first + u * kThreads;
    if (i < kCount) {
      Pack<float, V> rOut;
      UNROLL
      for (int k = 0; k < V; ++k) { element(rDiagonal[u], rX[u].lane[k], rOut.lane[k]); }
      store<kOnce>(&mOut(i), rOut);
    }
  }
}
// end kernel

// require: as in pointwise.cu

// launched: as in pointwise.cu

}  // namespace kernels

using namespace kernels;

// begin entry
void run(tvm::ffi::TensorView Diagonal, tvm::ffi::TensorView X, tvm::ffi::TensorView Out) {
  require(Diagonal, "Diagonal", {4096}, {1}, kDLFloat, 32);
  require(X, "X", {4096, 4096}, {4096, 1}, kDLFloat, 32);
  require(Out, "Out", {4096, 4096}, {4096, 1}, kDLFloat, 32);

  cudaStream_t const stream = stream_of(Out);
  auto const* pDiagonal = static_cast<float const*>(Diagonal.data_ptr());
  auto const* pX = static_cast<float const*>(X.data_ptr());
  auto* pOut = static_cast<float*>(Out.data_ptr());
  if (aligned<kVector>(pX, pOut)) {
    pointwise<kVector><<<4194303 / (kThreads * kPacks) + 1, kThreads, 0, stream>>>(pDiagonal, pX, pOut);
  } else {
    pointwise<1><<<16777215 / (kThreads * kPacks) + 1, kThreads, 0, stream>>>(pDiagonal, pX, pOut);
  }
  launched();
}
TVM_FFI_DLL_EXPORT_TYPED_FUNC(run, run);
// end entry
