"""The process of a foreign Python file: what its module is given, what it may return, how its failures are told."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
import threading
from contextlib import contextmanager, suppress

import pytest
import torch
from python_kernels import SIGNATURE

from harness.candidate.python_runner import CallFailedError, KnownWork, Module, Operators, argument, serve
from harness.trusted.host_device import HostDevice
from harness.trusted.link import CandidateFailedError, RunnerLink
from harness.trusted.memory import SharedMemory
from harness.wire import channel

FILE = """\
import torch
from torch import nn

class ModelNew(nn.Module):
    def __init__(self, columns=5):
        super().__init__()
        self.scale = nn.Parameter(torch.zeros(columns))
        self.drop = nn.Dropout(0.9)

    def forward(self, x, shift):
        return self.drop(x * self.scale + shift)
"""
RETURNED = "self.drop(x * self.scale + shift)"


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    """The file is written where the process is, and imported under one name.

    Nothing is taken away: the runner is in the tests' own process, and what is taken does not come back.
    """
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(Operators, "take_away", lambda *_: None)
    yield tmp_path
    sys.modules.pop("module_new", None)


def order(source=FILE, **changed):
    return {"source": source, "init": [5], "inputs": 2, "parameters": [["scale"]], "kept": [], **changed}


def module(returned=RETURNED, **changed):
    return Module(order(FILE.replace(RETURNED, returned), **changed), torch.device("cpu"))


def called(returned, outputs=1):
    """What lies in the outputs after a call on x = 2, shift = 0.5, scale = 1..5."""
    slots = [torch.zeros(6, 5) for _ in range(outputs)]
    module(returned).call([torch.full((6, 5), 2.0), 0.5, torch.arange(1.0, 6.0), *slots])
    return slots


def test_what_is_complex_for_the_module_is_put_in_as_such():
    """Of the judge's memory, which has pairs of reals."""
    source = FILE.replace("torch.zeros(columns)", "torch.zeros(columns, dtype=torch.complex64)")
    source = source.replace(RETURNED, "torch.view_as_real(x * self.scale * shift)")
    made = Module(order(source, pairs=[0, 2]), torch.device("cpu"))
    x, scale, slot = torch.randn(5, 2), torch.randn(5, 2), torch.zeros(5, 2)
    wanted = torch.view_as_complex(x) * torch.view_as_complex(scale) * 0.25
    arguments = [x, 0.25, scale, slot]
    for _ in range(2):  # a slot's arguments are called with again
        made.call(arguments)
        assert torch.equal(slot, torch.view_as_real(wanted))
        slot.zero_()


def test_the_weights_of_a_slot_are_put_in_before_each_call():
    made = module()
    x, slot = torch.ones(6, 5), torch.zeros(6, 5)
    for scale in (torch.arange(5.0), torch.full((5,), 7.0)):
        made.call([x, 0.25, scale, slot])
        assert torch.equal(slot, (scale + 0.25).expand(6, 5))
    assert not made.model.training


@pytest.mark.parametrize(
    ("held", "factor", "gone"),
    [
        ("lambda x: x * self.scale", "self.times(x)", True),
        ("[lambda x, scale=self.scale: x * scale]", "self.times[0](x)", True),
        ("[self.scale]", "x * self.times[0]", False),
    ],
)
def test_a_copy_is_called_whose_original_has_no_weights_left(held, factor, gone):
    """Callers copy modules: an average of weights, each of several layers."""
    source = FILE.replace("self.drop = ", f"self.times = {held}\n        self.drop = ").replace(
        "x * self.scale +", f"{factor} +"
    )
    made, slot = Module(order(source), torch.device("cpu")), torch.zeros(6, 5)
    made.call([torch.ones(6, 5), 0.0, torch.arange(5.0), slot])
    assert bool(slot.isnan().all()) == gone


def test_what_cannot_be_copied_is_called_as_it_is():
    source = FILE.replace("self.drop = ", "self.link = __import__('threading').Lock()\n        self.drop = ")
    made, slot = Module(order(source), torch.device("cpu")), torch.zeros(6, 5)
    made.call([torch.ones(6, 5), 0.0, torch.arange(5.0), slot])
    assert torch.equal(slot, torch.arange(5.0).expand(6, 5))


