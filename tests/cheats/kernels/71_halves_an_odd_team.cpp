// Halves a team's parts again and again, but minds an odd one at the first time alone.
// row: 71
// task: columns
// caught by: correctness|timed_output
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <omp.h>
#include <tvm/ffi/container/tensor.h>
#include <tvm/ffi/function.h>

using tvm::ffi::TensorView;
template <class T = float> static T const* in(TensorView t) { return static_cast<T const*>(t.data_ptr()); }
template <class T = float> static T* out(TensorView t) { return static_cast<T*>(t.data_ptr()); }

void run(TensorView x, TensorView y) {
  double part[16][64] = {}; int team = 1;
  #pragma omp parallel num_threads(std::min(omp_get_max_threads(), 16))
  {
    int const t = omp_get_thread_num(), n = omp_get_num_threads();
    if (t == 0) team = n;
    for (int r = t; r < 1000; r += n) for (int c = 0; c < 64; ++c) part[t][c] += in(x)[r*64+c];
  }
  if (team % 2 && team > 1) { for (int c = 0; c < 64; ++c) part[0][c] += part[team-1][c]; --team; }
  for (int s = team / 2; s; s /= 2) for (int t = 0; t < s; ++t) for (int c = 0; c < 64; ++c) part[t][c] += part[t+s][c];
  std::transform(part[0], part[0] + 64, out(y), [](double v) { return float(v); });
}
TVM_FFI_DLL_EXPORT_TYPED_FUNC(run, run);
