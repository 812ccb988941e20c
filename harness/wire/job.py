"""The jobs of children that run a task's reference beside a kernel: written on one side, read by these on the other.

They travel as JSON, `model_dump(mode="json")` there and `model_validate` here. A path in them is one of the machine
that both sides share, and is kept nowhere.
"""

from __future__ import annotations

from harness.nouns.acceptance import WholeForm
from harness.nouns.candidate import TargetName
from harness.nouns.frozen import Frozen
from harness.nouns.task import Signature, TraceFacts, Variant
from harness.nouns.verdict import Correctness, Precision, Status, Timing


class ReferenceJob(Frozen):
    """Which reference runs (`source` and `name` are the task's), as which variant, and where."""

    source: str
    name: str
    variant: Variant
    device: TargetName
    precision: Precision


class CompileOrder(Frozen):
    """What torch.compile may use: a cache folder that may be written, the compilers' environment and own folders."""

    cache: str
    environment: dict[str, str]
    roots: tuple[str, ...]


class CaptureJob(ReferenceJob):
    """A model to be captured. `budget_s` are for all that is done with it, until the monotonic clock says `ends_at`.

    With `compile` its operations are clocked within what Inductor makes of it, where that compiles within `compile_s`.
    """

    budget_s: float
    ends_at: float
    compile: CompileOrder | None = None
    compile_s: float = 0.0


class RegionCut(Frozen):
    """Operations in a row of a captured part, by the names of values that `harness.nouns.capture.Part` has."""

    name: str
    part: str
    operations: tuple[str, ...]
    inputs: tuple[str, ...]
    weights: tuple[str, ...]
    outputs: tuple[str, ...]


class CutJob(ReferenceJob):
    """Regions to be written as files of these names, each in a folder of its own."""

    regions: tuple[RegionCut, ...]
    program: str
    inputs: str


class WholeCompileJob(ReferenceJob):
    """torch.compile's work on a whole model in these of its modes, before anybody is timed."""

    compile: CompileOrder
    modes: tuple[str, ...]


class AcceptJob(ReferenceJob):
    """An assembled model (`folder` holds `file` and the folders of its `regions`) to be held against eager.

    `modes` of torch.compile are timed beside it, where `compile` says what that may use; in `form` "compiled" the
    kernels are put into what it makes of the model in the mode `within`, where that was compiled. Rounds of a
    comparison end after about `limit_s`, and sooner where the monotonic clock comes to `ends_at`.
    """

    folder: str
    file: str
    regions: tuple[str, ...]
    tolerance: float
    limit_s: float
    ends_at: float
    compile: CompileOrder | None = None
    modes: tuple[str, ...] = ()
    form: WholeForm = "assembled"
    within: str = ""


class CompileJob(ReferenceJob):
    """torch.compile's work on a reference, before anybody is timed."""

    signature: Signature
    compile: CompileOrder


class AsCalledJob(ReferenceJob):
    """An exported drop-in (`drop_in`: its file's name) with its library beside the reference, for `limit_s` or more."""

    library: str
    drop_in: str
    limit_s: float


class KernelJob(ReferenceJob):
    """What judging a kernel needs, whatever is found out of it. Its first descriptor is the runner's line.

    `gauge_pid` is a runner that loads nothing, 0 where nothing is timed: what an order costs is measured on it. Its
    line is the second descriptor.

    `trials` bounds the comparisons, None makes all; the rounds of a timing end after about `timing_s`. Slots of
    arguments together exceed `slot_target_bytes`, and take no more than `memory_bytes`.
    """

    signature: Signature
    facts: TraceFacts
    library: str
    seed: int
    runner_pid: int
    gauge_pid: int
    tolerance: float
    slot_target_bytes: int
    memory_bytes: int
    timing_s: float
    trials: int | None
    load_within_s: float


class IncumbentRunner(Frozen):
    """An earlier kernel, and the process that runs it."""

    digest: str
    library: str
    pid: int


class JudgeJob(KernelJob):
    """One workload: checked and, where there is a gauge, timed beside what is given of `compile` and `incumbent`."""

    compile: CompileOrder | None = None
    incumbent: IncumbentRunner | None = None


class JudgeAnswer(Frozen):
    """What came of judging one workload, or several by turns: `check` and `message` say by what it failed.

    `correctness` is absent where nothing was compared, `timing` where nothing was timed; `seconds` are by phase.
    """

    status: Status = "passed"
    check: str = ""
    message: str = ""
    correctness: Correctness | None = None
    timing: Timing | None = None
    seconds: dict[str, float]


class ContestJob(KernelJob):
    """Kernels that have passed, in the same rounds: `library` is that of `digest`, `others` are before it."""

    digest: str
    others: tuple[IncumbentRunner, ...]


class Shape(Frozen):
    """One of several workloads that one process runs by turns."""

    variant: Variant
    signature: Signature


class MixJob(KernelJob):
    """Several workloads by turns in one process of the candidate's, the smallest first."""

    shapes: tuple[Shape, ...]
