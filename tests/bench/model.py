"""What `make bench` measures, as one value that is stored as JSON and turned into tables."""

from __future__ import annotations

from datetime import datetime
from typing import Literal

from graph.runs.machine import Machine
from harness.nouns.frozen import Frozen
from harness.nouns.verdict import Timing


class Limit(Frozen):
    """A measured cost beside what was asked for. Below or equal is met."""

    name: str
    measured: float
    allowed: float
    unit: Literal["s", "ms", "MB"]

    @property
    def met(self) -> bool:
        """Whether the measured value is within the allowed one."""
        return self.measured <= self.allowed


class ExampleResult(Frozen):
    """One example's run. `timing` is absent where no kernel passed; `wanted` where a speed-up was asked for.

    `over_compiled` is the best kernel's speed-up over torch.compile's version, in a verdict of its own.
    """

    name: str
    shapes: str
    outcome: str
    timing: Timing | None
    move: str
    share_of_roof: float | None
    kernels_judged: int
    seconds: float
    stop_reason: str
    wanted: float | None = None
    over_compiled: float | None = None


class BenchResult(Frozen):
    """One run of the benchmark. `phases` are median seconds over `verdicts` judgements of new pointwise kernels.

    `cuda_phases` are those of a CuTe GEMM, where a GPU answers.
    """

    schema_version: Literal[1] = 1
    machine: Machine
    peak_gb_s: float
    peak_gflop_s: float
    measured_at: datetime
    load: float
    limits: tuple[Limit, ...]
    verdicts: int
    phases: dict[str, float]
    cuda_phases: dict[str, float] | None = None
    examples: tuple[ExampleResult, ...]
