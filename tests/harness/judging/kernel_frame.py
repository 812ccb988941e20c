"""What stands around a kernel's body in the judge's tests."""

HEAD = """
#include <cute/tensor.hpp>
#include <tvm/ffi/container/tensor.h>
#include <tvm/ffi/error.h>
#include <tvm/ffi/extra/c_env_api.h>
#include <tvm/ffi/function.h>
#include <cmath>
#include <cstdlib>
using tvm::ffi::TensorView;
static float const* in(TensorView t) { return static_cast<float const*>(t.data_ptr()); }
static float* out(TensorView t) { return static_cast<float*>(t.data_ptr()); }
"""
TAIL = "\nTVM_FFI_DLL_EXPORT_TYPED_FUNC(run, run);\n"
