"""The candidate's process: maps memory, loads one library, calls it when told. Nothing it says is believed.

Run as `python -I -S runner.py SOCKET_FD LIBTVM_FFI SEAL` inside the cage, standard library only, so that no torch (and
no secret) lies in the address space that the candidate shares. The judge keeps the clock, writes the inputs (mapped
read-only here) and reads the outputs itself; this side only says when a call has returned. SEAL is a system call
filter in hexadecimal, or nothing: it is put on once the library is loaded, so that no call maps code.

Order of frames: judge {"device": kind, "bytes": of both segments, "arguments": per slot} with two descriptors (inputs,
outputs), runner {"mapped"}; any number of judge {"work": times}, runner {"worked"}, and judge {"count"}, runner
{"counted": seconds}, which tell what a message costs where nothing hostile is loaded; judge {"load": path}, runner
{"loaded"}; then any number of judge {"go": [slots], "nonce"}, runner {"done": nonce}, and of judge {"numbers": [[slot,
its scalar arguments in order]]}, runner {"numbered"}, and of judge {"teams": how many threads OpenMP's teams have from
now on, 0 for as many as they began with, "processors": theirs, or none for all}, runner {"teamed"}. An order to go
may hold "threads", how many they have then, "nested": so many may be asked for, and one comes, and "elsewhere": the
calls come from another thread, on a GPU on another stream, with a stack of "stack_kib"; or they come "together": from
two threads, which have every second slot each, and call again and again for a while. With "same" each argument is the
one at that place of its slot. After an order with "look" the
library's data is looked at; what was kept comes with judge {"kept"}, runner {"kept": how many threads OpenMP may still
have}. Anything that fails is answered with {"failed": kind, "message"}.
"""

from __future__ import annotations

import ctypes
import mmap
import os
import socket
import sys
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

# The cage opens two folders alone, and an isolated interpreter has no path of its own: all in them are plain modules.
_HERE = Path(__file__).resolve().parent
sys.path += [str(_HERE), str(_HERE.with_name("wire"))]
if TYPE_CHECKING:
    from harness.candidate import allocator
    from harness.candidate.kept import Kept
    from harness.candidate.process_state import ProcessState
    from harness.candidate.seal import fix_code, let_signals_end, seal
    from harness.candidate.together import Together, from_others
    from harness.wire import abi, channel, cuda_driver
    from harness.wire.heap import keep_what_is_freed
else:
    import abi
    import allocator
    import channel
    import cuda_driver
    from heap import keep_what_is_freed
    from kept import Kept
    from process_state import ProcessState
    from seal import fix_code, let_signals_end, seal
    from together import Together, from_others


AWAKE_S = 1.0
_COMPARED_BYTES = 1 << 20


class CallFailedError(Exception):
    """A call did not get through; `check` says in what way."""

    def __init__(self, check: str, message: str) -> None:
        super().__init__(message)
        self.check = check


class Place(Protocol):
    """Where the two segments are mapped and the kernel's work is done. `addresses` are those of "in" and "out"."""

    addresses: dict[str, int]

    def work(self, times: int) -> None:
        """Have the device do a known piece of work so many times, and wait."""

    def counted(self) -> float:
        """How many seconds the device itself counted for the last work."""

    def enter(self, runtime: ctypes.CDLL) -> None:
        """What calls of the entry find set."""

    def enter_elsewhere(self, runtime: ctypes.CDLL) -> None:
        """The same for calls from this thread, which is not the first one."""

    def finish(self, library: ctypes.CDLL) -> None:
        """Wait until the work of all calls is done. Raises `CallFailedError`."""

    def await_order(self, link: socket.socket) -> None:
        """Be awake when the next order comes, where that disturbs nobody."""


class Host:
    """Host memory; calls return when they are done."""

    def __init__(self, descriptors: Iterable[int]) -> None:
        inputs, outputs = descriptors
        self.addresses = {"in": _map(inputs, mmap.PROT_READ), "out": _map(outputs, mmap.PROT_READ | mmap.PROT_WRITE)}
        self._allocator = allocator.Allocator("cpu", allocator.Heap())

    def work(self, times: int) -> None:
        """None: there is no device to wait for."""

    def counted(self) -> float:
        """Nothing was done."""
        return 0.0

    def enter(self, runtime: ctypes.CDLL) -> None:
        """Where scratch comes from: a heap that keeps what is freed, as eager's does in the judging process."""
        keep_what_is_freed()
        self._allocator.install(runtime)

    def enter_elsewhere(self, runtime: ctypes.CDLL) -> None:
        """Every thread has the same heap."""

    def finish(self, library: ctypes.CDLL) -> None:
        """Nothing is left to wait for."""

    def await_order(self, link: socket.socket) -> None:
        """The cores belong to the kernel: sleep."""


