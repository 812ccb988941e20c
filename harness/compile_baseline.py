"""What the judging process needs for torch.compile as a baseline: compilers that it may start, and a cache folder."""

from __future__ import annotations

import os
import shlex
import shutil
from pathlib import Path
from typing import TypedDict

from harness.building.toolchain import host_compiler
from harness.cache import cache_dir
from harness.isolation.policy import Access
from harness.task import Task


class CompileOrder(TypedDict):
    """As `harness.worker.compiled` reads it. `roots` are the compilers' own folders."""

    cache: str
    environment: dict[str, str]
    roots: list[str]


def compile_order(task: Task) -> CompileOrder:
    """Each task has a cache of its own, because what lies there is run: no task file may write another one's.

    Raises `MachineError` where there is no C++ compiler: Inductor starts one for GPUs, too.
    """
    compiler = host_compiler()
    cache = cache_dir() / "inductor" / task.digest
    cache.mkdir(parents=True, exist_ok=True)
    path = os.pathsep.join([str(Path(compiler.command[0]).parent), "/usr/local/bin", "/usr/bin", "/bin", "/usr/sbin"])
    environment = {"PATH": path, "CXX": shlex.join(compiler.command)}
    if c_compiler := _c_compiler(Path(compiler.command[0])):
        environment["CC"] = c_compiler
    return CompileOrder(cache=str(cache), environment=environment, roots=[str(root) for root in compiler.roots])


def with_compilers(access: Access, order: CompileOrder | None) -> Access:
    """The access of a process that also compiles."""
    if order is None:
        return access
    return access + Access(read=tuple(order["roots"]), write=(order["cache"],))


def _c_compiler(cxx: Path) -> str | None:
    """The C compiler beside the C++ one, which the process may read; $CC where there is none."""
    return shutil.which(cxx.name.replace("g++", "gcc"), path=str(cxx.parent)) or os.environ.get("CC")
