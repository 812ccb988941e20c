"""Which NVIDIA GPUs answer on this machine, and which of them this process may use."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

from harness.machine.system import ask

_QUERY = "uuid,name,compute_cap,driver_version"
# A driver that has to wake the device takes 3 s; one that hangs is no device to us.
_ANSWER_WITHIN_S = 10.0


@dataclass(frozen=True)
class Gpu:
    """A GPU's UUID and name, its compute capability as (major, minor), and the driver's version."""

    uuid: str
    name: str
    capability: tuple[int, int]
    driver: str

    @property
    def architecture(self) -> str:
        """nvcc's name for it. From 9.0 on the `a` opens the instructions that only this generation has."""
        major, minor = self.capability
        return f"sm_{major}{minor}{'a' if major >= 9 else ''}"


def find_gpu(ordinal: int = 0) -> Gpu | None:
    """That one of the GPUs that this process may use, or None where there are not so many."""
    usable = usable_gpus()
    return usable[ordinal] if ordinal < len(usable) else None


def usable_gpus() -> tuple[Gpu, ...]:
    """All that this process may use, as CUDA counts them."""
    return visible(reported_gpus(), os.environ.get("CUDA_VISIBLE_DEVICES"))


def visible(reported: Sequence[Gpu], chosen: str | None) -> tuple[Gpu, ...]:
    """Those that CUDA_VISIBLE_DEVICES leaves, in its order; all where it is not set.

    As CUDA reads it: numbers or the beginnings of UUIDs, up to the first that means nothing. A part of a GPU (MIG) goes
    by its own UUID, and is told of like the first GPU. Numbers count as nvidia-smi does: by the bus.
    """
    return tuple(reported) if chosen is None else tuple(_named(reported, chosen.split(",")))


def _named(reported: Sequence[Gpu], entries: Sequence[str]) -> Iterator[Gpu]:
    for entry in map(str.strip, entries):
        if entry.startswith("MIG-") and reported:
            yield replace(reported[0], uuid=entry)
        elif entry.isdecimal() and int(entry) < len(reported):
            yield reported[int(entry)]
        elif matching := [gpu for gpu in reported if entry.startswith("GPU-") and gpu.uuid.startswith(entry)]:
            yield matching[0]
        else:
            return


@lru_cache(maxsize=1)
def reported_gpus() -> tuple[Gpu, ...]:
    """All that nvidia-smi reports. Asked once a process; no CUDA context is made."""
    program = shutil.which("nvidia-smi")
    if program is None:
        return ()
    command = [program, f"--query-gpu={_QUERY}", "--format=csv,noheader"]
    try:
        answer = ask(command, timeout_s=_ANSWER_WITHIN_S)
    except (OSError, subprocess.TimeoutExpired):
        return ()
    return parse_query(answer.stdout) if answer.returncode == 0 else ()


def parse_query(text: str) -> tuple[Gpu, ...]:
    """The lines of nvidia-smi's answer, such as `GPU-6a1f, NVIDIA H200, 9.0, 580.65.06`, up to one that is none."""
    found = []
    for line in text.strip().split("\n"):
        gpu = _parse_line(line)
        if gpu is None:
            break
        found.append(gpu)
    return tuple(found)


def _parse_line(line: str) -> Gpu | None:
    fields = [field.strip() for field in line.split(",")]
    if len(fields) != 4 or not fields[0].startswith("GPU-"):
        return None
    major, dot, minor = fields[2].partition(".")
    if not (dot and major.isdecimal() and minor.isdecimal()):
        return None
    return Gpu(uuid=fields[0], name=fields[1], capability=(int(major), int(minor)), driver=fields[3])


# -- What each generation of NVIDIA GPUs can do a clock, where no query of the driver tells it ------------------------


@dataclass(frozen=True)
class Generation:
    """Floating-point operations a clock and multiprocessor (a multiply-add is two), dense, at full clock.

    `tf32` and `half` (float16 and bfloat16, accumulated in float32) on the tensor cores.
    `l1_bytes` is the memory that L1 and shared memory divide among themselves.
    """

    name: str
    tf32: int
    half: int
    l1_bytes: int
    source: str


_KIB = 1 << 10

# Datasheet rate / (multiprocessors x boost clock), rounded to the power of two that the architecture's paper names.
# GeForce cards of sm_86 and sm_89 do half of the tensor rates.
GENERATIONS: dict[tuple[int, int], Generation] = {
    (8, 0): Generation(
        "A100", 1024, 2048, 192 * _KIB, "NVIDIA A100 datasheet: 19.5, 156 and 312 TFLOP/s of 108 SMs at 1.41 GHz"
    ),
    (8, 6): Generation(
        "A10, A40, RTX 30", 512, 1024, 128 * _KIB, "NVIDIA A40 datasheet: 37.4, 74.8, 149.7 TFLOP/s of 84 SMs"
    ),
    (8, 9): Generation(
        "L4, L40S, RTX 40", 512, 1024, 128 * _KIB, "NVIDIA L40S datasheet: 91.6, 183 and 362 TFLOP/s of 142 SMs"
    ),
    (9, 0): Generation(
        "H100, H200", 2048, 4096, 256 * _KIB, "NVIDIA H100 datasheet (SXM): 67, 494 and 989 TFLOP/s of 132 SMs"
    ),
    (10, 0): Generation(
        "B200", 4096, 8192, 256 * _KIB, "NVIDIA DGX B200 datasheet: 1.1 and 2.25 PFLOP/s a GPU of 148 SMs, dense"
    ),
}


def generation(capability: tuple[int, int]) -> Generation:
    """The GPU's own generation, else the newest one listed that is not newer than it, else the oldest."""
    older = [known for known in GENERATIONS if known <= capability]
    return GENERATIONS[max(older, default=min(GENERATIONS))]
