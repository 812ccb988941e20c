"""Scratch where no PyTorch is: asked for through tvm-ffi as a kernel does."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator

import pytest

from harness.candidate.allocator import Allocator, CachingMemory, Heap
from harness.processes.candidate_process import runtime_library
from harness.wire import abi


class Counted:
    """Memory that tells what it gave, and is full at `limit` bytes."""

    def __init__(self, limit: int = 1 << 30) -> None:
        self._heap, self._limit = Heap(), limit
        self.held: dict[int, int] = {}
        self.given: list[int] = []

    def allocate(self, size: int) -> int:
        if sum(self.held.values()) + size > self._limit:
            raise MemoryError(f"out of memory: {size}")
        self.given.append(size)
        address = self._heap.allocate(size)
        self.held[address] = size
        return address

    def free(self, address: int) -> None:
        del self.held[address]
        self._heap.free(address)


@pytest.fixture
def runtime() -> Iterator[ctypes.CDLL]:
    library = ctypes.CDLL(str(runtime_library()))
    yield library
    library.TVMFFIEnvSetDLPackManagedTensorAllocator(None, ctypes.c_int(1), None)


def asked(runtime: ctypes.CDLL, shape: tuple[int, ...], dtype: str = "float32", device: str = "cpu") -> ctypes.c_void_p:
    """The object that a kernel gets, or the error that it raises."""
    handle = ctypes.c_void_p()
    prototype = abi.tensor(0, shape, [7] * len(shape), dtype, device)
    if runtime.TVMFFIEnvTensorAlloc(ctypes.byref(prototype), ctypes.byref(handle)) != 0:
        raise RuntimeError(abi.raised_message(runtime))
    return handle


def tensor_of(handle: ctypes.c_void_p) -> abi.DLTensor:
    """The tensor behind the 24 bytes of an object's header."""
    assert handle.value is not None
    return abi.DLTensor.from_address(handle.value + 24)


def test_a_tensor_has_the_size_and_shape_asked_for_and_is_freed_with_its_last_owner(runtime: ctypes.CDLL) -> None:
    memory = Counted()
    allocator = Allocator("cpu", memory)
    allocator.install(runtime)
    for shape, dtype, size, strides in (
        ((3, 5), "float64", 120, [5, 1]),
        ((7,), "bfloat16", 14, [1]),
        ((), "int8", 1, []),
    ):
        handle = asked(runtime, shape, dtype)
        tensor = tensor_of(handle)
        assert memory.held == {tensor.data: size}
        assert tensor.data % 64 == 0
        assert (tensor.shape[: tensor.ndim], tensor.strides[: tensor.ndim]) == (list(shape), strides)
        assert (tensor.dtype.code, tensor.dtype.bits) == abi.DTYPE_CODES[dtype]
        ctypes.memset(tensor.data, 1, size)
        runtime.TVMFFIObjectDecRef(handle)
        assert memory.held == {}


def test_what_cannot_be_had_is_the_kernels_error(runtime: ctypes.CDLL) -> None:
    allocator = Allocator("cpu", Counted(limit=100))
    allocator.install(runtime)
    with pytest.raises(RuntimeError, match="out of memory: 400"):
        asked(runtime, (100,))
    with pytest.raises(RuntimeError, match="device type 2, not 1"):
        asked(runtime, (1,), device="cuda")
    runtime.TVMFFIObjectDecRef(asked(runtime, (25,)))


def test_what_was_freed_is_given_again_to_whoever_asks_for_as_much() -> None:
    memory = Counted()
    kept = CachingMemory(memory)
    first, second = kept.allocate(1000), kept.allocate(1024)
    assert first != second
    kept.free(first)
    assert kept.allocate(1020) == first
    kept.allocate(600)
    kept.allocate(0)
    assert memory.given == [1024, 1024, 1024, 512]


def test_what_lies_free_is_given_back_where_memory_ends() -> None:
    memory = Counted(limit=2048)
    kept = CachingMemory(memory)
    kept.free(kept.allocate(1536))
    kept.allocate(2048)
    assert list(memory.held.values()) == [2048]
    with pytest.raises(MemoryError):
        kept.allocate(1)


def test_a_description_is_used_again_for_the_same_request_and_no_other(runtime: ctypes.CDLL) -> None:
    memory = Counted()
    allocator = Allocator("cpu", memory)
    allocator.install(runtime)
    for _ in range(3):
        held = [asked(runtime, shape, dtype) for shape, dtype in (((6,), "float32"), ((6,), "int32"), ((2, 3), "int32"),
                                                                  ((6,), "float32"))]  # fmt: skip
        made = [tensor_of(handle) for handle in held]
        assert len({tensor.data for tensor in made}) == 4 == len(memory.held)
        assert [tensor.shape[: tensor.ndim] for tensor in made] == [[6], [6], [2, 3], [6]]
        assert [tensor.dtype.code for tensor in made] == [abi.DTYPE_CODES[each][0] for each in
                                                          ("float32", "int32", "int32", "float32")]  # fmt: skip
        for handle in held:
            runtime.TVMFFIObjectDecRef(handle)
        assert memory.held == {}
