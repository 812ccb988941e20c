"""The describing job: import a task file, run it once, say what it is."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass, replace
from hashlib import sha256
from itertools import zip_longest
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensorMode

from harness.nouns.aten import FREE, of_kinds
from harness.nouns.errors import UserError
from harness.nouns.events import Describing
from harness.nouns.form import Form
from harness.nouns.task import OpClass, Program, ScalarSpec, Signature, Task, TensorSpec, Traced, Variant, Workload
from harness.trusted.facts.demand import whole_reads
from harness.trusted.facts.programs import StatefulError, UntraceableError
from harness.trusted.facts.settled import (
    defect_of_gradients,
    defect_of_runs,
    require_one_shape,
    settle_state,
    versions,
)
from harness.trusted.facts.shared import views
from harness.trusted.facts.specs import input_names, labels, parameter_specs, tensor_spec, value_spec
from harness.trusted.facts.tracing import trace
from harness.trusted.facts.watching import Watch
from harness.trusted.reference import Reference, Value, writable
from harness.trusted.scalar_arguments import is_free, others_taken
from harness.trusted.variants import held_out_variants, variant_apart
from harness.wire.telling import tell

# By the operation's name, overloads left out. Convolutions are no GEMM here: their recipes and gates differ.
GEMM = of_kinds("product") - {"cdist"}
# A batch norm by its running statistics reduces nothing.
REDUCTION = of_kinds("reduction", "scan", "norm", "loss") - {"batch_norm", "_native_batch_norm_legit_no_training"}
RELABELLING = FREE | of_kinds("copy", "cast") | {"detach_", "scalar_tensor"}


QUICK_BYTES, QUICK_FLOPS = 1 << 24, 1 << 28
"""What sizes beyond the declared ones may ask for."""
LARGE_BYTES, LARGE_FLOPS = 256 << 20, 20_000_000_000
"""A task that moves or computes more is described without its data: that takes seconds, and may not fit."""


@dataclass(frozen=True)
class Seen:
    """A task file that ran once, with real values or with shapes alone."""

    reference: Reference
    inputs: list[Value]
    outputs: list[torch.Tensor]
    signature: Signature
    watch: Watch
    variant: Variant
    defect: str
    takes: Form | None
    returns: Form | None
    flops: int

    @property
    def nbytes(self) -> int:
        """Bytes of inputs, parameters and outputs, each once."""
        return sum(spec.nbytes for spec in self.signature.arguments if spec.kind == "tensor")

    @property
    def workload(self) -> Workload:
        """As the task keeps it."""
        return Workload(
            name=self.variant.name,
            signature=self.signature,
            flops=self.flops,
            computed=self.watch.dtypes,
            bytes_moved=self.nbytes,
            variant=self.variant,
        )

    @property
    def large(self) -> bool:
        """Whether its data is better not made just to look at it."""
        return self.nbytes > LARGE_BYTES or self.flops > LARGE_FLOPS


def describe(source: str, name: str) -> dict[str, Any]:
    """The task as JSON-ready data. Raises `UserError` for a file that is no usable task."""
    for tracer in ("torch._subclasses.fake_tensor", "torch.fx.experimental.symbolic_shapes"):
        logging.getLogger(tracer).setLevel(logging.CRITICAL)  # of numbers that are tried in vain
    tell(Describing(name=name, doing="importing the file"))
    variants = Reference.variants(source, name)
    seen, left_out = _looked_at(source, name, variants)
    program, failure, stateful = program_of(seen[0], one_shape=len(seen) == 1)
    return Task(
        name=name,
        source=source,
        workloads=tuple(each.workload for each in seen),
        held_out=tuple(each.workload for each in _held_out(source, name, seen)),
        op_class=op_class(program),
        program=program,
        other_programs=_other_programs(seen[1:]) if program else (),
        apart=_apart(source, name, seen) if program else None,
        trace_failure=failure,
        defect=next((each.defect for each in seen if each.defect), stateful),
        takes=seen[0].takes,
        returns=seen[0].returns,
        direction=seen[0].reference.direction,
        left_out=tuple(left_out),
    ).model_dump(mode="json")


def _looked_at(source: str, name: str, variants: Sequence[Variant]) -> tuple[list[Seen], list[str]]:
    """The file's workloads, and why others were left out: only a file that says `LEAVES_OUT` may have such.

    Raises `UserError` where the first one cannot be used, or any other of another file's.
    """
    seen = [look(source, name, variants[0])]
    said = getattr(seen[0].reference.module, "LEAVES_OUT", None)
    lenient, left_out = said is not None, [str(each) for each in said or ()]
    for variant in variants[1:]:
        try:
            other = look(source, name, variant)
            require_one_entry(seen[0], other)
        except UserError as error:
            if not lenient:
                raise
            left_out.append(f"workload {variant.name}: {str(error).removeprefix(f'{name}: ')}")
        else:
            seen.append(other)
    return seen, left_out


def look(source: str, name: str, variant: Variant) -> Seen:
    """Run one workload of the file.

    First on tensors that have a shape and no memory. A small one, and one whose file needs values, runs once more on
    real ones, where NaN in an output is refused, and shapes that follow from values; whether two runs agree is seen.
    """
    try:
        with FakeTensorMode():
            sketch = _see(source, name, variant)
            if sketch.large:
                return sketch
    except Exception:  # noqa: BLE001 (values were needed, or the file is wrong: the real run finds out which)
        pass
    seen = _see(source, name, variant)
    _refuse_nan(seen)
    require_one_shape(seen.reference, seen.inputs, seen.outputs)
    ran = seen.reference, seen.inputs, seen.outputs
    return replace(seen, defect=defect_of_runs(*ran, seen.watch.drawn) or defect_of_gradients(*ran))


def _see(source: str, name: str, variant: Variant) -> Seen:
    tell(Describing(name=name, doing="making the module"))
    reference = Reference(source, name, variant=variant)
    tell(Describing(name=name, doing="making the inputs"))
    inputs = reference.inputs(seed=0)
    tell(Describing(name=name, doing="running forward"))
    held = versions(reference)
    with Watch() as watch:
        outputs = _run_checked(reference, inputs)
    with Watch():
        stateful = settle_state(reference, held)
    if stateful:
        with Watch() as watch:
            outputs = _run_checked(reference, inputs)
    takes, returns = Form.model_validate(reference.takes), Form.model_validate(reference.returns)
    signature = _signature(reference, inputs, outputs, takes)
    outputs = [writable(output) for output in outputs]
    return Seen(
        reference,
        inputs,
        outputs,
        signature,
        watch,
        variant,
        defect=f"its forward is random: it draws numbers ({watch.drawn})" if watch.drawn else "",
        takes=None if takes.flat else takes,
        returns=None if returns.kind == "value" or (returns.flat and len(outputs) > 1) else returns,
        flops=watch.flops - _flops_before(reference, inputs),
    )


def _flops_before(reference: Reference, inputs: list[Value]) -> int:
    """Of the forward that a backward finds done: what it saved need not be computed again."""
    with Watch() as watch:
        reference.saved(inputs, reference.model)
    return watch.flops


def _held_out(source: str, name: str, seen: list[Seen]) -> list[Seen]:
    """Sizes that the file does not declare and takes, too, none of them larger than what it declares or is quick."""
    found = list[Seen]()
    most = max(each.nbytes for each in seen), max(each.flops for each in seen)
    seed = int(sha256(source.encode()).hexdigest()[:8], 16)
    for variants in held_out_variants([each.variant for each in seen], seed):
        for variant in variants:
            try:
                other = look(source, name, variant)
                require_one_entry(seen[0], other)
            except UserError:
                continue  # the file does not take such sizes: nobody claims that a kernel should
            if other.nbytes <= max(most[0], QUICK_BYTES) and other.flops <= max(most[1], QUICK_FLOPS):
                found.append(other)
                break
    return found


def _apart(source: str, name: str, seen: list[Seen]) -> Traced | None:
    """The forward at sizes that the workloads do not tell apart; None where they do, or the file refuses such sizes."""
    variant = variant_apart([each.variant for each in seen])
    if variant is None:
        return None
    try:
        other = look(source, name, variant)
        require_one_entry(seen[0], other)
    except UserError:
        return None
    program = program_of(other, one_shape=False)[0]
    return Traced(signature=other.signature, program=program) if program else None


def require_one_entry(first: Seen, other: Seen) -> None:
    """One kernel's entry must fit both: the same arguments, of the same kind and rank."""
    for mine, theirs in zip_longest(first.signature.arguments, other.signature.arguments):
        if mine is None or theirs is None or _kind(mine) != _kind(theirs):
            raise other.reference.error(
                f"workload {other.variant.name!r} differs from the first in its arguments ({(mine or theirs).name})",
                "All workloads go to one entry point: the same arguments, each of the same kind and rank.",
            )
    if (first.takes, first.returns) != (other.takes, other.returns):
        raise other.reference.error(
            f"workload {other.variant.name!r} puts its inputs or outputs together in another way than the first"
        )


