"""Which target a name stands for on this machine."""

from __future__ import annotations

from functools import cache

from harness.nouns.candidate import TargetChoice, TargetName
from harness.nouns.errors import MachineError
from harness.targets.cpu import CpuTarget
from harness.targets.cuda import CudaTarget
from harness.targets.target import Target

_REMEDY = "Leave --set device out; it chooses among GPUs."


def resolve_target(name: TargetChoice = "auto", ordinal: int = 0) -> Target:
    """The target of that name, the same object all through a process. "auto" is cuda where kernels can run on a GPU.

    `ordinal` says on which of its devices. Raises `MachineError` for a second processor: a machine's are one device.
    """
    if name == "auto":
        return _target("cuda" if _runs(_target("cuda", ordinal)) else "cpu", ordinal)
    return _target(name, ordinal)


@cache
def _target(name: TargetName, ordinal: int) -> Target:
    if name == "cpu" and ordinal:
        raise MachineError(f"There is no device {ordinal} of target cpu: a machine's processors are one.", _REMEDY)
    return CudaTarget(ordinal) if name == "cuda" else CpuTarget()


def _runs(target: Target) -> bool:
    try:
        target.require_device()
    except MachineError:
        return False
    return True
