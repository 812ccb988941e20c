"""Run a command that nobody trusts, and say how it ended. One thread a process watches its limits and its output."""

from __future__ import annotations

import contextlib
import os
import signal
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Literal, Self

from harness.isolation.mapped_code import Code, foreign_code, unsealed
from harness.isolation.output import Output
from harness.isolation.policy import Access, Ending, Limits
from harness.isolation.start import make_order, start
from harness.isolation.tree import descendants, folder_bytes, kill_tree, weigh
from harness.nouns.errors import MachineError
from harness.nouns.tier import Tier
from harness.wire.stopping import woken_by

__all__ = ["Completed", "IsolatedProcess", "Outcome", "run_isolated"]

Outcome = Literal["exited", "signalled", "timed_out", "out_of_memory", "flooded", "foreign_code", "setup_failed"]

_POLL_S = 0.05
_SAID_WITHIN_S = 1.0
_POLL_SHARE = 20
"""Between two looks at the tree: 50 ms, or twenty times what a look takes where the machine has many processes."""
_FLOOD_FACTOR = 16
_OWN_PROCESSES = 2
"""Below the outermost process, bubblewrap's init and the launcher are not the command's."""


@dataclass(frozen=True)
class Completed:
    """How a process tree ended. `exit_code` with "exited", `signal` ("SIGSEGV") with "signalled", else neither.

    "flooded" is too much output, too many processes or too much on disk, "foreign_code" a mapping that the process was
    not allowed, `note` says which; "setup_failed" means that the command never ran, and `note` why. `strays` are the
    processes that were still there when the first one ended.
    """

    outcome: Outcome
    exit_code: int | None
    signal: str | None
    stdout: bytes
    stderr: bytes
    wall_s: float
    peak_memory_bytes: int
    strays: int
    note: str


def run_isolated(
    argv: Sequence[str],
    *,
    cwd: Path | str,
    access: Access,
    limits: Limits,
    environment: Mapping[str, str],
    tier: Tier,
    stdin: bytes = b"",
    pass_fds: Sequence[int] = (),
) -> Completed:
    """Run `argv` to its end, or to the first limit it breaks; nothing of it is left when this returns.

    `cwd` is readable and writable inside, and its HOME and TMPDIR unless `environment` says otherwise. Beside PATH and
    LANG nothing else is set. Raises MachineError where the launcher itself cannot be started.
    """
    with IsolatedProcess(
        argv, cwd=cwd, access=access, limits=limits, environment=environment, tier=tier, stdin=stdin, pass_fds=pass_fds
    ) as process:
        return process.wait(limits.wall_s)


