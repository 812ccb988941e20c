"""What runs that this user began leave in the archive that torch.compile's backend looks kernels up in."""

from __future__ import annotations

from contextlib import suppress

from graph.export.runtime import archive
from graph.runs.folder import RunFolder, compared
from graph.runs.record import RunRecord
from harness.nouns.devices import on_gpu
from harness.nouns.errors import MachineError
from harness.nouns.task import Task, TensorSpec
from nodes.settings import Settings
from tools.archive import NONE
from tools.judges import choose_target


def keep_winner(folder: RunFolder, record: RunRecord, settings: Settings) -> None:
    """Note an ended run's kernel that is faster than eager, and than torch.compile where that was timed.

    A cache that takes nothing leaves it out.
    """
    timing = record.timing
    beside = compared(folder, record.best) or timing
    if record.outcome != "improved" or timing is None or beside is None:
        return
    if beside.compiled is None or beside.compiled.interval.low > 1.0:
        keep(folder, record, settings, timing.headline.speedup)


def keep(folder: RunFolder, record: RunRecord, settings: Settings, speedup: float) -> None:
    """Note a run's kernel, whose drop-in lies in its folder; one that takes numbers has no place in a graph.

    Nor has one whose verdict the user made looser for this run: nobody who compiles a model later has asked for that.
    """
    task, best = record.task, record.best
    if task is None or best is None or settings.archive == NONE or task.direction != "forward":
        return
    if settings.tolerance > 1 or settings.precision == "tf32" or best.verdict.tier == "none":
        return
    if not all(isinstance(spec, TensorSpec) for spec in task.signature.arguments):
        return
    with suppress(OSError, RuntimeError, MachineError):
        device = _device(settings, best.candidate.target)
        archive.note(folder.path.absolute(), task.digest, device, speedup, _tensors(task))


def _device(settings: Settings, target: str) -> str:
    if not on_gpu(target):
        return archive.device_name(target, None)
    return choose_target("cuda", settings.device).facts().device


def _tensors(task: Task) -> list[frozenset[str]]:
    arguments = [workload.signature.arguments for workload in task.workloads]
    return [frozenset(_kind(spec) for spec in each if isinstance(spec, TensorSpec)) for each in arguments]


def _kind(spec: TensorSpec) -> str:
    return archive.kind(spec.dtype, spec.shape, spec.strides)
