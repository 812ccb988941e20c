"""How fast the exported drop-in is for whoever calls it: asked of a locked process that holds both sides."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from pydantic import ValidationError

from harness.building.compilation import library_of
from harness.isolation.policy import Access, Limits
from harness.isolation.scratch import scratch_folder
from harness.judging.aggregate import as_called
from harness.judging.device_lock import one_at_a_time
from harness.judging.terms import Terms
from harness.nouns.build import Build
from harness.nouns.task import Task
from harness.nouns.verdict import CallerTiming, Timing
from harness.processes.trusted_child import JobDiedError, warm_parent
from harness.targets.target import Target
from harness.wire.job import AsCalledJob

MODULE = "model_new.py"
WALL_S = 120.0


def with_callers_clock(
    target: Target, terms: Terms, task: Task, build: Build, timing: Timing, drop_in: Mapping[str, str]
) -> Timing:
    """A passed kernel's timing that also says how fast `drop_in`, its texts by their names, is for a caller.

    Each workload has a process of its own. Where one fails, the timing says why there is no such time. Raises
    `MachineError`, and `UserError` where the task's file does.
    """
    library = library_of(build)
    if library is None:
        return _with(timing, failure="The drop-in could not be timed: its kernel was not built again.")
    with one_at_a_time(target.device):
        try:
            parts = [_timed(target, terms, task.only(work), library, drop_in) for work in task.workloads]
        except JobDiedError as died:
            return _with(timing, failure=f"The drop-in could not be timed: its process ended, {died.reason}.")
        except ValidationError:
            return _with(timing, failure="The drop-in could not be timed: its process gave no times.")
    return _with(timing, as_called(parts))


def _with(timing: Timing, caller: CallerTiming | None = None, failure: str = "") -> Timing:
    return timing.model_copy(update={"caller": caller, "caller_failure": failure})


def _timed(target: Target, terms: Terms, task: Task, library: Path, drop_in: Mapping[str, str]) -> CallerTiming:
    needs = target.running()
    job = AsCalledJob(
        source=task.source,
        name=task.name,
        variant=task.workloads[0].variant,
        library=str(library),
        drop_in=MODULE,
        device=target.name,
        precision=terms.precision,
        limit_s=terms.timing_s,
    )
    with scratch_folder() as folder:
        for name, text in drop_in.items():
            (folder / name).parent.mkdir(exist_ok=True)
            (folder / name).write_text(text, encoding="utf-8")
        answer = warm_parent(plain=target.name == "cpu").run(
            "as_called",
            job.model_dump(mode="json"),
            tier=terms.tier,
            cwd=folder,
            limits=Limits(wall_s=WALL_S, memory_bytes=64 << 30, processes=512),
            gpus=needs.gpus,
            access=needs.access + Access(read=(str(library.parent),)),
        )
    return CallerTiming.model_validate(answer)
