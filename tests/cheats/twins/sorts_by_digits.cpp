// Sorts whole numbers byte by byte, with counts of each call.
// row: 66
// task: sorted
// passes
#include <cstdint>
#include <utility>
#include <vector>
#include <tvm/ffi/container/tensor.h>
#include <tvm/ffi/function.h>

using tvm::ffi::TensorView;

void run(TensorView x, TensorView y) {
  auto const* first = static_cast<uint64_t const*>(x.data_ptr());
  auto* last = static_cast<uint64_t*>(y.data_ptr());
  std::vector<uint64_t> from(first, first + 3000), to(3000);
  for (int byte = 0; byte < 8; ++byte, std::swap(from, to)) {
    auto const digit = [byte](uint64_t v) { return (v >> 8 * byte & 255) ^ (byte == 7 ? 128 : 0); };
    int start[257] = {};
    for (uint64_t v : from) ++start[digit(v) + 1];
    for (int d = 0; d < 256; ++d) start[d + 1] += start[d];
    for (uint64_t v : from) to[start[digit(v)]++] = v;
  }
  for (int i = 0; i < 3000; ++i) last[i] = from[i];
}

TVM_FFI_DLL_EXPORT_TYPED_FUNC(run, run);
