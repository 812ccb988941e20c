"""The entry point a kernel must define, written from the task's signature as a C++ stub."""

from __future__ import annotations

import json
import re

from harness.nouns.candidate import TargetName
from harness.nouns.devices import on_gpu
from harness.nouns.task import Direction, ScalarSpec, Signature, Task, TensorSpec
from harness.wire.layout import ALIGNMENT

ENTRY_NAME = "run"

ENTRY_HEADERS = (
    "cute/tensor.hpp",
    "tvm/ffi/container/tensor.h",
    "tvm/ffi/error.h",
    "tvm/ffi/extra/c_env_api.h",
    "tvm/ffi/function.h",
    "algorithm",
    "cmath",
    "cstdint",
    "limits",
)

# tvm-ffi's own macro writes a message with all arguments' types for each of them: 2 s of g++ for 15 arguments, 30 s and
# 0.7 GB for 60, and no end for a model's 300. And whatever makes one of its errors compiles all that prints them, its
# views of tensors included: of a small kernel's build that is half, so nothing here does. A view is the `DLTensor` that
# it was made of, and so are its bytes.
EXPORT = """
#include <cstdio>
#include <cstring>
#include <type_traits>
#include <utility>
namespace kernel_entry {
using View = tvm::ffi::TensorView;
static_assert(sizeof(View) == sizeof(DLTensor) && std::is_trivially_copyable_v<View>);

struct Mismatch { char said[96]; };

inline DLTensor const* tensor(TVMFFIAny const& given) {
  return given.type_index == kTVMFFIDLTensorPtr ? static_cast<DLTensor const*>(given.v_ptr)
         : given.type_index == kTVMFFITensor    ? TVMFFITensorGetDLTensorPtr(given.v_obj)
                                                : nullptr;
}
inline Mismatch another_type(int place) {
  Mismatch found;
  std::snprintf(found.said, sizeof found.said, "argument %d is of another type", place);
  return found;
}
inline Mismatch another_count(int taken, int given) {
  Mismatch found;
  std::snprintf(found.said, sizeof found.said, "the entry takes %d arguments, and %d were given", taken, given);
  return found;
}
template <class T>
T argument(TVMFFIAny const* given, int place) {
  if constexpr (std::is_same_v<T, View>) {
    DLTensor const* found = tensor(given[place]);
    if (found == nullptr) { throw another_type(place); }
    alignas(View) unsigned char bytes[sizeof(View)];
    std::memcpy(bytes, found, sizeof bytes);
    return *reinterpret_cast<View const*>(bytes);
  } else {
    auto value = reinterpret_cast<tvm::ffi::AnyView const*>(given)[place].template try_cast<T>();
    if (!value.has_value()) { throw another_type(place); }
    return *std::move(value);
  }
}
template <class R, class... T, std::size_t... I>
void call(R (*entry)(T...), TVMFFIAny const* given, TVMFFIAny* result, std::index_sequence<I...>) {
  if constexpr (std::is_void_v<R>) {
    entry(argument<std::decay_t<T>>(given, int(I))...);
  } else {
    *reinterpret_cast<tvm::ffi::Any*>(result) = entry(argument<std::decay_t<T>>(given, int(I))...);
  }
}
template <class R, class... T>
int call(R (*entry)(T...), TVMFFIAny const* given, int count, TVMFFIAny* result) {
  try {
    if (count != int(sizeof...(T))) { throw another_count(sizeof...(T), count); }
    call(entry, given, result, std::index_sequence_for<T...>{});
    return 0;
  } catch (Mismatch const& found) {
    TVMFFIErrorSetRaisedFromCStr("TypeError", found.said);
  } catch (tvm::ffi::Error const& raised) {
    tvm::ffi::detail::SetSafeCallRaised(raised);
  } catch (std::exception const& thrown) {
    TVMFFIErrorSetRaisedFromCStr("InternalError", thrown.what());
  }
  return -1;
}
}  // namespace kernel_entry
#undef TVM_FFI_DLL_EXPORT_TYPED_FUNC
#define TVM_FFI_DLL_EXPORT_TYPED_FUNC(Name, Function)                                      \\
  extern "C" TVM_FFI_DLL_EXPORT int __tvm_ffi_##Name(void*, TVMFFIAny const* given,        \\
                                                     int32_t count, TVMFFIAny* result) {   \\
    return kernel_entry::call(+Function, given, count, result);                            \\
  }
"""

# Every C++20 keyword and alternative token, and the names that the stub's own headers give a meaning of their own.
_WORDS = """
    alignas alignof and and_eq asm auto bitand bitor bool break case catch char char8_t char16_t char32_t class compl
    concept const consteval constexpr constinit const_cast continue co_await co_return co_yield decltype default delete
    do double dynamic_cast else enum explicit export extern false float for friend goto if inline int long mutable
    namespace new noexcept not not_eq nullptr operator or or_eq private protected public register reinterpret_cast
    requires return short signed sizeof static static_assert static_cast struct switch template this thread_local throw
    true try typedef typeid typename union unsigned using virtual void volatile wchar_t while xor xor_eq
"""
KEYWORDS = frozenset(_WORDS.split())
_CLAIMED = (
    "NULL EOF INFINITY NAN HUGE_VAL assert errno linux unix main stdin stdout stderr "
    "cute cutlass cuda dim3 int64_t std tvm"
)
_TAKEN = frozenset(f"{_WORDS} {_CLAIMED} {ENTRY_NAME}".split())

