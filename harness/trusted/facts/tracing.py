"""A task as a list of aten operations: torch.export first, make_fx where that fails, and for gradients."""

from __future__ import annotations

import traceback
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import torch
import torch.fx.config
from torch._subclasses.fake_tensor import FakeTensor
from torch.export import Dim, ExportedProgram
from torch.export.graph_signature import InputKind
from torch.fx.experimental.proxy_tensor import make_fx
from torch.nn.attention import SDPBackend, sdpa_kernel

from harness.nouns.task import Argument, Program, Ref, ScalarSpec, TensorSpec, TracedOp
from harness.trusted.facts.parts import parts_of, parts_with_state
from harness.trusted.facts.programs import KeptError, Reader, StatefulError, UntraceableError
from harness.trusted.facts.recurrent_shapes import without_steps
from harness.trusted.facts.spelled import Spelled
from harness.trusted.gradients import Differentiated, Tensors, backward_parts
from harness.trusted.keeping import as_buffers, having, number_of, without_writes
from harness.trusted.reach import TASK_MODULE, tensors_of
from harness.trusted.reference import Reference, Value

torch.fx.config.do_not_emit_stack_traces = True
"""Nobody reads where each operation was called, and writing it down is a quarter of an export."""

LITERAL = 64
"""Numbers of a tensor that a forward spells out, beyond which it is data and none of the program."""


def trace(reference: Reference, inputs: list[Value], specs: Sequence[TensorSpec | ScalarSpec]) -> Program:
    """The program of the model on these inputs. Raises `UntraceableError`.

    Tracing writes a number that was passed in as a constant. So a forward with scalar inputs is traced again with
    other numbers, and the constants that moved with an input are that input.
    """
    with Spelled():
        return _trace(reference, inputs, specs)


def _trace(reference: Reference, inputs: list[Value], specs: Sequence[TensorSpec | ScalarSpec]) -> Program:
    first = _trace_once(reference, inputs, specs)
    for position, spec in enumerate(specs):
        if isinstance(spec, ScalarSpec):
            first = _bind_scalar(reference, inputs, specs, first, position)
    return first


def _trace_once(reference: Reference, inputs: list[Value], specs: Sequence[TensorSpec | ScalarSpec]) -> Program:
    names = [spec.name for spec in specs]
    # Decomposing computes with a number that was passed in: it could not be found again.
    whole = any(isinstance(spec, ScalarSpec) for spec in specs)
    if reference.gradients is not None:
        try:
            return _from_gradients(reference, reference.gradients, inputs, names)
        except Exception as error:  # as below: a task without a program is still a task
            raise UntraceableError(" ".join(str(error).split())[:400]) from error
    try:
        return _exported(reference, inputs, names, whole=whole)
    except StatefulError:
        raise
    except KeptError as kept:
        try:
            with having(reference.started):
                return _exported(reference, inputs, names, whole=whole)
        except Exception:  # noqa: BLE001 (without what it kept, the forward may not run at all)
            raise kept from None
    except Exception as failure:  # noqa: BLE001 (export raises many kinds; the second tracer decides whether it matters)
        try:
            return _from_make_fx(reference, inputs, names)
        except Exception as error:  # as above: a task without a program is still a task
            raise UntraceableError(said_plainly(failure, error)) from error


_BY_VALUES = ("DataDependent", "_local_scalar_dense", "data-dependent", "tracing tensor")


def said_plainly(*failures: Exception) -> str:
    """Why no tracer could follow: our own reason where there is one, else what to look for."""
    own = next((str(each) for each in failures if isinstance(each, UntraceableError)), "")
    texts = [f"{type(each).__name__} {each}" for each in failures]
    if any(mark in text for text in texts for mark in _BY_VALUES):
        said = "what it does follows from a tensor's values: a branch or a loop on them, or a number taken with .item()"
        return said + next(filter(None, map(_where, failures)), "")
    return own or f"PyTorch's tracers cannot follow it: {' '.join(str(failures[0]).split())[:200]}"


