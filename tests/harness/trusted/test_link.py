"""The judge's end of the line: what a clock hears, and when."""

from __future__ import annotations

import os
import socket
import struct
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from python_kernels import SIGNATURE, bench_of, right

from harness.nouns.errors import MachineError
from harness.nouns.verdict import Verdict
from harness.trusted import link as links
from harness.trusted.host_device import HostDevice
from harness.trusted.link import CandidateFailedError, RunnerLink
from harness.trusted.memory import SharedMemory
from harness.trusted.scalar_arguments import slot_numbers
from harness.wire import channel


@contextmanager
def line(answer: Callable[[socket.socket, dict[str, Any]], None]) -> Iterator[RunnerLink]:
    """A link to a runner that gives this answer to one order."""
    ours, theirs = socket.socketpair()
    with theirs:
        runner = threading.Thread(target=lambda: answer(theirs, channel.receive(theirs)))
        runner.start()
        yield RunnerLink(ours.detach(), os.getpid())
        runner.join()


def done(runner: socket.socket, order: dict[str, Any]) -> None:
    channel.send(runner, {"done": order["nonce"]})


def failed(runner: socket.socket, order: dict[str, Any]) -> None:
    channel.send(runner, {"failed": "launch", "message": "too many threads"})


def half_a_frame(runner: socket.socket, order: dict[str, Any]) -> None:
    runner.sendall(channel.frame({"done": order["nonce"]})[:5])
    runner.shutdown(socket.SHUT_RDWR)


def test_the_clock_hears_of_an_answer_once():
    heard: list[str] = []
    with line(done) as link:
        link.call([0, 1], 20.0, lambda: heard.append("now"))
    assert heard == ["now"]


@pytest.mark.parametrize(("answer", "check"), [(failed, "launch"), (half_a_frame, "process")])
def test_whatever_the_answer_is(answer, check):
    """The clock must not wait for the whole of it: who sends a part and waits would choose when it stops."""
    heard: list[str] = []
    with line(answer) as link, pytest.raises(CandidateFailedError) as failure:
        link.call([0], 20.0, lambda: heard.append("now"))
    assert (heard, failure.value.check) == (["now"], check)


def raw(body: bytes) -> Callable[[socket.socket, dict[str, Any]], None]:
    return lambda runner, order: runner.sendall(struct.pack("<I", len(body)) + body)


def says(**answer: object) -> Callable[[socket.socket, dict[str, Any]], None]:
    return lambda runner, order: channel.send(runner, answer)


@pytest.mark.parametrize(
    ("answer", "status", "check"),
    [
        (raw(b"no json"), "crashed", "process"),
        (raw(b"\xff\xfe"), "crashed", "process"),
        (raw(b"[" * 100_000), "crashed", "process"),
        (raw(b"[1, 2]"), "crashed", "process"),
        (says(), "refused", "protocol"),
        (says(loaded=True), "refused", "protocol"),
        (says(done=0), "refused", "protocol"),
        (says(done=float("nan")), "refused", "protocol"),
        (says(failed="output"), "refused", "output"),
        (says(failed="exception", message="no"), "crashed", "exception"),
        (says(failed=""), "crashed", "process"),
        (says(failed=["a", {}], message={"b": 1}), "crashed", "['a', {}]"),
        (says(failed="x\ud800", message="\udfff" * 9), "crashed", "x?"),
        (says(failed="exception", message="long" * 9999), "crashed", "exception"),
    ],
)
def test_whatever_a_hostile_runner_says_makes_a_verdict(answer, status, check):
    with line(answer) as link, pytest.raises(CandidateFailedError) as failure:
        link.call([0], 20.0)
    said = failure.value
    assert (said.status, said.check) == (status, check)
    verdict = Verdict(
        candidate="c", task="t", seed=0, tier="none", status=said.status, check=said.check, message=said.message
    )
    assert len(Verdict.model_validate_json(verdict.model_dump_json()).message) <= 2000


def test_silence_is_a_hang_and_the_limit_is_said():
    with (
        line(lambda runner, order: None) as link,
        pytest.raises(CandidateFailedError, match=r"within 0\.02 s") as found,
    ):
        link.call([0], 0.02)
    assert (found.value.status, found.value.check) == ("timed_out", "hang")


def test_an_answer_that_trickles_in_has_no_more_time_than_any_other():
    """Each byte comes well before the socket would lose its patience."""

    def trickles(runner: socket.socket, order: dict[str, Any]) -> None:
        for byte in channel.frame({"done": order["nonce"]}):
            runner.send(bytes([byte]))
            if ended.wait(0.05):
                return

    ended = threading.Event()
    with line(trickles) as link:
        with pytest.raises(CandidateFailedError) as found:
            link.call([0], 0.2)
        ended.set()
    assert (found.value.status, found.value.check) == ("timed_out", "hang")


