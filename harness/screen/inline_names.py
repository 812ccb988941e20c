"""What C++ inside a foreign module may name of PyTorch and of pybind11: a list, and all else is refused.

PyTorch's operators are met where they are dispatched. Beneath that lie functions that compute without being asked for
there (`at::native`, `at::cpu`, `at::cuda`, cpublas, the dispatcher's own interfaces), and Python's C interface reaches
whatever the interpreter holds. An extension needs none of it: tensors, their options and types, allocation, the
current stream, guards and checks are what is left.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from harness.nouns.refusal import Refusal
from harness.screen.operators import plain
from harness.screen.rules import words_of
from harness.screen.tokens import Token
from harness.screen.torch_operators import MAY_BE_KEPT

FRAMEWORKS = words_of("at torch aten c10 c10d caffe2 fbgemm qnnpack onnx_torch pybind11 py")
"""Namespaces whose functions are in the process that the extension is loaded into."""
_TYPES = words_of("""
    Tensor TensorRef TensorList ITensorListRef TensorOptions TensorBase TensorAccessor PackedTensorAccessor
    PackedTensorAccessor32 PackedTensorAccessor64 GenericPackedTensorAccessor RestrictPtrTraits DefaultPtrTraits
    ScalarType Scalar Dtype Device DeviceType DeviceIndex Layout MemoryFormat IntArrayRef ArrayRef SmallVector
    SymInt SymIntArrayRef OptionalIntArrayRef OptionalArrayRef Half BFloat16 complex Float8_e4m3fn Float8_e5m2
    optional nullopt nullopt_t make_optional in_place string_view string Error IndexError ValueError
    MaybeOwned irange
    dtype device layout memory_format requires_grad pinned_memory toString typeMetaToScalarType scalarTypeToTypeMeta
    elementSize isFloatingType isIntegralType isComplexType toOpMathType CppTypeToScalarType
    opmath_type acc_type AccumulateType OpMathType NoGradGuard InferenceMode AutoNonVariableTypeMode
    OptionalDeviceGuard DeviceGuard device_of TensorArg CheckedFrom checkDim checkSameGPU checkContiguous
    parallel_for get_num_threads get_thread_num in_parallel_region divup ceil_div vec
    multiply_integers str from_blob
    arg gil_scoped_release indexing None Slice Ellipsis
    """)
_CONSTANTS = words_of("""
    kByte kChar kShort kInt kLong kHalf kFloat kDouble kBool kBFloat16 kComplexFloat kComplexDouble kUInt8 kInt8 kInt16
    kInt32 kInt64 kUInt16 kUInt32 kUInt64 kFloat16 kFloat32 kFloat64 kFloat8_e4m3fn kFloat8_e5m2 kCPU kCUDA kStrided
    """)
_ON_A_GPU = words_of("""
    getCurrentCUDAStream CUDAStream CUDAGuard OptionalCUDAGuard getCurrentDeviceProperties getDeviceProperties
    current_device device_count warp_size ATenCeilDiv
    """)
_INNER = {"cuda": _ON_A_GPU}
"""Namespaces inside of which a list of its own holds: what else lies in `at::cuda` computes."""
_NAMES = _TYPES | _CONSTANTS

_MACROS = ("TORCH_", "AT_", "C10_", "PYBIND11_", "CAFFE2_", "aoti_")
_MACROS_ALLOWED = (
    *("TORCH_CHECK", "TORCH_INTERNAL_ASSERT", "TORCH_WARN", "TORCH_EXTENSION_NAME", "TORCH_VERSION"),
    *("AT_ASSERT", "AT_CHECK", "AT_ERROR", "AT_DISPATCH_", "AT_EXPAND", "AT_CUDA_CHECK", "AT_PRIVATE_CASE_TYPE"),
    *("C10_CUDA_", "C10_LIKELY", "C10_UNLIKELY", "C10_HOST_DEVICE", "C10_DEVICE", "C10_HOST", "C10_ALWAYS_INLINE"),
    *("C10_LAUNCH_BOUNDS", "C10_RESTRICT", "C10_UNUSED", "C10_WARP_SIZE", "PYBIND11_MODULE"),
)
_PYTHONS = re.compile(r"_?Py[A-Za-z]*_\w+|PyObject|THP\w+")
_MEMBERS = words_of("attr import reload")
"""By which an object of pybind11's gives others."""
_ADVICE = (
    "Inline C++ may use tensors, their options and types, allocation, the current stream and checks; "
    "what is not among these may be PyTorch's own operator."
)


def foreign_names(tokens: Sequence[Token]) -> Iterator[Refusal]:
    """Every name of PyTorch's, of pybind11's or of Python's own that is not on the list."""
    macros = frozenset(_in_macros(tokens))
    # Of a scope that a macro spells the names may stand anywhere.
    spelled = any(tokens[at].text in ("::", "namespace") for at in macros)
    for at, token in enumerate(tokens):
        if token.kind == "identifier" and (words := _refused(tokens, at, bare=spelled or at in macros)):
            yield Refusal(kind="operator", line=token.line, message=f"{words}: {_ADVICE}")


def _refused(tokens: Sequence[Token], at: int, *, bare: bool) -> str:
    """The name that is refused here, or nothing. `bare`: a namespace's name alone is refused, too."""
    name, before = tokens[at].text, _text(tokens, at - 1)
    if before in (".", "->"):
        return name if name in _MEMBERS else ""
    if name.startswith(_MACROS) and not name.startswith(_MACROS_ALLOWED):
        return name
    if name == "extern":  # by C's names all that PyTorch is linked with can be called, MKL's products too
        return "" if _text(tokens, at + 1) == "__shared__" else name
    if name in FRAMEWORKS:
        return _beyond(tokens, at) if _text(tokens, at + 1) == "::" else name if bare or _opens(tokens, at) else ""
    return name if _PYTHONS.fullmatch(name) else ""


def _opens(tokens: Sequence[Token], at: int) -> bool:
    """`namespace at {`, `using namespace ::at;` and `namespace a = at;`."""
    while at > 0 and tokens[at - 1].text not in (";", "{", "}") and tokens[at].text != "namespace":
        at -= 1
    return tokens[at].text == "namespace"


def _beyond(tokens: Sequence[Token], at: int) -> str:
    """The qualified name from here on, where it is not on the list."""
    parts = [tokens[k].text for k in range(at, min(at + 5, len(tokens)), 2)]
    second = parts[1] if len(parts) > 1 else ""
    further = _text(tokens, at + 3) == "::"
    if second in _INNER:
        return "" if further and parts[-1] in _INNER[second] else "::".join(parts)
    operator = plain(second) in MAY_BE_KEPT and not further
    return "" if operator or second in _NAMES else f"{parts[0]}::{second}"


def _in_macros(tokens: Sequence[Token]) -> Iterator[int]:
    """Places of what macros stand for."""
    inside = False
    for at, token in enumerate(tokens):
        if token.kind in ("directive", "newline"):
            inside = token.kind == "directive" and _text(tokens, at + 1) == "define"
        elif inside:
            yield at


def _text(tokens: Sequence[Token], at: int) -> str:
    return tokens[at].text if 0 <= at < len(tokens) else ""