class Gpu:
    """Device memory; calls only queue work, and errors show when it is waited for."""

    def __init__(self, descriptors: Iterable[int], sizes: Iterable[int]) -> None:
        self._driver = cuda_driver.Driver()
        mapped = zip(("in", "out"), descriptors, sizes, strict=True)
        self.addresses = {
            name: self._driver.adopt(descriptor, size, writable=name == "out") for name, descriptor, size in mapped
        }
        self._scratch = self._driver.allocate(cuda_driver.CLEARED_BYTES)

    def work(self, times: int) -> None:
        """Memory is cleared; in this context, so that switching to it is part of what a message costs."""
        if times:
            self._driver.clear(self._scratch, cuda_driver.CLEARED_BYTES, times)

    def counted(self) -> float:
        """By its own clock."""
        return self._driver.clearing_took()

    def enter(self, runtime: ctypes.CDLL) -> None:
        """Where scratch comes from; the stream to use, not the default one: whoever mixes the two has a race."""
        self._driver.free(self._scratch)
        _set_stream(runtime, self._driver.stream())
        self._other_stream = self._driver.stream()
        memory = cuda_driver.SpoiltMemory(self._driver)
        self._allocator = allocator.Allocator("cuda", allocator.CachingMemory(memory))
        self._allocator.install(runtime)

    def enter_elsewhere(self, runtime: ctypes.CDLL) -> None:
        """The context, and another stream. Orders wait for all of their work: scratch is nobody else's meanwhile."""
        self._driver.use()
        _set_stream(runtime, self._other_stream)

    def finish(self, library: ctypes.CDLL) -> None:
        """Wait for every stream of the context; then the error that a launch may have left in the runtime."""
        try:
            self._driver.synchronize()
        except cuda_driver.DriverError as error:
            check = "memory" if error.code == cuda_driver.OUT_OF_MEMORY else "cuda"
            raise CallFailedError(check, str(error)) from error
        try:
            last_error, name, text = library.cudaGetLastError, library.cudaGetErrorName, library.cudaGetErrorString
        except AttributeError:  # a library that never calls the runtime has launched nothing through it either
            return
        if code := int(last_error()):
            name.restype = text.restype = ctypes.c_char_p
            check = "memory" if code == cuda_driver.OUT_OF_MEMORY else "launch"
            raise CallFailedError(check, f"{name(code).decode()}: {text(code).decode()}")

    def await_order(self, link: socket.socket) -> None:
        """One core is kept awake: in this process's turns only, since it is stopped outside of them."""
        channel.await_frame(link, AWAKE_S)


def _set_stream(runtime: ctypes.CDLL, stream: int) -> None:
    """The stream that calls from this thread find."""
    runtime.TVMFFIEnvSetStream(ctypes.c_int32(abi.DEVICES["cuda"]), ctypes.c_int32(0), ctypes.c_void_p(stream), None)


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
        self.loaded = ctypes.CDLL(path, mode=os.RTLD_NOW | os.RTLD_LOCAL)
        self.entry = self.loaded["__tvm_ffi_run"]

    def call(self, arguments: Any) -> None:
        """Call the entry once. Raises `CallFailedError` with the error's text."""
        result = abi.Any_()
        if self.entry(None, arguments, len(arguments), ctypes.byref(result)) != 0:
            message = abi.raised_message(self.runtime)
            raise CallFailedError("memory" if "out of memory" in message.lower() else "exception", message)


def _place(layout: dict[str, Any], descriptors: Iterable[int]) -> Place:
    return Gpu(descriptors, layout["bytes"]) if layout["device"] == "cuda" else Host(descriptors)


def _argument(spec: dict[str, Any], place: Place, device: str) -> abi.DLTensor | float | int | bool:
    """The call argument a layout entry describes."""
    if spec["kind"] == "scalar":
        return {"float": float, "int": int, "bool": bool}[spec["type"]](spec["value"])  # type: ignore[no-any-return]
    address = place.addresses[spec["memory"]] + spec["offset"]
    return abi.tensor(address, spec["shape"], spec["strides"], spec["dtype"], device)


