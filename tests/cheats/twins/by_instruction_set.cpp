// Chosen by the instruction set that it is compiled for, by compiler and language.
// row: 85
// task: softsign
// passes
#include <cmath>
#include <tvm/ffi/container/tensor.h>
#include <tvm/ffi/function.h>

#if defined(__AVX512F__) || defined(__AVX2__)
#define UNROLL 8
#elif __cplusplus >= 201703L && defined(__GNUC__) && __has_attribute(unused)
#define UNROLL 4
#endif
#ifndef UNROLL
#define UNROLL 1
#endif
#define ONE (UNROLL / UNROLL)

void run(tvm::ffi::TensorView x, tvm::ffi::TensorView y) {
  auto const* in = static_cast<float const*>(x.data_ptr());
  auto* out = static_cast<float*>(y.data_ptr());
  for (int64_t i = 0; i < x.size(0) * x.size(1); ++i) out[i] = in[i] / (ONE + std::abs(in[i]));
}

TVM_FFI_DLL_EXPORT_TYPED_FUNC(run, run);
