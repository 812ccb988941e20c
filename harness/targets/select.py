"""Which target a name stands for on this machine."""

from __future__ import annotations

from functools import cache

from harness.nouns.candidate import TargetChoice
from harness.nouns.errors import MachineError
from harness.targets.cpu import CpuTarget
from harness.targets.cuda import CudaTarget
from harness.targets.target import Target


@cache
def resolve_target(name: TargetChoice = "auto") -> Target:
    """The target of that name, the same object all through a process. "auto" is cuda where kernels can run on a GPU."""
    if name == "auto":
        return resolve_target("cuda" if _runs(resolve_target("cuda")) else "cpu")
    return CudaTarget() if name == "cuda" else CpuTarget()


def _runs(target: Target) -> bool:
    try:
        target.require_device()
    except MachineError:
        return False
    return True
