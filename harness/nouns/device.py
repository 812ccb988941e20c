"""The device that kernels run on, by name."""

from __future__ import annotations

from harness.nouns.candidate import TargetName
from harness.nouns.frozen import Frozen


class DeviceName(Frozen):
    """One device: for what its kernels are built, and which of its kind on the machine it is, counted from 0."""

    target: TargetName
    ordinal: int = 0
