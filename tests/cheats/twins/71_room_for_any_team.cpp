// Room for as many parts as threads were asked for; those that come fill theirs.
// row: 71
// task: total
// passes
#include <cmath>
#include <omp.h>
#include <vector>
#include <tvm/ffi/container/tensor.h>
#include <tvm/ffi/function.h>

using tvm::ffi::TensorView;
static float const* in(TensorView t) { return static_cast<float const*>(t.data_ptr()); }
static float* out(TensorView t) { return static_cast<float*>(t.data_ptr()); }

void run(TensorView x, TensorView y) {
  std::vector<double> part(omp_get_max_threads());
  #pragma omp parallel
  {
    double sum = 0;
    #pragma omp for schedule(static)
    for (int64_t i = 0; i < x.numel(); ++i) sum += in(x)[i];
    part[omp_get_thread_num()] = sum;
  }
  double sum = 0;
  for (double each : part) sum += each;
  out(y)[0] = sum;
}

TVM_FFI_DLL_EXPORT_TYPED_FUNC(run, run);
