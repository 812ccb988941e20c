"""The C++ and CUDA that a foreign Python file passes to load_inline, held to the rules of kernels.

PyTorch's headers and tensors are allowed there, since that is how such files exchange data; its operators are not.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Sequence

from harness.nouns.refusal import Refusal
from harness.screen.operators import MAY_BE_KEPT, plain
from harness.screen.python_file import PythonFile
from harness.screen.rules import words_of
from harness.screen.source import refusals_of
from harness.screen.tokens import LexicalError, Token, tokenize

# -- What C++ inside a foreign module may name of PyTorch and of pybind11: a list, and all else is refused ------------

# PyTorch's operators are met where they are dispatched. Beneath that lie functions that compute without being asked for
# there (`at::native`, `at::cpu`, `at::cuda`, cpublas, the dispatcher's own interfaces), and Python's C interface
# reaches whatever the interpreter holds. An extension needs none of it: tensors, their options and types, allocation,
# the current stream, guards and checks are what is left.


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


# -- PyTorch's operators in C++ that may use its tensors: by namespace, as members, by argument-dependent look-up -----


_OTHERS = words_of("std cute cutlass cuda cg cooperative_groups nvcuda cub")
_BEFORE_CALLS = words_of("return else do throw case co_return and or not")
_NOTHING = Token("newline", "", 0)


def operator_calls(tokens: Sequence[Token], operators: frozenset[str]) -> Iterator[Refusal]:
    """Every use of one of these operators, by their plain names."""
    defined = _defined(tokens)
    in_macro = False
    for at, token in enumerate(tokens):
        if token.kind in ("directive", "newline"):
            in_macro = token.kind == "directive" and _operator_text(tokens, at + 1) == "define"
        if plain(token.text) in operators and (in_macro or _hands_back(tokens, at, defined)):
            yield _refusal(token, token.text)


def _hands_back(tokens: Sequence[Token], at: int, defined: frozenset[str]) -> bool:
    called = _operator_text(tokens, at + 1) == "("
    if _operator_text(tokens, at - 1) == "::":
        owner = tokens[at - 2] if at > 1 else _NOTHING
        return owner.kind == "identifier" and owner.text not in _OTHERS
    if _operator_text(tokens, at - 1) in (".", "->"):
        return called
    return called and tokens[at].text not in defined and not _is_type(tokens[at - 1] if at else _NOTHING)


def _defined(tokens: Sequence[Token]) -> frozenset[str]:
    """Names that stand behind a type and before "(": the file's own functions."""
    triples = zip(tokens, tokens[1:], tokens[2:], strict=False)
    return frozenset(name.text for before, name, after in triples if after.text == "(" and _is_type(before))


def _is_type(token: Token) -> bool:
    return token.text in (">", "*", "&") or (token.kind == "identifier" and token.text not in _BEFORE_CALLS)


def _operator_text(tokens: Sequence[Token], at: int) -> str:
    return tokens[at].text if 0 <= at < len(tokens) else ""


def _refusal(token: Token, what: str) -> Refusal:
    return Refusal(
        kind="operator", line=token.line, message=f"{what}: This hands the work back to PyTorch's own operator."
    )


# -- The C++ and CUDA that a foreign Python file passes to load_inline, held to the rules of kernels ------------------


_SOURCES = ("cpp_sources", "cuda_sources", "cpp_source", "cuda_source")
_ONLY = frozenset(
    {"name", "functions", "with_cuda", "verbose", "extra_cflags", "extra_cuda_cflags", "extra_ldflags", *_SOURCES}
)
_LOOSE = re.compile(r"fast-math|fast_math|Ofast|unsafe|associative|ftz|prec-|finite-math")
_FLAG = re.compile(
    r"|-O[0-3]|-std=(?:c|gnu)\+\+(?:17|20|23)|-march=native|-fopenmp|-g|--?expt-[\w-]+|-lineinfo|-arch=\w+|-gencode[=\w,]*"
)
_FRAMEWORK_HEADER = re.compile(r'[<"](?:torch/(?!csrc/)|ATen/|c10/|pybind11/|tvm/)[\w/.]+[>"]')
_NAME = re.compile(r"\w+")
_SAID = re.compile(r"[\w .,:()-]*")


