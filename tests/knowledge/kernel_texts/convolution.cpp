// conv2d, relu: 1 loop nest.
//   loops0: 2 x 64 x 16 x 16, sum over 32 x 3 x 3; 1 stored
// playbook plan: {"knobs": {}, "recipe": "loops"}

#include <immintrin.h>
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdlib>
// pointwise.cpp: 27 lines
// pointwise.cpp: 50 lines
// The lanes from `low` on and below `high`, of neighbours in memory; 0 in the others.
template <class V, class T> inline V nearby(T const* from, int64_t low, int64_t high) {
  V result{};
  if constexpr (plain<T>) {
    if (low <= 0) {
      result = high >= kLanes ? unpacked<V>(from) : some<V>(from, int(high > 0 ? high : 0));
      high = 0;
    }
  }
  for (int64_t k = low > 0 ? low : 0; k < high && k < kLanes; ++k) { result[k] = lane_t<V>(from[k]); }
  if constexpr (std::is_same_v<T, bool>) { return -result; } else { return result; }
}

// The first n lanes to neighbours in memory.
template <class T, class V> inline void put(T* to, V v, int n) {
  if constexpr (std::is_same_v<T, bool>) { v = -v; }
  if constexpr (plain<T>) {
    return n == kLanes ? pack(to, v) : pack_some(to, v, n);
  }
  for (int k = 0; k < n; ++k) { to[k] = T(v[k]); }
}

namespace math {
// The larger one; NaN where either is NaN.
template <class V> inline V maximum(V a, V b) { return ((a > b) | (a != a)) ? a : b; }
}  // namespace math

