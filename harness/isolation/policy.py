"""What an isolated process may touch and how much it may use. Standard library only: the launcher imports this."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from harness.nouns.tier import Tier

SYSTEM_TREES = ("/usr", "/bin", "/sbin", "/lib", "/lib64", "/lib32", "/libx32")
"""Readable and executable everywhere: compilers, system libraries, the toolkit under /usr/local."""

SYSTEM_FILES = (
    "/etc/ld.so.cache", "/etc/ld.so.conf", "/etc/ld.so.conf.d", "/etc/alternatives", "/etc/passwd", "/etc/group",
    "/etc/nsswitch.conf", "/etc/localtime",
)  # fmt: skip
"""What the dynamic linker, the compilers and the C library read of /etc. No certificates, no host names."""

USERS_FILES = frozenset({"/etc/passwd", "/etc/group", "/etc/nsswitch.conf"})
"""Those of them that name the machine's users: compilers and PyTorch ask for them, a kernel's runner does not."""

SYSTEM_DEVICES = ("/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom")

CPU_FACTS = ("/sys/devices/system/cpu", "/sys/devices/system/node")
"""What OpenMP and torch read to learn the number of cores. With devices, all of /sys: the CUDA driver walks it."""

MACHINE_WIDE = ("/proc/sys", "/proc/sysrq-trigger", "/proc/irq", "/proc/bus", "/proc/fs")
"""Where root, even without capabilities, could change the machine through /proc. Container runtimes seal the same."""


@dataclass(frozen=True)
class Access:
    """What is reachable beside the system's own folders and the interpreter's installation.

    `read`: readable and executable trees or files; `write`: read-write trees; `devices`: device nodes of a GPU;
    `listed`: folders whose names may be read, and not for that their files.
    A missing `read` or `devices` path is skipped, a missing `write` path is a failed setup.
    `narrow` leaves the system's folders and the interpreter's installation out: then `read` names all that is needed.
    `profiling` opens what Nsight Compute needs and a candidate does not: sockets, ptrace and perf counters. Under
    bubblewrap, and under Landlock where root starts it, the sockets still end at a loopback of their own; under
    Landlock as an ordinary user they reach the network.
    """

    read: tuple[str, ...] = ()
    write: tuple[str, ...] = ()
    devices: tuple[str, ...] = ()
    profiling: bool = False
    listed: tuple[str, ...] = ()
    narrow: bool = False

    @property
    def system_trees(self) -> tuple[str, ...]:
        """The system's folders that are readable as a whole."""
        return () if self.narrow else SYSTEM_TREES

    @property
    def system_files(self) -> tuple[str, ...]:
        """The files of /etc that are readable."""
        return tuple(path for path in SYSTEM_FILES if not self.narrow or path not in USERS_FILES)

    def __add__(self, more: Access) -> Access:
        """What either of them reaches; narrow where either is."""
        return Access(
            read=(*self.read, *more.read),
            write=(*self.write, *more.write),
            devices=(*self.devices, *more.devices),
            profiling=self.profiling or more.profiling,
            listed=(*self.listed, *more.listed),
            narrow=self.narrow or more.narrow,
        )


@dataclass(frozen=True)
class Needs:
    """What a process that runs kernels must reach and find set, beside what every isolated process has."""

    access: Access = field(default_factory=Access)
    environment: dict[str, str] = field(default_factory=dict)

    def __add__(self, more: Access) -> Needs:
        """The same, reaching `more`."""
        return Needs(self.access + more, self.environment)

    @property
    def gpus(self) -> str:
        """Those that the process may see, as CUDA_VISIBLE_DEVICES names them."""
        return self.environment.get("CUDA_VISIBLE_DEVICES", "")


@dataclass(frozen=True)
class Limits:
    """Seconds, bytes and counts. Memory and processes count over the whole tree, the rest per process.

    `output_bytes` bounds what is kept of stdout and stderr each; sixteen times that on one of them ends the process.
    `disk_bytes` bounds all that lies in the working folder, and files without a name that are still open.
    `wall_s` bounds `run_isolated`; a long-lived process is bounded by its owner's waits. `reserved_bytes` may be mapped
    beyond `memory_bytes` by a process that never touches them, as a sanitizer's shadow is.
    """

    wall_s: float = 60.0
    memory_bytes: int = 4 << 30
    processes: int = 256
    file_bytes: int = 1 << 30
    disk_bytes: int = 16 << 30
    open_files: int = 1024
    output_bytes: int = 1 << 20
    reserved_bytes: int = 0


@dataclass(frozen=True)
class Order:
    """What the launcher is told, as JSON: the command, where and with which environment, and its policy."""

    argv: tuple[str, ...]
    cwd: str
    environment: dict[str, str]
    access: Access
    limits: Limits
    tier: Tier


@dataclass(frozen=True)
class Ending:
    """What the launcher reports, as JSON: a wait status, or why the command could not be started."""

    status: int = 0
    strays: int = 0
    peak_memory_bytes: int = 0
    setup_failure: str = ""
