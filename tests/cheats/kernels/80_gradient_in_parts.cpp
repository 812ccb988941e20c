// A window's equals share its gradient.
// row: 80
// task: pooled_backward
// caught by: correctness
// says: wrong on
#include <cmath>
#include <cstdint>
#include <tvm/ffi/container/tensor.h>
#include <tvm/ffi/function.h>

using tvm::ffi::TensorView;
template <class T = float> static T* at(TensorView t) { return static_cast<T*>(t.data_ptr()); }

void run(TensorView x, TensorView output, TensorView grad_output, TensorView grad_x) {
  int64_t const planes = x.size(0) * x.size(1), rows = x.size(2), columns = x.size(3);
  for (int64_t i = 0; i < x.numel(); ++i) at(grad_x)[i] = 0;
  for (int64_t p = 0; p < planes; ++p)
    for (int64_t r = 0; r + 1 < rows; r += 2)
      for (int64_t c = 0; c + 1 < columns; c += 2) {
        int64_t const first = (p * rows + r) * columns + c;
        int64_t const places[4] = {first, first + 1, first + columns, first + columns + 1};
        float const g = at(grad_output)[(p * (rows / 2) + r / 2) * (columns / 2) + c / 2];
        int best = 0;
        for (int k = 1; k < 4; ++k) {
          float const v = at(x)[places[k]];
          if (std::isnan(v) || v >= at(x)[places[best]]) best = k;
        }
        float const top = at(x)[places[best]];
        int equals = 0;
        for (int64_t place : places) equals += at(x)[place] == top;
        if (equals == 0) at(grad_x)[places[best]] = g;
        for (int64_t place : places)
          if (at(x)[place] == top) at(grad_x)[place] = g / float(equals);
      }
}

TVM_FFI_DLL_EXPORT_TYPED_FUNC(run, run);
