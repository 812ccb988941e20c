"""What C++ of a foreign module may name of PyTorch's."""

import pytest

from harness.screen.inline_kernels import foreign_names
from harness.screen.tokens import tokenize

REFUSED = {
    "native": "auto y = at::native::mm_cpu(a, b);",
    "static dispatch": "return ::at::cpu::mm(a, b);",
    "on a GPU": "auto y = at::cuda::mm(a, b);",
    "through another namespace": "auto y = torch :: native::mm(a, b);",
    "alias": "namespace n = at::native;",
    "alias of the root": "namespace n = ::at;",
    "using": "using namespace ::at;",
    "reopened": 'namespace __attribute__((visibility("default"))) at { Tensor f(); }',
    "a macro's root": "#define T torch\nauto y = T::nn::functional::linear(a, b);",
    "a macro's scope": "#define CALL(a, b, c) a::b::c\nauto y = CALL(at, native, mm)(a, b);",
    "a macro's namespace": "#define NS namespace\nusing NS at;",
    "a macro that breaks off": "#define A at::\nauto y = A native::mm(a, b);",
    "another operator": "auto y = at::group_norm(x, 1);",
    "a namespace named like an operator": "torch::data::datasets::MNIST m(path);",
    "the dispatcher": "auto op = c10::Dispatcher::singleton();",
    "registering": "TORCH_LIBRARY_IMPL(aten, CPU, m) { m.impl(name, f); }",
    "Python": 'PyRun_SimpleString("import numpy");',
    "Python's import": 'auto n = PyImport_ImportModule("numpy");',
    "pybind11": 'auto n = py::module_::import("numpy");',
    "pybind11 in full": 'pybind11::exec("import numpy");',
    "a module's attribute": 'PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.attr("__builtins__"); }',
    "a library's function by its name": 'extern "C" void sgemm(const char*, const char*, const int*);',
    "a macro's extern": '#define DECLARED extern\nDECLARED "C" void sgemm(const char*);',
    "what PyTorch is linked with": "namespace fbgemm { void product(const float*); }",
    "compiled graphs' own calls": "aoti_torch_cpu_mm_out(y, a, b);",
    "wrapped": "auto y = THPVariable_Wrap(x);",
}
HONEST = """
#include <torch/extension.h>
#define CHECK_INPUT(x) TORCH_CHECK(x.is_cuda() && x.is_contiguous(), #x " must be contiguous")
#define FULL c10::cuda::getCurrentCUDAStream
namespace mine { template <typename T> struct Row { at::Tensor held; }; }
__global__ void kernel(torch::PackedTensorAccessor32<float, 2, torch::RestrictPtrTraits> x) {
  extern __shared__ float row[];
}
torch::Tensor forward(torch::Tensor x, std::optional<at::Tensor> bias, c10::optional<int64_t> n) {
  CHECK_INPUT(x);
  std::vector<int64_t> sizes{x.size(0)};
  const at::cuda::OptionalCUDAGuard guard(at::device_of(x));
  auto options = torch::TensorOptions().dtype(torch::kFloat32).device(x.device());
  auto y = torch::empty({sizes.at(0), x.size(1)}, options), z = at::zeros_like(x);
  AT_DISPATCH_FLOATING_TYPES(x.scalar_type(), "forward", [&] {
    kernel<<<1, 1, 0, at::cuda::getCurrentCUDAStream()>>>(x.packed_accessor32<float, 2, torch::RestrictPtrTraits>());
  });
  at::parallel_for(0, x.size(0), 1, [&](int64_t from, int64_t to) { y.data_ptr<float>()[from] = 0; });
  C10_CUDA_KERNEL_LAUNCH_CHECK();
  return y;
}
struct Pyramid { int levels; };
PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("forward", &forward, "Forward", py::arg("x")); }
"""


@pytest.mark.parametrize("case", REFUSED)
def test_what_computes_beside_the_dispatcher_is_refused(case):
    assert [refusal.kind for refusal in foreign_names(tokenize(REFUSED[case]))][:1] == ["operator"]


def test_an_honest_extension_is_let_through():
    assert [*foreign_names(tokenize(HONEST))] == []
    assert [*foreign_names(tokenize("int at = v.at(0); f(at);"))] == []
