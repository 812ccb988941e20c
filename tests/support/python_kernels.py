"""A bench as the judging child has it, with real memory and a real link, whose kernel is a Python function.

The function runs in a thread of this process in place of the runner; the process that the judge stops and lets run is
one that sleeps. So everything behind the link is judged in milliseconds, and a kernel can do wrong what it likes.
"""

from __future__ import annotations

import socket
import subprocess
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import torch

from harness.nouns.task import OpClass, ScalarSpec, Signature, TensorSpec, TraceFacts, Variant
from harness.trusted.arguments import Arguments
from harness.trusted.bench import Bench
from harness.trusted.host_device import HostDevice
from harness.trusted.link import Numbers, RunnerLink
from harness.trusted.memory import SharedMemory, slot_replica
from harness.trusted.reference import Reference
from harness.trusted.scalar_arguments import slot_numbers
from harness.wire import channel
from harness.wire.job import JudgeJob

SOURCE = """
import torch

class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.scale = torch.nn.Parameter(torch.linspace(1, 2, 5))

    def forward(self, x, shift):
        return x * self.scale + shift

def get_inputs():
    return [torch.rand(6, 5) + 1, 0.5]
"""
X = TensorSpec(name="x", shape=(6, 5), strides=(5, 1), dtype="float32")
SIGNATURE = Signature(
    inputs=(X, ScalarSpec(name="shift", type="float", value=0.5, others=(0.0, -0.5), free=True)),
    parameters=(TensorSpec(name="scale", shape=(5,), strides=(1,), dtype="float32"),),
    outputs=(X.model_copy(update={"name": "y"}),),
)

JOB = JudgeJob(
    source=SOURCE, name="task", variant=Variant(), device="cpu", precision="ieee", signature=SIGNATURE,
    facts=TraceFacts(op_class="elementwise"), library="kernel.so", seed=5,
    runner_pid=1, gauge_pid=0, tolerance=1.0, slot_target_bytes=1 << 15, memory_bytes=1 << 26,
    timing_s=0.0, trials=None,
    load_within_s=20.0,
)  # fmt: skip

Views = dict[str, torch.Tensor]
Kernel = Callable[[Views, Numbers], None]


class FailedError(Exception):
    """What the kernel's process answers in place of "done": the check, and a message."""


def right(views: Views, numbers: Numbers) -> None:
    """The kernel that computes what `SOURCE` does."""
    views["y"].copy_(views["x"] * views["scale"] + numbers["shift"])


@contextmanager
def bench_of(
    kernel: Kernel,
    *,
    source: str = SOURCE,
    signature: Signature = SIGNATURE,
    slots: int = 4,
    op_class: OpClass = "elementwise",
    device: HostDevice | None = None,
    indexed: frozenset[str] = frozenset(),
) -> Iterator[Bench]:
    """A loaded bench, the pattern among its inputs drawn under seed 7."""
    reference = Reference(source, "task")
    memory = SharedMemory(signature, slots, device or HostDevice(1 << 12))
    numbers = [slot_numbers(signature, slot) for slot in range(slots)]
    with runner_of(kernel, memory, numbers) as link:
        link.share(memory, numbers)
        link.load("kernel.so")
        yield Bench(
            Arguments(
                device=memory.device,
                reference=reference,
                signature=signature,
                facts=TraceFacts(op_class=op_class, indexed=indexed),
                memory=memory,
                numbers=numbers,
                replicas=[slot_replica(reference, memory, slot) for slot in range(slots)],
                pattern=reference.inputs(7),
            ),
            link=link,
        )


@contextmanager
def runner_of(kernel: Kernel, memory: SharedMemory, numbers: list[Numbers]) -> Iterator[RunnerLink]:
    """The judge's end of a line to a runner that calls `kernel`."""
    ours, theirs = socket.socketpair()
    with subprocess.Popen(["sleep", "1000"]) as process, theirs:
        runner = threading.Thread(target=_serve, args=(theirs, kernel, memory, numbers))
        runner.start()
        link = RunnerLink(ours.detach(), process.pid)
        try:
            yield link
        finally:
            theirs.shutdown(socket.SHUT_RDWR)
            process.kill()
            runner.join()


def _serve(line: socket.socket, kernel: Kernel, memory: SharedMemory, numbers: list[Numbers]) -> None:
    """As `harness/candidate/runner.py` does."""
    mark, *_ = socket.recv_fds(line, 1, 2)
    assert mark == b"F"
    try:
        while True:
            channel.send(line, _answer(channel.receive(line), kernel, memory, numbers))
    except (channel.ChannelClosedError, BrokenPipeError):
        return


def _answer(
    order: dict[str, object], kernel: Kernel, memory: SharedMemory, numbers: list[Numbers]
) -> dict[str, object]:
    if "go" not in order:
        return {"mapped": 0, "worked": True, "counted": 0.0, "loaded": True, "numbered": True}
    try:
        for slot in order["go"]:
            kernel(memory.views[slot], numbers[slot])
    except FailedError as failed:
        check, message = failed.args
        return {"failed": check, "message": message}
    return {"done": order["nonce"]}
