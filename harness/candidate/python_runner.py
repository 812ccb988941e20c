"""A foreign module's process: maps memory, imports one file, calls its ModelNew when told. Nothing it says is believed.

Run as `python -I python_runner.py SOCKET_FD` inside the cage, by the protocol of `runner.py`. The file lies in the
order that {"load": path} names, beside the constructor's arguments and each weight's names. PyTorch is in this process,
and the file may turn it inside out: judge, reference, clock and comparison are elsewhere, and all that leaves is what
is copied into the output slots.

The weights of a slot are put into the module before each call, by their state_dict names.
"""

from __future__ import annotations

import copy
import importlib.util
import json
import mmap
import os
import socket
import sys
import traceback
import warnings
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

# The cage opens two folders alone, and an isolated interpreter has no path of its own: all in them are plain modules.
_HERE = Path(__file__).resolve().parent
sys.path += [str(_HERE), str(_HERE.with_name("wire"))]
if TYPE_CHECKING:
    from harness.candidate import runner
    from harness.candidate.operators_away import Operators
    from harness.candidate.runner import CallFailedError
    from harness.wire import channel, cuda_driver, forms
    from harness.wire.heap import keep_what_is_freed
else:
    import channel
    import cuda_driver
    import forms
    import runner
    from heap import keep_what_is_freed
    from operators_away import Operators
    from runner import CallFailedError

_FILE = "module_new.py"


def map_segments(layout: dict[str, Any], descriptors: Iterable[int]) -> dict[str, torch.Tensor]:
    """All bytes of "in" and "out", uint8. A write to an input ends this process, or breaks its context on a GPU."""
    inputs, outputs = descriptors
    if layout["device"] == "cuda":
        driver = cuda_driver.Driver()
        sizes = layout["bytes"]
        return {
            "in": _on_device(driver.adopt(inputs, sizes[0], writable=False), sizes[0]),
            "out": _on_device(driver.adopt(outputs, sizes[1], writable=True), sizes[1]),
        }
    keep_what_is_freed()  # as eager's heap does
    readable, writable = mmap.PROT_READ, mmap.PROT_READ | mmap.PROT_WRITE
    return {"in": _mapped(inputs, readable), "out": _mapped(outputs, writable)}


def _on_device(address: int, size: int) -> torch.Tensor:
    return torch.as_tensor(cuda_driver.Bytes(address, size), device="cuda")


def _mapped(descriptor: int, protection: int) -> torch.Tensor:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of a buffer that is not writable: that is what it is for
        mapped = mmap.mmap(descriptor, os.fstat(descriptor).st_size, flags=mmap.MAP_SHARED, prot=protection)
        return torch.frombuffer(mapped, dtype=torch.uint8)


def argument(spec: dict[str, Any], memory: dict[str, torch.Tensor]) -> Any:
    """A number, or a tensor over the shared memory, of a layout's entry."""
    if spec["kind"] == "scalar":
        return {"float": float, "int": int, "bool": bool}[spec["type"]](spec["value"])
    dtype = getattr(torch, spec["dtype"])
    span = 1 + sum((extent - 1) * stride for extent, stride in zip(spec["shape"], spec["strides"], strict=True))
    flat = memory[spec["memory"]][spec["offset"] :][: span * dtype.itemsize].view(dtype)
    return flat.as_strided(spec["shape"], spec["strides"])


