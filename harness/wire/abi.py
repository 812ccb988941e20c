"""The C structures of a TVM-FFI call, for ctypes. Standard library only.

Layouts as in tvm/ffi/c_api.h (TVMFFIAny, TVMFFIObject, TVMFFIErrorCell) and dlpack/dlpack.h (DLTensor, version 1).
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import Any, ClassVar

KIND_INT, KIND_BOOL, KIND_FLOAT, KIND_DLTENSOR = 1, 2, 3, 7
DEVICES = {"cpu": 1, "cuda": 2}
"""DLPack's device types; kernels see device 0 of theirs."""

# DLPack type codes: 0 int, 1 uint, 2 float, 4 bfloat, 6 bool, 10 and 12 float8; then bits.
DTYPE_CODES = {
    "float32": (2, 32), "float64": (2, 64), "float16": (2, 16), "bfloat16": (4, 16), "int8": (0, 8), "uint8": (1, 8),
    "int16": (0, 16), "int32": (0, 32), "int64": (0, 64), "bool": (6, 8),
    "float8_e4m3fn": (10, 8), "float8_e5m2": (12, 8),
}  # fmt: skip


class DLDevice(ctypes.Structure):
    """Device type and ordinal."""

    _fields_: ClassVar = [("device_type", ctypes.c_int32), ("device_id", ctypes.c_int32)]


class DLDataType(ctypes.Structure):
    """Type code, bits, lanes."""

    _fields_: ClassVar = [("code", ctypes.c_uint8), ("bits", ctypes.c_uint8), ("lanes", ctypes.c_uint16)]


class DLTensor(ctypes.Structure):
    """A tensor that borrows its memory."""

    _fields_: ClassVar = [
        ("data", ctypes.c_void_p),
        ("device", DLDevice),
        ("ndim", ctypes.c_int32),
        ("dtype", DLDataType),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64),
    ]


class _Value(ctypes.Union):
    _fields_: ClassVar = [("v_int64", ctypes.c_int64), ("v_float64", ctypes.c_double), ("v_ptr", ctypes.c_void_p)]


class Any_(ctypes.Structure):  # noqa: N801 (TVMFFIAny, with a name that does not hide typing.Any)
    """A tagged argument."""

    _fields_: ClassVar = [("type_index", ctypes.c_int32), ("padding", ctypes.c_uint32), ("value", _Value)]


class ByteArray(ctypes.Structure):
    """Text with its length."""

    _fields_: ClassVar = [("data", ctypes.c_void_p), ("size", ctypes.c_size_t)]


class ErrorObject(ctypes.Structure):
    """An object header, then kind and message of the error."""

    _fields_: ClassVar = [
        ("ref_count", ctypes.c_uint64),
        ("type_index", ctypes.c_int32),
        ("padding", ctypes.c_uint32),
        ("deleter", ctypes.c_void_p),
        ("kind", ByteArray),
        ("message", ByteArray),
    ]


def tensor(address: int, shape: Sequence[int], strides: Sequence[int], dtype: str, device: str = "cpu") -> DLTensor:
    """A DLTensor over memory at `address`; `strides` count elements. The result keeps its shape arrays alive."""
    rank = len(shape)
    code, bits = DTYPE_CODES[dtype]
    extents = (ctypes.c_int64 * max(rank, 1))(*shape)
    steps = (ctypes.c_int64 * max(rank, 1))(*strides)
    return DLTensor(address, DLDevice(DEVICES[device], 0), rank, DLDataType(code, bits, 1), extents, steps, 0)


def pack(arguments: Sequence[DLTensor | float | int | bool]) -> Any:
    """An array of tagged arguments; the caller keeps the tensors alive during the call."""
    packed = (Any_ * len(arguments))()
    for slot, argument in zip(packed, arguments, strict=True):
        if isinstance(argument, DLTensor):
            slot.type_index, slot.value.v_ptr = KIND_DLTENSOR, ctypes.addressof(argument)
        elif isinstance(argument, bool):
            slot.type_index, slot.value.v_int64 = KIND_BOOL, int(argument)
        elif isinstance(argument, int):
            slot.type_index, slot.value.v_int64 = KIND_INT, argument
        else:
            slot.type_index, slot.value.v_float64 = KIND_FLOAT, argument
    return packed


def raised_message(runtime: ctypes.CDLL) -> str:
    """Kind and message of the error that the last failing call left behind, and clear it."""
    handle = ctypes.c_void_p()
    runtime.TVMFFIErrorMoveFromRaised(ctypes.byref(handle))
    if not handle.value:
        return "the call failed without a message"
    error = ErrorObject.from_address(handle.value)
    kind, message = (_text(part) for part in (error.kind, error.message))
    return f"{kind}: {message}"


def _text(part: ByteArray) -> str:
    return ctypes.string_at(part.data, min(part.size, 2000)).decode(errors="replace") if part.data else ""
