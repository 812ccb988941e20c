"""The candidate alone under a tool that watches it: own memory, given inputs, a few calls. Standard library only.

Run as `python -I -S solo.py ORDER.json LIBTVM_FFI` inside the cage, behind a profiler's or a sanitizer's command. No
verdict hangs on what happens here, so nothing is shared with the judge; each argument and each piece of scratch is an
allocation of its own, of exactly its size, so that a sanitizer sees the first byte beyond it. Only the last call is
profiled; where the order says so, further ones are sampled. Exit code 0: every call returned; FAILED: one did not, and
the last line on stderr says why.
"""

from __future__ import annotations

import ctypes
import json
import math
import os
import random
import struct
import sys
from array import array
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

# The cage opens two folders alone, and an isolated interpreter has no path of its own: all in them are plain modules.
_HERE = Path(__file__).resolve().parent
sys.path += [str(_HERE), str(_HERE.with_name("wire"))]
if TYPE_CHECKING:
    from harness.candidate import allocator, sampling
    from harness.wire import abi, cuda_driver
else:
    import abi
    import allocator
    import cuda_driver
    import sampling

FAILED = 3
UNWRITTEN = "unwritten"
"""The first word of the line on stderr that names an output of which a call has left elements."""
_POISON = bytes.fromhex("b1a1edfe")
"""What outputs hold before a call, over and over: as float32 -1.6e38, as int32 -17981007, and in two
elements of 16 bits side by side as unlikely."""
_LOOKED_THROUGH = 1 << 28
"""Bytes of an output at most."""
_ALIGNMENT = 256
_BLOCK = 1 << 16
"""Numbers drawn; they repeat through a tensor."""


class SoloError(Exception):
    """The kernel failed, or there is no memory for its arguments."""


class Memory(Protocol):
    """Where the arguments lie."""

    device: int

    def allocate(self, size: int) -> int:
        """Address of `size` new bytes, not initialized."""
        ...

    def free(self, address: int) -> None:
        """Give back what `allocate` gave, once the device is done with it."""
        ...

    def write(self, address: int, content: bytes) -> None:
        """Put bytes there."""
        ...

    def copy(self, to: int, origin: int, size: int) -> None:
        """Copy between two places that do not overlap."""
        ...

    def finish(self) -> None:
        """Wait for the device, whose error it raises where a kernel failed."""
        ...

    def watch(self, on: bool) -> None:
        """Tell the tool to watch from here on, or no longer."""
        ...

    def poison(self, address: int, size: int) -> None:
        """Fill a new output with what no kernel computes, where the tool does not follow what is written by itself."""
        ...

    def unwritten(self, address: int, size: int) -> tuple[int, int]:
        """How many words of 4 bytes are still as `poison` left them, and the first one's place."""
        ...


