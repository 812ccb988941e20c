// Counts under a lock, and gives it back where an exception ends the turn.
// row: 79, 76
// task: softsign
// passes
#include <cmath>
#include <mutex>
#include <stdexcept>
#include <tvm/ffi/container/tensor.h>
#include <tvm/ffi/function.h>

using tvm::ffi::TensorView;
static float const* in(TensorView t) { return static_cast<float const*>(t.data_ptr()); }
static float* out(TensorView t) { return static_cast<float*>(t.data_ptr()); }

void run(TensorView x, TensorView y) {
  std::mutex turn;
  int64_t failed = 0;
  #pragma omp parallel for schedule(dynamic)
  for (int64_t row = 0; row < 37; ++row) try {
      for (int64_t i = row * 129; i < row * 129 + 129; ++i) out(y)[i] = in(x)[i] / (1 + std::fabs(in(x)[i]));
      std::lock_guard const mine(turn);
      if (row % 8 == 7) throw std::runtime_error("every eighth");
    } catch (std::runtime_error const&) {
      std::lock_guard const mine(turn);
      ++failed;
    }
  if (failed != 4) TVM_FFI_THROW(RuntimeError) << failed << " of 37 rows";
}

TVM_FFI_DLL_EXPORT_TYPED_FUNC(run, run);
