"""Scratch memory for kernels: what `TVMFFIEnvTensorAlloc` gives where no PyTorch is. Standard library only.

In a PyTorch process that function asks PyTorch's allocator. On a GPU it keeps what is freed and hands it out again, in
the order of the stream; on a processor it is the heap.
"""

from __future__ import annotations

import contextlib
import ctypes
import math
from collections import defaultdict
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

# For the runner, what lies beside it are plain modules.
if TYPE_CHECKING or __package__:
    from harness.wire import abi
else:
    import abi

_ALIGNMENT = 64
"""Bytes to which PyTorch aligns on a processor (c10/core/alignment.h)."""
_ROUNDED_TO = 512
"""Bytes to which PyTorch rounds a size on a GPU (kMinBlockSize of its caching allocator)."""
_FAILED = -1

_ALLOCATE = ctypes.CFUNCTYPE(
    ctypes.c_int, ctypes.POINTER(abi.DLTensor), ctypes.POINTER(ctypes.c_void_p), ctypes.c_void_p, ctypes.c_void_p
)
_SET_ERROR = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_char_p, ctypes.c_char_p)
_DELETE = ctypes.CFUNCTYPE(None, ctypes.c_void_p)


class _ManagedTensor(ctypes.Structure):
    """DLManagedTensorVersioned of dlpack.h, version 1."""

    _fields_: ClassVar = [
        ("major", ctypes.c_uint32),
        ("minor", ctypes.c_uint32),
        ("context", ctypes.c_void_p),
        ("deleter", ctypes.c_void_p),
        ("flags", ctypes.c_uint64),
        ("tensor", abi.DLTensor),
    ]


class Memory(Protocol):
    """Where scratch lies."""

    def allocate(self, size: int) -> int:
        """Address of `size` bytes. Raises `MemoryError` where there are none."""
        ...

    def free(self, address: int) -> None:
        """Take back what `allocate` gave."""
        ...


class Heap:
    """The C library's heap, which is the sanitizer's where one is preloaded."""

    def __init__(self) -> None:
        self._libc = ctypes.CDLL(None)

    def allocate(self, size: int, alignment: int = _ALIGNMENT) -> int:
        """See `Memory`. Raises `MemoryError`."""
        address = ctypes.c_void_p()
        if self._libc.posix_memalign(ctypes.byref(address), ctypes.c_size_t(alignment), ctypes.c_size_t(size)):
            raise MemoryError(f"out of memory: {size} bytes asked for")
        return address.value or 0

    def free(self, address: int) -> None:
        """See `Memory`."""
        self._libc.free(ctypes.c_void_p(address))


class CachingMemory:
    """Memory that is kept when it is freed, and given again to whoever asks for as much."""

    def __init__(self, memory: Memory) -> None:
        self._memory = memory
        self._free: defaultdict[int, list[int]] = defaultdict(list)
        self._sizes: dict[int, int] = {}

    def allocate(self, size: int) -> int:
        """See `Memory`."""
        rounded = -(-max(size, 1) // _ROUNDED_TO) * _ROUNDED_TO
        free = self._free[rounded]
        if free:
            return free.pop()
        try:
            address = self._memory.allocate(rounded)
        except MemoryError:
            self._give_back()
            address = self._memory.allocate(rounded)
        self._sizes[address] = rounded
        return address

    def free(self, address: int) -> None:
        """See `Memory`."""
        self._free[self._sizes[address]].append(address)

    def _give_back(self) -> None:
        for free in self._free.values():
            while free:
                address = free.pop()
                del self._sizes[address]
                self._memory.free(address)


class _Made:
    """A tensor's description, from call to call; its memory is asked for each time."""

    def __init__(self, asked: abi.DLTensor, shape: list[int], deleter: ctypes.c_void_p) -> None:
        self.size = -(-math.prod(shape) * asked.dtype.bits * asked.dtype.lanes // 8)
        self._arrays = (ctypes.c_int64 * len(shape))(*shape), (ctypes.c_int64 * len(shape))(*_strides(shape))
        self._managed = _ManagedTensor(major=1, deleter=deleter)
        self._managed.tensor = asked
        self.tensor = self._managed.tensor
        self.tensor.shape, self.tensor.strides = self._arrays
        self.tensor.byte_offset = 0
        self.address = ctypes.addressof(self._managed)
        self.spare: list[_Made] = []


class Allocator:
    """The allocator that a kernel's calls find.

    It is a part of each timed call: what it makes of a request is kept for the next one alike, so that it takes
    as little as PyTorch's.
    """

    def __init__(self, device: str, memory: Memory) -> None:
        self._device, self._memory = abi.DEVICES[device], memory
        self._given: dict[int, _Made] = {}
        self._spare: dict[tuple[int, ...], list[_Made]] = {}
        self._allocate_entry, self._delete_entry = _ALLOCATE(self._allocate), _DELETE(self._delete)
        for entry in (self._allocate_entry, self._delete_entry):  # freeing one would write into memory that is code
            ctypes.pythonapi.Py_IncRef(ctypes.py_object(entry))

    def install(self, runtime: ctypes.CDLL) -> None:
        """Have `TVMFFIEnvTensorAlloc` ask here, on every thread. The caller keeps `self` as long as calls are made."""
        runtime.TVMFFIEnvSetDLPackManagedTensorAllocator(self._allocate_entry, ctypes.c_int(1), None)

    def _allocate(self, prototype: Any, out: Any, context: int | None, set_error: int) -> int:
        try:
            made = self._made(prototype.contents)
            made.tensor.data = self._memory.allocate(made.size)
            self._given[made.address] = made
            out[0] = made.address
        except Exception as failure:  # noqa: BLE001  # nothing may be raised through the kernel's frames
            _SET_ERROR(set_error)(context, b"RuntimeError", str(failure).encode(errors="replace"))
            return _FAILED
        return 0

    def _made(self, asked: abi.DLTensor) -> _Made:
        shape, dtype, device = asked.shape[: asked.ndim], asked.dtype, asked.device.device_type
        spare = self._spare.setdefault((device, dtype.code, dtype.bits, dtype.lanes, *shape), [])
        with contextlib.suppress(IndexError):  # none is left: another thread may have taken it just now
            return spare.pop()
        if device != self._device:
            raise ValueError(f"scratch was asked for on device type {device}, not {self._device}")
        made = _Made(asked, shape, ctypes.cast(self._delete_entry, ctypes.c_void_p))
        made.spare = spare
        return made

    def _delete(self, address: int) -> None:
        made = self._given.pop(address)
        self._memory.free(made.tensor.data)
        made.spare.append(made)


def _strides(shape: list[int]) -> list[int]:
    """Of rows one after the other."""
    return [math.prod(shape[place + 1 :]) for place in range(len(shape))]
