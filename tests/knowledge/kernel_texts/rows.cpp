// Along rows: softmax.
//   64 rows of 1000, each gone over 3 times while it is in the cache
//   bytes moved: 512000; operations: 320000
// playbook plan: {"knobs": {"accumulators": 4, "exact": 1, "keep": 1, "lanes": 8}, "recipe": "rows"}
// pointwise.cpp: 149 lines
// pointwise.cpp: 27 lines
// e^x = 2^n e^r with n = round(x / ln 2); ln 2 in two parts, the first short enough that n times it is exact.
inline vfloat exp(vfloat x) {
  x = clip(x, -106.0f, 90.0f);
  vfloat const n = nearest(x * 1.44269504088896341f);
  vfloat const r = (x - n * 0.693359375f) - n * -2.12194440054690583e-4f;
  return scale(1.0f + r * (1.0f + r * exp_series(r)), n);
}

// The larger one; NaN where either is NaN.
template <class V> inline V maximum(V a, V b) { return ((a > b) | (a != a)) ? a : b; }
}  // namespace math

inline void sweep0(vfloat rA, vfloat& rAmax0) {
  rAmax0 = rA;
}

inline void sweep1(vfloat rA, float vAmax0, vfloat& rSum1, vfloat& rKept0) {
  vfloat const v2 = rA - vAmax0;  // aten.softmax.int
  vfloat const v3 = math::exp(v2);  // aten.softmax.int
  rSum1 = v3;
  rKept0 = v3;
}

inline void sweep2(vfloat rKept0, float vSum1, vfloat& rOutput) {
  vfloat const v3 = rKept0 / vSum1;  // aten.softmax.int
  rOutput = v3;
}

// attention: 12 lines
}  // namespace

void run(tvm::ffi::TensorView a, tvm::ffi::TensorView output) {
  require(a, "a", {64, 1000}, {1000, 1}, kDLFloat, 32);
  require(output, "output", {64, 1000}, {1000, 1}, kDLFloat, 32);

  Tensor mA = make_tensor(static_cast<float const*>(a.data_ptr()),
                          make_layout(Shape<Int<1000>, Int<64>>{}, Stride<Int<1>, Int<1000>>{}));  // (1000,64)
  Tensor mOutput = make_tensor(static_cast<float*>(output.data_ptr()),
                               make_layout(Shape<Int<1000>, Int<64>>{}, Stride<Int<1>, Int<1000>>{}));  // (1000,64)
  for (int64_t r = 0; r < 64; ++r) {
    Tensor gA = mA(_, r);  // (1000)
    Tensor gOutput = mOutput(_, r);  // (1000)
    alignas(64) float memoryKept0[1000];  // aten.softmax.int, for later sweeps
    Tensor gKept0 = make_tensor(&memoryKept0[0], make_layout(Int<1000>{}));  // (1000)

    float totalAmax0 = -float(INFINITY);
    for (int64_t c = 0; c < 1000; c += 4096) {
      int const n = int(min(int64_t(4096), 1000 - c));
      Tensor partAmax0 = make_tensor<vfloat>(Int<4>{});  // (4)
      fill(partAmax0, all(-float(INFINITY)));
      int i = 0;
      for (; i + 4 * kLanes <= n; i += 4 * kLanes) {
        #pragma GCC unroll 4
        for (int u = 0; u < 4; ++u) {
          vfloat rAmax0;
          sweep0(load<vfloat>(gA, c + i + u * kLanes), rAmax0);
          partAmax0(u) = math::maximum(partAmax0(u), rAmax0);
        }
      }
      for (; i + kLanes <= n; i += kLanes) {
        vfloat rAmax0;
        sweep0(load<vfloat>(gA, c + i), rAmax0);
        partAmax0(0) = math::maximum(partAmax0(0), rAmax0);
      }
      partAmax0(0) = math::maximum(partAmax0(0), partAmax0(1));
      partAmax0(0) = math::maximum(partAmax0(0), partAmax0(2));
      partAmax0(0) = math::maximum(partAmax0(0), partAmax0(3));
      for (int k = 0; k < kLanes; ++k) { totalAmax0 = math::maximum(totalAmax0, float(partAmax0(0)[k])); }
    }
    float const vAmax0 = float(totalAmax0);  // aten.softmax.int

    double totalSum1 = double(0);
    for (int64_t c = 0; c < 1000; c += 4096) {
      int const n = int(min(int64_t(4096), 1000 - c));
      Tensor partSum1 = make_tensor<vfloat>(Int<4>{});  // (4)
      fill(partSum1, all(float(0)));
      int i = 0;
      for (; i + 4 * kLanes <= n; i += 4 * kLanes) {
        #pragma GCC unroll 4
        for (int u = 0; u < 4; ++u) {
          vfloat rSum1;
          vfloat rKept0;
          sweep1(load<vfloat>(gA, c + i + u * kLanes), vAmax0, rSum1, rKept0);
          partSum1(u) = partSum1(u) + rSum1;
          store(gKept0, c + i + u * kLanes, rKept0);
        }
      }
      for (; i + kLanes <= n; i += kLanes) {
        vfloat rSum1;
        vfloat rKept0;
        sweep1(load<vfloat>(gA, c + i), vAmax0, rSum1, rKept0);
        partSum1(0) = partSum1(0) + rSum1;
        store(gKept0, c + i, rKept0);
      }
      partSum1(0) = partSum1(0) + partSum1(1);
      partSum1(0) = partSum1(0) + partSum1(2);
      partSum1(0) = partSum1(0) + partSum1(3);
      for (int k = 0; k < kLanes; ++k) { totalSum1 = totalSum1 + double(partSum1(0)[k]); }
    }
    float const vSum1 = float(totalSum1);  // aten.softmax.int

    for (int64_t c = 0; c < 1000; c += 4096) {
      int const n = int(min(int64_t(4096), 1000 - c));
      int i = 0;
      for (; i + 4 * kLanes <= n; i += 4 * kLanes) {
        #pragma GCC unroll 4
        for (int u = 0; u < 4; ++u) {
          vfloat rOutput;
          sweep2(load<vfloat>(gKept0, c + i + u * kLanes), vSum1, rOutput);
          store(gOutput, c + i + u * kLanes, rOutput);
        }
      }
      for (; i + kLanes <= n; i += kLanes) {
        vfloat rOutput;
        sweep2(load<vfloat>(gKept0, c + i), vSum1, rOutput);
        store(gOutput, c + i, rOutput);
      }
    }
  }
}
TVM_FFI_DLL_EXPORT_TYPED_FUNC(run, run);
