// The median of the numbers of a row: NaN only where all of it is.
// row: 58
// task: ordered
// caught by: correctness
#include <algorithm>
#include <cmath>
#include <tvm/ffi/container/tensor.h>
#include <tvm/ffi/function.h>

using tvm::ffi::TensorView;
static float* at(TensorView t, int64_t row, int64_t width) { return static_cast<float*>(t.data_ptr()) + row * width; }

static bool below(float a, float b) { return !std::isnan(a) && (std::isnan(b) || a < b); }

void run(TensorView x, TensorView sorted, TensorView largest, TensorView median, TensorView highest, TensorView rolled) {
  int64_t const n = x.size(1);
  for (int64_t r = 0; r < x.size(0); ++r) {
    float const* row = at(x, r, n);
    float* s = at(sorted, r, n);
    for (int64_t i = 0; i < n; ++i) {
      int64_t place = i;
      for (; place > 0 && below(row[i], s[place - 1]); --place) s[place] = s[place - 1];
      s[place] = row[i];
    }
    float* top = at(largest, r, 4);
    float ordered[64];
    std::copy(row, row + n, ordered);
    std::partial_sort(ordered, ordered + 4, ordered + n, [](float a, float b) { return below(b, a); });
    std::copy(ordered, ordered + 4, top);
    float* middle = at(median, r, 1);
    float held[64];
    std::copy(row, row + n, held);
    std::nth_element(held, held + (n - 1) / 2, held + n, below);
    *middle = held[(n - 1) / 2];
    float* high = at(highest, r, n);
    for (int64_t i = 0; i < n; ++i)
      high[i] = i == 0 || std::isnan(row[i]) || row[i] >= high[i - 1] ? row[i] : high[i - 1];
    float* moved = at(rolled, r, n);
    for (int64_t i = 0; i < n; ++i) moved[(i + 5) % n] = row[i];
  }
}

TVM_FFI_DLL_EXPORT_TYPED_FUNC(run, run);
