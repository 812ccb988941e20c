// scatter_add: 1 loop nest.
//   loops0: 8 x 20, sum over 30; 1 stored
// playbook plan: {"knobs": {}, "recipe": "loops"}

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdlib>
// pointwise.cpp: 14 lines
constexpr int kLanes = 4;
// pointwise.cpp: 12 lines

template <class To, class From> inline To convert(From v) { return __builtin_convertvector(v, To); }

// Masks of 8-byte lanes to masks of 4-byte lanes.
inline vmask narrow(vlong v) { return __builtin_convertvector(v, vmask); }
// pointwise.cpp: 32 lines
  T kept[kLanes] = {};
  for (int k = 0; k < count; ++k) { kept[k] = from[k]; }
  return unpacked<V>(kept);
}

// convolution.cpp: 13 lines
// All lanes joined, in order.
template <class V, class F> inline auto folded(V v, F f) {
  auto result = v[0];
  for (int k = 1; k < kLanes; ++k) { result = f(result, v[k]); }
  return result;
}

void loops0(float const* pC, int64_t const* pB, float const* pA, float* pOutput) {
  Tensor mC = make_tensor(pC, Layout<Shape<Int<8>, Int<30>>, Stride<Int<30>, Int<1>>>{});  // (i0:8, r0:30)
  Tensor mB = make_tensor(pB, Layout<Shape<Int<8>, Int<30>>, Stride<Int<30>, Int<1>>>{});  // (i0:8, r0:30)
  Tensor mA = make_tensor(pA, Layout<Shape<Int<8>, Int<5>>, Stride<Int<20>, Int<4>>>{});  // (i0:8, i1:5)
  Tensor mA_2 = make_tensor(pA + 1, Layout<Shape<Int<8>, Int<5>>, Stride<Int<20>, Int<4>>>{});  // (i0:8, i1:5)
  Tensor mA_3 = make_tensor(pA + 2, Layout<Shape<Int<8>, Int<5>>, Stride<Int<20>, Int<4>>>{});  // (i0:8, i1:5)
  Tensor mA_4 = make_tensor(pA + 3, Layout<Shape<Int<8>, Int<5>>, Stride<Int<20>, Int<4>>>{});  // (i0:8, i1:5)
  Tensor mOutput = make_tensor(pOutput, Layout<Shape<Int<8>, Int<5>>, Stride<Int<20>, Int<4>>>{});  // (i0:8, i1:5)
  Tensor mOutput_2 = make_tensor(pOutput + 1, Layout<Shape<Int<8>, Int<5>>, Stride<Int<20>, Int<4>>>{});  // (i0:8, i1:5)
  Tensor mOutput_3 = make_tensor(pOutput + 2, Layout<Shape<Int<8>, Int<5>>, Stride<Int<20>, Int<4>>>{});  // (i0:8, i1:5)
  Tensor mOutput_4 = make_tensor(pOutput + 3, Layout<Shape<Int<8>, Int<5>>, Stride<Int<20>, Int<4>>>{});  // (i0:8, i1:5)
  for (int64_t t = 0; t < 40; ++t) {
    int64_t const i0 = t / 5;
    int64_t const i1 = t % 5;
    vdouble s0_0w = all(0.0);
    vdouble s0_1w = all(0.0);
    vdouble s0_2w = all(0.0);
    vdouble s0_3w = all(0.0);
    vfloat s0_0q = all(0.0f);
    vfloat s0_1q = all(0.0f);
    vfloat s0_2q = all(0.0f);
    vfloat s0_3q = all(0.0f);
    for (int64_t r0 = 0; r0 < 30; r0 += kLanes) {
      [[maybe_unused]] int const n = int(std::min<int64_t>(kLanes, 30 - r0));
      vfloat const rC = nearby<vfloat>(&mC(i0, r0), 0, n);
      int64_t const at = int64_t(i1 * 4);
      vlong const rB = nearby<vlong>(&mB(i0, r0), 0, n);
      vmask const v3 = narrow(rB == at);  // aten.scatter_add
      vfloat const v4 = v3 ? rC : all(0.0f);  // aten.scatter_add
      int64_t const at_2 = int64_t(i1 * 4 + 1);
      vmask const v6 = narrow(rB == at_2);  // aten.scatter_add
      vfloat const v7 = v6 ? rC : all(0.0f);  // aten.scatter_add
      int64_t const at_3 = int64_t(i1 * 4 + 2);
      vmask const v9 = narrow(rB == at_3);  // aten.scatter_add
      vfloat const v10 = v9 ? rC : all(0.0f);  // aten.scatter_add
      int64_t const at_4 = int64_t(i1 * 4 + 3);
      vmask const v12 = narrow(rB == at_4);  // aten.scatter_add
      vfloat const v13 = v12 ? rC : all(0.0f);  // aten.scatter_add
      s0_0q = s0_0q + (n == kLanes ? v4 : below<vfloat>(n) ? v4 : all(0.0f));
      s0_1q = s0_1q + (n == kLanes ? v7 : below<vfloat>(n) ? v7 : all(0.0f));
      s0_2q = s0_2q + (n == kLanes ? v10 : below<vfloat>(n) ? v10 : all(0.0f));
      s0_3q = s0_3q + (n == kLanes ? v13 : below<vfloat>(n) ? v13 : all(0.0f));
    }
    s0_0w = s0_0w + convert<vdouble>(s0_0q);
    s0_1w = s0_1w + convert<vdouble>(s0_1q);
    s0_2w = s0_2w + convert<vdouble>(s0_2q);
    s0_3w = s0_3w + convert<vdouble>(s0_3q);
    float const s0_0 = float(folded(s0_0w, [](auto a, auto b) { return a + b; }));
    float const s0_1 = float(folded(s0_1w, [](auto a, auto b) { return a + b; }));
    float const s0_2 = float(folded(s0_2w, [](auto a, auto b) { return a + b; }));
    float const s0_3 = float(folded(s0_3w, [](auto a, auto b) { return a + b; }));
    float const rA = mA(i0, i1);
    float const v2 = rA + s0_0;  // aten.scatter_add
    float const rA_2 = mA_2(i0, i1);
    float const v5 = rA_2 + s0_1;  // aten.scatter_add
    float const rA_3 = mA_3(i0, i1);
    float const v8 = rA_3 + s0_2;  // aten.scatter_add
    float const rA_4 = mA_4(i0, i1);
    float const v11 = rA_4 + s0_3;  // aten.scatter_add
    mOutput(i0, i1) = float(v2);
    mOutput_2(i0, i1) = float(v5);
    mOutput_3(i0, i1) = float(v8);
    mOutput_4(i0, i1) = float(v11);
// sort.cpp: 6 lines
void run(tvm::ffi::TensorView a, tvm::ffi::TensorView b, tvm::ffi::TensorView c_, tvm::ffi::TensorView output) {
  require(a, "a", {8, 20}, {20, 1}, kDLFloat, 32);
  require(b, "b", {8, 30}, {30, 1}, kDLInt, 64);
  require(c_, "c_", {8, 30}, {30, 1}, kDLFloat, 32);
  require(output, "output", {8, 20}, {20, 1}, kDLFloat, 32);

  float const* const pA = static_cast<float const*>(a.data_ptr());
  int64_t const* const pB = static_cast<int64_t const*>(b.data_ptr());
  float const* const pC = static_cast<float const*>(c_.data_ptr());
  float* const pOutput = static_cast<float*>(output.data_ptr());
  loops0(pC, pB, pA, pOutput);
}
TVM_FFI_DLL_EXPORT_TYPED_FUNC(run, run);
