// Lists what is not zero of a weight, in each call.
// row: 66
// task: pruned
// passes
#include <cstring>
#include <vector>
#include <tvm/ffi/container/tensor.h>
#include <tvm/ffi/function.h>

using tvm::ffi::TensorView;
static float const* in(TensorView t) { return static_cast<float const*>(t.data_ptr()); }
static float* out(TensorView t) { return static_cast<float*>(t.data_ptr()); }

struct List {
  bool looks[16];
  std::vector<int> start, column;
};

static void fill(List& list, float const* from, int by_row, int by_column) {
  list.start.clear();
  list.column.clear();
  for (int r = 0; r < 64; ++r) {
    list.start.push_back(int(list.column.size()));
    for (int c = 0; c < 96; ++c)
      if (from[r * by_row + c * by_column] != 0) list.column.push_back(c);
  }
  list.start.push_back(int(list.column.size()));
}

void run(TensorView x, TensorView weight, TensorView shown, TensorView y) {
  float const *w = in(weight), *s = in(shown);
  List list;
  fill(list, w, 96, 1);
  for (int b = 0; b < 4; ++b)
    for (int r = 0; r < 64; ++r) {
      double sum = 0;
      for (int i = list.start[r]; i < list.start[r + 1]; ++i) sum += double(in(x)[b * 96 + list.column[i]]) * w[r * 96 + list.column[i]];
      for (int c = 0; c < 96; ++c) sum += double(in(x)[b * 96 + c]) * s[c * 64 + r];
      out(y)[b * 64 + r] = float(sum);
    }
}

TVM_FFI_DLL_EXPORT_TYPED_FUNC(run, run);
