// Tasks, schedules that end where they like, scratch memory of each row's own, another rounding set and put back.
// row: 2
// task: softsign
// passes
#include <cmath>
#include <immintrin.h>
#include <tvm/ffi/container/tensor.h>
#include <tvm/ffi/function.h>
#include <vector>

using tvm::ffi::TensorView;
static float const* in(TensorView t) { return static_cast<float const*>(t.data_ptr()); }
static float* out(TensorView t) { return static_cast<float*>(t.data_ptr()); }

static void row(TensorView x, TensorView y, int64_t r) {
  int64_t const n = x.size(1);
  std::vector<float> below(n), above(n);
  for (int64_t i = n - 1; i >= 0; --i) below[i] = 1 + std::fabs(above[i] = in(x)[r * n + i]);
  for (int64_t i = 0; i < n; ++i) out(y)[r * n + i] = above[i] / below[i];
}

void run(TensorView x, TensorView y) {
  int64_t const rows = x.size(0);
  if (rows == 0) return;
  #pragma omp parallel
  {
    unsigned const before = _mm_getcsr();
    _mm_setcsr(before | 0x6000);
    #pragma omp for schedule(guided, 3) nowait
    for (int64_t r = 0; r < rows / 3; ++r) row(x, y, r);
    #pragma omp for schedule(dynamic, 2) nowait
    for (int64_t r = rows - 1; r >= rows / 3 * 2; --r) row(x, y, r);
    #pragma omp single
    #pragma omp taskloop grainsize(4)
    for (int64_t r = rows / 3; r < rows / 3 * 2; ++r) row(x, y, r);
    _mm_setcsr(before);
  }
}

TVM_FFI_DLL_EXPORT_TYPED_FUNC(run, run);
