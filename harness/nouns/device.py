"""The device that kernels run on, by name."""

from __future__ import annotations

from harness.nouns.candidate import TargetName
from harness.nouns.frozen import Frozen


class DeviceName(Frozen):
    """One device: for what its kernels are built, and which of its kind this process counts it as, from 0.

    `uuid` is the same for every process that means this device, however it counts: a GPU's own, and the running
    kernel's boot id for a processor. Who takes turns at a device does so by it.
    """

    target: TargetName
    ordinal: int = 0
    uuid: str = ""