def test_known_work_is_counted_when_the_clock_has_stopped():
    def counts(runner: socket.socket, order: dict[str, Any]) -> None:
        channel.send(runner, {"worked": True} if "work" in order else {"counted": 0.25})

    with line(counts) as link:
        link.work(3)
    with line(counts) as link:
        assert link.counted() == 0.25


def handed_over(answer: dict[str, Any]) -> tuple[SharedMemory, dict[str, Any], list[int]]:
    """A memory of two slots shared over a link: the memory, the order, and both files' sizes."""
    memory = SharedMemory(SIGNATURE, 2, HostDevice(1 << 12))
    told: dict[str, Any] = {}

    def maps(runner: socket.socket) -> None:
        mark, descriptors, *_ = socket.recv_fds(runner, 1, 2)
        told.update(channel.receive(runner), mark=mark)
        for descriptor in descriptors:
            files.append(os.fstat(descriptor).st_size)
            os.close(descriptor)
        channel.send(runner, answer)

    files: list[int] = []
    ours, theirs = socket.socketpair()
    with theirs:
        runner = threading.Thread(target=maps, args=(theirs,))
        runner.start()
        try:
            link = RunnerLink(ours.detach(), os.getpid())
            link.share(memory, [slot_numbers(SIGNATURE, slot) for slot in range(2)])
        finally:
            runner.join()
    return memory, told, files


def test_memory_is_handed_over_with_the_place_of_every_argument():
    memory, order, files = handed_over({"mapped": 2})
    layout = memory.layout
    assert (order["mark"], order["device"]) == (b"F", "cpu")
    assert order["bytes"] == [layout.input_bytes, layout.output_bytes] == files
    for slot, (x, shift, scale, y) in enumerate(order["arguments"]):
        assert shift == {"kind": "scalar", "type": "float", "value": slot_numbers(SIGNATURE, slot)["shift"]}
        tensor = {"kind": "tensor", "shape": [6, 5], "strides": [5, 1], "dtype": "float32"}
        assert x == {**tensor, "memory": "in", "offset": layout.places[slot]["x"].offset}
        assert y == {**tensor, "memory": "out", "offset": layout.places[slot]["y"].offset}
        assert (scale["shape"], scale["memory"]) == ([5], "in")


def test_memory_that_cannot_be_mapped_is_the_machines_fault():
    with pytest.raises(MachineError, match="could not map its memory: no such device") as failure:
        handed_over({"failed": "sharing", "message": "no such device"})
    assert "cutegen doctor" in failure.value.remedy


def becomes(pid: int, state: str) -> bool:
    """Whether a process gets into a state ("T" is stopped, "S" asleep) within some seconds."""
    until = time.monotonic() + 10
    while time.monotonic() < until:
        if Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == state:
            return True
    return False


def test_a_loaded_runner_is_stopped_but_for_its_turns_and_its_end():
    with bench_of(right) as bench:
        link, pid = bench.link, bench.link._pid
        assert becomes(pid, "T")
        with link.running():
            assert becomes(pid, "S")
        assert becomes(pid, "T")
        with pytest.raises(ZeroDivisionError), link.running():
            raise ZeroDivisionError
        assert becomes(pid, "S")


def test_what_is_below_a_runner_is_looked_for_once_until_it_loads_its_library(monkeypatch):
    looked: list[set[int] | None] = []
    monkeypatch.setattr(links, "pause_tree", lambda pid, below=None: looked.append(below) or {8})
    monkeypatch.setattr(links, "resume_tree", lambda pid, below=None: None)
    with line(says(loaded=True)) as link:
        for _ in range(3):
            with link.running():
                pass
        assert looked == [None, {8}, {8}]
        link.load("kernel.so")
        with link.running():
            pass
    assert looked[3:] == [None, None]


@pytest.mark.parametrize(
    ("guard", "below", "alone"), [(7, {8}, 8), (7, {9}, None), (7, {8, 9}, None), (None, {8}, None)]
)
def test_only_a_sealed_runner_without_company_is_stopped_without_a_look_around(monkeypatch, guard, below, alone):
    monkeypatch.setattr(links, "guard_of", lambda pid: guard)
    monkeypatch.setattr(links, "filtered_twice", lambda process, of: process == 8)
    assert links._sealed_alone(6, below) == alone


def test_a_library_that_cannot_be_loaded_is_the_kernels_fault():
    with (
        line(says(failed="load", message="undefined symbol: gone")) as link,
        pytest.raises(CandidateFailedError) as found,
    ):
        link.load("kernel.so")
    assert (found.value.status, found.value.check, found.value.message) == ("crashed", "load", "undefined symbol: gone")
