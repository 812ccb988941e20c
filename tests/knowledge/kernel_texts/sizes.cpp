// softmax: 4 loop nests.
//   loops0: 1, amax over n1; 1 stored
//     then: n1; 1 stored
//     then: 1, sum over n1; 1 stored
//     then: n1; 1 stored
// playbook plan: {"knobs": {}, "recipe": "sizes"}
// convolution.cpp: 7 lines

template <class To, class From> inline To convert(From v) { return __builtin_convertvector(v, To); }
// pointwise.cpp: 57 lines
// convolution.cpp: 22 lines
// scatter.cpp: 7 lines
namespace math {
// The larger one; NaN where either is NaN.
template <class V> inline V maximum(V a, V b) { return ((a > b) | (a != a)) ? a : b; }

// pointwise.cpp: 14 lines
// pointwise.cpp: 29 lines
// rows.cpp: 7 lines
}  // namespace math

void loops0(float const* pA, float* pOutput, int64_t n0, int64_t n1) {
  #pragma omp parallel for schedule(static)
  for (int64_t task = 0; task < n0; ++task) {
    int64_t const b0 = task;
    alignas(64) float ownBetween3[1];
    float* const pBetween3 = ownBetween3;
    alignas(64) float ownBetween1[n1];
    float* const pBetween1 = ownBetween1;
    alignas(64) float ownBetween4[1];
    float* const pBetween4 = ownBetween4;
    Tensor mA = make_tensor(pA, make_layout(make_shape(int64_t(n0), int64_t(n1)), make_stride(int64_t(n1), Int<1>{})));  // (b0:n0, r0:n1)
    Tensor mBetween3 = make_tensor(pBetween3, Layout<_1, _1>{});  // ()
    Tensor mA_2 = make_tensor(pA, make_layout(make_shape(int64_t(n0), int64_t(n1)), make_stride(int64_t(n1), Int<1>{})));  // (b0:n0, i1:n1)
    Tensor mBetween1 = make_tensor(pBetween1, make_layout(make_shape(int64_t(n1)), make_stride(Int<1>{})));  // (i1:n1)
    Tensor mBetween1_2 = make_tensor(pBetween1, make_layout(make_shape(int64_t(n1)), make_stride(Int<1>{})));  // (r0:n1)
    Tensor mBetween4 = make_tensor(pBetween4, Layout<_1, _1>{});  // ()
    Tensor mOutput = make_tensor(pOutput, make_layout(make_shape(int64_t(n0), int64_t(n1)), make_stride(int64_t(n1), Int<1>{})));  // (b0:n0, i1:n1)
    {
      vfloat s0w = all((-float(INFINITY)));
      for (int64_t r0 = 0; r0 < n1; r0 += kLanes) {
        [[maybe_unused]] int const n = int(std::min<int64_t>(kLanes, n1 - r0));
        vfloat const rA = nearby<vfloat>(&mA(b0, r0), 0, n);
        s0w = math::maximum(s0w, (n == kLanes ? rA : below<vfloat>(n) ? rA : all((-float(INFINITY)))));
      }
      float const s0 = float(folded(s0w, [](auto a, auto b) { return math::maximum(a, b); }));
      mBetween3(0) = float(s0);
    }
    {
      for (int64_t i1 = 0; i1 < n1; i1 += kLanes) {
        int const n = int(std::min<int64_t>(kLanes, n1 - i1));
        float const rBetween3 = mBetween3(0);
        vfloat const rA = nearby<vfloat>(&mA_2(b0, i1), 0, n);
        vfloat const v2 = rA - rBetween3;  // aten.softmax.int
        vfloat const v3 = math::exp(v2);  // aten.softmax.int
        put(&mBetween1(i1), v3, n);
      }
    }
    {
      vdouble s0w = all(0.0);
      for (int64_t block = 0; block < n1; block += 4096) {
        vfloat s0q = all(0.0f);
        for (int64_t r0 = block; r0 < std::min<int64_t>(block + 4096, n1); r0 += kLanes) {
          [[maybe_unused]] int const n = int(std::min<int64_t>(kLanes, n1 - r0));
          vfloat const rBetween1 = nearby<vfloat>(&mBetween1_2(r0), 0, n);
          s0q = s0q + (n == kLanes ? rBetween1 : below<vfloat>(n) ? rBetween1 : all(0.0f));
        }
        s0w = s0w + convert<vdouble>(s0q);
      }
      float const s0 = float(folded(s0w, [](auto a, auto b) { return a + b; }));
      mBetween4(0) = float(s0);
    }
    {
      for (int64_t i1 = 0; i1 < n1; i1 += kLanes) {
        int const n = int(std::min<int64_t>(kLanes, n1 - i1));
        float const rBetween4 = mBetween4(0);
        vfloat const rBetween1 = nearby<vfloat>(&mBetween1(i1), 0, n);
        vfloat const v2 = rBetween1 / rBetween4;  // aten.softmax.int
        put(&mOutput(b0, i1), v2, n);
      }
    }
  }
// rows.cpp: 6 lines
  int64_t const n0 = a.ndim() > 0 ? a.size(0) : 0;
  int64_t const n1 = a.ndim() > 1 ? a.size(1) : 0;
  require(a, "a", {n0, n1}, {n1, 1}, kDLFloat, 32);
  require(output, "output", {n0, n1}, {n1, 1}, kDLFloat, 32);

  float const* const pA = static_cast<float const*>(a.data_ptr());
  float* const pOutput = static_cast<float*>(output.data_ptr());
  loops0(pA, pOutput, n0, n1);
}
TVM_FFI_DLL_EXPORT_TYPED_FUNC(run, run);
