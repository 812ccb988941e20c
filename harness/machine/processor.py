"""What the operating system says of the processor: threads, registers, caches."""

from __future__ import annotations

import os
import platform
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

_CPUINFO = Path("/proc/cpuinfo")
_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")
_CACHES = Path("/sys/devices/system/cpu/cpu0/cache")

# Where sysfs hides the caches (some containers): sizes that no server of the last ten years is below.
_USUAL_CACHE_BYTES = {1: 32 << 10, 2: 1 << 20, 3: 16 << 20}
_UNITS = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30}


@dataclass(frozen=True)
class Processor:
    """One socket as the kernel sees it. `threads` are those that this process may use; sizes in bytes."""

    model: str
    flags: tuple[str, ...]
    threads: int
    simd_floats: int
    l1_bytes: int
    l2_bytes: int
    l3_bytes: int

    @property
    def identity(self) -> str:
        """What code compiled with -march=native depends on."""
        return f"{platform.machine()} {self.model} {' '.join(self.flags)}"


def machine_id() -> str:
    """The same in all processes and containers on a running machine, another one on every other: its boot id."""
    try:
        return _BOOT_ID.read_text(encoding="utf-8").strip()
    except OSError:
        return platform.node()


@lru_cache(maxsize=1)
def processor() -> Processor:
    """This machine's processor."""
    fields = parse_cpuinfo(_CPUINFO.read_text(encoding="utf-8") if _CPUINFO.is_file() else "")
    flags = tuple(sorted((fields.get("flags") or fields.get("Features") or "").split()))
    caches = read_caches(_CACHES)
    return Processor(
        model=fields.get("model name") or platform.processor() or platform.machine(),
        flags=flags,
        threads=len(os.sched_getaffinity(0)),
        simd_floats=simd_floats(flags),
        l1_bytes=caches[1],
        l2_bytes=caches[2],
        l3_bytes=caches[3],
    )


def parse_cpuinfo(text: str) -> dict[str, str]:
    """The first processor's fields."""
    first = text.split("\n\n", 1)[0]
    pairs = (line.split(":", 1) for line in first.splitlines() if ":" in line)
    return {name.strip(): value.strip() for name, value in pairs}


def simd_floats(flags: tuple[str, ...]) -> int:
    """How many float32 fit the widest vector register that the flags promise."""
    if "avx512f" in flags:
        return 16
    if "avx" in flags:
        return 8
    return 4


def read_caches(folder: Path) -> dict[int, int]:
    """Bytes of the data cache at levels 1, 2 and 3, from sysfs; a level that is not told has a usual size."""
    sizes = dict(_USUAL_CACHE_BYTES)
    for index in sorted(folder.glob("index*")):
        try:
            kind, level, size = ((index / name).read_text().strip() for name in ("type", "level", "size"))
        except OSError:  # a level that this kernel does not describe in full
            continue
        if kind in ("Data", "Unified") and int(level) in sizes:
            sizes[int(level)] = _parse_size(size)
    return sizes


def _parse_size(text: str) -> int:
    unit = _UNITS.get(text[-1:], 1)
    return int(text.rstrip("KMG")) * unit
