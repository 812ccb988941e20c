"""What has to become faster: the reference module, its entry signature and its traced operations."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from math import prod
from typing import Literal

from pydantic import Field

from harness.nouns.aten import LOWERED, Kind
from harness.nouns.form import Form
from harness.nouns.frozen import Frozen, PlainName, SanitizedText

DType = Literal[
    "float32", "float64", "float16", "bfloat16", "float8_e4m3fn", "float8_e5m2", "int8", "uint8", "int16", "int32",
    "int64", "bool",
]  # fmt: skip
OpClass = Literal["gemm", "elementwise", "reduction", "other"]
DESCRIBE_S = 120.0
"""Seconds for describing a task, unless a setting says otherwise: most take one, a large one on a busy machine 30."""

Direction = Literal["forward", "backward", "both"]
"""What a kernel computes of a module: its outputs, their gradients with respect to inputs and parameters, or both."""

DTYPE_BYTES: dict[DType, int] = {
    "float32": 4, "float64": 8, "float16": 2, "bfloat16": 2, "float8_e4m3fn": 1, "float8_e5m2": 1, "int8": 1,
    "uint8": 1, "int16": 2, "int32": 4, "int64": 8, "bool": 1,
}  # fmt: skip


FLOAT8: tuple[DType, ...] = ("float8_e4m3fn", "float8_e5m2")
"""Their numbers are few: a cast to them is a step, and jumps."""
WHOLE: tuple[DType, ...] = ("int8", "uint8", "int16", "int32", "int64", "bool")
CASTS = ("to", "_to_copy")
STEPPING = frozenset({
    "round", "floor", "ceil", "trunc", "fix", "floor_divide", "remainder", "fmod", "frac", "sign", "heaviside", "div",
    "fake_quantize_per_tensor_affine", "fake_quantize_per_channel_affine", "quantize_per_tensor",
    "quantize_per_channel",
})  # fmt: skip
"""Operations whose results are numbers with a fraction, by their type, and jump. A division does where it rounds."""


ADDING = frozenset({
    "sum", "mean", "cumsum", "amax", "amin", "max", "min", "argmax", "argmin", "layer_norm", "group_norm",
    "abs", "neg", "relu", "add", "sub", "rsub", "mul", "div",
    "clone", "contiguous", "view", "reshape", "flatten", "unsqueeze", "squeeze", "expand", "expand_as", "permute",
    "transpose", "flip", "slice", "select", "pad", "cat", "stack", "to",
})  # fmt: skip
"""Operations that hand on subnormals, by whatever honest formula: no square vanishes on the way that PyTorch has in
float64, as it does for a standard deviation. Beside a norm's epsilon it may."""


MOVING: frozenset[Kind | None] = frozenset({
    "reshape", "permute", "expand", "part", "alias", "copy", "cast", "create", "rearrange", "gather", "scatter",
    "pointwise", "scan", "sort",
})  # fmt: skip
"""Kinds of operations that leave a NaN where it is, move it, or hand it on along one line."""
ELEMENTS: frozenset[Kind | None] = frozenset({
    "reshape", "permute", "expand", "part", "alias", "copy", "cast", "create", "rearrange", "gather", "pointwise",
})  # fmt: skip
SHARES = frozenset({"softmax", "_softmax", "_safe_softmax"})
"""Operations that give shares of a whole, none of which is nothing."""
ORDERING = frozenset({
    "cummax", "cummin", "logcumsumexp", "mode", "amax", "amin", "max", "min", "argmax", "argmin", "max_pool1d",
    "max_pool2d", "max_pool3d", "adaptive_max_pool1d", "adaptive_max_pool2d", "adaptive_max_pool3d",
    "max_pool1d_with_indices", "max_pool2d_with_indices", "max_pool3d_with_indices",
})  # fmt: skip
"""... and operations of other kinds that do."""
SPREADING = frozenset({"mul", "multiply", "div", "divide", "true_divide", "cumprod", "glu", "im2col",
                       "bucketize", "searchsorted"})  # fmt: skip
"""... but for these: who leaves out what is multiplied by zero has a number where PyTorch has NaN, and bounds with one
are not in order."""


