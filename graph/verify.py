"""The judge by itself: one kernel that lies in a file, one task, one verdict."""

from __future__ import annotations

from pathlib import Path

from graph.api import load_task, read_source
from graph.export.drop_in import export_drop_in
from harness.isolation.tiers import resolve_tier
from harness.judging.caller import NO_DROP_IN, with_callers_clock
from harness.judging.foreign import ModuleJudge
from harness.nouns.candidate import Candidate, TargetChoice
from harness.nouns.errors import UserError
from harness.nouns.tier import TierChoice
from harness.nouns.verdict import Precision, Verdict
from harness.tasks.describing import describe_task
from nodes.state import TaskInput
from tools.judges import choose_target, judge_for

PYTHON = ".py"


def verify(
    kernel: str | Path,
    task: TaskInput | str | Path,
    *,
    target: TargetChoice = "auto",
    seed: int | None = None,
    isolation: TierChoice = "auto",
    precision: Precision = "ieee",
    tolerance: float = 1.0,
    sanitize: bool = False,
    compile_baseline: bool = False,
    caller: bool = False,
) -> Verdict:
    """Screen, build, check and time a kernel against a task.

    `kernel` is a C++ or CUDA file with the entry point, or a Python file with a KernelBench-style `ModelNew`, whose
    timing is then advisory. With `sanitize` a kernel that could run is also watched for memory errors and races, of
    which the first turns a pass into a refusal. Errors `tolerance` times what PyTorch's own allows are accepted. With
    `compile_baseline` torch.compile is timed, too; with `caller` the exported drop-in, as its caller meets it. Raises
    `UserError` and `MachineError`; a failing kernel is a verdict.
    """
    file = Path(kernel)
    source = read_source(file, "Name a kernel: a C++ or CUDA source, or a Python file with class ModelNew.")
    loaded = task if isinstance(task, TaskInput) else load_task(task)
    tier = resolve_tier(isolation)
    chosen = choose_target(target)
    described = describe_task(loaded.source, name=loaded.name, tier=tier)
    candidate = Candidate(source=source, target=chosen.name, author="verify:file")
    if file.suffix != PYTHON:
        judge = judge_for(chosen.name, tier, precision, tolerance)
        verdict = judge.evaluate(described, candidate, seed=seed, compile_baseline=compile_baseline)
        if caller and verdict.passed:
            drop_in = export_drop_in(described, candidate)
            verdict = with_callers_clock(judge, described, candidate, verdict, drop_in)
        ran = verdict.status not in ("refused", "build_failed")
        return verdict.sanitized(judge.sanitize(described, candidate)) if sanitize and ran else verdict
    if caller:
        raise UserError(NO_DROP_IN, "Leave --caller out.")
    if sanitize:
        raise UserError(f"{file.name} is Python, whose memory no sanitizer watches.", "Leave --sanitize out.")
    return ModuleJudge(chosen, tier=tier, precision=precision, tolerance=tolerance).evaluate(
        described, candidate, seed=seed, compile_baseline=compile_baseline
    )