def serve(link: socket.socket, runtime_path: str, sealing: bytes) -> None:
    """Answer the judge until it hangs up."""
    mark, descriptors, *_ = socket.recv_fds(link, 1, 2)
    if mark != b"F":
        return
    layout = channel.receive(link)
    try:
        place = _place(layout, descriptors)
    except (OSError, cuda_driver.DriverError) as error:
        channel.send(link, {"failed": "sharing", "message": str(error)})
        return
    slots = [[_argument(spec, place, layout["device"]) for spec in slot] for slot in layout["arguments"]]
    calls = [abi.pack(slot) for slot in slots]
    together = partial(_together, results=partial(_results, layout["arguments"], place))
    channel.send(link, {"mapped": len(calls)})
    runtime = ctypes.CDLL(runtime_path, mode=ctypes.RTLD_GLOBAL)
    state = ProcessState()
    order = _worked(link, place, state)
    place.enter(runtime)
    try:
        fix_code()
        library = Library(order["load"], runtime)
        if sealing:
            let_signals_end()
            seal(sealing)
    except (OSError, AttributeError) as error:
        channel.send(link, {"failed": "load", "message": str(error)})
        return
    state.watch_openmp(library.loaded)
    kept = Kept(order["load"], heap=layout["device"] != "cuda")
    channel.send(link, {"loaded": True})
    while True:
        place.await_order(link)
        order = channel.receive(link)
        if "numbers" in order:
            renumber(slots, order["numbers"])
            calls = [abi.pack(slot) for slot in slots]
            channel.send(link, {"numbered": True})
        elif "teams" in order:
            state.have_usually(order["teams"], order["processors"])
            channel.send(link, {"teamed": True})
        elif "kept" in order:
            state.have_usually(0, [])
            ctypes.CDLL(None).fflush(None)
            said = kept.said()
            channel.send(link, {"failed": "kept", "message": said} if said else {"kept": state.usual_threads})
        else:
            make = together if order.get("together") else _called if "elsewhere" in order else _go
            same = order.get("same", ())
            given = [abi.pack([slot[each] for each in same]) for slot in slots] if same else calls
            answer = make(library, place, given, order, state)
            if "look" in order:
                kept.note()
            link.sendall(answer)


def renumber(slots: list[list[Any]], told: Iterable[list[float]]) -> None:
    """Put other numbers into these slots, in the order of a slot's scalar arguments."""
    for slot, *values in told:
        arguments, given = slots[int(slot)], iter(values)
        for position, argument in enumerate(arguments):
            if isinstance(argument, (bool, int, float)):
                arguments[position] = type(argument)(next(given))


def _worked(link: socket.socket, place: Place, state: ProcessState) -> dict[str, Any]:
    """Work as often as asked; the first other order."""
    while True:
        order = channel.receive(link)
        if "work" in order:
            answer = channel.frame({"worked": True})
            place.work(order["work"])
            state.changes()  # a part of every order's cost
            link.sendall(answer)
        elif "count" in order:
            channel.send(link, {"counted": place.counted()})
        else:
            return order
        place.await_order(link)


def _called(library: Library, place: Place, calls: list[Any], order: dict[str, Any], state: ProcessState) -> bytes:
    """The answer to an order of calls, made by whom it says."""
    answers: list[bytes] = []

    def go() -> None:
        if order["elsewhere"]:
            place.enter_elsewhere(library.runtime)
            state.enter(order["threads"], nested=order["nested"])
        elif order["threads"]:
            state.have_threads(order["threads"], nested=order["nested"])
        answers.append(_go(library, place, calls, order, state))

    if order["elsewhere"]:
        from_others([go], order["stack_kib"])
    else:
        go()
    state.have_threads(0)
    return answers[0]


def _together(
    library: Library,
    place: Place,
    calls: list[Any],
    order: dict[str, Any],
    state: ProcessState,
    results: Callable[[int], list[bytes]],
) -> bytes:
    """The answer to an order of calls from two threads."""

    def enter() -> None:
        place.enter_elsewhere(library.runtime)
        state.enter(order["threads"])

    def call(slots: list[int]) -> bytes:
        return _go(library, place, calls, order | {"go": slots}, state)

    answer = Together(call, _went_well, results, enter).answer(order["go"], order["stack_kib"])
    state.have_threads(0)
    return answer


def _results(arguments: list[list[dict[str, Any]]], place: Place, slot: int) -> list[bytes]:
    """The first bytes of each of a slot's outputs."""
    found = []
    for spec in arguments[slot]:
        if spec["kind"] != "scalar" and spec["memory"] == "out":
            extents = zip(spec["shape"], spec["strides"], strict=True)
            elements = 1 + sum((extent - 1) * stride for extent, stride in extents) if all(spec["shape"]) else 0
            size = min(_COMPARED_BYTES, elements * abi.DTYPE_CODES[spec["dtype"]][1] // 8)
            found.append(ctypes.string_at(place.addresses["out"] + spec["offset"], size))
    return found


def _went_well(answer: bytes) -> bool:
    return b'"failed"' not in answer


def _go(library: Library, place: Place, calls: list[Any], order: dict[str, Any], state: ProcessState) -> bytes:
    """The answer to an order of calls; made before them, since the clock runs until it is there."""
    answer = channel.frame({"done": order["nonce"]})
    try:
        for slot in order["go"]:
            library.call(calls[slot])
        place.finish(library.loaded)
        if changes := state.changes():
            raise CallFailedError("process_state", f"The kernel left its caller's process changed: {changes}.")
    except CallFailedError as error:
        return channel.frame({"failed": error.check, "message": str(error)})
    return answer


def main() -> None:
    """Entry point of the process."""
    link = socket.socket(fileno=int(sys.argv[1]))
    try:
        serve(link, sys.argv[2], bytes.fromhex(sys.argv[3]))
    except channel.ChannelClosedError:
        return


if __name__ == "__main__":
    main()
