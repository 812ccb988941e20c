"""What `cutegen check-task` finds out about a task: does it vary, is its reference exact, what does it cost."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from harness.nouns.frozen import Frozen
from harness.nouns.task import OpClass

FilterName = Literal["output range", "output spread", "output axes", "influence of weights", "influence of inputs"]

SEEDS = 5
"""Runs of the reference under different seeds, as in robust-kbench's own runs of its filters."""

CONSTANT = "its outputs are the same, within the tolerance, in every family of trials: a constant passes"
"""What makes a task degenerate."""


class FilterResult(Frozen):
    """One filter's measure. `rejected`: below 0.01, as robust-kbench has it."""

    name: FilterName
    value: float
    relative: float = Field(description="value / rms of the outputs")
    rejected: bool


class Conditioning(Frozen):
    """The float32 reference's error against float64 on one output: what no kernel can be blamed for."""

    output: str
    relative_l2: float
    max_scaled: float


class WorkloadFacts(Frozen):
    """One workload's cost and filters. FLOPs count a multiply-add as two; bytes are inputs + outputs, once."""

    name: str
    flops: int
    bytes_moved: int
    filters: tuple[FilterResult, ...]
    influence: str = Field(default="", description="the family of trials on which a constant would be wrong")
    conditioning: tuple[Conditioning, ...]


class TaskCheck(Frozen):
    """All of it. `defects` says for each reason why a win on this task means nothing."""

    name: str
    op_class: OpClass
    traced: bool
    seeds: int
    defect: str = ""
    left_out: tuple[str, ...] = ()
    workloads: tuple[WorkloadFacts, ...]

    @property
    def defects(self) -> tuple[str, ...]:
        """Empty for a sound task."""
        told = (f"{work.name}: {CONSTANT}" for work in self.workloads if not work.influence)
        return (*([self.defect] if self.defect else []), *told)
