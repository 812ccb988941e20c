// cumsum: 1 loop nest.
//   loops0: 64 x 100, sum along 100; 1 stored
// playbook plan: {"knobs": {}, "recipe": "loops"}

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdlib>
// pointwise.cpp: 28 lines
template <class To, class From> inline To convert(From v) { return __builtin_convertvector(v, To); }

// The first n lanes, each as a function says; 0 in the others.
template <class V, class F> inline V gathered(int64_t first, int n, F f) {
  V result{};
  for (int k = 0; k < n; ++k) { result[k] = f(first + k, k); }
  return result;
}

template <class F> inline void scattered(int64_t first, int n, F f) {
  for (int k = 0; k < n; ++k) { f(first + k, k); }
}

void loops0(float const* pA, float* pOutput) {
  Tensor mA = make_tensor(pA, Layout<Shape<Int<64>, Int<100>>, Stride<Int<100>, Int<1>>>{});  // (i0:64, i1:100)
  Tensor mOutput = make_tensor(pOutput, Layout<Shape<Int<64>, Int<100>>, Stride<Int<100>, Int<1>>>{});  // (i0:64, i1:100)
  for (int64_t t = 0; t < 1; ++t) {
    int64_t const last = 64;
    for (int64_t i0 = 0; i0 < last; i0 += kLanes) {
      constexpr int n = kLanes;
      vdouble s0w = all(0.0);
      for (int64_t i1 = 0; i1 < 100; ++i1) {
        vfloat const rA = gathered<vfloat>(i0, n, [&](int64_t i0, int k) { return mA(i0, i1); });
        s0w = s0w + convert<vdouble>(rA);
        vfloat const s0 = convert<vfloat>(s0w);
        scattered(i0, n, [&](int64_t i0, int k) { mOutput(i0, i1) = float(s0[k]); });
      }
    }
  }
// rows.cpp: 6 lines
  require(a, "a", {64, 100}, {100, 1}, kDLFloat, 32);
  require(output, "output", {64, 100}, {100, 1}, kDLFloat, 32);

  float const* const pA = static_cast<float const*>(a.data_ptr());
  float* const pOutput = static_cast<float*>(output.data_ptr());
  loops0(pA, pOutput);
}
TVM_FFI_DLL_EXPORT_TYPED_FUNC(run, run);
