"""The part of the CUDA driver's API that judge and runner need, for ctypes. Standard library only.

Names and layouts as in cuda.h (toolkit 12 and 13): virtual memory management with POSIX file descriptors, contexts,
errors. The judge creates memory and hands over descriptors; the runner maps them into its own context.
"""

from __future__ import annotations

import ctypes
import os
from functools import cached_property
from typing import Any, ClassVar

LIBRARY = "libcuda.so.1"
OUT_OF_MEMORY = 2  # CUDA_ERROR_OUT_OF_MEMORY and cudaErrorMemoryAllocation
CLEARED_BYTES = 256 << 20
"""A piece of known work is to clear so much: more than a cache holds."""

_PINNED, _ON_DEVICE, _FILE_DESCRIPTOR = 1, 1, 1
_READ, _READ_WRITE = 1, 3
_MINIMUM_GRANULARITY = 0
_NON_BLOCKING = 1
_SPOILT = 0xFF


class DriverError(Exception):
    """A driver call failed: `code`, its `name` ("CUDA_ERROR_ILLEGAL_ADDRESS"), and a sentence."""

    def __init__(self, code: int, name: str, text: str) -> None:
        super().__init__(f"{name}: {text}")
        self.code, self.name = code, name


class _Location(ctypes.Structure):
    _fields_: ClassVar = [("type", ctypes.c_int), ("id", ctypes.c_int)]


class _AllocationFlags(ctypes.Structure):
    _fields_: ClassVar = [
        ("compression", ctypes.c_ubyte),
        ("gpu_direct", ctypes.c_ubyte),
        ("usage", ctypes.c_ushort),
        ("reserved", ctypes.c_ubyte * 4),
    ]


class _AllocationProperties(ctypes.Structure):
    _fields_: ClassVar = [
        ("type", ctypes.c_int),
        ("handle_types", ctypes.c_int),
        ("location", _Location),
        ("win32_meta_data", ctypes.c_void_p),
        ("flags", _AllocationFlags),
    ]


class _AccessDescription(ctypes.Structure):
    _fields_: ClassVar = [("location", _Location), ("flags", ctypes.c_int)]


class Bytes:
    """Raw device memory in the form that torch takes without copying: `torch.as_tensor(Bytes(...), device="cuda")`."""

    def __init__(self, address: int, size: int) -> None:
        self.__cuda_array_interface__ = {
            "shape": (size,),
            "typestr": "|u1",
            "data": (address, False),
            "strides": None,
            "version": 3,
        }


