"""Start a command locked down, outlive it, and leave nothing of it behind.

Run as `python -I -S launcher.py ORDER STATUS LIFE`. The three arguments are descriptors: the order to read, where to
write how it ended, and a pipe whose other end the caller holds. The caller's death closes that pipe, however it died
and whichever of its threads started this; then everything here is killed. This process stays outside the cage as the
parent of all orphans, so that a daemon cannot leave the tree; it never reads what the command wrote.
"""

from __future__ import annotations

import json
import os
import resource
import select
import signal
import sys
from dataclasses import asdict
from typing import Any, NoReturn

if __name__ == "__main__":  # -I -S: neither the script's folder nor site-packages is on the path
    sys.path.insert(0, os.path.abspath(__file__).rsplit(os.sep, 3)[0])  # noqa: PTH100 (pathlib costs 5 ms a launch)

from harness.isolation.lockdown import lock_down
from harness.isolation.namespaces import separate
from harness.isolation.policy import Access, Ending, Limits, Order
from harness.isolation.syscalls import adopt_orphans, hide_from_same_user, set_name, set_parent_death_signal
from harness.isolation.tree import GUARD_NAME, kill_descendants

_NOT_STARTED = 127
_REASON_BYTES = 2000


def read_order(descriptor: int) -> Order:
    """The order, which is trusted: it comes from the process that started this one."""
    with open(descriptor, encoding="utf-8") as file:
        raw: dict[str, Any] = json.load(file)
    return Order(
        argv=tuple(raw.pop("argv")), access=_access(**raw.pop("access")), limits=Limits(**raw.pop("limits")), **raw
    )


def _access(profiling: bool, narrow: bool, **paths: list[str]) -> Access:
    return Access(profiling=profiling, narrow=narrow, **{name: tuple(found) for name, found in paths.items()})


def main(order_fd: int, status_fd: int, life_fd: int) -> None:
    """Run the order to its end and report the ending."""
    order = read_order(order_fd)
    for descriptor in (status_fd, life_fd):
        os.set_inheritable(descriptor, False)
    adopt_orphans()
    wake_fd = _wake_on_child_end()
    failed, failure = os.pipe()
    hide_from_same_user()  # before the fork: the command may be first to run, and starts visible through its exec
    child = os.fork()
    if child == 0:
        _become(order, failure)
    os.close(failure)
    set_name(GUARD_NAME)
    status = _outlive(child, wake_fd, life_fd)
    strays = kill_descendants(os.getpid())
    ending = Ending(
        status=status,
        strays=strays,
        peak_memory_bytes=resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * 1024,
        setup_failure=os.read(failed, _REASON_BYTES).decode(errors="replace"),
    )
    os.write(status_fd, json.dumps(asdict(ending)).encode())


def _wake_on_child_end() -> int:
    readable, writable = os.pipe()
    for descriptor in (readable, writable):
        os.set_blocking(descriptor, False)
    signal.signal(signal.SIGCHLD, lambda number, frame: None)  # without a handler nothing wakes the select
    signal.set_wakeup_fd(writable, warn_on_full_buffer=False)
    return readable


def _become(order: Order, failure: int) -> NoReturn:
    """In the child: lock down and turn into the command; what prevents it is said on `failure`."""
    try:
        os.setsid()
        set_parent_death_signal(signal.SIGKILL)
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        signal.signal(signal.SIGPIPE, signal.SIG_DFL)  # Python ignores it, and exec would pass that on
        if order.access.profiling and order.tier == "landlock":  # bubblewrap has done the same, and more
            separate()
        os.chdir(order.cwd)
        lock_down(order.access, order.limits, tier=order.tier)
        os.execvpe(order.argv[0], order.argv, order.environment)
    except BaseException as error:  # noqa: BLE001 (whatever it is, a fork must not return into its parent's code)
        os.write(failure, f"{order.argv[0]}: {error}".encode()[:_REASON_BYTES])
    finally:
        os._exit(_NOT_STARTED)


def _outlive(child: int, wake_fd: int, life_fd: int) -> int:
    """The child's wait status. Reaps every other orphan on the way; kills the child if the caller has died."""
    while True:
        status = _reap(child)
        if status is not None:
            return status
        ready = select.select([wake_fd, life_fd], [], [])[0]
        if wake_fd in ready:
            os.read(wake_fd, 4096)
        if life_fd in ready:
            os.kill(child, signal.SIGKILL)
            return os.waitpid(child, 0)[1]


def _reap(child: int) -> int | None:
    status = None
    while True:
        try:
            ended, raw = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return status
        if ended == 0:
            return status
        if ended == child:
            status = raw


if __name__ == "__main__":
    main(*(int(argument) for argument in sys.argv[1:4]))
    os._exit(0)  # the interpreter's own tidying up would take 5 ms more
