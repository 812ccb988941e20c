"""What kernels are compiled with, by name and version."""

from __future__ import annotations

import re
from collections.abc import Callable

from harness.building.toolchain import cuda_compiler, cute_include, host_compiler
from harness.nouns.candidate import TargetName
from harness.nouns.errors import MachineError


def compiled_with(target: TargetName) -> str:
    """`g++ 12.2.0, C++17, CUTLASS 4.2.0`. What is not there has no version: prompts can be read on any machine."""
    compilers = [_named("g++", lambda: compiler_name(host_compiler().version))]
    if target == "cuda":
        compilers = [_named("nvcc", lambda: compiler_name(cuda_compiler().version)), *compilers]
    return ", ".join([" over ".join(compilers), "C++17", _named("CUTLASS", cutlass_version)])


def compiler_name(text: str) -> str:
    """The compiler's name and number out of what --version printed: `g++ (Debian 12.2.0-14) 12.2.0`, `nvcc 13.0`."""
    release = re.search(r"^(\S+):.* release (\d+\.\d+)", text)
    if release:
        return f"{release[1]} {release[2]}"
    match = re.match(r"\S+.*? \d+\.\d+(?:\.\d+)?(?=\s|$)", text)
    return match[0] if match else text[:80]


def cutlass_version() -> str:
    """`CUTLASS 4.2.0`, as its headers have it. Raises `MachineError` where they are not found."""
    text = (cute_include() / "cutlass" / "version.h").read_text(encoding="utf-8")
    parts = [re.search(rf"CUTLASS_{part}\s+(\d+)", text) for part in ("MAJOR", "MINOR", "PATCH")]
    return f"CUTLASS {'.'.join(part[1] for part in parts if part)}"


def _named(name: str, look: Callable[[], str]) -> str:
    """The name with its version, without what a distribution says of it; the name alone where the thing is missing."""
    try:
        return re.sub(r" \(.*?\)", "", look())
    except MachineError:
        return name