_SCALAR_TYPES = {"float": "double", "int": "int64_t", "bool": "bool"}

_HOST_MEMORY = "Host memory; use OpenMP for threads."
_GPU_MEMORY = "Device memory; launch on TVMFFIEnvGetStream(tensor.device().device_type, tensor.device().device_id)."


def identifiers(signature: Signature) -> tuple[str, ...]:
    """One C++ identifier per argument, in the order of the call: distinct, no keyword, no reserved spelling."""
    chosen: list[str] = []
    for argument in signature.arguments:
        base = _identifier(argument.name)
        name, copies = base, 1
        while name in chosen:
            copies += 1
            name = f"{base}_{copies}"
        chosen.append(name)
    return tuple(chosen)


def stub(task: Task, target: TargetName) -> str:
    """The source a model starts from: headers, the contract in comments, an empty entry point and its export."""
    names = identifiers(task.signature)
    parameters = [
        f"    {_cpp_type(argument)} {name}" for name, argument in zip(names, task.signature.arguments, strict=True)
    ]
    return "\n".join(
        [
            *(f"#include <{header}>" for header in ENTRY_HEADERS),
            "",
            f"// Task {json.dumps(task.name)}, target {target}. {_GPU_MEMORY if on_gpu(target) else _HOST_MEMORY}",
            "// The caller allocates every tensor. Write every element of the outputs and change nothing else.",
            f"// Each begins at a multiple of {ALIGNMENT} bytes, strides as below: the caller copies what does not.",
            *_general(task),
            *_shape_comments(task, names),
            f"void {ENTRY_NAME}(",
            ",\n".join(parameters) + ") {",
            "}",
            "",
            f"TVM_FFI_DLL_EXPORT_TYPED_FUNC({ENTRY_NAME}, {ENTRY_NAME});",
            "",
        ]
    )


def _identifier(name: str) -> str:
    cleaned = re.sub(r"[^0-9A-Za-z]+", "_", name).strip("_")
    if not cleaned:
        return "argument"
    if cleaned[0].isdigit():
        return f"argument_{cleaned}"
    return f"{cleaned}_arg" if cleaned in _TAKEN else cleaned


def _cpp_type(argument: TensorSpec | ScalarSpec) -> str:
    if isinstance(argument, TensorSpec):
        return "tvm::ffi::TensorView"
    return _SCALAR_TYPES[argument.type]


_DIRECTIONS: dict[Direction, tuple[str, ...]] = {
    "forward": (),
    "backward": (
        "// The backward pass of the reference: it gets the forward's inputs, what the forward returned on them, and",
        "// the gradient of each output. Write the gradients of inputs and parameters anew; nothing is added to them.",
    ),
    "both": (
        "// Forward and backward in one call: it gets the forward's inputs and the gradient of each output. Write the",
        "// outputs, then the gradients of inputs and parameters anew; nothing is added to them.",
    ),
}


def _general(task: Task) -> list[str]:
    state = (
        "// The forward writes some of its parameters. Leave them as they are: their new values are the outputs new_*.",
    )
    several = (
        "// One entry for all workloads, and sizes up to 8 times the largest: ask the tensors for size(i), dtype().",
    )
    told = state if task.signature.state else ()
    return [*_DIRECTIONS[task.direction], *told, *(several if len(task.workloads) > 1 else ())]


def _shape_comments(task: Task, names: tuple[str, ...]) -> list[str]:
    lines: list[str] = []
    for workload in task.workloads:
        lines.append(f"// Workload {json.dumps(workload.name)}:")
        signature = workload.signature
        groups = (("input", signature.inputs), ("parameter", signature.parameters), ("output", signature.outputs))
        described = [_describe(role, argument) for role, arguments in groups for argument in arguments]
        lines += [f"//   {name}: {text}" for name, text in zip(names, described, strict=True)]
    return lines


def _describe(role: str, argument: TensorSpec | ScalarSpec) -> str:
    original = json.dumps(argument.name)
    if isinstance(argument, ScalarSpec):
        given = f"{role} {original}, {argument.type}, {argument.value!r} here"
        others = ", ".join(map(repr, argument.others))
        if argument.free:
            return f"{given}; in other calls {others} and more"
        return f"{given} and {f'otherwise {others}' if others else 'in every call'}: the caller checks it"
    shape, strides = _extents(argument.shape), _extents(argument.strides)
    tied = f", also {', '.join(map(json.dumps, argument.also))}" if argument.also else ""
    pairs = "; complex for the module: real and imaginary part lie along the last axis" if argument.pairs else ""
    return f"{role} {original}{tied}, {argument.dtype}, shape {shape}, strides {strides}{pairs}"


def _extents(values: tuple[int, ...]) -> str:
    return "(" + ", ".join(map(str, values)) + ")"
