// begin header
// sort: 1 loop nest.
//   loops0: 8 x 100, ascending along 100; 2 stored
// playbook plan: {"knobs": {}, "recipe": "loops"}
// pointwise: 24 lines
constexpr int kThreads = 256;  // a block
using Index = int;
// pointwise: 58 lines
// Whether a row's element comes before another one: NaN is the largest, equal ones stay as they are.
template <bool kDescending, class T> __device__ inline bool comes_first(T a, int64_t place, T b, int64_t other) {
  bool const less = a < b || (b != b && a == a), more = b < a || (a != a && b == b);
  return kDescending ? more || (!less && place < other) : less || (!more && place < other);
}

// Rows of kWidth (a power of two) by the threads of a group, of which this is `lane`; only `count` elements count.
template <bool kDescending, int kGroup, int kWidth, class T>
__device__ inline void sort_in_group(T* keys, uint16_t* order, int count, int lane) {
  auto const together = [] {
    if constexpr (kGroup == 32) { __syncwarp(); } else { __syncthreads(); }
  };
  for (int run = 2; run <= kWidth; run *= 2) {
    for (int gap = run / 2; gap > 0; gap /= 2) {
      together();
      for (int pair = lane; pair < kWidth / 2; pair += kGroup) {
        int const low = pair / gap * 2 * gap + pair % gap, high = low + gap;
        int const one = order[low], other = order[high];
        bool const outside = one >= count || other >= count;
        bool const swapped = outside ? other < one : comes_first<kDescending>(keys[high], other, keys[low], one);
        if (swapped == ((low & run) == 0)) {
          T const key = keys[low];
          keys[low] = keys[high], order[low] = uint16_t(other);
          keys[high] = key, order[high] = uint16_t(one);
        }
      }
    }
  }
  together();
}
// end arithmetic

// begin kernel
__global__ void __launch_bounds__(kThreads) loops0(float const* pA, float* pOutput0, int64_t* pOutput1) {
  Tensor mA = make_tensor(make_gmem_ptr(pA), Layout<Shape<Int<8>, Int<100>>, Stride<Int<100>, Int<1>>>{});  // (i0:8, r0:100)
  Tensor mA_2 = make_tensor(make_gmem_ptr(pA), Layout<_1, _1>{});  // ()
  Tensor mOutput0 = make_tensor(make_gmem_ptr(pOutput0), Layout<Shape<Int<8>, Int<100>>, Stride<Int<100>, Int<1>>>{});  // (i0:8, i1:100)
  Tensor mOutput1 = make_tensor(make_gmem_ptr(pOutput1), Layout<Shape<Int<8>, Int<100>>, Stride<Int<100>, Int<1>>>{});  // (i0:8, i1:100)
  [[maybe_unused]] Index const t = blockIdx.x;
  Index const i0 = t;
  __shared__ float rows[128];
  __shared__ uint16_t places[128];
  auto& keys = rows;
  auto& order = places;
  for (Index r0 = threadIdx.x; r0 < 128; r0 += kThreads) {
    order[r0] = uint16_t(r0);
    if (r0 < 100) {
      float const rA = mA(i0, r0);
      keys[r0] = rA;
    }
  }
  sort_in_group<false, kThreads, 128>(keys, order, 100, threadIdx.x);
  for (Index i1 = threadIdx.x; i1 < 100; i1 += kThreads) {
    int64_t const s0 = order[i1];
    float const rA_2 = uint64_t(s0) < 100 ? mA_2(i0 * 100 + s0) : float(0);
    mOutput0(i0, i1) = float(rA_2);
    mOutput1(i0, i1) = int64_t(s0);
  }
}
// pointwise: 33 lines
void run(tvm::ffi::TensorView a, tvm::ffi::TensorView output0, tvm::ffi::TensorView output1) {
  require(a, "a", {8, 100}, {100, 1}, kDLFloat, 32);
  require(output0, "output0", {8, 100}, {100, 1}, kDLFloat, 32);
  require(output1, "output1", {8, 100}, {100, 1}, kDLInt, 64);

  cudaStream_t const stream = stream_of(output0);
  float const* const pA = static_cast<float const*>(a.data_ptr());
  float* const pOutput0 = static_cast<float*>(output0.data_ptr());
  int64_t* const pOutput1 = static_cast<int64_t*>(output1.data_ptr());
  loops0<<<7 / 1 + 1, kThreads, 0, stream>>>(pA, pOutput0, pOutput1);
  launched();
}
TVM_FFI_DLL_EXPORT_TYPED_FUNC(run, run);
// end entry
