// begin header
// cumsum: 1 loop nest.
//   loops0: 64 x 100, sum along 100; 1 stored
// playbook plan: {"knobs": {}, "recipe": "loops"}
// pointwise: 24 lines
constexpr int kThreads = 256;  // a block
using Index = int;
// pointwise: 58 lines
struct Join_sum {
  template <class T> __device__ T operator()(T a, T b) const { return T(a + b); }
};
// What all threads of a warp, or of a block, hold, joined in the same order for each.
template <class T, class Join>
__device__ inline T over_warp(T value, Join join) {
  for (int mask = 16; mask > 0; mask /= 2) { value = join(value, T(__shfl_xor_sync(~0u, value, mask))); }
  return value;
}
template <class T, class Join>
__device__ inline T over_block(T value, Join join) {
  __shared__ T parts[kThreads / 32];
  value = over_warp(value, join);
  __syncthreads();
  if (threadIdx.x % 32 == 0) { parts[threadIdx.x / 32] = value; }
  __syncthreads();
  T result = parts[0];
  for (int warp = 1; warp < kThreads / 32; ++warp) { result = join(result, parts[warp]); }
  return result;
}
// Of what the threads of a block hold, in their order: that of those before this one joined, and that of all.
template <class T>
struct Scanned {
  T before, all;
};
template <class T, class Join>
__device__ inline Scanned<T> scanned_over_block(T own, T none, Join join) {
  __shared__ T parts[kThreads / 32];
  int const lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  for (int gap = 1; gap < 32; gap *= 2) {
    T const other = __shfl_up_sync(~0u, own, gap);
    if (lane >= gap) { own = join(other, own); }
  }
  T before = __shfl_up_sync(~0u, own, 1);
  if (lane == 0) { before = none; }
  __syncthreads();
  if (lane == 31) { parts[warp] = own; }
  __syncthreads();
  T ahead = none, all = none;
  for (int each = 0; each < kThreads / 32; ++each) {
    if (each == warp) { ahead = all; }
    all = join(all, parts[each]);
  }
  return {join(ahead, before), all};
}
// end arithmetic

// begin kernel
__global__ void __launch_bounds__(kThreads) loops0(float const* pA, float* pOutput) {
  Tensor mA = make_tensor(make_gmem_ptr(pA), Layout<Shape<Int<64>, Int<100>>, Stride<Int<100>, Int<1>>>{});  // (i0:64, i1:100)
  Tensor mOutput = make_tensor(make_gmem_ptr(pOutput), Layout<Shape<Int<64>, Int<100>>, Stride<Int<100>, Int<1>>>{});  // (i0:64, i1:100)
  [[maybe_unused]] Index const t = blockIdx.x;
  Index const i0 = t;
  double carried = 0.0;
  for (Index first = 0; first < 100; first += kThreads * 4) {
    double own[4];
    UNROLL
    for (int k = 0; k < 4; ++k) {
      Index const i1 = first + Index(threadIdx.x) * 4 + k;
      own[k] = 0.0;
      if (i1 < 100) {
        float const rA = mA(i0, i1);
        own[k] = double(rA);
      }
      if (k > 0) { own[k] = own[k - 1] + own[k]; }
    }
    auto const tile = scanned_over_block(own[3], double(0.0), Join_sum{});
    double const ahead = carried + tile.before;
    UNROLL
    for (int k = 0; k < 4; ++k) {
      Index const i1 = first + Index(threadIdx.x) * 4 + k;
      if (i1 < 100) {
        float const s0 = float(ahead + own[k]);
        mOutput(i0, i1) = float(s0);
      }
    }
    carried = carried + tile.all;
  }
}
// pointwise: 33 lines
void run(tvm::ffi::TensorView a, tvm::ffi::TensorView output) {
  require(a, "a", {64, 100}, {100, 1}, kDLFloat, 32);
  require(output, "output", {64, 100}, {100, 1}, kDLFloat, 32);

  cudaStream_t const stream = stream_of(output);
  float const* const pA = static_cast<float const*>(a.data_ptr());
  float* const pOutput = static_cast<float*>(output.data_ptr());
  loops0<<<63 / 1 + 1, kThreads, 0, stream>>>(pA, pOutput);
  launched();
}
TVM_FFI_DLL_EXPORT_TYPED_FUNC(run, run);
// end entry