class Module:
    """The file's ModelNew, made with the task's own arguments on its device. Raises `CallFailedError`."""

    def __init__(self, order: dict[str, Any], place: torch.device) -> None:
        self.place = place
        self.inputs: int = order["inputs"]
        self.takes: dict[str, Any] | None = order.get("takes")
        self.weights: list[list[str]] = order["parameters"]
        self.state: list[int] = order.get("state", [])
        self.pairs: list[int] = order.get("pairs", [])
        self.torchs = Operators()
        with _telling("load"):
            torch.manual_seed(0)
            with place:
                self.home = _imported(order["source"])
                self.model = _copy_of(self.home.ModelNew(*order["init"]).eval().to(place))
        self.owners = [[*map(self._owner, names)] for names in self.weights]

    def _owner(self, name: str) -> tuple[torch.nn.Module, str]:
        path, _, leaf = name.rpartition(".")
        try:
            owner = self.model.get_submodule(path)
            if isinstance(getattr(owner, leaf), torch.Tensor):
                return owner, leaf
        except AttributeError:
            pass  # said below, as for what is no tensor
        raise CallFailedError("weights", f"ModelNew has no parameter or buffer {name}: keep the reference's names.")

    def call(self, arguments: list[Any]) -> None:
        """Put the slot's weights in, run forward, copy what it returns into the slot's outputs."""
        arguments = [torch.view_as_complex(each) if k in self.pairs else each for k, each in enumerate(arguments)]
        inputs, rest = arguments[: self.inputs], arguments[self.inputs :]
        weights, outputs = rest[: len(self.owners)], rest[len(self.owners) :]
        for place, (owners, weight) in enumerate(zip(self.owners, weights, strict=True)):
            held = weight.clone() if place in self.state else weight  # what it writes is no memory of the judge's
            for owner, leaf in owners:
                if place in self.state and leaf in owner._buffers:
                    setattr(owner, leaf, held)  # what it bound there may be one of its arguments
                else:
                    getattr(owner, leaf).data = held
        with _telling("exception"), torch.no_grad():
            given = forms.put_together(self.takes, iter(inputs), self.home) if self.takes else inputs
            result = self.model(**given) if isinstance(given, dict) else self.model(*given)
        results, wanted = self._opened(result), len(outputs) - len(self.state)
        if len(results) != wanted:
            raise CallFailedError("output", _miscounted(result, len(results), wanted))
        results += [getattr(*self.owners[place][0]) for place in self.state]
        for position, (got, slot) in enumerate(zip(results, outputs, strict=True)):
            _copy(f"result {position}", got, slot)

    def _opened(self, result: Any) -> list[Any]:
        try:
            return forms.take_apart(result, (torch.Tensor,), self.home)[1]
        except forms.FormlessError as error:
            raise CallFailedError("output", f"forward returned {error}: tensors are wanted.") from error

    def finish(self) -> None:
        """Wait for the device: errors of kernels show here."""
        with _telling("cuda"):
            if self.place.type == "cuda":
                torch.cuda.synchronize()


def _copy_of(model: torch.nn.Module) -> torch.nn.Module:
    """A copy, as callers make for an average, another device or each of several layers; the first one's weights are
    gone. What cannot be copied is called as it is."""
    try:
        copied = copy.deepcopy(model)
    except Exception:  # noqa: BLE001 (what a file's own objects raise is theirs)
        return model
    for tensor in (*model.parameters(), *model.buffers()) if copied is not model else ():
        gone = float("nan") if tensor.is_floating_point() or tensor.is_complex() else 1
        tensor.data = torch.full((), gone, dtype=tensor.dtype, device=tensor.device).expand(tensor.shape)
    return copied


class _telling:  # noqa: N801 (reads as a word of the with statement)
    """Turns whatever the file raises into the answer that the judge gets."""

    def __init__(self, check: str) -> None:
        self.check = check

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: Any) -> None:
        if isinstance(error, Exception):
            lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if _FILE in frame.filename]
            place = f"line {lines[-1]}: " if lines else ""
            raise CallFailedError(self.check, f"{place}{type(error).__name__}: {error}") from error


def _miscounted(result: Any, got: int, wanted: int) -> str:
    """What a forward returned, where it holds another number of tensors than the reference's."""
    kind = type(result).__name__
    if not got:
        return f"forward returned a {kind}, not a torch.Tensor: the reference returns {wanted}."
    held = "1 tensor" if isinstance(result, torch.Tensor) else f"a {kind} with {got} tensor{'s' * (got > 1)}"
    return f"forward returned {held}, the reference {wanted}."


def _copy(name: str, got: Any, slot: torch.Tensor) -> None:
    if type(got) not in (torch.Tensor, torch.nn.Parameter):
        raise CallFailedError("output", f"{name} is a {type(got).__name__}, not a torch.Tensor.")
    for what, mine, wanted in (
        ("shape", tuple(got.shape), tuple(slot.shape)),
        ("type", got.dtype, slot.dtype),
        ("layout", got.layout, slot.layout),
        ("device", got.device, slot.device),
    ):
        if mine != wanted:
            raise CallFailedError("output", f"{name} has {what} {mine}, the reference's has {wanted}.")
    slot.copy_(got)


