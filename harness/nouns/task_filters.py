"""What `cutegen check-task` finds out about a task: does it vary, is its reference exact, what does it cost."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from harness.nouns.frozen import Frozen
from harness.nouns.task import OpClass

FilterName = Literal["output range", "output spread", "output axes", "influence of weights", "influence of inputs"]

SEEDS = 5
"""Runs of the reference under different seeds, as in robust-kbench's own runs of its filters."""

_MEANING: dict[FilterName, str] = {
    "output range": "every output is zero",
    "output spread": "the outputs are the same whatever the inputs and weights are",
    "output axes": "the outputs are constant along an axis",
    "influence of weights": "the weights have no influence on the outputs",
    "influence of inputs": "the inputs have no influence on the outputs",
}


class FilterResult(Frozen):
    """One filter's measure. `rejected`: below 0.01, as robust-kbench has it. `degenerate`: below it relative to the
    output's rms, too (for the range: nothing but zeros)."""

    name: FilterName
    value: float
    relative: float = Field(description="value / rms of the outputs")
    rejected: bool
    degenerate: bool

    @property
    def sentence(self) -> str:
        """What a degenerate result means."""
        return f"{_MEANING[self.name]} (they vary by {self.relative:.2g} of their size)"


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
        told = (f"{work.name}: {each.sentence}" for work in self.workloads for each in work.filters if each.degenerate)
        return (*([self.defect] if self.defect else []), *told)