def _where(failure: Exception) -> str:
    """The file's own line at which it happened, with the module that it is in; empty where that is not known."""
    own = [frame for frame, _ in traceback.walk_tb(failure.__traceback__)
           if frame.f_globals.get("__name__") == TASK_MODULE]  # fmt: skip
    if not own:
        return ""
    lines = traceback.extract_tb(failure.__traceback__)
    line = next(each for each in reversed(lines) if each.filename == own[-1].f_code.co_filename)
    module = own[-1].f_locals.get("self")
    within = f" of {type(module).__name__}" if isinstance(module, torch.nn.Module) else ""
    return f"; that is line {line.lineno}{within}: {(line.line or '')[:80]}"


def _exported(reference: Reference, inputs: list[Value], names: list[str], *, whole: bool) -> Program:
    with torch.no_grad(), without_steps(), as_buffers(reference.model) as kept:
        flat = _Flat(reference)
        exported = torch.export.export(flat, tuple(inputs), strict=False)
        decompositions = {} if whole else parts_with_state(exported) if reference.state else parts_of(exported)
        state = [f"model.{name}" for name in reference.state]
        made = without_writes(exported, flat.assigned.names, decompositions, state)
        return _from_export(*made, names, reference, kept)


def require_same_between(reference: Reference, inputs: list[Value], high: int) -> None:
    """Raises `UserError` unless the forward is the same program for every batch of these inputs from 2 to `high`."""
    tensors = [each for each in inputs if isinstance(each, torch.Tensor) and each.dim()]
    batch = Dim("batch", min=2, max=high)
    moves = [isinstance(each, torch.Tensor) and each.dim() and each.shape[0] == tensors[0].shape[0] for each in inputs]
    shapes = (tuple({0: batch} if each else None for each in moves),)
    try:
        with torch.no_grad(), without_steps(), as_buffers(reference.model):
            torch.export.export(_Flat(reference), tuple(inputs), dynamic_shapes=shapes, strict=False)
    except Exception as error:  # export raises many kinds, for what depends on the batch among them
        raise reference.error(f"PyTorch cannot tell that its forward is the same at all batches to {high}") from error


class _Assigned:
    """Buffers that the last call put other tensors into. Apart, for export undoes what is done to a module."""

    names: tuple[str, ...] = ()


class _Flat(torch.nn.Module):
    """The model from values to tensors, each one after the other, however its forward takes and returns them."""

    def __init__(self, reference: Reference) -> None:
        super().__init__()
        self.model = reference.model
        self.assigned = _Assigned()
        """The tensors in those come after the outputs."""
        self._reference = [reference]

    def forward(self, *values: Value) -> tuple[torch.Tensor, ...]:
        (reference,) = self._reference
        given, named = reference.arranged(list(values))
        before = dict(self.named_buffers(remove_duplicate=False))
        outputs = reference.opened(self.model(*given, **named))
        after = dict(self.named_buffers(remove_duplicate=False))
        names = tuple(name for name, tensor in after.items() if name in before and tensor is not before[name])
        self.assigned.names = names
        return *outputs, *(after[name] for name in names)


def _from_export(
    exported: ExportedProgram, written: set[str], names: list[str], reference: Reference, kept: dict[str, torch.Tensor]
) -> Program:
    """`written` is what it overwrites; `kept` are plain attributes that were buffers for the tracer."""
    read = {node.name for node in exported.graph.nodes if node.op == "placeholder" and node.users}
    known: dict[str, str] = {}
    literals: dict[str, torch.Tensor] = {}
    given = iter(names)
    for spec in exported.graph_signature.input_specs:
        placeholder, target = getattr(spec.arg, "name", ""), str(spec.target).removeprefix("model.")
        if spec.kind is InputKind.USER_INPUT:
            known[placeholder] = next(given)
        elif placeholder not in read:
            known[placeholder] = target
        elif str(spec.target) in written:
            raise StatefulError(f"it reads {target}, which the call before left there: {_AS_INPUT}")
        elif spec.kind in (InputKind.PARAMETER, InputKind.BUFFER) and target not in kept:
            known[placeholder] = reference.ties.get(target, target)
        else:
            held = kept.get(target, exported.constants.get(str(spec.target)))
            literals[placeholder] = _literal(reference, held, target)
    reader = Reader(known, "export")
    for placeholder, tensor in literals.items():
        reader.literal(placeholder, tensor)
    return reader.read(exported.graph_module)