void loops0(float const* pB, float const* pA, float* pOutput) {
  Tensor mB = make_tensor(pB, Layout<Shape<Int<16>, Int<32>, Int<3>, Int<3>>, Stride<Int<1152>, Int<9>, Int<3>, Int<1>>>{});  // (i1:16, r0:32, r1:3, r2:3)
  Tensor mA = make_tensor(pA - 17, Layout<Shape<Int<2>, Int<16>, Int<16>, Int<32>, Int<3>, Int<3>>, Stride<Int<8192>, Int<16>, Int<1>, Int<256>, Int<16>, Int<1>>>{});  // (i0:2, i2:16, i3:16, r0:32, r1:3, r2:3)
  Tensor mB_2 = make_tensor(pB + 288, Layout<Shape<Int<16>, Int<32>, Int<3>, Int<3>>, Stride<Int<1152>, Int<9>, Int<3>, Int<1>>>{});  // (i1:16, r0:32, r1:3, r2:3)
  Tensor mB_3 = make_tensor(pB + 576, Layout<Shape<Int<16>, Int<32>, Int<3>, Int<3>>, Stride<Int<1152>, Int<9>, Int<3>, Int<1>>>{});  // (i1:16, r0:32, r1:3, r2:3)
  Tensor mB_4 = make_tensor(pB + 864, Layout<Shape<Int<16>, Int<32>, Int<3>, Int<3>>, Stride<Int<1152>, Int<9>, Int<3>, Int<1>>>{});  // (i1:16, r0:32, r1:3, r2:3)
  Tensor mOutput = make_tensor(pOutput, Layout<Shape<Int<2>, Int<16>, Int<16>, Int<16>>, Stride<Int<16384>, Int<1024>, Int<16>, Int<1>>>{});  // (i0:2, i1:16, i2:16, i3:16)
  Tensor mOutput_2 = make_tensor(pOutput + 256, Layout<Shape<Int<2>, Int<16>, Int<16>, Int<16>>, Stride<Int<16384>, Int<1024>, Int<16>, Int<1>>>{});  // (i0:2, i1:16, i2:16, i3:16)
  Tensor mOutput_3 = make_tensor(pOutput + 512, Layout<Shape<Int<2>, Int<16>, Int<16>, Int<16>>, Stride<Int<16384>, Int<1024>, Int<16>, Int<1>>>{});  // (i0:2, i1:16, i2:16, i3:16)
  Tensor mOutput_4 = make_tensor(pOutput + 768, Layout<Shape<Int<2>, Int<16>, Int<16>, Int<16>>, Stride<Int<16384>, Int<1024>, Int<16>, Int<1>>>{});  // (i0:2, i1:16, i2:16, i3:16)
  #pragma omp parallel for schedule(static)
  for (int64_t t = 0; t < 512; ++t) {
    int64_t const i0 = t / 256;
    int64_t const i1 = t / 16 % 16;
    int64_t const i2 = t % 16;
    int64_t const last = 16;
    for (int64_t i3 = 0; i3 < last; i3 += kLanes) {
      constexpr int n = kLanes;
      vfloat s0_0w = all(0.0f);
      vfloat s0_1w = all(0.0f);
      vfloat s0_2w = all(0.0f);
      vfloat s0_3w = all(0.0f);
      vfloat s0_0q = all(0.0f);
      vfloat s0_1q = all(0.0f);
      vfloat s0_2q = all(0.0f);
      vfloat s0_3q = all(0.0f);
      for (int64_t r0 = 0; r0 < 32; ++r0) {
        for (int64_t r1 = 0; r1 < 3; ++r1) {
          for (int64_t r2 = 0; r2 < 3; ++r2) {
            float const rB = mB(i1, r0, r1, r2);
            vfloat const rA = uint64_t(i2 + r1 - 1) < 16 ? nearby<vfloat>(&mA(i0, i2, i3, r0, r1, r2), -(i3 + r2 - 1), std::min<int64_t>(n, 16 - (i3 + r2 - 1))) : vfloat{};
            vfloat const v2 = rA * rB;  // aten.conv2d
            float const rB_2 = mB_2(i1, r0, r1, r2);
            vfloat const v4 = rA * rB_2;  // aten.conv2d
            float const rB_3 = mB_3(i1, r0, r1, r2);
            vfloat const v6 = rA * rB_3;  // aten.conv2d
            float const rB_4 = mB_4(i1, r0, r1, r2);
            vfloat const v8 = rA * rB_4;  // aten.conv2d
            s0_0q = s0_0q + v2;
            s0_1q = s0_1q + v4;
            s0_2q = s0_2q + v6;
            s0_3q = s0_3q + v8;
          }
        }
      }
      s0_0w = s0_0w + s0_0q;
      s0_1w = s0_1w + s0_1q;
      s0_2w = s0_2w + s0_2q;
      s0_3w = s0_3w + s0_3q;
      vfloat const s0_0 = s0_0w;
      vfloat const s0_1 = s0_1w;
      vfloat const s0_2 = s0_2w;
      vfloat const s0_3 = s0_3w;
      vfloat const v1 = math::maximum(s0_0, all(0.0f));  // aten.relu
      vfloat const v3 = math::maximum(s0_1, all(0.0f));  // aten.relu
      vfloat const v5 = math::maximum(s0_2, all(0.0f));  // aten.relu
      vfloat const v7 = math::maximum(s0_3, all(0.0f));  // aten.relu
      put(&mOutput(i0, i1, i2, i3), v1, n);
      put(&mOutput_2(i0, i1, i2, i3), v3, n);
      put(&mOutput_3(i0, i1, i2, i3), v5, n);
      put(&mOutput_4(i0, i1, i2, i3), v7, n);
    }
  }
// pointwise.cpp: 6 lines
  require(a, "a", {2, 32, 16, 16}, {8192, 256, 16, 1}, kDLFloat, 32);
  require(b, "b", {64, 32, 3, 3}, {288, 9, 3, 1}, kDLFloat, 32);
  require(output, "output", {2, 64, 16, 16}, {16384, 256, 16, 1}, kDLFloat, 32);

  float const* const pA = static_cast<float const*>(a.data_ptr());
  float const* const pB = static_cast<float const*>(b.data_ptr());
  float* const pOutput = static_cast<float*>(output.data_ptr());
  loops0(pB, pA, pOutput);
}
TVM_FFI_DLL_EXPORT_TYPED_FUNC(run, run);
