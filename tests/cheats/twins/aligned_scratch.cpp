// Vector functions of the mathematical library, and scratch memory by the address's alignment.
// row: 61
// task: softmax
// passes
#include <cstdlib>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <tvm/ffi/container/tensor.h>
#include <tvm/ffi/function.h>

using tvm::ffi::TensorView;
static float const* in(TensorView t) { return static_cast<float const*>(t.data_ptr()); }
static float* out(TensorView t) { return static_cast<float*>(t.data_ptr()); }

void run(TensorView x, TensorView y) {
  int64_t const rows = x.size(0), columns = x.size(1);
  void* const memory = std::malloc(size_t(columns) * 4 + 64);
  auto const powers = reinterpret_cast<float*>((reinterpret_cast<uintptr_t>(memory) + 63) & ~uintptr_t(63));
  for (int64_t row = 0; row < rows; ++row) {
    float const* from = in(x) + row * columns;
    float most = from[0];
    for (int64_t i = 1; i < columns; ++i) most = std::fmax(most, from[i]);
    #pragma omp simd
    for (int64_t i = 0; i < columns; ++i) powers[i] = std::exp(from[i] - most);
    double sum = 0;
    for (int64_t i = 0; i < columns; ++i) sum += powers[i];
    for (int64_t i = 0; i < columns; ++i) out(y)[row * columns + i] = float(powers[i] / sum);
  }
  std::free(memory);
}

TVM_FFI_DLL_EXPORT_TYPED_FUNC(run, run);