_AS_INPUT = "register it as a buffer, or make it an input and return the new one"


def _literal(reference: Reference, held: Any, target: str) -> torch.Tensor:
    """A constant made of numbers that the file spells out. Raises `KeptError` for data, and for what is drawn."""
    values = number_of(held) if isinstance(held, torch.Tensor) else None
    if values is None or not _few(values) or not (_spelled(reference, held, target) or _undrawn(reference, values)):
        what = "a tensor that it keeps" if "lifted_tensor_" in target else f"the tensor {target!r}"
        raise KeptError(
            f"it reads {what}, which is neither parameter nor buffer: register it with register_buffer, "
            "and a kernel is given it"
        )
    return values


def _spelled(reference: Reference, held: torch.Tensor, target: str) -> bool:
    """Whether the forward makes it of numbers, at each call anew."""
    if isinstance(held, FakeTensor):
        return True
    own = {each.untyped_storage()._cdata for each in tensors_of(reference.model)}
    return "lifted_tensor_" in target and held.untyped_storage()._cdata not in own


def _undrawn(reference: Reference, values: torch.Tensor) -> bool:
    """Whether a module under another seed, never called, holds the same."""
    return any(each.dtype == values.dtype and torch.equal(each, values) for each in tensors_of(reference.redrawn()))


def _few(held: torch.Tensor) -> bool:
    """Whether these are numbers and no data: all equal ones, or few."""
    return held.numel() <= LITERAL or bool((held == held.flatten()[0]).all())


def _from_make_fx(reference: Reference, inputs: list[Value], names: list[str]) -> Program:
    if reference.state:
        raise UntraceableError(f"torch.export cannot follow it, and it writes {reference.state[0]}, which others lose")
    parameters = reference.parameters()
    tensors = [value for value in inputs if isinstance(value, torch.Tensor)]
    tensor_names = [n for n, value in zip(names, inputs, strict=True) if isinstance(value, torch.Tensor)]

    def forward(weights: dict[str, torch.Tensor], operands: list[torch.Tensor]) -> Any:
        fed = iter(operands)
        full = [next(fed) if isinstance(value, torch.Tensor) else value for value in inputs]
        positional, named = reference.arranged(full)
        held = reference.held_as(weights)
        return tuple(reference.opened(torch.func.functional_call(reference.model, held, positional, named)))

    with torch.no_grad():
        module = make_fx(forward)(parameters, tensors)
    order = [node.name for node in module.graph.nodes if node.op == "placeholder"]
    return Reader(dict(zip(order, [*parameters, *tensor_names], strict=True)), "make_fx").read(module)


