"""The judges of all devices of a target on this host: each is one device's, so that a suite keeps all of them busy."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from importlib.util import find_spec

from harness.judging.protocol import JudgeOrder, KernelJudge, OpenJudge
from harness.machine.gpu import Gpu, usable_gpus
from harness.nouns.errors import MachineError
from tools.judges import open_judge
from tools.ray_pool import ray_pool

_REMEDY = "Leave --pool out, or name those of one kind in CUDA_VISIBLE_DEVICES."


def pool(
    gpus: Callable[[], tuple[Gpu, ...]] = usable_gpus,
    opener: OpenJudge = open_judge,
    *,
    in_actors: bool | None = None,
) -> tuple[OpenJudge, ...]:
    """One for each GPU that this process may use; whatever device an order names, each opens judges of its own.

    Where Ray is installed (the extra `ray`) each is in an actor, a process of its own, unless `in_actors` says so.

    Builds, files and turns are kept by a GPU's UUID, so that each GPU times one kernel at a time, all of them side by
    side. Raises `MachineError` where there is no GPU, and where they are not of one kind: their times would stand in
    one table.
    """
    found = gpus()
    kinds = sorted({gpu.name for gpu in found})
    if not found:
        raise MachineError("A pool is of GPUs, and none answers on this machine.", "Leave --pool out.")
    if len(kinds) > 1:
        raise MachineError(f"The GPUs are not of one kind: {', '.join(kinds)}.", _REMEDY)
    if in_actors or (in_actors is None and find_spec("ray") is not None):
        return ray_pool(found, opener)
    return tuple(partial(_opened_on, opener, ordinal) for ordinal in range(len(found)))


def _opened_on(opener: OpenJudge, ordinal: int, order: JudgeOrder) -> KernelJudge:
    return opener(replace(order, ordinal=ordinal))
