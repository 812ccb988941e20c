// Every expert counts that is as good as the second.
// row: 80
// task: loads
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

void run(TensorView scores, TensorView loads, TensorView loss) {
  int64_t const rows = scores.size(0);
  double means[8] = {};
  int64_t counts[8] = {};
  for (int64_t row = 0; row < rows; ++row) {
    float const* from = at(scores) + row * 8;
    float largest = from[0], shares[8];
    for (int i = 1; i < 8; ++i) largest = from[i] > largest || std::isnan(from[i]) ? from[i] : largest;
    double sum = 0;
    for (int i = 0; i < 8; ++i) sum += shares[i] = std::exp(from[i] - largest);
    for (int i = 0; i < 8; ++i) means[i] += shares[i] = float(shares[i] / sum);
    int taken[2];
    for (int k = 0; k < 2; ++k) taken[k] = best_of(shares, 8, taken, k);
    for (int i = 0; i < 8; ++i) counts[i] += shares[i] >= shares[taken[1]];
  }
  double total = 0;
  for (int i = 0; i < 8; ++i) at<int64_t>(loads)[i] = counts[i], total += double(counts[i]) * (means[i] / double(rows));
  at(loss)[0] = float(total);
}

TVM_FFI_DLL_EXPORT_TYPED_FUNC(run, run);
