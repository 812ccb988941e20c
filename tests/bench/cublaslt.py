"""cuBLASLt by ctypes: every algorithm that its heuristic proposes for a product, and the one that is fastest here."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from dataclasses import dataclass

import torch

# From cublasLt.h and library_types.h of CUDA 13.0.
_TYPES = {torch.float32: 0, torch.float16: 2, torch.bfloat16: 14}
_COMPUTE_32F, _TRANSPOSE_A, _WORKSPACE, _TRANSPOSED = 68, 3, 1, 1
_WORKSPACE_BYTES, _MOST = 64 << 20, 64


class _Found(ctypes.Structure):
    """cublasLtMatmulHeuristicResult_t."""

    _fields_ = (
        ("algorithm", ctypes.c_uint64 * 8), ("workspace", ctypes.c_size_t), ("state", ctypes.c_int),
        ("waves", ctypes.c_float), ("reserved", ctypes.c_int * 4),
    )  # fmt: skip


@dataclass(frozen=True)
class Tuned:
    """The fastest algorithm as a call, and how many were timed."""

    call: Callable[[], None]
    tried: int


def tuned(a: torch.Tensor, b: torch.Tensor, out: torch.Tensor, clock: Callable[[Callable[[], None]], float]) -> Tuned:
    """out = a @ b for a row-major `a` (M x K) and a `b` (K x N) that is row-major or transposed in memory.

    `clock` gives a call's milliseconds. Raises RuntimeError where the library refuses.
    """
    library = ctypes.CDLL("libcublasLt.so.13")
    handle = ctypes.c_void_p()
    _checked(library.cublasLtCreate(ctypes.byref(handle)))
    (m, k), n, kind = a.shape, b.shape[1], _TYPES[a.dtype]
    turned = b.stride(0) == 1
    # Column-major: the transposed product, whose first operand is b.
    operation = ctypes.c_void_p()
    _checked(library.cublasLtMatmulDescCreate(ctypes.byref(operation), _COMPUTE_32F, 0))
    if turned:
        way = ctypes.c_int(_TRANSPOSED)
        _checked(library.cublasLtMatmulDescSetAttribute(operation, _TRANSPOSE_A, ctypes.byref(way), ctypes.sizeof(way)))
    first = _layout(library, kind, *((k, n, b.stride(1)) if turned else (n, k, b.stride(0))))
    second, result = _layout(library, kind, k, m, a.stride(0)), _layout(library, kind, n, m, out.stride(0))
    preference = ctypes.c_void_p()
    _checked(library.cublasLtMatmulPreferenceCreate(ctypes.byref(preference)))
    most = ctypes.c_uint64(_WORKSPACE_BYTES)
    _checked(library.cublasLtMatmulPreferenceSetAttribute(preference, _WORKSPACE, ctypes.byref(most), 8))
    found, count = (_Found * _MOST)(), ctypes.c_int()
    layouts = (first, second, result, result)
    _checked(
        library.cublasLtMatmulAlgoGetHeuristic(
            handle, operation, *layouts, preference, _MOST, found, ctypes.byref(count)
        )
    )
    workspace = torch.empty(_WORKSPACE_BYTES, dtype=torch.uint8, device="cuda")
    one, zero = ctypes.c_float(1), ctypes.c_float(0)

    def call_of(each: _Found) -> Callable[[], None]:
        def call() -> None:
            status = library.cublasLtMatmul(
                handle, operation, ctypes.byref(one), ctypes.c_void_p(b.data_ptr()), first,
                ctypes.c_void_p(a.data_ptr()), second, ctypes.byref(zero), ctypes.c_void_p(out.data_ptr()), result,
                ctypes.c_void_p(out.data_ptr()), result, ctypes.byref(each.algorithm),
                ctypes.c_void_p(workspace.data_ptr()), ctypes.c_size_t(_WORKSPACE_BYTES),
                ctypes.c_void_p(torch.cuda.current_stream().cuda_stream),
            )  # fmt: skip
            _checked(status)

        return call

    calls = [call_of(each) for each in found[: count.value] if each.state == 0]
    return Tuned(min(calls, key=clock), len(calls))


def _layout(library: ctypes.CDLL, kind: int, rows: int, columns: int, pitch: int) -> ctypes.c_void_p:
    made = ctypes.c_void_p()
    extents = (ctypes.c_uint64(rows), ctypes.c_uint64(columns), ctypes.c_int64(pitch))
    _checked(library.cublasLtMatrixLayoutCreate(ctypes.byref(made), kind, *extents))
    return made


def _checked(status: int) -> None:
    if status != 0:
        raise RuntimeError(f"cuBLASLt answers {status}")