class View(Frozen):
    """Where a result lies within the memory of the argument `of`, as eager gives it: strides and offset in elements.

    No gradient goes through one that is `detached`.
    """

    of: str
    strides: tuple[int, ...]
    offset: int
    detached: bool = False


class TensorSpec(Frozen):
    """A tensor's name, shape, strides (both in elements) and element type. A scalar tensor has shape ().

    `also` are further state_dict names of a parameter or buffer that the module holds under several (tied weights). An
    output that is a `view` of an argument is a copy for kernels, and a view in their drop-ins. An argument of `pairs`
    is complex for the module: along its last axis lie a real and an imaginary part.
    """

    kind: Literal["tensor"] = "tensor"
    name: str
    also: tuple[str, ...] = ()
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    dtype: DType
    view: View | None = None
    pairs: bool = False

    @property
    def numel(self) -> int:
        """Number of elements."""
        return prod(self.shape)

    @property
    def span(self) -> int:
        """Elements from the first to the last one addressed, both included: what the storage must hold."""
        if self.numel == 0:
            return 0
        return 1 + sum((extent - 1) * stride for extent, stride in zip(self.shape, self.strides, strict=True))

    @property
    def nbytes(self) -> int:
        """Bytes of the elements in memory: gaps between them do not count, and what is expanded counts once."""
        apart = prod(extent for extent, stride in zip(self.shape, self.strides, strict=True) if stride)
        return min(apart, self.span) * DTYPE_BYTES[self.dtype]


class ScalarSpec(Frozen):
    """A Python number among the forward's inputs. `value` is the one that `get_inputs` gave.

    `others` are some that the forward takes in its place, with outputs of the same shapes; `free` says that it takes
    any. Where it does not, a kernel is called with these values alone.
    """

    kind: Literal["scalar"] = "scalar"
    name: str
    type: Literal["float", "int", "bool"]
    value: float | int | bool
    others: tuple[float | int | bool, ...] = ()
    free: bool = False


class Signature(Frozen):
    """The entry point's arguments in order: inputs, then parameters and buffers in state_dict order, then outputs.

    `parameters` carry their state_dict names ("linear.weight"); `Signature` leaves turning them into C++
    identifiers to the stub. `state` are those that each call of the forward leaves with other values: their new values
    are the last outputs, and whoever calls the kernel writes them back; in the places of `renewed` ones the forward
    puts other tensors. A backward has no such outputs.
    """

    inputs: tuple[TensorSpec | ScalarSpec, ...]
    parameters: tuple[TensorSpec, ...] = ()
    outputs: tuple[TensorSpec, ...]
    state: tuple[str, ...] = ()
    renewed: tuple[str, ...] = ()

    @property
    def results(self) -> int:
        """How many of the outputs the forward returns."""
        return len(self.outputs) - len(self.state)

    @property
    def arguments(self) -> tuple[TensorSpec | ScalarSpec, ...]:
        """All arguments in the order of the call."""
        return (*self.inputs, *self.parameters, *self.outputs)

    @property
    def dtypes(self) -> frozenset[DType]:
        """The element types of all tensors."""
        return frozenset(spec.dtype for spec in self.arguments if isinstance(spec, TensorSpec))


class Ref(Frozen):
    """An operand: a signature input or parameter by its name, or the value an earlier operation produced."""

    ref: str


class DTypeArg(Frozen):
    """A torch.dtype among an operation's arguments."""

    dtype: str


Atom = Ref | DTypeArg | bool | int | float | str | None
Argument = Atom | tuple[Atom, ...]


class TracedOp(Frozen):
    """One aten operation of the traced forward, for example `aten.add.Tensor`.

    `results` are the values it produces, with their shapes: later operations refer to them by name.
    """

    target: str
    args: tuple[Argument, ...] = ()
    kwargs: dict[str, Argument] = Field(default_factory=dict)
    results: tuple[TensorSpec, ...]


