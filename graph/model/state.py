"""What the nodes of the model graph hand each other."""

from __future__ import annotations

from operator import add
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

from graph.model.plan import Plan
from harness.nouns.candidate import TargetName
from harness.nouns.capture import Capture
from harness.nouns.frozen import Label
from harness.nouns.tier import Tier


class ModelInput(BaseModel):
    """What the model graph starts from. `reads` are folders that the source needs beside it."""

    model_config = ConfigDict(extra="forbid", title="Model")

    source: str = Field(
        title="PyTorch source",
        description="A KernelBench-style Python file: class Model, get_inputs() and get_init_inputs().",
        json_schema_extra={"langgraph_nodes": ["capture"], "langgraph_type": "prompt"},
    )
    name: Label = Field(default="model", title="Name", description="What the report calls the model.")
    reads: tuple[str, ...] = Field(default=(), title="Folders", description="What the source reads beside itself.")


class ModelState(BaseModel):
    """A model on its way. `seconds` is the time spent in nodes, resumed goes included."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    source: str
    name: Label = "model"
    reads: tuple[str, ...] = ()
    target: TargetName | None = None
    tier: Tier | None = None
    capture: Capture | None = None
    plan: Plan | None = None
    seconds: Annotated[float, add] = 0.0