class IsolatedProcess:
    """A running command and everything it starts. Leaving the `with` block kills what is left of it.

    `pid` is the outermost process that was started; the whole tree is below it. Should the calling process die, the
    tree dies too.
    """

    def __init__(
        self,
        argv: Sequence[str],
        *,
        cwd: Path | str,
        access: Access,
        limits: Limits,
        environment: Mapping[str, str],
        tier: Tier,
        pass_fds: Sequence[int] = (),
        stdin: bytes = b"",
        code: Code | None = None,
    ) -> None:
        self._limits, self._code = limits, code
        self._wrapping = _OWN_PROCESSES if tier == "bubblewrap" else 0
        self._folder = str(cwd)
        self._started = time.monotonic()
        self._launched = start(make_order(argv, cwd, access, limits, environment, tier), stdin, pass_fds)
        self.pid = self._launched.process.pid
        self._output = Output(self._launched.process, limits.output_bytes)
        self._asked: tuple[Outcome, str] | None = None  # written by the owner, and by who stops it
        self._broken: tuple[Outcome, str] | None = None  # written by the watcher only
        self._peak = 0
        self._completed: Completed | None = None
        # Not the thread's own end: a join that Ctrl-C interrupts makes Python 3.11 believe that the thread has ended.
        self._done = threading.Event()
        self._watcher = threading.Thread(target=self._watch_and_tell, name=f"isolated-{self.pid}", daemon=True)
        self._watcher.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.kill()

    def foreign_code(self) -> str:
        """What code of others, or of its own making, the command has or could get now; empty where it is `code` alone.

        To be asked while it is stopped, or waits. What hides its mappings counts as having some.
        """
        if self._code is None or not self.running:
            return ""
        below = descendants(self.pid)
        guard = [self.pid, *below][self._wrapping]
        try:
            found = [self._foreign_in(process) for process in below[self._wrapping :]]
            if self._code.sealed:
                found += [unsealed(process, guard) for process in below[self._wrapping :]]
        except OSError:
            return "mappings that it hides"
        return next(filter(None, found), "")

    def _foreign_in(self, process: int) -> str:
        return foreign_code(process, self._code) if self._code else ""

    @property
    def narrow(self) -> bool:
        """Whether what code it may have is known."""
        return self._code is not None

    def said(self) -> bytes:
        """What it has written to stdout and stderr by now, as far as that is kept."""
        until = time.monotonic() + _SAID_WITHIN_S
        while self.running and self._output.waiting and time.monotonic() < until:
            time.sleep(_POLL_S / 10)
        return b"".join(self._output.kept)

    @property
    def running(self) -> bool:
        """Whether something of it is still alive."""
        return not self._done.is_set()

    def wait(self, timeout_s: float) -> Completed:
        """How it ended; after `timeout_s` seconds it is killed and has timed out. Raises `StoppedError`."""
        with woken_by(self._give_up):
            self._done.wait(timeout_s)
        return self._end("timed_out", f"over its time of {timeout_s:g} s")

    def kill(self) -> Completed:
        """Kill it if it still runs: then it has been "signalled" by SIGKILL."""
        return self._end("signalled", "killed by its owner")

    def _give_up(self) -> None:
        self._asked = self._asked or ("signalled", "given up")

    def _end(self, outcome: Outcome, note: str) -> Completed:
        if not self._done.is_set():
            self._asked = self._asked or (outcome, note)
            self._done.wait()
        if self._completed is None:
            raise MachineError(
                f"The watcher of process {self.pid} failed.", "See its traceback; the machine may be out of memory."
            )
        return self._completed

    def _watch_and_tell(self) -> None:
        try:
            self._watch()
        finally:
            self._done.set()

    def _watch(self) -> None:
        process = self._launched.process
        try:
            self._follow()
            if self._broken:
                kill_tree(self.pid)
            process.wait()
            ending = None if self._broken else self._launched.ending()
            self._output.read_rest()
            self._completed = self._judge(ending)
        finally:
            if process.poll() is None:  # something above failed: leave nothing behind all the same
                kill_tree(self.pid)
                process.wait()
            self._output.close()
            self._launched.close()

    def _follow(self) -> None:
        """Until it has ended, broken a limit, or its owner wants its end."""
        next_look = 0.0
        while not self._output.read_on(_POLL_S):
            if self._asked:
                self._broken = self._asked
            elif (look := time.monotonic()) >= next_look:
                self._broken = self._limit_broken()
                now = time.monotonic()
                next_look = now + max(_POLL_S, _POLL_SHARE * (now - look))
            if self._broken:
                return

    def _limit_broken(self) -> tuple[Outcome, str] | None:
        limits = self._limits
        below = descendants(self.pid)
        held = weigh(below)
        self._peak = max(self._peak, held.memory_bytes)
        if held.memory_bytes > limits.memory_bytes:
            return "out_of_memory", f"held {held.memory_bytes} bytes of memory, {limits.memory_bytes} are allowed"
        if len(below) > limits.processes + _OWN_PROCESSES:
            return "flooded", f"more than {limits.processes} processes"
        if foreign := self._foreign_now(below):
            return "foreign_code", foreign
        if held.unnamed_bytes + folder_bytes(self._folder, limits.disk_bytes) > limits.disk_bytes:
            return "flooded", f"more than {limits.disk_bytes} bytes in its folder"
        return self._output_flood()

    def _foreign_now(self, below: list[int]) -> str:
        """As `foreign_code`, in a process that runs: one that has just ended, or is just starting, has nothing."""
        found = ""
        for process in below[self._wrapping :] if self._code else ():
            with contextlib.suppress(OSError):
                found = found or self._foreign_in(process)
        return found

    def _output_flood(self) -> tuple[Outcome, str] | None:
        most = _FLOOD_FACTOR * self._limits.output_bytes
        return ("flooded", f"more than {most} bytes on one stream") if self._output.largest > most else None

    def _judge(self, ending: Ending | None) -> Completed:
        stdout, stderr = self._output.kept
        outcome, code, name, note = self._outcome(ending, stderr)
        return Completed(
            outcome=outcome,
            exit_code=code,
            signal=name,
            stdout=stdout,
            stderr=stderr,
            wall_s=time.monotonic() - self._started,
            peak_memory_bytes=max(self._peak, ending.peak_memory_bytes if ending else 0),
            strays=ending.strays if ending else 0,
            note=note,
        )

    def _outcome(self, ending: Ending | None, stderr: bytes) -> tuple[Outcome, int | None, str | None, str]:
        broken = self._broken or self._output_flood()
        if broken:
            outcome, note = broken
            return outcome, None, "SIGKILL" if outcome == "signalled" else None, note
        code = self._launched.process.returncode
        if ending is None or code < 0:  # it, or bubblewrap around it, was killed: the command had no part in that
            said = stderr.decode(errors="replace").strip()[-500:]
            return "setup_failed", None, None, f"the launcher ended with {code} before it could report: {said}"
        if ending.setup_failure:
            return "setup_failed", None, None, ending.setup_failure
        if os.WIFSIGNALED(ending.status):
            return "signalled", None, signal_name(os.WTERMSIG(ending.status)), ""
        return "exited", os.WEXITSTATUS(ending.status), None, ""


def signal_name(number: int) -> str:
    """The signal's name; real-time signals between the two named ones are called by their number."""
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"SIG{number}"
