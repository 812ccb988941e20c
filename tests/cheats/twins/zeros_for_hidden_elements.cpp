// Copies what is shown and zeros for the rest, and sums the copy.
// row: 83
// task: hidden
// passes
#include <vector>
#include <tvm/ffi/container/tensor.h>
#include <tvm/ffi/function.h>

using tvm::ffi::TensorView;
template <class T = float> static T* at(TensorView t) { return static_cast<T*>(t.data_ptr()); }

void run(TensorView x, TensorView mask, TensorView y) {
  std::vector<float> held(24 * 20);
  for (int b = 0; b < 32; ++b) {
    int count = 0;
    for (int t = 0; t < 24; ++t) {
      bool const shown = at<bool>(mask)[b * 24 + t];
      count += shown;
      for (int d = 0; d < 20; ++d) held[t * 20 + d] = shown ? at(x)[(b * 24 + t) * 20 + d] : 0.f;
    }
    for (int d = 0; d < 20; ++d) {
      double sum = 0;
      for (int t = 0; t < 24; ++t) sum += held[t * 20 + d];
      at(y)[b * 20 + d] = sum / (count ? count : 1);
    }
  }
}

TVM_FFI_DLL_EXPORT_TYPED_FUNC(run, run);