def _kind(argument: TensorSpec | ScalarSpec) -> tuple[str, object]:
    return argument.name, len(argument.shape) if isinstance(argument, TensorSpec) else argument.type


def op_class(program: Program | None) -> OpClass:
    """What the forward mostly is: its heaviest kind of operation decides."""
    if program is None:
        return "other"
    names = {op.target.split(".")[1].rstrip("_") or op.target for op in program.ops}
    if names & GEMM:
        return "gemm"
    if names & REDUCTION:
        return "reduction"
    if all(_is_pointwise(op.target) or op.target.split(".")[1] in RELABELLING for op in program.ops):
        return "elementwise"
    return "other"


def _is_pointwise(target: str) -> bool:
    _, name, overload = target.split(".")
    operation = getattr(getattr(torch.ops.aten, name), overload)
    return torch.Tag.pointwise in operation.tags


def _run_checked(reference: Reference, inputs: list[Value]) -> list[torch.Tensor]:
    """The outputs as they are. A tensor's version counts the writes to it, so that no copy is needed to see one."""
    before = [_version(value) for value in inputs]
    outputs = reference.run(inputs)
    paths = Form.model_validate(reference.takes).paths
    for position, (was, value) in enumerate(zip(before, inputs, strict=True)):
        if _version(value) != was:
            raise reference.error(
                f"forward changes its input {input_names(reference, paths)[position]} in place",
                "Let it work on a copy, or return the new value.",
            )
    return outputs


