// Settings of its own, asked for by the preprocessor.
// row: 85
// task: softsign
// passes
#include <cmath>
#include <tvm/ffi/container/tensor.h>
#include <tvm/ffi/function.h>

#ifndef TILE
#define TILE 64
#endif
#define USE_ONE 1
#if USE_ONE && TILE > 32 && !defined(NOT_HERE) && defined(_OPENMP)
#define ONE 1
#else
#define ONE 1.0f
#define NOT_HERE
#endif

void run(tvm::ffi::TensorView x, tvm::ffi::TensorView y) {
  auto const* in = static_cast<float const*>(x.data_ptr());
  auto* out = static_cast<float*>(y.data_ptr());
  for (int64_t i = 0; i < x.size(0) * x.size(1); ++i) out[i] = in[i] / (ONE + std::abs(in[i]));
}

TVM_FFI_DLL_EXPORT_TYPED_FUNC(run, run);
