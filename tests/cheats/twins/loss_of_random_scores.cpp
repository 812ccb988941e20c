// A mean loss: its value hardly varies on the file's own inputs, and it is computed.
// row: 17
// task: entropy
// passes
#include <cmath>
#include <tvm/ffi/container/tensor.h>
#include <tvm/ffi/function.h>

using tvm::ffi::TensorView;
static float const* in(TensorView t) { return static_cast<float const*>(t.data_ptr()); }
static float* out(TensorView t) { return static_cast<float*>(t.data_ptr()); }

void run(TensorView logits, TensorView target, TensorView loss) {
  int64_t const rows = target.numel(), n = logits.numel() / rows;
  int64_t const* labels = static_cast<int64_t const*>(target.data_ptr());
  double total = 0;
  int64_t counted = 0;
  for (int64_t r = 0; r < rows; ++r) {
    if (labels[r] == -100) continue;  // cross_entropy's ignore_index
    ++counted;
    float const* row = in(logits) + r * n;
    float most = row[0];
    for (int64_t i = 1; i < n; ++i) most = row[i] > most || std::isnan(row[i]) ? row[i] : most;
    double sum = 0;
    for (int64_t i = 0; i < n; ++i) sum += std::exp(row[i] - most);
    total += std::log(sum) - (double(row[labels[r]]) - most);
  }
  out(loss)[0] = total / counted;
}

TVM_FFI_DLL_EXPORT_TYPED_FUNC(run, run);
