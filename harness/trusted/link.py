"""The judge's end of the line to the candidate's runner."""

from __future__ import annotations

import secrets
import socket
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from harness.isolation.mapped_code import filtered_twice
from harness.isolation.tree import (
    busy_threads,
    cpu_seconds,
    guard_of,
    pause,
    pause_tree,
    resume_tree,
    thread_times,
    threads_of,
)
from harness.nouns.caller import ENDED, USUAL, Caller
from harness.nouns.devices import on_gpu
from harness.nouns.errors import MachineError
from harness.nouns.task import ScalarSpec
from harness.nouns.verdict import Status
from harness.trusted.memory import SharedMemory
from harness.wire import channel

AWAKE_S = 1.0
"""How long to wait for an answer without sleeping, where the device is not the processor."""
LINGERS_S = 0.002
"""How long a sealed runner goes on after its answer: its OpenMP threads, which spin for about half a millisecond, are
asleep when the next order comes, as after any pause of a caller's, and who still writes is seen."""
ENDING_S = 0.5
"""How long threads may take to end."""
MESSAGES = 8
"""Orders of nothing, the least costly of which counts."""
AT_REST_WITHIN_S, SPUN_S = 2.0, 0.1
"""How long they may take to rest on a busy machine; and seconds of a processor that none spins for."""
_SHARING = "See `cutegen doctor`; a GPU must let several processes use it (nvidia-smi -c DEFAULT)."

_REFUSED = frozenset({"output", "operator", "process_state", "kept"})
"""Checks of the runner that a kernel fails without breaking."""

Numbers = dict[str, float | int | bool]


class CandidateFailedError(Exception):
    """The candidate did not get through; `status`, `check` and `message` go into the verdict."""

    def __init__(self, status: Status, check: str, message: str) -> None:
        super().__init__(message)
        self.status, self.check, self.message = status, check, message

    @property
    def said(self) -> dict[str, str]:
        """Of a `JudgeAnswer`."""
        return {"status": self.status, "check": self.check, "message": self.message}


class WrongError(CandidateFailedError):
    """A trial found a wrong output."""

    def __init__(self, message: str) -> None:
        super().__init__("wrong", "correctness", message)


@dataclass(frozen=True)
class Spent:
    """What the runner's threads spent on an order of so many `calls`, as the system counts it, in seconds.

    All of them computed `cpu_s`, those beside the first `beside_s` of it; until the answer came they had waited for a
    processor for `waited_s`, added up.
    """

    calls: int
    cpu_s: float
    beside_s: float
    waited_s: float