def _from_gradients(reference: Reference, gradients: Differentiated, inputs: list[Value], names: list[str]) -> Program:
    """Forward and backward as one graph, of which is left what the results need.

    What the forward saved is an input by then, and no longer computed.
    """
    weights = reference.parameters()
    trained = {name for name, weight in reference.model.named_parameters() if weight.requires_grad}
    tensors = {name: value for name, value in zip(names, inputs, strict=True) if isinstance(value, torch.Tensor)}

    def joint(held: Tensors, operands: Tensors) -> list[torch.Tensor]:
        values = [operands.get(name, value) for name, value in zip(names, inputs, strict=True)]
        held = reference.held_as(held)
        sources = {name: each.detach().requires_grad_() for name, each in held.items() if name in trained}
        model = partial(torch.func.functional_call, reference.model, held | sources)
        return gradients.traced(values, lambda *given, **named: model(given, named), sources)

    # Attention as products and a softmax, whose backwards are such, too: other backends save what only they can read.
    with torch.no_grad(), sdpa_kernel(SDPBackend.MATH):
        module = make_fx(joint, decomposition_table=backward_parts())(weights, tensors)
    graph = module.graph
    given = [node for node in graph.nodes if node.op == "placeholder"]
    known = dict(zip((node.name for node in given), [*weights, *tensors], strict=True))
    holders = {known[node.name]: node for node in given}
    (output,) = (node for node in graph.nodes if node.op == "output")
    saved = gradients.saved
    outputs, results = output.args[0][: len(saved)], output.args[0][len(saved) :]
    output.args = (tuple(results),)
    for node in [node for node in graph.nodes if node.target in _SAME]:
        node.replace_all_uses_with(node.args[0])
    for name, node in zip(saved, map(_unwrapped, outputs), strict=True):
        if node.op != "placeholder":
            node.replace_all_uses_with(holders[name])
    for node in graph.nodes:
        if (whole := _viewed(node)) is not node:
            node.replace_all_uses_with(whole)
    graph.eliminate_dead_code()
    return Reader(known, "make_fx").read(module)


def _unwrapped(node: torch.fx.Node) -> torch.fx.Node:
    """The value itself, behind operations that only give it another history."""
    while node.target in _SAME and isinstance(node.args[0], torch.fx.Node):
        node = node.args[0]
    return node


def _viewed(node: torch.fx.Node) -> torch.fx.Node:
    """The value that a view of views is once more: a weight's gradient is transposed there and back."""
    found = source = node
    while isinstance(source.target, torch._ops.OpOverload) and source.target.is_view:
        (source,) = source.all_input_nodes
        if _lies(source) == _lies(node):
            found = source
    return found


def _lies(node: torch.fx.Node) -> tuple[object, ...]:
    """Where a value lies in its storage."""
    value = node.meta.get("val")
    if not isinstance(value, torch.Tensor):
        return (node,)
    return value.dtype, tuple(value.shape), tuple(value.stride()), value.storage_offset()


_SAME = (torch.ops.aten.detach.default, torch.ops.aten.alias.default)


def _bind_scalar(
    reference: Reference,
    inputs: list[Value],
    specs: Sequence[TensorSpec | ScalarSpec],
    program: Program,
    position: int,
) -> Program:
    name, value = specs[position].name, inputs[position]
    changed = list(inputs)
    changed[position] = (
        (not value) if isinstance(value, bool) else value + 1 if isinstance(value, int) else value + 0.37
    )
    other = _trace_once(reference, changed, specs)
    bound = {spec.name: number for spec, number in zip(specs, inputs, strict=True) if isinstance(spec, ScalarSpec)}
    unfit = UntraceableError(f"what it computes depends on the number {name} other than as an operand")
    if [(op.target, op.results) for op in other.ops] != [(op.target, op.results) for op in program.ops]:
        raise unfit

    def merge(was: Argument, now: Argument) -> Argument:
        if isinstance(was, tuple) and isinstance(now, tuple) and len(was) == len(now):
            return tuple(merge(a, b) for a, b in zip(was, now, strict=True))  # type: ignore[misc]
        if was == now or (isinstance(was, Ref) and now == bound.get(was.ref)):
            return was
        if was == value and now == changed[position]:
            return Ref(ref=name)
        raise unfit

    return program.model_copy(
        update={"ops": tuple(_merge_op(was, now, merge) for was, now in zip(program.ops, other.ops, strict=True))}
    )


def _merge_op(was: TracedOp, now: TracedOp, merge: Callable[[Argument, Argument], Argument]) -> TracedOp:
    return was.model_copy(
        update={
            "args": tuple(merge(a, b) for a, b in zip(was.args, now.args, strict=True)),
            "kwargs": {key: merge(argument, now.kwargs[key]) for key, argument in was.kwargs.items()},
        }
    )