def _version(value: Value) -> int:
    return value._version if isinstance(value, torch.Tensor) else 0


def _refuse_nan(seen: Seen) -> None:
    for position, output in enumerate(seen.outputs):
        if output.is_floating_point() and output.isnan().any():
            raise seen.reference.error(
                f"output {position} holds NaN on the file's own inputs", "Change get_inputs so that it is defined."
            )


def _signature(reference: Reference, inputs: list[Value], outputs: list[torch.Tensor], takes: Form) -> Signature:
    parameters = parameter_specs(reference)
    taken = {spec.name for spec in parameters}
    names = _distinct(input_names(reference, takes.paths), taken)
    results = _distinct(labels(reference), {*taken, *names})
    others = others_taken(reference, inputs, outputs)
    free = [is_free(value, taken) for value, taken in zip(inputs, others, strict=True)]
    return Signature(
        inputs=tuple(
            value_spec(reference, name, value, taken, free=all_taken, pairs=place in reference.paired)
            for place, (name, value, taken, all_taken) in enumerate(zip(names, inputs, others, free, strict=True))
        ),
        parameters=parameters,
        outputs=tuple(
            tensor_spec(reference, name, writable(tensor)).model_copy(update={"view": view})
            for name, tensor, view in zip(results, outputs, views(reference, names, inputs, outputs), strict=True)
        ),
        state=reference.state,
        renewed=reference.renewed,
    )


def _distinct(names: list[str], taken: set[str]) -> list[str]:
    """The names, with underscores added where they are taken: a forward's argument may be called like a parameter."""
    chosen: list[str] = []
    for name in names:
        while name in taken:
            name += "_"
        taken = {*taken, name}
        chosen.append(name)
    return chosen


def _other_programs(seen: list[Seen]) -> tuple[Program, ...]:
    """As the other workloads take it; none where one cannot be traced."""
    programs = [program_of(each, one_shape=False)[0] for each in seen]
    return tuple(each for each in programs if each) if all(programs) else ()


def program_of(seen: Seen, *, one_shape: bool) -> tuple[Program | None, str, str]:
    """The program; or why there is none, and why there can be no kernel either where that is so."""
    tell(Describing(name=seen.reference.name, doing="tracing forward"))
    try:
        program = trace(seen.reference, seen.inputs, seen.signature.inputs)
    except StatefulError as error:
        return None, str(error), f"its forward returns something else each time: {error}"
    except UntraceableError as error:
        return None, str(error), ""
    kept = seen.reference.gradients.saved if seen.reference.gradients else []  # a kernel may compute them again
    reads = tuple(name for name in whole_reads(program, seen.signature, one_shape=one_shape) if name not in kept)
    return program.model_copy(update={"reads": reads}), "", ""
