"""A GPU's clocks and temperature through NVIDIA's management library (nvml.h), for ctypes."""

from __future__ import annotations

import ctypes
from typing import Self

from harness.nouns.verdict import Conditions

_LIBRARY = "libnvidia-ml.so.1"
_SM_CLOCK, _MEMORY_CLOCK, _GPU_SENSOR = 1, 2, 0


class ClockReader:
    """Reads one GPU, found by its PCI bus id."""

    def __init__(self, library: ctypes.CDLL, handle: ctypes.c_void_p) -> None:
        self._library, self._handle = library, handle

    @classmethod
    def open(cls, bus_id: str) -> Self | None:
        """None where the library is absent, or does not know the device (inside some containers)."""
        try:
            library = ctypes.CDLL(_LIBRARY)
        except OSError:
            return None
        handle = ctypes.c_void_p()
        if library.nvmlInit_v2() or library.nvmlDeviceGetHandleByPciBusId_v2(bus_id.encode(), ctypes.byref(handle)):
            return None
        return cls(library, handle)

    def read(self) -> Conditions | None:
        """The clocks at this moment; None where the device does not tell one of them."""
        values = [
            self._ask("nvmlDeviceGetClockInfo", _SM_CLOCK),
            self._ask("nvmlDeviceGetClockInfo", _MEMORY_CLOCK),
            self._ask("nvmlDeviceGetTemperature", _GPU_SENSOR),
        ]
        known = [value for value in values if value is not None]
        return Conditions(sm_mhz=known[0], memory_mhz=known[1], temperature_c=known[2]) if len(known) == 3 else None

    def _ask(self, function: str, which: int) -> int | None:
        answer = ctypes.c_uint()
        failed = getattr(self._library, function)(self._handle, ctypes.c_int(which), ctypes.byref(answer))
        return None if failed else int(answer.value)
