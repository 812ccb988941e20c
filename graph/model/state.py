"""What the nodes of the model graph hand each other."""

from __future__ import annotations

from operator import add
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

from graph.model.plan import Plan
from harness.nouns.acceptance import Acceptance
from harness.nouns.candidate import TargetName
from harness.nouns.capture import Capture
from harness.nouns.frozen import Frozen, Label, SanitizedText
from harness.nouns.tier import Tier
from harness.nouns.verdict import Interval
from nodes.state import Usage
from nodes.thread_settings import ThreadSettings, latest


class ModelInput(Frozen):
    """What the model graph starts from. `reads` are folders that the source needs beside it."""

    model_config = ConfigDict(title="Model")

    source: str = Field(
        title="PyTorch source",
        description="A KernelBench-style Python file: class Model, get_inputs() and get_init_inputs().",
        json_schema_extra={"langgraph_nodes": ["capture"], "langgraph_type": "prompt"},
    )
    name: Label = Field(default="model", title="Name", description="What the report calls the model.")
    reads: tuple[str, ...] = Field(default=(), title="Folders", description="What the source reads beside itself.")
    only_plan: bool = Field(default=False, title="Only plan", description="Stop before any kernel is written.")
    compile_baseline: bool = Field(
        default=True, title="Beside torch.compile", description="Time torch.compile's versions of the whole as well."
    )
    assembly: bool = Field(
        default=False,
        title="Without Inductor",
        description="Run the exported operations one by one, on a GPU as a CUDA graph, instead of compiling what is "
        "around the kernels.",
    )

    @property
    def compiled(self) -> bool:
        """Whether Inductor is to compile what is around the kernels."""
        return self.compile_baseline and not self.assembly


class RegionTask(Frozen):
    """A region as a task of its own. `gain_ms` is what it could save; the budget is shared out by it."""

    name: str
    source: str
    gain_ms: float


NOT_BEGUN = "not begun: there was no time for it"
"""The reason of a region that nobody took on."""


class RegionOutcome(Frozen):
    """What a region's run found: its best kernel's speed-up by itself, where one passed."""

    name: str
    improved: bool
    speedup: float | None = None
    interval: Interval | None = None
    reason: SanitizedText = ""

    @property
    def undecided(self) -> bool:
        """Whether its kernel is right, and shown to be neither faster nor slower."""
        return not self.improved and self.interval is not None and self.interval.low <= 1.0 <= self.interval.high


def add_outcomes(left: tuple[RegionOutcome, ...], right: tuple[RegionOutcome, ...]) -> tuple[RegionOutcome, ...]:
    """The reducer of outcomes: one a region, the latest."""
    return tuple({each.name: each for each in (*left, *right)}.values())


class ModelState(BaseModel):
    """A model on its way. `seconds` is the time spent, resumed goes included; `until_s` what the regions' runs may make
    it."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    source: str
    name: Label = "model"
    settings: Annotated[ThreadSettings | None, latest] = None
    reads: tuple[str, ...] = ()
    only_plan: bool = False
    compile_baseline: bool = True
    assembly: bool = False
    target: TargetName | None = None
    tier: Tier | None = None
    capture: Capture | None = None
    plan: Plan | None = None
    tasks: tuple[RegionTask, ...] = ()
    outcomes: Annotated[tuple[RegionOutcome, ...], add_outcomes] = ()
    until_s: float | None = None
    acceptance: Acceptance | None = None
    usage: Annotated[Usage, add] = Usage()
    seconds: Annotated[float, add] = 0.0

    @property
    def model(self) -> ModelInput:
        """What it started from."""
        return ModelInput(
            source=self.source,
            name=self.name,
            reads=self.reads,
            only_plan=self.only_plan,
            compile_baseline=self.compile_baseline,
            assembly=self.assembly,
        )


class RegionState(BaseModel):
    """What one region's node is sent, and the fields of the model's state that it writes.

    `seconds` is what was spent when the regions were sent, `until_s` what may be when the last of them has ended.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    region: RegionTask
    tasks: tuple[RegionTask, ...]
    settings: Annotated[ThreadSettings | None, latest] = None
    target: TargetName | None = None
    tier: Tier | None = None
    outcomes: tuple[RegionOutcome, ...] = ()
    usage: Usage = Usage()
    seconds: float = 0.0
    reads: tuple[str, ...] = ()
    until_s: float | None = None