class Program(Frozen):
    """The forward as a list of operations. `outputs` names, for each output of the signature, the value returned.

    Scalar inputs of the signature appear as `Ref`s like tensors do. `reads` are the inputs and parameters that every
    kernel reads as a whole. `saturates`: what is too large for float8_e4m3fn is cast to the largest number, as newer
    versions of PyTorch do, and not to NaN.
    """

    tracer: Literal["export", "make_fx"]
    ops: tuple[TracedOp, ...]
    outputs: tuple[str, ...]
    reads: tuple[str, ...] = ()
    saturates: bool = True

    @property
    def names(self) -> frozenset[str]:
        """The operations without namespace and overload: `sum` for `aten.sum.dim_IntList`."""
        return frozenset(op.target.split(".")[1] for op in self.ops)


class Variant(Frozen):
    """What a task file's `WORKLOADS` asks for: `arguments` of get_inputs and get_init_inputs, by their names.

    With a `dtype` the module and its floating-point inputs are cast to it. With a `batch` inputs whose first axis is as
    long as the first input's have so many rows.
    """

    name: PlainName = "given"
    arguments: dict[str, bool | int | float | str] = Field(default_factory=dict)
    dtype: Literal["float32", "float16", "bfloat16"] | None = None
    batch: int | None = None

    @property
    def at(self) -> str:
        """Which one it is, in words; empty of the only one."""
        if self.batch:
            return f"at batch {self.batch}"
        return "" if self.name == "given" else f"of {self.name}"


class Workload(Frozen):
    """One set of shapes the task is judged on. FLOPs count a multiply-add as two; bytes are inputs + outputs, once.

    `computed` are the element types of what the forward's operations give.
    """

    name: PlainName
    signature: Signature
    flops: int
    bytes_moved: int
    computed: tuple[DType, ...] = ()
    variant: Variant = Variant()

    @property
    def dtypes(self) -> frozenset[DType]:
        """The element types of all arguments, and of all that the forward computes on its way."""
        return self.signature.dtypes | frozenset(self.computed)


class Traced(Frozen):
    """The forward as it takes other arguments: their signature, and the program."""

    signature: Signature
    program: Program


class Task(Frozen):
    """A reference module and what is known about it. `source` is a KernelBench-style Python file's text.

    `program` is absent where tracing failed; `trace_failure` then says why. `other_programs` are the same forward as
    the other workloads take it, in their order; empty where one could not be traced. `apart` is the forward where
    sizes differ that are equal, or multiples of each other, in all workloads by chance. `held_out` are further shapes
    that are checked, never timed, and not told to a kernel's author. `takes` and `returns` say how the forward's
    arguments and results are put together, where that is not one after the other. `defect` says why no kernel can be
    right.

    A backward task's inputs are the forward's own, then its outputs as the forward saved them, then the gradients of
    these; its outputs are gradients. With both directions no output is among the inputs, and outputs come first.
    `left_out` says which workloads of a folder are none of the task's, and why.
    """

    name: str
    source: str
    workloads: tuple[Workload, ...] = Field(min_length=1)
    held_out: tuple[Workload, ...] = ()
    op_class: OpClass
    program: Program | None = None
    other_programs: tuple[Program, ...] = ()
    apart: Traced | None = None
    trace_failure: str = ""
    defect: SanitizedText = ""
    takes: Form | None = None
    returns: Form | None = None
    direction: Direction = "forward"
    left_out: tuple[SanitizedText, ...] = ()

    @property
    def signature(self) -> Signature:
        """The first workload's signature: the one the program was traced with."""
        return self.workloads[0].signature

    @property
    def facts(self) -> TraceFacts:
        """What its trace says of its results."""
        return TraceFacts.of(self)

    def only(self, workload: Workload) -> Task:
        """The task as if it had this workload alone."""
        return self.model_copy(update={"workloads": (workload,), "held_out": (), "other_programs": (), "apart": None})

    def serving(self, others: Sequence[Workload]) -> Task:
        """The task as if these had been held out, too: a kernel's drop-in serves what lies between them."""
        return self.model_copy(update={"held_out": (*self.held_out, *others)})

    @property
    def views_said(self) -> str:
        """Which results its drop-in answers with PyTorch's own views, as a sentence; empty where none is one."""
        results = self.signature.outputs[: self.signature.results]
        held = {each.name: each.view.of for each in results if each.view}
        of = ", ".join(dict.fromkeys(held.values()))
        if len(held) == len(self.signature.outputs):
            return f"All it returns is a view of {of}: the drop-in returns PyTorch's own view, and calls no kernel."
        return f"Views of {of}, as PyTorch gives them: {', '.join(held)}." if held else ""

    @property
    def digest(self) -> str:
        """First 16 hex digits of the SHA-256 of the source."""
        return hashlib.sha256(self.source.encode()).hexdigest()[:16]


