"""Hand-written CUDA kernels for the judge: y = x / (1 + |x|), done right and wrong in every way that counts."""

from __future__ import annotations

HEAD = """
#include <cute/tensor.hpp>
#include <cuda_runtime.h>
#include <tvm/ffi/container/tensor.h>
#include <tvm/ffi/error.h>
#include <tvm/ffi/extra/c_env_api.h>
#include <tvm/ffi/function.h>
using tvm::ffi::TensorView;

static cudaStream_t stream_of(TensorView t) {
  return static_cast<cudaStream_t>(TVMFFIEnvGetStream(t.device().device_type, t.device().device_id));
}
static float const* in(TensorView t) { return static_cast<float const*>(t.data_ptr()); }
static float* out(TensorView t) { return static_cast<float*>(t.data_ptr()); }
"""
TAIL = "\nTVM_FFI_DLL_EXPORT_TYPED_FUNC(run, run);\n"

SOFTSIGN = """
import torch

class Model(torch.nn.Module):
    def forward(self, x):
        return x / (1 + torch.abs(x))

def get_inputs():
    return [torch.rand(ROWS, COLUMNS)]
"""


def task_source(rows: int, columns: int) -> str:
    """Softsign at a shape."""
    return SOFTSIGN.replace("ROWS", str(rows)).replace("COLUMNS", str(columns))


def kernel(element: str, *, around: str = "", launch: str = "", before: str = "") -> str:
    """A whole source: `element` is done for every index i < n, `around` once a thread before, `launch` in `run`."""
    usual = "each<<<int(std::min<int64_t>((n + 255) / 256, 132 * 64)), 256, 0, stream_of(y)>>>(in(x), out(y), n);"
    return f"""{HEAD}
{before}
__global__ void each(float const* x, float* y, int64_t n) {{
  {around}
  for (int64_t i = blockIdx.x * 256ll + threadIdx.x; i < n; i += gridDim.x * 256ll) {{ {element} }}
}}
void run(TensorView x, TensorView y) {{
  int64_t const n = x.numel();
  {launch or usual}
}}
{TAIL}"""


RIGHT = kernel("y[i] = x[i] / (1 + fabsf(x[i]));")
CUTE = f"""{HEAD}
template <class In, class Out>
__global__ void each(In x, Out y, int n) {{
  int const i = blockIdx.x * 128 + threadIdx.x;
  if (i >= n) return;
  auto from = x(cute::_, i);                                   // (4)
  auto to = y(cute::_, i);                                     // (4)
  auto held = cute::make_fragment_like(to);                    // (4)
  cute::copy(cute::AutoVectorizingCopy{{}}, from, held);
  for (int k = 0; k < 4; ++k) held(k) = held(k) / (1 + fabsf(held(k)));
  cute::copy(cute::AutoVectorizingCopy{{}}, held, to);
}}
void run(TensorView x, TensorView y) {{
  int const n = int(x.numel() / 4);
  auto layout = cute::make_layout(cute::make_shape(cute::Int<4>{{}}, n));
  auto from = cute::make_tensor(cute::make_gmem_ptr(in(x)), layout);
  auto to = cute::make_tensor(cute::make_gmem_ptr(out(y)), layout);
  each<<<(n + 127) / 128, 128, 0, stream_of(y)>>>(from, to, n);
}}
{TAIL}"""
COPY = kernel("y[i] = x[i];")
HANG = kernel("y[i] = x[i];", around="while (*reinterpret_cast<volatile float const*>(x) > -1e30f) {}")
BROKEN = {
    "wrong": (RIGHT.replace("fabsf(x[i])", "x[i]"), "wrong", "correctness", "on wide inputs"),
    "tail": (RIGHT.replace("i < n;", "i < n - 3;"), "wrong", "correctness", "the tail from flat index"),
    "illegal address": (
        kernel("y[i] = x[i];", around="*reinterpret_cast<volatile float*>(8) = 1.f;"),
        "crashed", "cuda", "ILLEGAL_ADDRESS",
    ),
    "inputs written": (
        kernel("y[i] = x[i] / (1 + fabsf(x[i])); const_cast<float*>(x)[i] = 0.25f;"),
        "crashed", "cuda", "ILLEGAL_ADDRESS",
    ),
    "a little too far": (
        kernel("y[i] = x[i] / (1 + fabsf(x[i])); if (i == n - 1) y[n + 2] = 1.f;"),
        "crashed", "out_of_bounds", "just after",
    ),
    "too much shared memory": (
        kernel("y[i] = x[i];", launch="each<<<1, 256, 400 << 10, stream_of(y)>>>(in(x), out(y), n);"),
        "crashed", "launch", "cudaError",
    ),
    "too many threads": (
        kernel("y[i] = x[i];", launch="each<<<1, 4096, 0, stream_of(y)>>>(in(x), out(y), n);"),
        "crashed", "launch", "cudaErrorInvalid",
    ),
    "out of memory": (
        kernel("y[i] = x[i];", launch="void* p; if (cudaMallocAsync(&p, size_t(1) << 40, stream_of(y)) != cudaSuccess)"
               " { (void)cudaGetLastError(); TVM_FFI_THROW(RuntimeError) << \"out of memory\"; }"),
        "crashed", "memory", "out of memory",
    ),
    "trap": (kernel("y[i] = x[i];", around="__trap();"), "crashed", "cuda", "CUDA_ERROR"),
    "nothing": (kernel("(void)x; (void)y;"), "wrong", "correctness", "never written"),
}  # fmt: skip