class HostMemory:
    """The C library's heap, which is the sanitizer's where one is preloaded."""

    device = abi.DEVICES["cpu"]

    def __init__(self) -> None:
        self._heap = allocator.Heap()

    def allocate(self, size: int) -> int:
        """See `Memory`."""
        return self._heap.allocate(size, _ALIGNMENT)

    def free(self, address: int) -> None:
        """See `Memory`."""
        self._heap.free(address)

    def write(self, address: int, content: bytes) -> None:
        """See `Memory`."""
        ctypes.memmove(address, content, len(content))

    def copy(self, to: int, origin: int, size: int) -> None:
        """See `Memory`."""
        ctypes.memmove(to, origin, size)

    def finish(self) -> None:
        """Nothing is asynchronous here."""

    def watch(self, on: bool) -> None:
        """A sanitizer watches all the time."""

    def poison(self, address: int, size: int) -> None:
        """See `Memory`. AddressSanitizer takes what was never written for what was."""
        fill(self, address, size, _POISON)

    def unwritten(self, address: int, size: int) -> tuple[int, int]:
        """See `Memory`."""
        return poisoned_words(ctypes.string_at(address, min(size, _LOOKED_THROUGH) // 4 * 4))


class CudaMemory:
    """The first GPU's memory, through the driver: the runtime library belongs to the candidate.

    Outputs are only `spoilt` where the tool asks for it: initcheck itself follows what was written.
    """

    device = abi.DEVICES["cuda"]

    def __init__(self, *, spoilt: bool) -> None:
        self._driver = cuda_driver.Driver()
        self._spoilt = spoilt

    def allocate(self, size: int) -> int:
        """See `Memory`."""
        return self._driver.allocate(max(size, 1))

    def free(self, address: int) -> None:
        """See `Memory`."""
        self._driver.free(address)

    def write(self, address: int, content: bytes) -> None:
        """See `Memory`."""
        self._driver.call("cuMemcpyHtoD_v2", ctypes.c_uint64(address), content, ctypes.c_size_t(len(content)))

    def copy(self, to: int, origin: int, size: int) -> None:
        """See `Memory`."""
        self._driver.call("cuMemcpyDtoD_v2", ctypes.c_uint64(to), ctypes.c_uint64(origin), ctypes.c_size_t(size))

    def finish(self) -> None:
        """See `Memory`."""
        self._driver.synchronize()

    def watch(self, on: bool) -> None:
        """See `Memory`."""
        self._driver.call("cuProfilerStart" if on else "cuProfilerStop")

    def poison(self, address: int, size: int) -> None:
        """See `Memory`."""
        if self._spoilt:
            fill(self, address, size, _POISON)

    def unwritten(self, address: int, size: int) -> tuple[int, int]:
        """See `Memory`."""
        if not self._spoilt:
            return 0, 0
        content = ctypes.create_string_buffer(min(size, _LOOKED_THROUGH) // 4 * 4)
        self._driver.call("cuMemcpyDtoH_v2", content, ctypes.c_uint64(address), ctypes.c_size_t(len(content)))
        return poisoned_words(content.raw)


def poisoned_words(content: bytes) -> tuple[int, int]:
    """How many words of 4 bytes are poison, and the first one's place."""
    words, poison = array("I", content), array("I", _POISON)[0]
    count = words.count(poison)
    return count, words.index(poison) if count else 0


def numbers(dtype: str) -> bytes:
    """A block of elements for a tensor without values of its own: in [0, 1) where they are floating-point, else zero,
    which is a valid index anywhere."""
    code, bits = abi.DTYPE_CODES[dtype]
    if code not in (2, 4):
        return bytes(_BLOCK * bits // 8)
    draw = random.Random(0)
    drawn = [draw.random() for _ in range(_BLOCK)]
    if bits == 64:
        return array("d", drawn).tobytes()
    if code == 2 and bits == 16:
        return struct.pack(f"<{_BLOCK}e", *drawn)
    single = array("f", drawn)
    if bits == 32:
        return single.tobytes()
    halves = array("H", single.tobytes())  # bfloat16 is float32 without its lower half
    return halves[1::2].tobytes()


def fill(memory: Memory, address: int, size: int, block: bytes) -> None:
    """Repeat `block` over `size` bytes: once from the host, then by copies that double."""
    memory.write(address, block[:size])
    done = min(len(block), size)
    while done < size:
        step = min(done, size - done)
        memory.copy(address + done, address, step)
        done += step


def argument(memory: Memory, spec: dict[str, Any]) -> abi.DLTensor | float | int | bool:
    """The call argument of one entry of the order; outputs hold nothing that they could have been given."""
    if spec["kind"] == "scalar":
        return {"float": float, "int": int, "bool": bool}[spec["type"]](spec["value"])  # type: ignore[no-any-return]
    address = memory.allocate(max(spec["bytes"], 1))
    if spec["filled"] and spec["bytes"]:
        block = Path(spec["values"]).read_bytes() if spec["values"] else numbers(spec["dtype"])
        fill(memory, address, spec["bytes"], block)
    elif spec["bytes"]:
        memory.poison(address, spec["bytes"])
    tensor = abi.tensor(address, spec["shape"], spec["strides"], spec["dtype"])
    tensor.device = abi.DLDevice(memory.device, 0)
    return tensor


def perform(order: dict[str, Any], runtime: ctypes.CDLL) -> None:
    """Make the arguments, then call. Raises `SoloError`, and `DriverError` on a GPU."""
    memory: Memory = CudaMemory(spoilt=order["spoilt"]) if order["device"] == "cuda" else HostMemory()
    arguments = [argument(memory, spec) for spec in order["arguments"]]
    packed = abi.pack(arguments)
    scratch = allocator.Allocator(order["device"], memory)
    scratch.install(runtime)
    entry = ctypes.CDLL(order["library"], mode=os.RTLD_NOW | os.RTLD_LOCAL)["__tvm_ffi_run"]

    def call() -> None:
        result = abi.Any_()
        if entry(None, packed, len(packed), ctypes.byref(result)):
            raise SoloError(abi.raised_message(runtime))
        memory.finish()

    for left in reversed(range(order["calls"])):
        memory.finish()
        if left == 0:
            memory.watch(True)
        call()
    memory.watch(False)
    if order["counters"]:
        library = ctypes.CDLL(order["library"])
        counts = {name: ctypes.c_uint64.in_dll(library, name).value for name in order["counters"]["names"]}
        Path(order["counters"]["file"]).write_text(json.dumps(counts), encoding="utf-8")
    if order["sampling"]:
        sampling.sample(call, order["library"], **order["sampling"])
    for spec, tensor in zip(order["arguments"], arguments, strict=True):
        if isinstance(tensor, abi.DLTensor) and not spec["filled"] and is_dense(spec):
            count, first = memory.unwritten(tensor.data, spec["bytes"])
            if count:
                sys.stderr.write(f"{UNWRITTEN} {spec['name']}: {count} of {spec['bytes'] // 4}, the first at {first}\n")


def is_dense(spec: dict[str, Any]) -> bool:
    """Whether every byte of a tensor is some element's, of 16 bits at least."""
    bits = abi.DTYPE_CODES[spec["dtype"]][1]
    return bool(bits >= 16 and spec["bytes"] == math.prod(spec["shape"]) * bits // 8)


def main() -> int:
    """Entry point of the process."""
    order = json.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))
    try:
        perform(order, ctypes.CDLL(sys.argv[2], mode=ctypes.RTLD_GLOBAL))
    except (SoloError, OSError, MemoryError, cuda_driver.DriverError) as failure:
        sys.stderr.write(f"{failure}\n")
        return FAILED
    return 0


if __name__ == "__main__":
    sys.exit(main())
