"""The warm parent: has torch imported, forks a locked-down child for each job, and passes its answer on.

`main` runs with one thread (OMP_NUM_THREADS=1): a fork copies only the calling thread. It holds no secret, never
touches `torch.cuda`, and never runs foreign code itself.

A job arrives on the control socket as one frame with the job's own socket attached. The child answers there with one
frame, before which others may tell what it is doing; when it has ended, the parent adds {"exit": wait status} and
closes. A client that hangs up early has the child's whole tree killed.
"""

from __future__ import annotations

import contextlib
import gc
import os
import selectors
import signal
import socket
import sys
import traceback
import warnings
from pathlib import Path
from typing import Any

import numpy.ma  # noqa: F401 (np.median imports it on first use)
import torch  # what the warmth is for
import torch._dynamo  # export imports it on first use, which takes a second and fails once locked down
import torch._export.passes.replace_autocast_with_hop_pass  # and these, as does tracing for ties
import torch._inductor.compiler_bisector
import torch._inductor.fx_passes.dedupe_symint_uses
import torch._subclasses.schema_check_mode
import torch.export._trace
import torch.fx.experimental.validator

from harness.isolation.lockdown import lock_down
from harness.isolation.policy import Access, Limits
from harness.isolation.tree import kill_tree
from harness.nouns.errors import MachineError, UserError
from harness.trusted.jobs.dispatch import PAUSING, run_job
from harness.trusted.timing.compiled import point_at
from harness.wire import channel, gate, telling


class Server:
    """Serves jobs until the control socket closes."""

    def __init__(self, control: socket.socket) -> None:
        self.control = control
        self.jobs: dict[int, socket.socket] = {}
        self.selector = selectors.DefaultSelector()
        self.wake_read, self.wake_write = os.pipe()
        for end in (self.wake_read, self.wake_write):
            os.set_blocking(end, False)
        signal.set_wakeup_fd(self.wake_write)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        self.selector.register(control, selectors.EVENT_READ)
        self.selector.register(self.wake_read, selectors.EVENT_READ)

    def run(self) -> None:
        """Serve; on the way out no child survives."""
        try:
            while self._turn():
                pass
        finally:
            for pid in self.jobs:
                _kill(pid)

    def _turn(self) -> bool:
        for key, _ in self.selector.select():
            if key.fileobj is self.control:
                if not self._accept():
                    return False
            elif key.fileobj == self.wake_read:
                self._reap()
            elif isinstance(key.data, int) and key.data in self.jobs:
                _kill(key.data)
                self.selector.unregister(key.fileobj)
        return True

    def _accept(self) -> bool:
        mark, descriptors, *_ = socket.recv_fds(self.control, 1, 16)
        if not mark:
            return False
        job = channel.receive(self.control)
        link = socket.socket(fileno=descriptors[0])
        pid = os.fork()
        if pid == 0:
            _child(job, link, descriptors[1:], self)
        for descriptor in descriptors[1:]:
            os.close(descriptor)
        self.jobs[pid] = link
        self.selector.register(link, selectors.EVENT_READ, pid)
        return True

    def _reap(self) -> None:
        with contextlib.suppress(BlockingIOError):
            os.read(self.wake_read, 4096)
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if pid == 0:
                return
            self._finish(pid, status)

    def _finish(self, pid: int, status: int) -> None:
        link = self.jobs.pop(pid, None)
        if link is None:
            return
        with contextlib.suppress(KeyError):
            self.selector.unregister(link)
        with contextlib.suppress(OSError):
            channel.send(link, {"exit": status})
        link.close()


def _kill(pid: int) -> None:
    kill_tree(pid)
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)


def _child(job: dict[str, Any], link: socket.socket, descriptors: list[int], server: Server) -> None:
    """Never returns. The locked child answers with a result, or with the error that is the user's or the machine's."""
    status = 1
    try:
        os.setsid()
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        server.control.close()
        for other in server.jobs.values():
            other.close()
        show_gpus(job)
        os.environ["CUTEGEN_EXPORTED"] = job["exported"]  # where the task files of live modules look for theirs
        waits = gate.gate(link, descriptors.pop()) if job["gated"] else contextlib.nullcontext()
        with waits, telling.telling(telling.over(link)):
            answer = _answer(job, descriptors)
        channel.send(link, answer)
        status = 0
    except BaseException as error:  # noqa: BLE001 (a forked child must never return into the parent's loop)
        with contextlib.suppress(BaseException):  # the task file's own class may fail to say what it is
            channel.send(link, {"died": _last_words(error)})
    finally:
        os._exit(status)


def show_gpus(job: dict[str, Any]) -> None:
    """Before CUDA is asked for anything: the GPUs that the job names, or none where it has access to none."""
    if not job["access"]["devices"]:
        os.environ["CUDA_VISIBLE_DEVICES"] = ""
        # Where there is a GPU that the cage hides, torch finds a driver that fails, and would tell the user.
        warnings.filterwarnings("ignore", "CUDA initialization", UserWarning)
    elif job["gpus"]:
        os.environ["CUDA_VISIBLE_DEVICES"] = job["gpus"]


def _last_words(error: BaseException) -> str:
    """What ended a child that gives no answer, and in which line of which file."""
    *_, frame = traceback.extract_tb(error.__traceback__)
    text = " ".join(str(error).split())[:300]
    return f"{type(error).__name__} in {Path(frame.filename).name}, line {frame.lineno}: {text}"


def _answer(job: dict[str, Any], descriptors: list[int]) -> dict[str, Any]:
    try:
        _confine(job)
        torch.set_num_threads(job["threads"])
        return {"result": run_job(job["kind"], job["payload"], descriptors)}
    except UserError as error:
        return {"user_error": [error.problem, error.remedy]}
    except MachineError as error:
        return {"machine_error": [error.problem, error.remedy]}


def _confine(job: dict[str, Any]) -> None:
    """Lock this process down. Raises `MachineError`: whose file is about to run has no part in that."""
    try:
        if job["locked"]:
            lock_down(Access(**job["access"]), Limits(**job["limits"]), signals=job["kind"] in PAUSING)
        os.chdir(job["cwd"])
        point_at(Path.cwd() / "inductor", {})  # not where the parent, which imported it, could write
        os.dup2(os.open(os.devnull, os.O_WRONLY), 2)  # the terminal is no place for what a task file says
    except OSError as error:
        raise MachineError(f"The task's process cannot be confined: {error}.", "Run cutegen doctor.") from error


def main() -> None:
    """Entry point of the process."""
    gc.freeze()  # what torch's import made stays; a child's collections leave it alone
    gc.enable()
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches the whole group; the client decides
    Server(socket.socket(fileno=int(sys.argv[1]))).run()
    os._exit(0)  # to take torch apart again would take a second
