"""A device by its name."""

from __future__ import annotations

from harness.nouns.candidate import TargetName
from harness.nouns.devices import on_gpu
from harness.trusted.cuda_device import CudaDevice
from harness.trusted.device import Device
from harness.trusted.host_device import HostDevice


def open_device(kind: TargetName, cache_bytes: int) -> Device:
    """The device of that kind; `cache_bytes` should exceed its last-level cache."""
    return CudaDevice(cache_bytes) if on_gpu(kind) else HostDevice(cache_bytes)