def refuse_inline(file: PythonFile, operators: frozenset[str], allowances: frozenset[str]) -> list[Refusal]:
    """Every offence in the sources and options of the file's calls of load_inline."""
    calls = [node for node in file.nodes if isinstance(node, ast.Call) and file.makes_extension(node)]
    return [refusal for call in calls for refusal in _call(file, call, operators, allowances)]


def _call(file: PythonFile, call: ast.Call, operators: frozenset[str], allowances: frozenset[str]) -> Iterator[Refusal]:
    if any(isinstance(value, ast.Starred) for value in call.args):
        yield _unreadable(call, "Each argument of load_inline")
        return
    given = {keyword.arg or "**": keyword.value for keyword in call.keywords}
    given.update(zip(("name", *_SOURCES[:2], "functions"), call.args, strict=False))
    for option in sorted(given.keys() - _ONLY):
        yield Refusal(kind="option", line=call.lineno, message=f"load_inline({option}=...) is not allowed here.")
    for option, value in given.items():
        if option in _SOURCES:
            for text in _texts(file, value):
                yield from [_unreadable(call, option)] if text is None else _source(text, operators, allowances)
        elif option.endswith("flags"):
            yield from _flags(file, call, option, value)
        elif option in ("name", "functions") and not _plain_words(value):
            yield _unreadable(call, f"{option}, made of names,")


def _texts(file: PythonFile, value: ast.expr) -> Iterator[ast.Constant | None]:
    """The literals that an expression stands for; None where it is not made of literals."""
    if isinstance(value, ast.List | ast.Tuple):
        for part in value.elts:
            yield from _texts(file, part)
    elif isinstance(value, ast.Constant) and isinstance(value.value, str):
        yield value
    elif isinstance(value, ast.Name):
        held = _held(file, value)
        if held is None:
            yield None
        else:
            yield from _texts(file, held)
    else:
        yield None


def _held(file: PythonFile, name: ast.Name) -> ast.expr | None:
    """What a name is given in the one place that binds it; a list only where nobody else can change it."""
    bound = file.scopes.only(name.id)
    holder = file.parents[bound] if bound is not None else None
    if not isinstance(holder, ast.Assign) or bound not in holder.targets:
        return None
    uses = sum(isinstance(node, ast.Name) and node.id == name.id for node in file.nodes)
    return None if isinstance(holder.value, ast.List) and uses > 2 else holder.value


def _source(text: ast.Constant, operators: frozenset[str], allowances: frozenset[str]) -> Iterator[Refusal]:
    source = str(text.value)
    for refusal in refusals_of(source, allowances):
        if refusal.kind == "framework" or (refusal.kind == "include" and _FRAMEWORK_HEADER.search(refusal.message)):
            continue
        yield _moved(refusal, text)
    try:
        tokens = tokenize(source)
    except LexicalError:
        return  # told already, by the rules
    yield from (_moved(refusal, text) for refusal in (*operator_calls(tokens, operators), *foreign_names(tokens)))


def _plain_words(value: ast.expr, allowed: re.Pattern[str] = _NAME) -> bool:
    """Names, and what a dictionary says about them: nothing that means something else in the C++ made of them."""
    if isinstance(value, ast.List | ast.Tuple):
        return all(map(_plain_words, value.elts))
    if isinstance(value, ast.Dict):
        keys = all(key is not None and _plain_words(key) for key in value.keys)
        return keys and all(_plain_words(said, _SAID) for said in value.values)
    return isinstance(value, ast.Constant) and bool(allowed.fullmatch(str(value.value)))


def _flags(file: PythonFile, call: ast.Call, option: str, value: ast.expr) -> Iterator[Refusal]:
    for text in _texts(file, value):
        flag = str(text.value) if text is not None else ""
        if _LOOSE.search(flag):
            message = f"{option} {flag}: options that change values are not allowed."
            yield Refusal(kind="fast_math", line=call.lineno, message=message)
        elif not _FLAG.fullmatch(flag):
            yield Refusal(
                kind="option", line=call.lineno, message=f"{option} {flag!r} is not among the options allowed."
            )


def _unreadable(call: ast.Call, option: str) -> Refusal:
    message = f"{option} must be a literal, or a name that is given one once."
    return Refusal(kind="dynamic", line=call.lineno, message=message)


def _moved(refusal: Refusal, text: ast.Constant) -> Refusal:
    """The refusal at its line of the Python file."""
    return refusal.model_copy(update={"line": text.lineno + (refusal.line or 1) - 1})
