// sort: 1 loop nest.
//   loops0: 8 x 100, ascending along 100; 2 stored
// playbook plan: {"knobs": {}, "recipe": "loops"}

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <vector>
// pointwise.cpp: 13 lines

// Whether a row's element comes before another one: NaN is the largest, equal ones stay as they are.
template <bool kDescending, class T> inline bool comes_first(T a, int64_t place, T b, int64_t other) {
  bool const less = a < b || (b != b && a == a), more = b < a || (a != a && b == b);
  return kDescending ? more || (!less && place < other) : less || (!more && place < other);
}
void loops0(float const* pA, float* pOutput0, int64_t* pOutput1) {
  Tensor mA = make_tensor(pA, Layout<Shape<Int<8>, Int<100>>, Stride<Int<100>, Int<1>>>{});  // (i0:8, r0:100)
  Tensor mA_2 = make_tensor(pA, Layout<_1, _1>{});  // ()
  Tensor mOutput0 = make_tensor(pOutput0, Layout<Shape<Int<8>, Int<100>>, Stride<Int<100>, Int<1>>>{});  // (i0:8, i1:100)
  Tensor mOutput1 = make_tensor(pOutput1, Layout<Shape<Int<8>, Int<100>>, Stride<Int<100>, Int<1>>>{});  // (i0:8, i1:100)
  #pragma omp parallel for schedule(static)
  for (int64_t t = 0; t < 8; ++t) {
    int64_t const i0 = t;
    std::vector<float> keys(100);
    std::vector<int64_t> order(100);
    for (int64_t r0 = 0; r0 < 100; ++r0) {
      float const rA = mA(i0, r0);
      keys[r0] = rA;
      order[r0] = r0;
    }
    auto const first = [&](int64_t a, int64_t b) { return comes_first<false>(keys[a], a, keys[b], b); };
    std::sort(order.begin(), order.end(), first);
    for (int64_t i1 = 0; i1 < 100; ++i1) {
      int64_t const s0 = order[i1];
      float const rA_2 = uint64_t(s0) < 100 ? mA_2(i0 * 100 + s0) : float(0);
      mOutput0(i0, i1) = float(rA_2);
      mOutput1(i0, i1) = int64_t(s0);
    }
  }
}

// attention: 12 lines
}  // namespace

void run(tvm::ffi::TensorView a, tvm::ffi::TensorView output0, tvm::ffi::TensorView output1) {
  require(a, "a", {8, 100}, {100, 1}, kDLFloat, 32);
  require(output0, "output0", {8, 100}, {100, 1}, kDLFloat, 32);
  require(output1, "output1", {8, 100}, {100, 1}, kDLInt, 64);

  float const* const pA = static_cast<float const*>(a.data_ptr());
  float* const pOutput0 = static_cast<float*>(output0.data_ptr());
  int64_t* const pOutput1 = static_cast<int64_t*>(output1.data_ptr());
  loops0(pA, pOutput0, pOutput1);
}
TVM_FFI_DLL_EXPORT_TYPED_FUNC(run, run);