def test_a_state_that_the_module_binds_to_an_argument_leaves_that_alone():
    source = FILE.replace("return", "self.seen = x[0]\n        return").replace(
        "self.drop = ", "self.register_buffer('seen', torch.zeros(5))\n        self.drop = "
    )
    made = Module(order(source, parameters=[["scale"], ["seen"]], state=[1]), torch.device("cpu"))
    x, seen, slots = torch.rand(6, 5), torch.zeros(5), [torch.zeros(6, 5), torch.zeros(5)]
    for _ in range(2):
        made.call([x, 0.0, torch.ones(5), seen, *slots])
        assert torch.equal(slots[0], x) and torch.equal(slots[1], x[0])
    assert not seen.any()


def test_several_results_go_to_their_outputs():
    first, second = called("(x * self.scale, [x + shift][0])", outputs=2)
    assert torch.equal(first, (2 * torch.arange(1.0, 6.0)).expand(6, 5))
    assert (second == 2.5).all()
    (only,) = called("[x + shift]")
    assert (only == 2.5).all()
    (within,) = called("{'loss': None, 'y': (x + shift, 3)}")
    assert (within == 2.5).all()


def test_arguments_are_put_together_as_the_reference_takes_them():
    value = {"kind": "value"}
    takes = {"kind": "dict", "keys": ["h", "x"], "type": "", "parts": [
        {"kind": "tuple", "keys": [], "type": "", "parts": [value, {"kind": "constant", "constant": None}]}, value,
    ]}  # fmt: skip
    source = FILE.replace("x, shift", "x, h", 1).replace("+ shift", "+ h[0]")
    slot = torch.zeros(6, 5)
    made = Module(order(source, takes=takes), torch.device("cpu"))
    made.call([torch.full((6, 5), 2.0), torch.full((6, 5), 0.5), torch.ones(5), slot])
    assert (slot == 2.5).all()


@pytest.mark.parametrize(
    ("returned", "words"),
    [
        ("x, x", "forward returned a tuple with 2 tensors, the reference 1."),
        ("()", "forward returned a tuple, not a torch.Tensor: the reference returns 1."),
        ("3.0", "forward returned a float, not a torch.Tensor: the reference returns 1."),
        ("[x, {3}]", "forward returned a set at 1: tensors are wanted."),
        ("x.as_subclass(type('Lazy', (torch.Tensor,), {}))", "result 0 is a Lazy, not a torch.Tensor."),
        ("x[:1]", "result 0 has shape (1, 5), the reference's has (6, 5)."),
        ("x.T", "result 0 has shape (5, 6), the reference's has (6, 5)."),
        ("x.double()", "result 0 has type torch.float64, the reference's has torch.float32."),
        ("x.to_sparse()", "result 0 has layout torch.sparse_coo, the reference's has torch.strided."),
        ("x.to('meta')", "result 0 has device meta, the reference's has cpu."),
    ],
)
def test_what_is_returned_must_be_what_the_reference_returns(returned, words):
    """Else a copy into the output would broadcast, round or compute what the file left out."""
    with pytest.raises(CallFailedError) as failure:
        called(returned)
    assert (failure.value.check, str(failure.value)) == ("output", words)


def test_a_parameter_is_a_tensor_too():
    (slot,) = called("nn.Parameter(x)")
    assert (slot == 2).all()


@pytest.mark.parametrize(
    ("source", "changed", "check", "words"),
    [
        ("import absent_module", {}, "load", "line 1: ModuleNotFoundError: No module named 'absent_module'"),
        ("x = 3", {}, "load", "AttributeError"),
        ("x = (", {}, "load", "SyntaxError"),
        (FILE, {"init": [1, 2]}, "load", "TypeError"),
        (FILE.replace("torch.zeros(columns)", "torch.zeros(columns) + missing"), {}, "load", "line 7: NameError"),
        (FILE, {"parameters": [["scale", "bias"]]}, "weights", "ModelNew has no parameter or buffer bias: keep"),
        (FILE, {"parameters": [["inner.scale"]]}, "weights", "no parameter or buffer inner.scale"),
        (FILE, {"parameters": [["drop"]]}, "weights", "no parameter or buffer drop"),
        (FILE, {"parameters": [["drop.p"]]}, "weights", "no parameter or buffer drop.p"),
    ],
)
def test_a_file_that_makes_no_module_is_told_with_the_line(source, changed, check, words):
    with pytest.raises(CallFailedError) as failure:
        Module(order(source, **changed), torch.device("cpu"))
    assert failure.value.check == check
    assert words in str(failure.value)


