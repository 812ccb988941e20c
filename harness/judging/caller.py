"""How fast the exported drop-in is for whoever calls it: asked of a locked process that holds both sides."""

from __future__ import annotations

from pathlib import Path

from pydantic import ValidationError

from harness.isolation.policy import Access, Limits
from harness.isolation.scratch import scratch_folder
from harness.judging.aggregate import as_called
from harness.judging.device_lock import one_at_a_time
from harness.judging.local import Judge
from harness.nouns.candidate import Candidate
from harness.nouns.task import Task
from harness.nouns.verdict import CallerTiming, Timing, Verdict
from harness.processes.trusted_child import JobDiedError, warm_parent

DROP_IN = "model_new.py"
LIMIT_S = 1.0
"""For the rounds of one workload."""
WALL_S = 120.0
NO_DROP_IN = "A foreign module has no drop-in to time as a caller would."


def with_callers_clock(judge: Judge, task: Task, candidate: Candidate, verdict: Verdict, drop_in: str) -> Verdict:
    """A passed verdict whose timing also says how fast `drop_in`, the text of the module, is for a caller.

    Each workload has a process of its own. Where one fails, the timing says why there is no such time. Any other
    verdict is returned as it is. Raises `MachineError`, and `UserError` where the task's file does.
    """
    timing = verdict.timing
    if timing is None:
        return verdict
    build = judge.build(candidate)
    if build.library is None:
        return _with(verdict, timing, failure="The drop-in could not be timed: its kernel was not built again.")
    with one_at_a_time(judge.target.name):
        try:
            parts = [_timed(judge, task, build.library, number, drop_in) for number in range(len(task.workloads))]
        except JobDiedError as died:
            return _with(verdict, timing, failure=f"The drop-in could not be timed: its process ended, {died.reason}.")
        except ValidationError:
            return _with(verdict, timing, failure="The drop-in could not be timed: its process gave no times.")
    return _with(verdict, timing, as_called(parts))


def _with(verdict: Verdict, timing: Timing, caller: CallerTiming | None = None, failure: str = "") -> Verdict:
    told = timing.model_copy(update={"caller": caller, "caller_failure": failure})
    return verdict.model_copy(update={"timing": told})


def _timed(judge: Judge, task: Task, library: Path, workload: int, drop_in: str) -> CallerTiming:
    needs = judge.target.running()
    payload = {
        "source": task.source,
        "name": task.name,
        "variant": task.workloads[workload].variant.model_dump(mode="json"),
        "library": str(library),
        "drop_in": DROP_IN,
        "device": judge.target.name,
        "precision": judge.precision,
        "limit_s": LIMIT_S,
    }
    with scratch_folder() as folder:
        (folder / DROP_IN).write_text(drop_in, encoding="utf-8")
        answer = warm_parent().run(
            "as_called",
            payload,
            tier=judge.tier,
            cwd=folder,
            limits=Limits(wall_s=WALL_S, memory_bytes=64 << 30, processes=512),
            access=needs.access + Access(read=(str(library.parent),)),
        )
    return CallerTiming.model_validate(answer)
