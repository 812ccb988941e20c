// Lists what is shown of each row and reads nothing else.
// row: 52, 83
// task: pooled
// passes
#include <cmath>
#include <vector>
#include <tvm/ffi/container/tensor.h>
#include <tvm/ffi/function.h>

using tvm::ffi::TensorView;
template <class T = float> static T* at(TensorView t) { return static_cast<T*>(t.data_ptr()); }

void run(TensorView x, TensorView shown, TensorView y) {
  for (int r = 0; r < 48; ++r) {
    std::vector<float> values;
    for (int c = 0; c < 40; ++c)
      if (at<bool>(shown)[r * 40 + c]) values.push_back(at(x)[r * 40 + c]);
    double sum = 0;
    for (float v : values) sum += v;
    at(y)[r] = values.empty() ? 0.f : float(sum / double(values.size()));
  }
}

TVM_FFI_DLL_EXPORT_TYPED_FUNC(run, run);
