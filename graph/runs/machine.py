"""The machine and the versions that numbers belong to."""

from __future__ import annotations

import os
import platform
import tomllib
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from harness.nouns.frozen import Frozen

PACKAGES = ("cutegen", "torch", "apache-tvm-ffi", "nvidia-cutlass", "langgraph", "langchain-core", "pydantic")


class Machine(Frozen):
    """`cores` are those this process may use; `memory_gib` is what the machine has; `versions` by package name."""

    cpu: str
    cores: int
    memory_gib: float
    system: str
    python: str
    versions: dict[str, str]


def this_machine() -> Machine:
    """Read the facts of the machine that this process runs on; torch's version comes without importing it."""
    pages = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return Machine(
        cpu=_cpu_name(),
        cores=len(os.sched_getaffinity(0)),
        memory_gib=round(pages / 2**30, 1),
        system=f"{platform.system()} {platform.release()}",
        python=platform.python_version(),
        versions={name: found for name in PACKAGES if (found := _version(name))},
    )


def cutegen_version() -> str:
    """The version of the distribution that is installed, or that this checkout would become."""
    return _version("cutegen") or "unknown"


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return _checked_out() if package == "cutegen" else None


def _checked_out() -> str | None:
    """The version in the pyproject.toml above this file, where cutegen runs from a checkout that is not installed."""
    file = Path(__file__).parents[2] / "pyproject.toml"
    if not file.exists():
        return None
    declared: str = tomllib.loads(file.read_text(encoding="utf-8"))["project"]["version"]
    return declared


def _cpu_name() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    names = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(names, platform.machine())
