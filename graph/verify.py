"""The judge by itself: one kernel that lies in a file, one task, one verdict."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from graph.export.drop_in import drop_in_files
from graph.export.serving import checkable, served_by
from graph.loading import load_task, read_source
from harness.judging.foreign import NO_DROP_IN, NOT_WATCHED
from harness.judging.protocol import Judge, JudgeOrder, OpenJudge
from harness.nouns.candidate import Candidate, TargetChoice
from harness.nouns.errors import UserError
from harness.nouns.task import DESCRIBE_S, Direction
from harness.nouns.tier import TierChoice
from harness.nouns.verdict import Precision, Verdict
from harness.tasks.declaring import directed
from nodes.state import TaskInput
from tools.judges import open_judge, open_module_judge

PYTHON = ".py"


def verify(
    kernel: str | Path,
    task: TaskInput | str | Path,
    *,
    target: TargetChoice = "auto",
    seed: int | None = None,
    isolation: TierChoice = "auto",
    precision: Precision = "default",
    tolerance: float = 1.0,
    direction: Direction | None = None,
    max_describe_s: float = DESCRIBE_S,
    sanitize: bool = False,
    compile_baseline: bool = False,
    caller: bool = False,
    batches: bool = False,
    open_judge: OpenJudge = open_judge,
    open_module_judge: Callable[[JudgeOrder], Judge] = open_module_judge,
) -> Verdict:
    """Screen, build, check and time a kernel against a task.

    `kernel` is a C++ or CUDA file with the entry point, or a Python file with a KernelBench-style `ModelNew`, whose
    timing is then advisory. With `sanitize` a kernel that could run is also watched for memory errors and races, of
    which the first turns a pass into a refusal. Errors `tolerance` times what PyTorch's own allows are accepted. With
    `direction` "backward" it is judged on the task's gradients, with "both" on its outputs and those. With
    `compile_baseline` torch.compile is timed, too; with `caller` the exported drop-in, as its caller meets it. With
    `batches` a kernel that passed is tried at other batches, too. Raises `UserError` and `MachineError`; a failing
    kernel is a verdict.
    """
    file = Path(kernel)
    source = read_source(file, "Name a kernel: a C++ or CUDA source, or a Python file with class ModelNew.")
    loaded = task if isinstance(task, TaskInput) else load_task(task, direction=direction)
    order = JudgeOrder(target, isolation, precision, tolerance, describe_s=max_describe_s)
    python = file.suffix == PYTHON
    for wanted, why in ((python and (caller or batches), NO_DROP_IN), (python and sanitize, NOT_WATCHED)):
        if wanted:
            raise UserError(*why)
    kernels = None if python else open_judge(order)
    judge = kernels or open_module_judge(order)
    described = judge.describe(directed(loaded.source, direction), name=loaded.name)
    candidate = Candidate(source=source, target=judge.device.target, author="verify:file")
    verdict = judge.evaluate(described, candidate, seed=seed, compile_baseline=compile_baseline)
    if batches and verdict.passed and kernels:
        served = kernels.serves(described, candidate, kernels.batches(described))
        verdict = checkable(described, verdict.model_copy(update={"served": served}))
    if caller and verdict.passed and kernels:
        drop_in = drop_in_files(served_by(described, verdict), candidate)
        verdict = kernels.as_called(described, candidate, verdict, drop_in)
    ran = verdict.status not in ("refused", "build_failed")
    return verdict.sanitized(kernels.sanitize(described, candidate)) if sanitize and ran and kernels else verdict