class TraceFacts(Frozen):
    """What a task's trace says of its results, as far as it decides how kernels are judged."""

    op_class: OpClass
    multiplies: bool = False
    """Results are products of many inputs: where those overflow on the way is a matter of their order."""
    adds: bool = False
    """Results are sums, extremes and multiples of inputs, as small as these however they are computed."""
    windows: bool = False
    """Results are the largest of windows: of each element's neighbours, a few of which may be NaN."""
    orders: bool = False
    """Results are elements of the inputs, or follow from those before them: each NaN has its own place."""
    elementwise: frozenset[str] = frozenset()
    """Outputs that are functions of single elements, or shares of a whole: each is held to its own size, too."""
    steps: bool = False
    """A last bit may decide a result: an element chosen among others, a number rounded up or down."""
    indexed: frozenset[str] = frozenset()
    """Inputs whose numbers have a fraction by their type and that the forward makes whole: indices, mostly."""

    @property
    def hands_on(self) -> bool:
        """Whether NaN and rows of infinities come out where every honest kernel has them."""
        return self.windows or self.orders or self.op_class == "elementwise"

    @classmethod
    def of(cls, task: Task) -> TraceFacts:
        """Of a task without a program little is known: there a last bit may decide."""
        program, signature = task.program, task.signature
        if program is None:
            return cls(op_class=task.op_class, steps=True)
        names = program.names
        kinds = {LOWERED.get(name) for name in names - ORDERING}
        read = {*program.outputs, *(ref for op in program.ops for ref in _refs(op))}
        jumps = any(spec.dtype in (*WHOLE, *FLOAT8) and spec.name in read for op in program.ops for spec in op.results)
        made = {spec.name: op for op in program.ops for spec in op.results}
        results = zip(signature.outputs, program.outputs, strict=True) if task.direction == "forward" else ()
        floats = {spec.name for spec in signature.inputs if isinstance(spec, TensorSpec) and "float" in spec.dtype}
        casts = [op for op in program.ops if op.target.split(".")[1] in CASTS and op.results[0].dtype in WHOLE[:-1]]
        return cls(
            op_class=task.op_class,
            multiplies=not names.isdisjoint({"prod", "cumprod"}),
            adds=names <= ADDING,
            windows=any("max_pool" in name for name in names),
            orders=bool(names) and kinds <= MOVING and names.isdisjoint(SPREADING),
            elementwise=frozenset(spec.name for spec, name in results if _is_function_of_elements(name, made)),
            steps=jumps or not names.isdisjoint(STEPPING),
            indexed=frozenset(floats & {op.args[0].ref for op in casts if isinstance(op.args[0], Ref)}),
        )


def _is_function_of_elements(name: str, made: Mapping[str, TracedOp]) -> bool:
    """Whether a value is a share, reshaped at most, or all on its way from inputs is pointwise or moves elements."""
    waiting, seen, shares = [name], set[str](), True
    while waiting:
        name = waiting.pop()
        if name in seen or (op := made.get(name)) is None:
            continue
        seen.add(name)
        short = op.target.split(".")[1].rstrip("_")
        if short in SHARES and shares:
            return True
        if LOWERED.get(short) not in ELEMENTS:
            return False
        shares = shares and LOWERED.get(short) != "pointwise"
        waiting += _refs(op)
    return bool(seen)


def _refs(op: TracedOp) -> list[str]:
    """The values that an operation reads, by name."""
    return [each.ref for each in _flat_arguments((*op.args, *op.kwargs.values())) if isinstance(each, Ref)]


def _flat_arguments(arguments: Iterable[Argument]) -> Iterator[Atom]:
    for each in arguments:
        if isinstance(each, tuple):
            yield from each
        else:
            yield each