class KnownWork:
    """What shows the cost of a message: on a GPU memory is cleared, and the device itself counts the `seconds`."""

    def __init__(self, place: torch.device) -> None:
        self._on_gpu, self.seconds = place.type == "cuda", 0.0
        self._scratch = torch.empty(cuda_driver.CLEARED_BYTES if self._on_gpu else 0, dtype=torch.uint8, device=place)

    def do(self, times: int) -> None:
        """Clear the scratch memory so many times, and wait."""
        if not (self._on_gpu and times):
            return
        began, ended = (torch.cuda.Event(enable_timing=True) for _ in range(2))  # type: ignore[no-untyped-call]
        began.record()
        for _ in range(times):
            self._scratch.zero_()
        ended.record()
        torch.cuda.synchronize()
        self.seconds = float(began.elapsed_time(ended)) / 1e3


def _imported(source: str) -> Any:
    """The file as a module with a path, for tools that read their functions' source."""
    file = Path(_FILE).resolve()
    file.write_text(source, encoding="utf-8")
    spec = importlib.util.spec_from_file_location(file.stem, file)
    if spec is None or spec.loader is None:
        raise ImportError(f"{file} cannot be imported")
    module = importlib.util.module_from_spec(spec)
    sys.modules[file.stem] = module
    spec.loader.exec_module(module)
    return module


def serve(link: socket.socket) -> None:
    """Answer the judge until it hangs up."""
    mark, descriptors, *_ = socket.recv_fds(link, 1, 2)
    if mark != b"F":
        return
    layout = channel.receive(link)
    try:
        memory = map_segments(layout, descriptors)
    except (OSError, cuda_driver.DriverError) as error:
        channel.send(link, {"failed": "sharing", "message": str(error)})
        return
    slots = [[argument(spec, memory) for spec in slot] for slot in layout["arguments"]]
    channel.send(link, {"mapped": len(slots)})
    order = channel.receive(link)
    known = KnownWork(memory["out"].device)
    while "load" not in order:
        known.do(order.get("work", 0))
        channel.send(link, {"worked": True, "counted": known.seconds})
        order = channel.receive(link)
    try:
        described = json.loads(Path(order["load"]).read_text(encoding="utf-8"))
        module = Module(described, memory["out"].device)
        module.torchs.take_away(described["kept"])
    except CallFailedError as error:
        channel.send(link, {"failed": error.check, "message": str(error)})
        return
    channel.send(link, {"loaded": True})
    while True:
        channel.send(link, _answer(module, slots, channel.receive(link)))


def _answer(module: Module, slots: list[list[Any]], order: dict[str, Any]) -> dict[str, Any]:
    """The answer to any order after loading."""
    if "numbers" in order:
        runner.renumber(slots, order["numbers"])
        return {"numbered": True}
    if "kept" in order:  # what a module's own PyTorch keeps tells nothing
        return {"kept": True}
    if same := order.get("same"):
        slots = [[slot[each] for each in same] for slot in slots]
    return _called(module, slots, order) if "elsewhere" in order else _go(module, slots, order)


def _called(module: Module, slots: list[list[Any]], order: dict[str, Any]) -> dict[str, Any]:
    """The answer to an order of calls, made by whom it says: see `runner`."""
    usual, elsewhere = torch.get_num_threads(), order["elsewhere"]
    on_gpu = elsewhere and module.place.type == "cuda"
    stream = torch.cuda.Stream() if on_gpu else None  # type: ignore[no-untyped-call]

    def go() -> dict[str, Any]:
        torch.set_num_threads(1 if order["nested"] else order["threads"] or usual)
        with torch.cuda.stream(stream):
            return _go(module, slots, order)

    try:
        with ThreadPoolExecutor(1) as another:
            return another.submit(go).result() if elsewhere else go()
    finally:
        torch.set_num_threads(usual)


def _go(module: Module, slots: list[list[Any]], order: dict[str, Any]) -> dict[str, Any]:
    """The answer to an order of calls."""
    try:
        for slot in order["go"]:
            module.call(slots[slot])
        module.finish()
    except CallFailedError as error:
        check = "operator" if module.torchs.refused else error.check
        return {"failed": check, "message": str(error)}
    return {"done": order["nonce"]}


def main() -> None:
    """Entry point of the process."""
    torch.set_num_threads(int(os.environ["OMP_NUM_THREADS"]))
    link = socket.socket(fileno=int(sys.argv[1]))
    try:
        serve(link)
    except channel.ChannelClosedError:
        return


if __name__ == "__main__":
    main()
