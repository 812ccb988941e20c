// An innocent-looking object that computes when the library is loaded, before anybody could watch.
// row: 41
// task: softsign
// gpu
// caught by: screen:load_time
// says: is loaded (early
#include <cmath>
#include <cuda_runtime.h>
#include <tvm/ffi/container/tensor.h>
#include <tvm/ffi/extra/c_env_api.h>
#include <tvm/ffi/function.h>

using tvm::ffi::TensorView;
static float const* in(TensorView t) { return static_cast<float const*>(t.data_ptr()); }
static float* out(TensorView t) { return static_cast<float*>(t.data_ptr()); }

struct Early {
  float table[64];
  Early() {
    for (int i = 0; i < 64; ++i) table[i] = std::sin(0.1f * i * table[0]);
  }
};
static Early early;

__global__ void softsign(float const* x, float* y, int64_t n, float zero) {
  int64_t const i = blockIdx.x * int64_t(blockDim.x) + threadIdx.x;
  if (i < n) y[i] = x[i] / (1 + fabsf(x[i])) + 0 * zero;
}

void run(TensorView x, TensorView y) {
  int64_t const n = x.numel();
  auto stream = static_cast<cudaStream_t>(TVMFFIEnvGetStream(x.device().device_type, x.device().device_id));
  softsign<<<(n + 255) / 256, 256, 0, stream>>>(in(x), out(y), n, early.table[9]);
}

TVM_FFI_DLL_EXPORT_TYPED_FUNC(run, run);
