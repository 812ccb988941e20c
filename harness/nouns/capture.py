"""A whole model as it was captured: its operations, in which module each stands, and what each takes."""

from __future__ import annotations

from functools import cached_property

from harness.nouns.frozen import Frozen, Label, SanitizedText
from harness.nouns.model_budget import ModelCosts
from harness.nouns.task import Argument, Ref, TensorSpec, TracedOp


class Operation(Frozen):
    """One operation of a part, `node` in the captured graph. Its time is that of a run with every operation clocked.

    `module` is the path of the innermost module around it, `module_type` that one's class. With a `hindrance` no kernel
    may take its place: it draws random numbers, writes to what it is given, or its sizes follow from values.
    """

    op: TracedOp
    node: str = ""
    module: str
    module_type: str = ""
    ms: float = 0.0
    flops: int = 0
    hindrance: SanitizedText = ""

    @property
    def name(self) -> str:
        """The operation without namespace and overload."""
        return self.op.target.split(".")[1] if "." in self.op.target else self.op.target

    @property
    def reads(self) -> tuple[str, ...]:
        """Every value that it is given, in order."""
        return tuple(_refs((*self.op.args, *self.op.kwargs.values())))


class Part(Frozen):
    """A module that could be captured: the whole model, or one inside it where the whole could not.

    `inputs` and `weights` (parameters, buffers, constants) are named as the operations refer to them; `outputs` are the
    values that the module returns.
    """

    path: str
    inputs: tuple[TensorSpec, ...]
    weights: tuple[TensorSpec, ...]
    operations: tuple[Operation, ...]
    outputs: tuple[str, ...]

    @cached_property
    def values(self) -> dict[str, TensorSpec]:
        """Every tensor in it, by its name."""
        made = (result for each in self.operations for result in each.op.results)
        return {spec.name: spec for spec in (*self.inputs, *self.weights, *made)}


class Missed(Frozen):
    """A module that could not be captured, its time within a call of the model (0 where unknown), and why."""

    path: str
    module_type: str
    ms: float
    reason: SanitizedText


class Capture(Frozen):
    """What was found out of a model on its inputs.

    `whole_ms` is the time of one eager call, the shortest of `calls`. `memory_bytes` is what a call needs by the
    sizes of its tensors, weights included; `weight_bytes` are those alone. `costs` are what its own work took.

    Where `compiled_ms` is there, the operations' times are those within what Inductor makes of the model, which takes
    so long in one call; `uncompiled` says why they are eager's where Inductor was asked.
    """

    name: Label
    parts: tuple[Part, ...]
    missed: tuple[Missed, ...] = ()
    whole_ms: float
    calls: int
    memory_bytes: int
    weight_bytes: int
    flops: int
    costs: ModelCosts = ModelCosts()
    compiled_ms: float | None = None
    uncompiled: SanitizedText = ""


def _refs(arguments: tuple[Argument, ...]) -> list[str]:
    atoms = (atom for each in arguments for atom in (each if isinstance(each, tuple) else (each,)))
    return [atom.ref for atom in atoms if isinstance(atom, Ref)]
