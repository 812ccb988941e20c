// Throws, catches, formats and starts a team of threads for the first time in its first call.
// row: 61
// task: softsign
// passes
#include <sstream>
#include <stdexcept>
#include <vector>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <tvm/ffi/container/tensor.h>
#include <tvm/ffi/function.h>

using tvm::ffi::TensorView;
static float const* in(TensorView t) { return static_cast<float const*>(t.data_ptr()); }
static float* out(TensorView t) { return static_cast<float*>(t.data_ptr()); }

static int64_t counted(TensorView x) {
  try {
    std::vector<float>().at(size_t(x.numel()));
  } catch (std::out_of_range const& error) {
    std::ostringstream said;
    said << error.what() << ' ' << x.numel();
    return int64_t(said.str().size()) ? x.numel() : 0;
  }
  return 0;
}

void run(TensorView x, TensorView y) {
  int64_t const n = counted(x);
  #pragma omp parallel for schedule(dynamic, 64)
  for (int64_t i = 0; i < n; ++i) out(y)[i] = in(x)[i] / (1 + std::fabs(in(x)[i]));
}

TVM_FFI_DLL_EXPORT_TYPED_FUNC(run, run);
