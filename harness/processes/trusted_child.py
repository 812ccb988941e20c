"""The graph's side of the warm parent: starts it once a process, sends jobs, bounds them in time."""

from __future__ import annotations

import atexit
import contextlib
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import asdict
from functools import cache, partial
from pathlib import Path
from typing import Any

from harness.building.store import exported_modules
from harness.isolation.policy import Access, Limits, Needs
from harness.isolation.start import interpreter_paths
from harness.nouns.errors import MachineError, UserError
from harness.nouns.frozen import Frozen
from harness.nouns.tier import Tier
from harness.wire import channel, gate, telling
from harness.wire.stopping import woken_by

_DEVICE_VARIABLES = ("CUDA_VISIBLE_DEVICES", "LD_LIBRARY_PATH")
ROOT = Path(__file__).resolve().parents[2]
SPINS = {"GOMP_SPINCOUNT": "20000"}
"""An idle OpenMP thread spins this often before it sleeps: about 0.5 ms, where libgomp's own choice (300,000) is 7 ms,
in which eager's last thread would take a core from the candidate, and a kernel of many parallel loops would spend on
waiting what a busy machine gives it of the cores. The same on both sides, or the clock would tell how they wait."""

INDUCTOR = {"TORCHINDUCTOR_VEC_ISA_OK": "1", "TORCHINDUCTOR_COMPILE_THREADS": "1"}
"""Read when torch._dynamo is imported. The compiler that builds kernels with -march=native builds Inductor's, too: it
need not build a file for each set of vector instructions that the processor has. One process: no pool to leave."""

_HUGE_PAGES = {"GLIBC_TUNABLES": "glibc.malloc.hugetlb=1"}
"""Oracles of large tasks are short-lived: huge pages save their faults. Malloc reads this once, as a process starts."""


_SERVE = "import gc; gc.disable(); from harness.trusted.jobs import server; server.main()"
"""Importing torch takes a fifth longer where garbage is collected meanwhile."""


class JobDiedError(Exception):
    """The child ended without an answer; `reason` says how ("killed by SIGSEGV", "over its time of 60 s")."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


class JobTookTooLongError(JobDiedError):
    """The child was ended because its time was over."""


class WarmParent:
    """A process that has torch imported. Threads may share it: each job has a socket of its own.

    Its children's malloc is as in any caller's process; with a `large` heap it asks for huge pages.
    """

    def __init__(self, *, large: bool = False) -> None:
        self._control, theirs = socket.socketpair()
        self._lock = threading.Lock()
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-c", _SERVE, str(theirs.fileno())],
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                env=_environment() | (_HUGE_PAGES if large else {}),
                cwd=ROOT,
                start_new_session=True,
            )
        atexit.register(self.close)

    @property
    def alive(self) -> bool:
        """Whether the process still runs."""
        return self._process.poll() is None

    def run(
        self,
        kind: str,
        payload: Frozen | dict[str, Any],
        *,
        tier: Tier,
        cwd: Path,
        limits: Limits,
        needs: Needs | None = None,
        descriptors: tuple[int, ...] = (),
        alone: Callable[[], None] | None = None,
    ) -> dict[str, Any]:
        """The job's result, as JSON has it. Of the environment that it `needs` it sees which GPUs are named.

        `alone` is called where the job asks to have its device alone; the job waits until it returns, and the wait is
        none of its `wall_s`.

        Raises `UserError`, `MachineError`, or, for a child without an answer, `JobDiedError`. Stopped, it has the child
        killed.
        """
        needs, known = needs or Needs(), payload.model_dump(mode="json") if isinstance(payload, Frozen) else payload
        confined = _confined(tier, cwd, limits, needs.access)
        job = {"kind": kind, "payload": known, "gpus": needs.gpus, "threads": usable_threads(), **confined}
        job["gated"] = alone is not None
        ours, theirs = socket.socketpair()
        entry, opener = os.pipe()
        with ours, theirs, os.fdopen(entry, "rb") as waited, os.fdopen(opener, "wb", buffering=0) as opened:
            gates = (waited.fileno(),) if alone else ()
            try:
                with self._lock:
                    socket.send_fds(self._control, [b"J"], [theirs.fileno(), *descriptors, *gates])
                    channel.send(self._control, job)
            except OSError as error:
                raise MachineError("The warm parent process ended.", f"Run the command again ({error}).") from error
            theirs.close()

            def let_pass() -> None:
                if alone:
                    alone()
                    opened.write(b"1")

            with woken_by(partial(_hang_up, ours)):
                answer = _collect(ours, limits.wall_s, let_pass)
            return _unwrap(answer)

    def close(self) -> None:
        """End the process and every child of it."""
        self._control.close()
        try:
            self._process.wait(5)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()


def _confined(tier: Tier, cwd: Path, limits: Limits, access: Access) -> dict[str, Any]:
    """What a job's process may do."""
    exported = str(exported_modules().root)
    readable = (*interpreter_paths(), *_extra_packages(), str(ROOT / "harness"), exported)
    return {
        "locked": tier != "none",
        "access": asdict(Access(read=readable, write=(str(cwd),)) + access),
        "exported": exported,
        "limits": asdict(limits),
        "cwd": str(cwd),
    }


