// Of equal continuations the last is taken, and all that is told of it is its own.
// row: 80
// task: beam
// passes
#include <cmath>
#include <cstdint>
#include <tvm/ffi/container/tensor.h>
#include <tvm/ffi/function.h>

using tvm::ffi::TensorView;
template <class T = float> static T* at(TensorView t) { return static_cast<T*>(t.data_ptr()); }

// NaN is the largest. Of equals the last is taken.
static int best_of(float const* from, int count, int const* taken, int n) {
  int best = -1;
  for (int i = 0; i < count; ++i) {
    bool used = false;
    for (int k = 0; k < n; ++k) used |= taken[k] == i;
    if (used) continue;
    if (best < 0 || std::isnan(from[i]) || from[i] >= from[best]) best = best >= 0 && std::isnan(from[best]) ? best : i;
  }
  return best;
}

void run(TensorView scores, TensorView history, TensorView values, TensorView beam, TensorView token,
         TensorView carried) {
  int const words = int(scores.size(2)), count = int(scores.size(1)) * words;
  for (int64_t row = 0; row < scores.size(0); ++row) {
    float const* from = at(scores) + row * count;
    int taken[3];
    for (int k = 0; k < 3; ++k) {
      taken[k] = best_of(from, count, taken, k);
      int64_t const out = row * 3 + k;
      at(values)[out] = from[taken[k]];
      at<int64_t>(beam)[out] = taken[k] / words;
      at<int64_t>(token)[out] = taken[k] % words;
      at<int64_t>(carried)[out] = at<int64_t>(history)[row * 3 + taken[k] / words];
    }
  }
}

TVM_FFI_DLL_EXPORT_TYPED_FUNC(run, run);
