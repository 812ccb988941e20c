"""A process locks itself down for good: limits, no privileges, Landlock, seccomp. Standard library only."""

from __future__ import annotations

import os
import resource

from harness.isolation.landlock import landlock_version, restrict_paths
from harness.isolation.policy import Access, Limits
from harness.isolation.seccomp import filter_program
from harness.isolation.syscalls import drop_capabilities, forbid_new_privileges, install_filter
from harness.nouns.tier import Tier


def lock_down(access: Access, limits: Limits, *, tier: Tier = "landlock", signals: bool = False) -> None:
    """Confine the calling process, which must have one thread only (a fresh fork): the kernel restricts threads.

    Open descriptors stay open and threads started later are confined too. Under "landlock" OSError where the kernel
    cannot; under "bubblewrap" what it can; under "none" the limits alone. With `signals` the process may go on
    signalling others of its user, for example to pause the processes of a sibling tree.
    """
    _apply_limits(limits)
    if tier == "none":
        return
    drop_capabilities()
    forbid_new_privileges()
    scoped = False
    if tier == "landlock" or landlock_version():
        scoped = restrict_paths(access, signals=signals)
    only_signal = None if signals or scoped or access.profiling else os.getpid()
    program = filter_program(
        os.uname().machine, devices=bool(access.devices), profiling=access.profiling, only_signal=only_signal
    )
    install_filter(program)


def _apply_limits(limits: Limits) -> None:
    """Per-process limits. Not RLIMIT_AS: CUDA reserves far more addresses than it uses, and fails under it."""
    wanted = {
        resource.RLIMIT_CORE: 0,
        resource.RLIMIT_DATA: limits.memory_bytes + limits.reserved_bytes,
        resource.RLIMIT_FSIZE: limits.file_bytes,
        resource.RLIMIT_NOFILE: limits.open_files,
        resource.RLIMIT_NPROC: limits.processes + _threads_at_work() + _threads_of_this_user(),
    }
    for kind, value in wanted.items():
        hard = resource.getrlimit(kind)[1]
        lowered = value if hard == resource.RLIM_INFINITY else min(value, hard)
        resource.setrlimit(kind, (lowered, lowered))


def _threads_at_work() -> int:
    """RLIMIT_NPROC counts threads, and a pool has one for each processor: OpenMP's, PyTorch's, and one of our own."""
    return 3 * len(os.sched_getaffinity(0))


def _threads_of_this_user() -> int:
    """RLIMIT_NPROC counts all threads of the user on the machine, and none of root's."""
    user = os.getuid()
    if user == 0:
        return 0
    return sum(_threads(f"/proc/{name}", user) for name in os.listdir("/proc") if name.isdigit())  # noqa: PTH208


def _threads(process: str, user: int) -> int:
    try:
        return len(os.listdir(f"{process}/task")) if os.stat(process).st_uid == user else 0  # noqa: PTH116, PTH208
    except OSError:
        return 0  # it has just ended
