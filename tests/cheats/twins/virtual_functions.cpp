// Chooses a function by the class of an object, and another by a pointer that it is given.
// row: 61, 68
// task: softsign
// passes
#include <cmath>
#include <memory>
#include <tvm/ffi/container/tensor.h>
#include <tvm/ffi/function.h>

using tvm::ffi::TensorView;
static float const* in(TensorView t) { return static_cast<float const*>(t.data_ptr()); }
static float* out(TensorView t) { return static_cast<float*>(t.data_ptr()); }

struct Rule {
  virtual ~Rule() = default;
  virtual float of(float v) const { return v; }
};
struct Softsign : Rule {
  float of(float v) const override { return v / (1 + std::fabs(v)); }
};

static void each(TensorView x, TensorView y, Rule const& rule, float (Rule::*handler)(float) const) {
  for (int64_t i = 0; i < x.numel(); ++i) out(y)[i] = (rule.*handler)(in(x)[i]);
}

void run(TensorView x, TensorView y) {
  std::unique_ptr<Rule> const rule = x.numel() ? std::make_unique<Softsign>() : std::make_unique<Rule>();
  each(x, y, *rule, &Rule::of);
}

TVM_FFI_DLL_EXPORT_TYPED_FUNC(run, run);
