"""The candidate's process: maps memory, loads one library, calls it when told. Nothing it says is believed.

Run as `python -I -S runner.py SOCKET_FD LIBTVM_FFI` inside the cage, standard library only, so that no torch (and no
secret) lies in the address space that the candidate shares. The judge keeps the clock, writes the inputs (mapped
read-only here) and reads the outputs itself; this side only says when a call has returned.

Order of frames: judge {"arguments": per slot} with two descriptors (inputs, outputs), runner {"mapped"};
judge {"load": path}, runner {"loaded"}; then any number of judge {"go": [slots], "nonce"}, runner {"done": nonce}.
Anything that fails is answered with {"failed": kind, "message"}.
"""

from __future__ import annotations

import ctypes
import mmap
import os
import socket
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

# The cage opens this folder alone, and an isolated interpreter has no path of its own: so siblings are plain modules.
sys.path.append(str(Path(__file__).resolve().parent))
if TYPE_CHECKING:
    from harness.worker import abi, channel
else:
    import abi
    import channel


class Memory:
    """The two shared segments: inputs mapped read-only, outputs read-write."""

    def __init__(self, inputs: int, outputs: int) -> None:
        self.addresses = {
            "in": _map(inputs, mmap.PROT_READ),
            "out": _map(outputs, mmap.PROT_READ | mmap.PROT_WRITE),
        }

    def argument(self, spec: dict[str, Any]) -> abi.DLTensor | float | int | bool:
        """The call argument a layout entry describes."""
        if spec["kind"] == "scalar":
            return {"float": float, "int": int, "bool": bool}[spec["type"]](spec["value"])  # type: ignore[no-any-return]
        address = self.addresses[spec["memory"]] + spec["offset"]
        return abi.tensor(address, spec["shape"], spec["strides"], spec["dtype"])


def _map(descriptor: int, protection: int) -> int:
    """Address of a whole descriptor's mapping. libc is asked because a read-only `mmap.mmap` hides its address."""
    libc = ctypes.CDLL(None, use_errno=True)
    libc.mmap.restype = ctypes.c_void_p
    libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, *[ctypes.c_int] * 3, ctypes.c_long]
    size = os.fstat(descriptor).st_size
    address = libc.mmap(None, size, protection, mmap.MAP_SHARED | mmap.MAP_POPULATE, descriptor, 0)
    if address == ctypes.c_void_p(-1).value:
        raise OSError(ctypes.get_errno(), "mapping the shared memory failed")
    return int(address)


class Library:
    """The candidate's library and its entry point."""

    def __init__(self, path: str, runtime: ctypes.CDLL) -> None:
        self.runtime = runtime
        self.entry = ctypes.CDLL(path, mode=os.RTLD_NOW | os.RTLD_LOCAL)["__tvm_ffi_run"]

    def call(self, arguments: Any) -> str:
        """Call the entry once; the error's text, empty where there was none."""
        result = abi.Any_()
        if self.entry(None, arguments, len(arguments), ctypes.byref(result)) == 0:
            return ""
        return abi.raised_message(self.runtime)


def serve(link: socket.socket, runtime_path: str) -> None:
    """Answer the judge until it hangs up."""
    layout, descriptors, *_ = socket.recv_fds(link, 1, 2)
    if layout != b"F":
        return
    memory = Memory(*descriptors)
    slots = [[memory.argument(spec) for spec in slot] for slot in channel.receive(link)["arguments"]]
    calls = [abi.pack(slot) for slot in slots]
    channel.send(link, {"mapped": len(calls)})
    runtime = ctypes.CDLL(runtime_path, mode=ctypes.RTLD_GLOBAL)
    try:
        library = Library(channel.receive(link)["load"], runtime)
    except (OSError, AttributeError) as error:
        channel.send(link, {"failed": "load", "message": str(error)})
        return
    channel.send(link, {"loaded": True})
    while True:
        order = channel.receive(link)
        failures = (library.call(calls[slot]) for slot in order["go"])
        failure = next(filter(None, failures), "")
        answer = {"failed": "exception", "message": failure} if failure else {"done": order["nonce"]}
        channel.send(link, answer)


def main() -> None:
    """Entry point of the process."""
    link = socket.socket(fileno=int(sys.argv[1]))
    try:
        serve(link, sys.argv[2])
    except channel.ChannelClosedError:
        return


if __name__ == "__main__":
    main()