class RunnerLink:
    """Sends orders, keeps deadlines, turns what goes wrong into `CandidateFailedError`."""

    def __init__(self, descriptor: int, pid: int, *, load_within_s: float = 60.0) -> None:
        self._socket = socket.socket(fileno=descriptor)
        self._pid, self._load_within_s = pid, load_within_s
        self._stopped: set[int] | None = None
        """What was paused last, and can have had no child since: looking at all processes again takes milliseconds."""
        self._loaded = False
        """Whether it may have begun to load its library. Before, it is our code only, and starts no process."""
        self._alone: int | None = None
        """The runner, where it is sealed: then no other process of the candidate's can come to be."""
        self._awake = False  # on a processor the wait would take a core from the kernel
        self._asleep = False  # the next order is sent to a runner that is stopped, and wakes it
        self._numbers: Sequence[Numbers] = ()
        self._told: list[Numbers] = []
        self.called = 0
        """Calls of the entry so far."""
        self.calling_s = 0.0
        """Seconds that they took, messages included."""
        self.spent: Spent | None = None
        """On the last order that woke the runner; None where it is not sealed, or the system does not tell."""
        self._waited_s = 0.0  # by its threads, when the last answer came
        self.message_s = 0.0
        """What an order computes beside its calls, where OpenMP's teams were given a number of threads."""

    def share(self, memory: SharedMemory, numbers: Sequence[Numbers]) -> None:
        """Hand the memory over; `numbers` are the scalar inputs of each slot, told again whenever they have changed.

        Nothing hostile runs yet. Raises `MachineError` where the runner cannot map it.
        """
        self._numbers, self._told = numbers, [dict(each) for each in numbers]
        self._awake = on_gpu(memory.device.kind)
        socket.send_fds(self._socket, [b"F"], [memory.inputs.descriptor, memory.written.descriptor])
        signature = memory.signature
        arguments = [
            [
                {"kind": "scalar", "type": spec.type, "value": slot_numbers[spec.name]}
                if isinstance(spec, ScalarSpec)
                else slot[spec.name].argument()
                for spec in signature.arguments
            ]
            for slot, slot_numbers in zip(memory.layout.places, numbers, strict=True)
        ]
        sizes = [memory.inputs.raw.numel(), memory.written.raw.numel()]
        order = {"device": memory.device.kind, "bytes": sizes, "arguments": arguments}
        try:
            self._ask(order, "mapped", self._load_within_s)
        except CandidateFailedError as failure:
            raise MachineError(f"The kernel's process could not map its memory: {failure}", _SHARING) from failure

    def work(self, times: int, answered: Callable[[], None] = lambda: None) -> None:
        """Before `load`: have the runner do a known piece of work so many times. `answered` as for `call`."""
        self._ask({"work": times}, "worked", self._load_within_s, answered)

    def counted(self) -> float:
        """How many seconds the runner's device itself counted for the last `work`."""
        return float(self._ask({"count": True}, "counted", self._load_within_s))

    def load(self, library: str) -> None:
        """Let the runner load the library: from here on it is hostile."""
        resume_tree(self._pid, self._stopped)
        self._loaded = True
        self._ask({"load": library}, "loaded", self._load_within_s)
        self._stopped = pause_tree(self._pid)
        self._alone = _sealed_alone(self._pid, self._stopped)

    def call(
        self,
        slots: Sequence[int],
        timeout_s: float,
        answered: Callable[[], None] | None = None,
        caller: Caller = USUAL,
        same: Sequence[int] = (),
    ) -> None:
        """Have the entry called once on each of these slots, in order, by that caller: within `timeout_s`, times
        its patience. With `same` each argument is the one at that place.

        `answered` is called when an answer has come, whatever it is, before it is read: a clock may hang on it. Where
        none does, the runner looks at what its library keeps.
        """
        nonce, began = secrets.randbits(48), time.monotonic()
        threads = threads_of(self._alone or self._pid) if caller != USUAL else 0
        order = {"go": list(slots), "nonce": nonce} | (caller.model_dump() if caller != USUAL else {})
        if answered is None:
            order["look"] = True
        if same:
            order["same"] = list(same)
        try:
            answer = self._ask(order, "done", timeout_s * caller.patience, answered or (lambda: None))
        except CandidateFailedError as failure:
            said = f" It was called {caller.said}." if caller.said else ""
            raise CandidateFailedError(failure.status, failure.check, f"{failure.message}{said}") from failure
        if caller != USUAL:
            self._await_threads(threads)
        self.called += len(slots)
        self.calling_s += (time.monotonic() - began) / caller.patience
        if answer != nonce:
            raise CandidateFailedError(
                "refused", "protocol", "The runner answered a call that was not the one asked for."
            )

    def require_nothing_kept(self) -> None:
        """Raise `CandidateFailedError` where the kernel's calls left memory or threads behind, or data that changes."""
        with self.running():
            usual = self._ask({"kept": True}, "kept", self._load_within_s)
        if self._alone is None or not isinstance(usual, int):
            return
        resume_tree(self._pid, self._stopped)
        self._await_threads(usual, AT_REST_WITHIN_S)
        if (more := threads_of(self._alone) - usual) > 0:
            raise CandidateFailedError("refused", "threads", f"The kernel's calls left {more} threads behind.")
        self._stop()

    def _await_rest(self) -> None:
        """Wait until the threads beside the first one sleep. Raises `CandidateFailedError` for one that never does.

        What it computes tells, and not for how long: on a busy machine OpenMP's threads spin when they get to it.
        """
        if self._alone is None:
            return
        began = busy_threads(self._alone)
        until = time.monotonic() + AT_REST_WITHIN_S
        while (now := busy_threads(self._alone)) and time.monotonic() < until:
            if any(spent - began.get(thread, spent) >= SPUN_S for thread, spent in now.items()):
                raise CandidateFailedError("refused", "threads", "A thread of the kernel's goes on after its calls.")
            time.sleep(LINGERS_S)

    def _await_threads(self, most: int, within_s: float = ENDING_S) -> None:
        """Wait until a larger team's threads are gone: they would end while the next order's clock runs."""
        until = time.monotonic() + within_s
        while threads_of(self._alone or self._pid) > most and time.monotonic() < until:
            time.sleep(LINGERS_S / 4)

    @contextmanager
    def running(self) -> Iterator[None]:
        """Let the runner run inside the block. Outside every thread of it is stopped: nothing computes or watches.

        After a failure it is left running: a process that is just dying has to get to its end.
        """
        resume_tree(self._pid, self._stopped)
        self._tell_numbers()
        yield
        self._stop()

    @contextmanager
    def woken(self) -> Iterator[None]:
        """As `running`, but the first order of the block is what wakes the runner: it lies there when it does, so that
        there is no time to work ahead of it. All numbers are told before."""
        if self._changed():
            with self.running():
                pass
        before, called = self._clocks(), self.called
        self._asleep = True
        yield
        self._stop()
        after = self._clocks()
        self.spent = (
            before
            and after
            and Spent(
                calls=self.called - called,
                cpu_s=after[0] - before[0],
                beside_s=after[1] - before[1],
                waited_s=max(0.0, self._waited_s - before[2]),
            )
        )

    def have_threads(self, count: int) -> None:
        """Let OpenMP's teams have so many threads from now on; 0: as many as they began with. Of a sealed runner.

        Then some orders of nothing tell what a message costs.
        """
        self._teams(count)
        costs = []
        for _ in range(MESSAGES if count else 0):
            with self.woken():
                self.call([], self._load_within_s, lambda: None)
            costs += [self.spent.cpu_s] if self.spent else []
        self.message_s = min(costs, default=0.0)

    def run_alone_on(self, processor: int) -> None:
        """Let teams have one thread, and keep it on this processor, until `have_threads`."""
        self._teams(1, [processor])

    def _teams(self, count: int, processors: Sequence[int] = ()) -> None:
        with self.running():
            self._ask({"teams": count, "processors": [*processors]}, "teamed", self._load_within_s)

    def _clocks(self) -> tuple[float, float, float] | None:
        """What all threads of a sealed runner have computed, those beside the first, and how long all have waited."""
        times = thread_times(self._alone) if self._alone is not None else {}
        if self._alone is None or not times:
            return None
        beside_s = sum(ran for thread, (ran, _) in times.items() if thread != self._alone)
        return cpu_seconds(self._alone), beside_s, sum(waited for _, waited in times.values())

    def _stop(self) -> None:
        if self._alone is None:
            self._stopped = pause_tree(self._pid, None if self._loaded else self._stopped)
        else:
            time.sleep(LINGERS_S)
            self._await_rest()
            pause(self._alone)

    def _changed(self) -> list[int]:
        """Slots whose numbers are not those that the runner knows."""
        return [slot for slot, now in enumerate(self._numbers) if now != self._told[slot]]

    def _tell_numbers(self) -> None:
        """Here, and not with the order that needs them: no clock runs yet."""
        if changed := self._changed():
            told = [[slot, *self._numbers[slot].values()] for slot in changed]
            self._ask({"numbers": told}, "numbered", self._load_within_s)
            for slot in changed:
                self._told[slot] = dict(self._numbers[slot])

    def _ask(
        self, order: dict[str, Any], expected: str, timeout_s: float, answered: Callable[[], None] = lambda: None
    ) -> Any:
        deadline = time.monotonic() + timeout_s
        self._socket.settimeout(timeout_s)
        try:
            channel.send(self._socket, order)
            woken, self._asleep = self._asleep, False
            if woken:
                resume_tree(self._pid, self._stopped)
            if self._awake:
                channel.await_frame(self._socket, AWAKE_S)
            self._socket.settimeout(max(0.001, deadline - time.monotonic()))
            self._socket.recv(1, socket.MSG_PEEK)
            answered()
            if woken and (now := self._clocks()):
                self._waited_s = now[2]
            answer = channel.receive(self._socket, until=deadline)
        except TimeoutError as error:
            raise CandidateFailedError(
                "timed_out", "hang", f"No answer within {timeout_s:.3g} s (the reference takes far less)."
            ) from error
        except ConnectionError as error:  # a closed channel among them
            raise CandidateFailedError("crashed", "process", ENDED) from error
        if "failed" in answer:
            check, message = _text(answer["failed"]) or "process", _text(answer.get("message", ""))[:2000]
            raise CandidateFailedError("refused" if check in _REFUSED else "crashed", check, message)
        if expected not in answer:
            raise CandidateFailedError("refused", "protocol", "The runner sent something else than an answer.")
        return answer[expected]


def _sealed_alone(pid: int, below: set[int]) -> int | None:
    """The one process below a runner's guard, where no thread of it can start another; else None."""
    guard = guard_of(pid)
    try:
        (alone,) = below
        return alone if guard is not None and filtered_twice(alone, guard) else None
    except (ValueError, OSError):  # there are others, or it has just ended
        return None


def _text(said: object) -> str:
    """What a runner said, fit for a verdict: halves of a surrogate pair, which JSON can carry, are none of UTF-8."""
    return str(said).encode(errors="replace").decode()
