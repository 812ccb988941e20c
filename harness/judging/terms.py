"""What a judge holds a kernel to, and how much it finds out."""

from __future__ import annotations

from dataclasses import dataclass

from harness.nouns.task import DESCRIBE_S, Task
from harness.nouns.tier import Tier
from harness.nouns.verdict import Precision

TIMING_S = 1.0


@dataclass(frozen=True)
class Terms:
    """The terms that all verdicts of one judge share.

    `tolerance`: errors so many times what PyTorch's own allows are accepted. `timing_s`: the rounds of each workload
    end after about so long, converged or not, and those of its drop-in. `trials`: a pass is no more than so many
    comparisons, where kernels are only to be ranked; else all. `load_within_s`: how long a kernel's process may take
    to load it. `rotation_bytes`: calls take turns on so much memory; twice the last cache where times are to count, so
    that no call finds its arguments there. `describe_s`: the seconds in which a task must be described.
    """

    tier: Tier
    precision: Precision = "ieee"
    tolerance: float = 1.0
    timing_s: float = TIMING_S
    trials: int | None = None
    load_within_s: float = 60.0
    rotation_bytes: int | None = None
    describe_s: float = DESCRIBE_S

    def allowances(self, task: Task) -> frozenset[str]:
        """What the screen lets pass for the task's sake: types that its forward computes in, and the precision."""
        return frozenset({self.precision, *(dtype for work in task.workloads for dtype in work.dtypes)})