class Driver:
    """The loaded driver and one device's primary context, current on this thread."""

    def __init__(self, ordinal: int = 0) -> None:
        self._library = ctypes.CDLL(LIBRARY)
        self.call("cuInit", ctypes.c_uint(0))
        device, context = ctypes.c_int(), ctypes.c_void_p()
        self.call("cuDeviceGet", ctypes.byref(device), ctypes.c_int(ordinal))
        self.call("cuDevicePrimaryCtxRetain", ctypes.byref(context), device)
        self.ordinal, self._device, self._context = ordinal, device, context
        self.use()

    def use(self) -> None:
        """Make the context current on this thread."""
        self.call("cuCtxSetCurrent", self._context)

    def call(self, name: str, *arguments: Any) -> None:
        """Call a function by its name; `DriverError` where it does not return success."""
        code = int(getattr(self._library, name)(*arguments))
        if code:
            raise DriverError(code, *self._described(code))

    def synchronize(self) -> None:
        """Wait for everything in the context. Raises what any kernel before has left behind."""
        self.call("cuCtxSynchronize")

    def bus_id(self) -> str:
        """The device's place on the PCI bus, by which the management library knows it."""
        text = ctypes.create_string_buffer(32)
        self.call("cuDeviceGetPCIBusId", text, ctypes.c_int(len(text)), self._device)
        return text.value.decode()

    def stream(self) -> int:
        """A new stream that does not wait for the default one."""
        made = ctypes.c_void_p()
        self.call("cuStreamCreate", ctypes.byref(made), ctypes.c_uint(_NON_BLOCKING))
        return int(made.value or 0)

    def allocate(self, size: int) -> int:
        """Address of `size` bytes of our own."""
        address = ctypes.c_uint64()
        self.call("cuMemAlloc_v2", ctypes.byref(address), ctypes.c_size_t(size))
        return address.value

    def free(self, address: int) -> None:
        """Give back what `allocate` gave."""
        self.call("cuMemFree_v2", ctypes.c_uint64(address))

    def clear(self, address: int, count: int, times: int) -> None:
        """Set `count` bytes to zero so many times, and wait."""
        began, ended = self._marks
        self._record(began)
        for _ in range(times):
            arguments = (ctypes.c_uint64(address), ctypes.c_ubyte(0), ctypes.c_size_t(count), None)
            self.call("cuMemsetD8Async", *arguments)
        self._record(ended)
        self.synchronize()

    def clearing_took(self) -> float:
        """How many seconds the device itself counted for the last `clear`."""
        began, ended = self._marks
        milliseconds = ctypes.c_float()
        self.call("cuEventElapsedTime", ctypes.byref(milliseconds), began, ended)
        return milliseconds.value / 1e3

    @cached_property
    def _marks(self) -> tuple[ctypes.c_void_p, ctypes.c_void_p]:
        return self._event(), self._event()

    def _event(self) -> ctypes.c_void_p:
        made = ctypes.c_void_p()
        self.call("cuEventCreate", ctypes.byref(made), ctypes.c_uint(0))
        return made

    def _record(self, event: ctypes.c_void_p) -> None:
        self.call("cuEventRecord", event, None)  # on the default stream

    def create(self, size: int) -> tuple[int, int, int]:
        """Shareable device memory of at least `size` bytes: our address, its real size, a file descriptor for others.

        Mapped read-write here. It lives as long as this process or a mapping elsewhere does.
        """
        wanted = _AllocationProperties(_PINNED, _FILE_DESCRIPTOR, self._location())
        granularity, handle, descriptor = ctypes.c_size_t(), ctypes.c_uint64(), ctypes.c_int()
        self.call(
            "cuMemGetAllocationGranularity", ctypes.byref(granularity), ctypes.byref(wanted), _MINIMUM_GRANULARITY
        )
        rounded = -(-size // granularity.value) * granularity.value
        self.call(
            "cuMemCreate", ctypes.byref(handle), ctypes.c_size_t(rounded), ctypes.byref(wanted), ctypes.c_uint64(0)
        )
        self.call(
            "cuMemExportToShareableHandle", ctypes.byref(descriptor), handle, _FILE_DESCRIPTOR, ctypes.c_uint64(0)
        )
        address = self._map(handle, rounded)
        self._open(address, rounded, _READ_WRITE)
        return address, rounded, descriptor.value

    def adopt(self, descriptor: int, size: int, *, writable: bool) -> int:
        """Map memory that another process created; the descriptor is closed. Returns its address here.

        `size` is the real size that `create` told.
        """
        handle = ctypes.c_uint64()
        self.call("cuMemImportFromShareableHandle", ctypes.byref(handle), ctypes.c_void_p(descriptor), _FILE_DESCRIPTOR)
        os.close(descriptor)
        address = self._map(handle, size)
        try:
            self._open(address, size, _READ_WRITE if writable else _READ)
        except DriverError:
            if writable:
                raise
            self._open(address, size, _READ_WRITE)  # no read-only mappings here: the judge compares checksums anyway
        self.call("cuMemRelease", handle)  # the mapping keeps the memory; nobody can map it a second time
        return address

    def _map(self, handle: ctypes.c_uint64, size: int) -> int:
        address = ctypes.c_uint64()
        zero, whole = ctypes.c_size_t(0), ctypes.c_size_t(size)
        self.call("cuMemAddressReserve", ctypes.byref(address), whole, zero, ctypes.c_uint64(0), ctypes.c_uint64(0))
        self.call("cuMemMap", address, whole, zero, handle, ctypes.c_uint64(0))
        return int(address.value)

    def _open(self, address: int, size: int, rights: int) -> None:
        access = _AccessDescription(self._location(), rights)
        arguments = (ctypes.c_uint64(address), ctypes.c_size_t(size), ctypes.byref(access), ctypes.c_size_t(1))
        self.call("cuMemSetAccess", *arguments)

    def _location(self) -> _Location:
        return _Location(_ON_DEVICE, self.ordinal)

    def _described(self, code: int) -> tuple[str, str]:
        return tuple(self._text(function, code) for function in ("cuGetErrorName", "cuGetErrorString"))  # type: ignore[return-value]

    def _text(self, function: str, code: int) -> str:
        text = ctypes.c_char_p()
        getattr(self._library, function)(ctypes.c_int(code), ctypes.byref(text))
        return text.value.decode() if text.value else f"error {code}"


class SpoiltMemory:
    """Device memory for scratch, filled with NaN whatever the type: a context's new memory would be zero."""

    def __init__(self, driver: Driver) -> None:
        self._driver, self._stream = driver, ctypes.c_void_p(driver.stream())

    def allocate(self, size: int) -> int:
        """Address of `size` bytes, which work on any stream finds filled. Raises `MemoryError`."""
        try:
            address = self._driver.allocate(size)
            filled = (ctypes.c_uint64(address), ctypes.c_ubyte(_SPOILT), ctypes.c_size_t(size), self._stream)
            self._driver.call("cuMemsetD8Async", *filled)
            self._driver.call("cuStreamSynchronize", self._stream)
        except DriverError as error:
            raise MemoryError(f"{size} bytes of scratch: {error}") from error
        return address

    def free(self, address: int) -> None:
        """Give back what `allocate` gave; the device is done with it then."""
        self._driver.free(address)
