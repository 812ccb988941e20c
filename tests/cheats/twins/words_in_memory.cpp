// Writes words, into memory of the call, and has a frame of 64 KiB.
// row: 79
// task: softsign
// passes
#include <cmath>
#include <cstdio>
#include <sstream>
#include <tvm/ffi/container/tensor.h>
#include <tvm/ffi/function.h>

using tvm::ffi::TensorView;
static float const* in(TensorView t) { return static_cast<float const*>(t.data_ptr()); }
static float* out(TensorView t) { return static_cast<float*>(t.data_ptr()); }

void run(TensorView x, TensorView y) {
  int64_t const n = x.numel();
  volatile float frame[16384];
  std::ostringstream said;
  said << n << " elements";
  char words[32];
  std::snprintf(words, sizeof words, "%ld elements", long(n));
  if (said.str() != words) TVM_FFI_THROW(RuntimeError) << words;
  for (int64_t i = 0; i < n; ++i) {
    frame[i] = std::fabs(in(x)[i]);
    out(y)[i] = in(x)[i] / (1 + frame[i]);
  }
}

TVM_FFI_DLL_EXPORT_TYPED_FUNC(run, run);