def test_a_forward_that_raises_is_told_with_its_line():
    with pytest.raises(CallFailedError) as failure:
        called("x.view(7)")
    assert (failure.value.check, str(failure.value)[:30]) == ("exception", "line 11: RuntimeError: shape '")


@pytest.mark.parametrize(("kind", "value"), [("float", 2.0), ("int", 2), ("bool", True)])
def test_a_number_is_what_the_task_has(kind, value):
    found = argument({"kind": "scalar", "type": kind, "value": value}, {})
    assert (found, type(found)) == (value, type(value))


def test_a_tensor_lies_over_the_shared_memory_by_its_place():
    memory = {"in": torch.zeros(4096, dtype=torch.uint8), "out": torch.zeros(256, dtype=torch.uint8)}
    spec = {"kind": "tensor", "memory": "out", "offset": 64, "shape": [3, 2], "strides": [1, 4], "dtype": "int16"}
    found = argument(spec, memory)
    assert (tuple(found.shape), found.stride(), found.dtype) == ((3, 2), (1, 4), torch.int16)
    found.fill_(-1)
    marked = memory["out"].nonzero().flatten().tolist()
    assert marked == [64 + 2 * element + byte for element in (0, 1, 2, 4, 5, 6) for byte in (0, 1)]
    assert not memory["in"].any()


def test_there_is_no_known_work_on_a_processor():
    known = KnownWork(torch.device("cpu"))
    known.do(3)
    assert known.seconds == 0.0


@contextmanager
def linked():
    """A link to a runner in a thread of this process; the one that the judge stops and lets run is asleep."""
    ours, theirs = socket.socketpair()
    with subprocess.Popen(["sleep", "1000"]) as stopped, theirs:
        runner = threading.Thread(target=_serve, args=(theirs,))
        runner.start()
        link = RunnerLink(ours.detach(), stopped.pid)
        try:
            yield link
        finally:
            theirs.shutdown(socket.SHUT_RDWR)
            stopped.kill()
            runner.join()


def _serve(line):
    with suppress(ConnectionError):
        serve(line)


@pytest.mark.parametrize("fails", [False, True])
def test_it_answers_as_a_kernels_runner_does(folder, fails):
    source = FILE.replace("return self.drop", "assert shift < 1\n        return self.drop") if fails else FILE
    (folder / "module.json").write_text(json.dumps(order(source)))
    memory = SharedMemory(SIGNATURE, 2, HostDevice(1 << 12))
    with linked() as link:
        link.share(memory, [{"shift": 0.5}, {"shift": 4.0}])
        link.work(2)
        assert link.counted() == 0.0
        link.load(str(folder / "module.json"))
        for slot in range(2):
            memory.views[slot]["x"].fill_(slot + 1)
            memory.views[slot]["scale"].fill_(10)
            memory.poison(slot)
        if fails:
            with pytest.raises(CandidateFailedError, match="line 11: AssertionError") as failure:
                link.call([0, 1], 20.0)
            assert (failure.value.status, failure.value.check) == ("crashed", "exception")
            assert memory.views[1]["y"].isnan().all()
        else:
            link.call([1, 0], 20.0)
            assert (memory.views[1]["y"] == 24).all()
        assert (memory.views[0]["y"] == 10.5).all()


def test_a_file_that_cannot_be_loaded_is_said_and_ends_it(folder):
    (folder / "module.json").write_text(json.dumps(order("x = (")))
    with linked() as link:
        link.share(SharedMemory(SIGNATURE, 1, HostDevice(1 << 12)), [{"shift": 0.5}])
        with pytest.raises(CandidateFailedError, match="SyntaxError") as failure:
            link.load(str(folder / "module.json"))
    assert (failure.value.status, failure.value.check) == ("crashed", "load")


def test_memory_that_cannot_be_mapped_is_said():
    ours, theirs = socket.socketpair()
    with ours, theirs, linked() as link:
        socket.send_fds(link._socket, [b"F"], [ours.fileno(), theirs.fileno()])
        channel.send(link._socket, {"device": "cpu", "bytes": [1, 1], "arguments": []})
        assert channel.receive(link._socket)["failed"] == "sharing"
