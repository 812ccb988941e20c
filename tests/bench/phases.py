"""Where the seconds go between a kernel's source and its verdict."""

from __future__ import annotations

import statistics
import time
from pathlib import Path

from graph.api.calls import begin, make_settings
from graph.driving.loop import drive
from graph.runs.progress import Quiet
from graph.suites.tasks import find_task
from harness.judging.protocol import JudgeOrder
from harness.nouns.candidate import Candidate, TargetName
from harness.nouns.errors import MachineError
from nodes.state import TaskInput
from tools.judges import open_judge


def verdict_phases(target: TargetName, task: TaskInput, kernel: str, verdicts: int) -> dict[str, float]:
    """Median seconds of each phase from a kernel's source to its verdict; each kernel is new to the build cache."""
    judge = open_judge(JudgeOrder(target))
    began = time.monotonic()
    described = judge.describe(task.source, name=task.name)
    describing = time.monotonic() - began
    rows: list[dict[str, float]] = []
    for _ in range(verdicts):
        candidate = Candidate(source=f"{kernel}\n// {time.time_ns()}\n", target=target, author="bench")
        began = time.monotonic()
        verdict = judge.evaluate(described, candidate, judge.build(described, candidate), seed=0)
        whole = time.monotonic() - began
        isolation = max(0.0, whole - sum(verdict.seconds.values()))
        rows.append({**verdict.seconds, "isolation and the rest": isolation, "in all": whole})
    medians = {name: statistics.median(row.get(name, 0.0) for row in rows) for name in rows[0]}
    return {"describe (once a task, not in the sum)": describing, **medians}


def cuda_gemm(folder: Path) -> tuple[TaskInput, str]:
    """A product of two matrices of 4096 x 4096, and a right kernel for it, from a short run in `folder`.

    Raises `MachineError`, also where no kernel passed.
    """
    task = find_task("level1:1", 1.0)
    run, manifest = begin(task, make_settings({"target": "cuda", "depth": 0}), folder)
    best = drive(run, manifest, Quiet()).best
    if best is None:
        raise MachineError(f"No kernel of {task.name} passed on this GPU.", f"See {run.path}.")
    return task, best.candidate.source
