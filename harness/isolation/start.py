"""Start the launcher with its order, in bubblewrap or not, and keep hold of its two pipes."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import BinaryIO

from harness.isolation.bubblewrap import bubblewrap_argv
from harness.isolation.policy import Access, Ending, Limits, Order
from harness.nouns.errors import MachineError
from harness.nouns.tier import Tier

_LAUNCHER = Path(__file__).resolve().with_name("launcher.py")
_DEFAULT_PATH = "/usr/local/bin:/usr/bin:/bin"


def interpreter_paths() -> tuple[str, ...]:
    """The folders of the running interpreter and its packages, to be readable where Python runs inside."""
    return tuple(dict.fromkeys((sys.prefix, sys.exec_prefix, sys.base_prefix, sys.base_exec_prefix)))


def make_order(
    argv: Sequence[str],
    cwd: Path | str,
    access: Access,
    limits: Limits,
    environment: Mapping[str, str],
    tier: Tier,
) -> Order:
    """The launcher's order: `cwd` becomes writable, the environment gets its defaults.

    The interpreter's installation becomes readable, unless `access` is narrow.
    """
    folder = str(Path(cwd).resolve())
    defaults = {"PATH": _DEFAULT_PATH, "HOME": folder, "TMPDIR": folder, "LANG": "C.UTF-8"}
    return Order(
        argv=tuple(argv),
        cwd=folder,
        environment={**defaults, **environment},
        access=Access(read=() if access.narrow else interpreter_paths(), write=(folder,)) + access,
        limits=limits,
        tier=tier,
    )


@dataclass(frozen=True)
class Launched:
    """A started launcher: read its ending from `status_fd`, end it and its tree by closing `life`."""

    process: subprocess.Popen[bytes]
    status_fd: int
    life: BinaryIO

    def ending(self) -> Ending | None:
        """What the launcher reported, once `process` has ended; None where it was killed before it could.

        Where bubblewrap alone was killed, the launcher inside lives on: it is told to end, or there would be no report.
        """
        self.life.close()
        report = os.read(self.status_fd, 1 << 16)
        return Ending(**json.loads(report)) if report else None

    def close(self) -> None:
        """Give both descriptors back."""
        os.close(self.status_fd)
        self.life.close()


def start(order: Order, stdin: bytes, pass_fds: Sequence[int]) -> Launched:
    """Start the launcher. Its input is a memory file, so that a command which reads none cannot block anybody."""
    with contextlib.ExitStack() as lent, contextlib.ExitStack() as on_failure:
        order_fd = _memory_file(json.dumps(asdict(order)).encode(), lent)
        stdin_fd = _memory_file(stdin, lent)
        status_fd, status_end = os.pipe()
        life_end, life_fd = os.pipe()
        for descriptor in (status_end, life_end):
            lent.callback(os.close, descriptor)
        for descriptor in (status_fd, life_fd):
            on_failure.callback(os.close, descriptor)
        arguments = [str(descriptor) for descriptor in (order_fd, status_end, life_end)]
        launcher = [sys.executable, "-I", "-S", str(_LAUNCHER), *arguments]
        process = _popen(_enclosed(launcher, order), stdin_fd, (order_fd, status_end, life_end, *pass_fds))
        on_failure.pop_all()
        return Launched(process, status_fd, os.fdopen(life_fd, "wb", buffering=0))


def _enclosed(launcher: list[str], order: Order) -> list[str]:
    if order.tier != "bubblewrap":
        return launcher
    program = shutil.which("bwrap")
    if program is None:
        raise MachineError("bubblewrap is not installed.", "Install the bubblewrap package, or use another isolation.")
    return bubblewrap_argv(program, launcher, order.access)


def _popen(argv: list[str], stdin_fd: int, pass_fds: Sequence[int]) -> subprocess.Popen[bytes]:
    try:
        return subprocess.Popen(
            argv,
            stdin=stdin_fd,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env={},
            cwd="/",
            pass_fds=pass_fds,
            start_new_session=True,  # a Ctrl-C at the terminal is the caller's, not the command's
        )
    except OSError as error:
        raise MachineError(
            f"Cannot start {argv[0]}: {error}.", "Free some memory or processes on this machine and try again."
        ) from error


def _memory_file(content: bytes, lent: contextlib.ExitStack) -> int:
    descriptor = os.memfd_create("isolation")
    lent.callback(os.close, descriptor)
    with open(descriptor, "wb", closefd=False) as file:
        file.write(content)
    os.lseek(descriptor, 0, os.SEEK_SET)
    return descriptor
