"""The candidate's process: a caged runner for one library."""

from __future__ import annotations

import os
import signal
import socket
import sys
import sysconfig
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

from harness.isolation.policy import Limits, Needs
from harness.isolation.process import Completed, IsolatedProcess
from harness.isolation.seccomp import sealing_program
from harness.nouns.errors import MachineError
from harness.nouns.tier import Tier
from harness.processes.candidate_process import PROGRAMS, access_to, environment, narrowed, runtime_library

SCRATCH_BYTES = 4 << 30
"""What a kernel may allocate beside its arguments."""

MODULE_ORDER = "module.json"
"""What is loaded in place of a library where a Python file is judged."""
PROCESSES = 64
_SHOWN = 80
DISK_BYTES = 256 << 20
"""A kernel has no use for files; the driver's cache may want some."""
MODULE_PROCESSES = 512
"""A file may compile when it is imported, and PyTorch starts threads."""

_PYTHON_RUNNER = PROGRAMS / "python_runner.py"
_RUNNER = PROGRAMS / "runner.py"


@dataclass(frozen=True)
class Surroundings:
    """Where a runner runs: tier, host memory for its arguments, what its target needs."""

    tier: Tier
    memory_bytes: int
    needs: Needs = field(default_factory=Needs)


def start_runner(
    held: ExitStack, library: Path, around: Surroundings, scratch: Path
) -> tuple[IsolatedProcess, socket.socket]:
    """A runner for one library, and the judge's end of the line to it; both live as long as `held`."""
    scratch.mkdir()
    ours, theirs = socket.socketpair()
    held.enter_context(ours)
    with theirs:
        return held.enter_context(_runner(library, theirs.fileno(), around, scratch)), ours


def _runner(library: Path, link_fd: int, around: Surroundings, scratch: Path) -> IsolatedProcess:
    is_module = library.name == MODULE_ORDER
    building = _module_environment() if is_module else {}
    variables = environment(building | around.needs.environment, scratch)
    sealed = _is_sealed(around)
    narrow = None if is_module else narrowed(library, around.needs.access, variables, sealed=sealed)
    return IsolatedProcess(
        _command(library, link_fd, sealed=sealed),
        cwd=scratch,
        access=narrow.access if narrow else access_to(library) + around.needs.access,
        code=narrow.code if narrow else None,
        limits=Limits(
            memory_bytes=around.memory_bytes + SCRATCH_BYTES,
            file_bytes=64 << 20,
            **_counts(library),
        ),
        environment=variables,
        tier=around.tier,
        pass_fds=(link_fd,),
    )


def _counts(library: Path) -> dict[str, int]:
    return {"processes": MODULE_PROCESSES} if library.name == MODULE_ORDER else {
        "processes": PROCESSES, "disk_bytes": DISK_BYTES,
    }  # fmt: skip


def _is_sealed(around: Surroundings) -> bool:
    """A GPU's driver loads more of its libraries whenever it needs them; without a tier there are limits alone."""
    return not around.needs.access.devices and around.tier != "none"


def _command(library: Path, link_fd: int, *, sealed: bool) -> tuple[str, ...]:
    if library.name == MODULE_ORDER:
        return (sys.executable, "-I", str(_PYTHON_RUNNER), str(link_fd))
    seal = sealing_program(os.uname().machine).hex() if sealed else ""
    return (sys.executable, "-I", "-S", str(_RUNNER), str(link_fd), str(runtime_library()), seal)


def why_not_trusted(runner: IsolatedProcess) -> dict[str, str]:
    """Status, check and message where a runner that has answered all calls holds code that is not the kernel's, or has
    written something that nobody asked for."""
    if foreign := runner.foreign_code():
        return _trespass(foreign)
    if runner.narrow and (said := runner.said().decode(errors="replace").strip()):
        message = f"The kernel writes to its caller's terminal ({said[:_SHOWN]!r}): report errors by TVM_FFI_THROW."
        return {"status": "refused", "check": "process_state", "message": message}
    return {}


def _trespass(what: str) -> dict[str, str]:
    message = f"The kernel's process had {what}: a kernel runs its own code, and calls what it is linked with."
    return {"status": "refused", "check": "code", "message": message}


def _module_environment() -> dict[str, str]:
    """The builders of PyTorch and tvm-ffi find ninja and the compilers, and build in the private folder."""
    folders = dict.fromkeys((sysconfig.get_path("scripts"), str(Path(sys.executable).parent), *os.get_exec_path()))
    return {"PATH": os.pathsep.join(folders), "MAX_JOBS": "2"} | dict.fromkeys(
        ("TORCH_EXTENSIONS_DIR", "TVM_FFI_CACHE_DIR", "TRITON_CACHE_DIR", "XDG_CACHE_HOME"), "{scratch}"
    )


def how_it_ended(ended: Completed) -> dict[str, str]:
    """Status, check and message for a runner that was gone in the middle of a call."""
    if ended.outcome == "signalled":
        known = {
            "SIGSEGV": "an address that is not its own; inputs are mapped read-only, a write to one ends like this",
            "SIGBUS": "an address beyond the end of a mapping",
            "SIGFPE": "an integer division by zero",
            "SIGILL": "an instruction that this processor lacks",
            "SIGABRT": "an abort, as by an uncaught exception or a failed assertion",
        }
        name = ended.signal or signal.SIGKILL.name
        reason = f": {known[name]}" if name in known else ""
        return {
            "status": "crashed",
            "check": "signal",
            "message": f"The kernel's process was killed by {name}{reason}.",
        }
    if ended.outcome == "foreign_code":
        return _trespass(ended.note)
    if ended.outcome == "out_of_memory":
        return {"status": "crashed", "check": "memory", "message": f"The kernel {ended.note}."}
    if ended.outcome == "setup_failed":
        raise MachineError(f"The kernel's process could not be started: {ended.note}.", "See `cutegen doctor`.")
    note = ended.note or f"it exited with code {ended.exit_code}"
    said = ended.stderr.decode(errors="replace").strip()[-500:]
    return {"status": "crashed", "check": "exit", "message": f"The kernel ended its process: {note}. {said}".strip()}
