"""What the playbook is asked to write: tensors and traced operations, as plain data.

The field names are those of the judge's task on purpose: `Problem.model_validate` reads a task's own attributes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import prod
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, SkipValidation

from harness.nouns.candidate import TargetName
from harness.nouns.device_facts import Capabilities, capabilities_of
from harness.nouns.devices import on_gpu


class Plain(BaseModel):
    """Immutable data; fields the playbook has no use for are left out."""

    model_config = ConfigDict(frozen=True, extra="ignore", ser_json_inf_nan="constants")


# Kept as they are: a size that is known only in the call is an int of its own kind (`ir/sizes.py`).
Extent = Annotated[int, SkipValidation]


class Tensor(Plain):
    """Name, shape, strides (in elements) and element type ("float32") of a tensor."""

    kind: Literal["tensor"] = "tensor"
    name: str
    shape: tuple[Extent, ...]
    strides: tuple[Extent, ...]
    dtype: str

    @property
    def numel(self) -> int:
        """Number of elements."""
        return prod(self.shape)


class Scalar(Plain):
    """A number that the caller passes by value."""

    kind: Literal["scalar"] = "scalar"
    name: str
    type: Literal["float", "int", "bool"]
    value: float | int | bool


class Ref(Plain):
    """An operand: an input, a parameter, or an earlier operation's result."""

    model_config = ConfigDict(frozen=True, extra="forbid")
    ref: str


class DTypeArg(Plain):
    """A torch.dtype among an operation's arguments."""

    model_config = ConfigDict(frozen=True, extra="forbid")
    dtype: str


Atom = Ref | DTypeArg | bool | int | float | str | None
Argument = Atom | tuple[Atom, ...]


class Op(Plain):
    """One aten operation, for example `aten.add.Tensor`."""

    target: str
    args: tuple[Argument, ...] = ()
    kwargs: dict[str, Argument] = Field(default_factory=dict)
    results: tuple[Tensor, ...]


def base_name(target: str) -> str:
    """`aten.add_.Tensor` -> `add_`."""
    parts = target.split(".")
    return parts[1] if len(parts) > 1 and parts[0] == "aten" else target


def refs(arguments: Sequence[Argument]) -> Iterator[str]:
    """Every value among some arguments."""
    atoms = (atom for each in arguments for atom in (each if isinstance(each, tuple) else (each,)))
    return (atom.ref for atom in atoms if isinstance(atom, Ref))


def reads(op: Op) -> Iterator[str]:
    """Every value among an operation's arguments."""
    return refs((*op.args, *op.kwargs.values()))


class Device(Plain):
    """The machine the kernel is for: hardware threads, cache sizes in bytes, floats in one SIMD register.

    A GPU has an `architecture` (nvcc's name), `multiprocessors`, and `shared_bytes` that one block may use. What it can
    do follows from the architecture, where `capabilities` do not tell it of a device to come.
    """

    threads: int = 2
    simd_floats: int = 8
    l1_bytes: int = 32 << 10
    l2_bytes: int = 1 << 20
    l3_bytes: int = 32 << 20
    architecture: str = ""
    multiprocessors: int = 0
    shared_bytes: int = 0
    capabilities: Capabilities | None = None

    @property
    def has(self) -> Capabilities:
        """What it can do beside plain arithmetic."""
        return self.capabilities or capabilities_of(self.architecture)


class Problem(Plain):
    """A forward to write as one kernel: `arguments` are inputs, parameters, outputs in the order of the call.

    `returns` names, for each output, the value it holds. Under the precision "tf32" products may round their operands
    to TF32, under "default" convolutions may; else nothing may be less exact than float32 arithmetic.
    `others` are the same forward at other sizes, which the kernel has to serve as well. `apart`, where some sizes of
    all those are equal by chance, is the forward where they are not. `saturates`: PyTorch makes the largest number, and
    not NaN, of what is too large for float8_e4m3fn.
    """

    target: TargetName
    inputs: tuple[Tensor | Scalar, ...]
    parameters: tuple[Tensor, ...] = ()
    outputs: tuple[Tensor, ...]
    ops: tuple[Op, ...]
    returns: tuple[str, ...]
    device: Device = Device()
    precision: Literal["default", "ieee", "tf32"] = "ieee"
    others: tuple[Problem, ...] = ()
    apart: tuple[Problem, ...] = ()
    saturates: bool = True

    @property
    def on_gpu(self) -> bool:
        """Whether the kernel is for a GPU, else for the processor."""
        return on_gpu(self.target)

    @property
    def arguments(self) -> tuple[Tensor | Scalar, ...]:
        """All arguments in the order of the call."""
        return (*self.inputs, *self.parameters, *self.outputs)
