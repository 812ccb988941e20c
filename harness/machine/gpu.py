"""Whether an NVIDIA GPU answers on this machine."""

from __future__ import annotations

import shutil
import subprocess
from dataclasses import dataclass
from functools import lru_cache

from harness.machine.inquiry import ask

_QUERY = "name,compute_cap,driver_version"
# A driver that has to wake the device takes 3 s; one that hangs is no device to us.
_ANSWER_WITHIN_S = 10.0


@dataclass(frozen=True)
class Gpu:
    """The first GPU's name, its compute capability as (major, minor), and the driver's version."""

    name: str
    capability: tuple[int, int]
    driver: str

    @property
    def architecture(self) -> str:
        """nvcc's name for it. From 9.0 on the `a` opens the instructions that only this generation has."""
        major, minor = self.capability
        return f"sm_{major}{minor}{'a' if major >= 9 else ''}"


@lru_cache(maxsize=1)
def find_gpu() -> Gpu | None:
    """The first GPU that nvidia-smi reports, or None. Asked once a process; no CUDA context is made."""
    program = shutil.which("nvidia-smi")
    if program is None:
        return None
    command = [program, f"--query-gpu={_QUERY}", "--format=csv,noheader"]
    try:
        answer = ask(command, timeout_s=_ANSWER_WITHIN_S)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return parse_query(answer.stdout) if answer.returncode == 0 else None


def parse_query(text: str) -> Gpu | None:
    """The first line of nvidia-smi's answer to the query, for example `NVIDIA H200, 9.0, 580.65.06`."""
    fields = [field.strip() for field in text.strip().split("\n", 1)[0].split(",")]
    if len(fields) != 3:
        return None
    major, dot, minor = fields[1].partition(".")
    if not (dot and major.isdecimal() and minor.isdecimal()):
        return None
    return Gpu(name=fields[0], capability=(int(major), int(minor)), driver=fields[2])
