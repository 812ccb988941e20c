"""What else a machine does while a kernel is timed, as the system tells everybody."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median, quantiles

from harness.nouns.verdict import Busy
from harness.trusted.device import Device

STAT = Path("/proc/stat")
STOLEN, COUNTED = 7, 8
"""Of a processor's times (proc(5)): where the one stands that others on its host had, and how many do not overlap."""


@dataclass(frozen=True)
class Reading:
    """Ticks of all processors since the start, those of them stolen, and how many threads run or could run now."""

    ticks: int
    stolen: int
    running: int


def observe(device: Device) -> Reading | None:
    """The machine between two rounds, when nothing of ours runs but this thread; None where it is not told."""
    time.sleep(device.settle_s)  # threads of the side before may still spin
    try:
        lines = STAT.read_text(encoding="ascii").splitlines()
    except OSError:
        return None
    told = {name: values for name, *values in map(str.split, filter(None, lines))}
    times = [int(value) for value in told.get("cpu", ())[:COUNTED]]
    if len(times) < COUNTED or "procs_running" not in told:
        return None
    return Reading(sum(times), times[STOLEN], int(told["procs_running"][0]))


def how_busy(readings: Sequence[Reading], eager: Sequence[float], threads: int) -> Busy | None:
    """Of rounds with a reading before and after each, and eager's times in them; None where there are too few."""
    if len(readings) < 2 or len(eager) < 2:
        return None
    ticks = readings[-1].ticks - readings[0].ticks
    low, middle, high = quantiles(eager, n=4, method="inclusive")
    return Busy(
        stolen=(readings[-1].stolen - readings[0].stolen) / max(ticks, 1),
        others=max(0.0, median(reading.running for reading in readings) - 1),
        threads=threads,
        processors=os.cpu_count() or 1,
        spread=(high - low) / middle,
    )
