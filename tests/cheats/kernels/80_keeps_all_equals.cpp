// What is as large as the fourth is kept, however many there are.
// row: 80
// task: four_best
// caught by: correctness
// says: wrong on
#include <cmath>
#include <cstdint>
#include <tvm/ffi/container/tensor.h>
#include <tvm/ffi/function.h>

using tvm::ffi::TensorView;
template <class T = float> static T* at(TensorView t) { return static_cast<T*>(t.data_ptr()); }

// NaN is the largest. Of equals the first is taken.
static int best_of(float const* from, int count, int const* taken, int n) {
  int best = -1;
  for (int i = 0; i < count; ++i) {
    bool used = false;
    for (int k = 0; k < n; ++k) used |= taken[k] == i;
    if (used) continue;
    if (best < 0 || std::isnan(from[i]) || from[i] > from[best]) best = best >= 0 && std::isnan(from[best]) ? best : i;
  }
  return best;
}

void run(TensorView x, TensorView y) {
  int const count = int(x.size(1));
  for (int64_t row = 0; row < x.size(0); ++row) {
    float const* from = at(x) + row * count;
    float* to = at(y) + row * count;
    int taken[4];
    for (int k = 0; k < 4; ++k) taken[k] = best_of(from, count, taken, k);
    for (int i = 0; i < count; ++i) to[i] = 0;
    for (int place : taken) to[place] = from[place];
    for (int i = 0; i < count; ++i)
      if (from[i] >= from[taken[3]]) to[i] = from[i];
  }
}

TVM_FFI_DLL_EXPORT_TYPED_FUNC(run, run);