def usable_threads() -> int:
    """Hardware threads this process may run on."""
    return len(os.sched_getaffinity(0))


def _environment() -> dict[str, str]:
    """Nothing of ours but the path: children inherit the memory of this process, so it must hold no key."""
    kept = {name: os.environ[name] for name in _DEVICE_VARIABLES if name in os.environ}
    return {
        **kept,
        **SPINS,
        "PATH": os.environ.get("PATH", "/usr/bin:/bin"),
        "HOME": "/nonexistent",
        "LANG": "C.UTF-8",
        "PYTHONPATH": os.pathsep.join([str(ROOT), *_extra_packages()]),
        "PYTHONDONTWRITEBYTECODE": "1",
        "OMP_NUM_THREADS": "1",
        "OPENBLAS_NUM_THREADS": "1",
        "MKL_NUM_THREADS": "1",
        **INDUCTOR,
        "PYTORCH_NVML_BASED_CUDA_CHECK": "1",  # whether there is a GPU must be told without touching it: children fork
    }


def _extra_packages() -> list[str]:
    """Folders of packages beside the interpreter's own, as $PYTHONPATH names them. A folder with ours is not one."""
    named = (Path(entry).resolve() for entry in os.environ.get("PYTHONPATH", "").split(os.pathsep) if entry)
    return [str(folder) for folder in named if folder.is_dir() and not ROOT.is_relative_to(folder)]


def _collect(link: socket.socket, wall_s: float, let_pass: Callable[[], None]) -> dict[str, Any]:
    """The frames of one job merged: its answer, if any, and its exit status. Foreign code may have written them.

    The first one that asks for the device alone is let pass; the time until then is not the job's.
    """
    deadline = time.monotonic() + wall_s
    merged: dict[str, Any] = {}
    waiting = True
    while "exit" not in merged:
        link.settimeout(max(0.001, deadline - time.monotonic()))
        try:
            answer = channel.receive(link, deadline)
        except TimeoutError as error:
            raise JobTookTooLongError(f"over its time of {wall_s:g} s") from error
        except channel.NotAFrameError as error:
            raise JobDiedError(f"with an answer that is none: {error}") from error
        except channel.ChannelClosedError as error:
            raise MachineError("The warm parent process ended.", "Run the command again.") from error
        telling.pass_on(answer.pop(telling.FRAME, None))
        if answer.pop(gate.FRAME, None) and waiting:
            waiting, began = False, time.monotonic()
            let_pass()
            deadline += time.monotonic() - began
        merged |= answer
    return merged


def _hang_up(link: socket.socket) -> None:
    """Both sides see the end: the server kills the child whose client has gone."""
    with contextlib.suppress(OSError):
        link.shutdown(socket.SHUT_RDWR)


def _unwrap(answer: dict[str, Any]) -> dict[str, Any]:
    match answer:
        case {"user_error": [str() as problem, str() as remedy]}:
            raise UserError(problem, remedy)
        case {"machine_error": [str() as problem, str() as remedy]}:
            raise MachineError(problem, remedy)
        case {"result": dict() as result}:
            return result
        case {"died": str() as last_words}:
            raise JobDiedError(last_words)
    raise JobDiedError(_how(answer["exit"]))


def _how(status: object) -> str:
    """How a process ended, by the status that the parent was told."""
    try:
        code = os.waitstatus_to_exitcode(status)  # type: ignore[arg-type]
        return f"ended with exit code {code}" if code >= 0 else f"killed by {signal.Signals(-code).name}"
    except (TypeError, ValueError, OverflowError):
        return "with an answer that is none"


@cache
def _shared(_process: int) -> dict[bool, WarmParent]:
    return {}


_start = threading.Lock()


def warm_parent(*, large: bool = False) -> WarmParent:
    """This process's warm parent; started on first use (about 2 s for importing torch), and again if it has ended.

    That with a `large` heap is another one, which only large tasks and models need.
    """
    with _start:
        held = _shared(os.getpid())
        if large not in held or not held[large].alive:
            held[large] = WarmParent(large=large)
        return held[large]
