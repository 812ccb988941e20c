"""A kernel's gradients: the reference's forward, computed again from what the kernel was given, and differentiated."""

from __future__ import annotations

import threading
import types
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch.utils._python_dispatch import _disable_current_modes

from .reference import constructor_arguments
from .specs import Tensor, Workload
from .straight import Run

Path = tuple[str, ...]


class Gradients:
    """`outputs` calls a model of the reference on the kernel's inputs, and returns what the kernel does, as a tuple.

    `sizes` are what the reference's `get_init_inputs` is given, workload by workload. Needs `attach` before it is used.
    """

    def __init__(
        self,
        reference: types.ModuleType,
        outputs: Callable[[Any, Sequence[Any]], tuple[Any, ...]],
        sizes: Sequence[Mapping[str, Any]],
    ) -> None:
        self._reference, self._outputs, self._sizes = reference, outputs, tuple(sizes)
        self._models: dict[tuple[int, torch.device], _Flat] = {}
        # A model computes over one call's tensors at a time. It may hold a drop-in, so a thread may come back.
        self._one_call = threading.RLock()

    def attach(
        self,
        workloads: Sequence[Workload],
        parameters: Sequence[Path],
        ties: Sequence[tuple[Path, Path]],
        pairs: Sequence[int],
        workload_of: Callable[[tuple[Any, ...]], Workload],
    ) -> None:
        """What the kernel is called with; `workload_of` says which of the workloads some values are.

        At the places of `pairs` are pairs of reals that are complex for the reference.
        """
        self._workloads, self._workload_of, self._pairs = tuple(workloads), workload_of, frozenset(pairs)
        arguments = self._workloads[0].arguments
        self._tensors = tuple(k for k, each in enumerate(arguments) if isinstance(each, Tensor))
        self._inputs = len(arguments) - len(parameters)
        places = {path: self._inputs + k for k, path in enumerate(parameters)}
        self._places = places | {tied: places[path] for path, tied in ties}

    def through(self, run: Run) -> Run:
        """`run` with these gradients, past PyTorch's dispatcher."""
        apply: Any = _Differentiable.apply
        return lambda values: apply(self, run, *values)

    def keep(self, ctx: Any, values: Sequence[Any]) -> None:
        """For the backward: all values, tensors where PyTorch sees that they are changed in place."""
        ctx.set_materialize_grads(False)
        ctx.save_for_backward(*[values[k] for k in self._tensors])
        ctx.numbers = [None if isinstance(each, torch.Tensor) else each for each in values]

    def backward(self, ctx: Any, wanted: Sequence[bool], gradients: Sequence[Any]) -> tuple[torch.Tensor | None, ...]:
        """A gradient for each value that wants one; with `create_graph` they can be differentiated once more."""
        values, again = ctx.numbers[:], torch.is_grad_enabled()
        for place, tensor in zip(self._tensors, ctx.saved_tensors, strict=True):
            values[place] = tensor
        with torch.enable_grad(), torch.autocast(_device(values).type, enabled=False):
            values = [_leaf(each, want, again) for each, want in zip(values, wanted, strict=True)]
            pairs = zip(self.recomputed(values), gradients, strict=True)
            asked = [(output, given) for output, given in pairs if given is not None and output.requires_grad]
            if not asked:
                return tuple(None for _ in values)
            outputs, given = zip(*asked, strict=True)
            leaves = [each for each, want in zip(values, wanted, strict=True) if want]
            found = iter(torch.autograd.grad(outputs, leaves, given, create_graph=again, allow_unused=True))
        return tuple(next(found) if want else None for want in wanted)

    def recomputed(self, values: Sequence[Any]) -> tuple[torch.Tensor, ...]:
        """The kernel's outputs as the reference computes them from these inputs and parameters."""
        whole = [torch.view_as_complex(each) if k in self._pairs else each for k, each in enumerate(values)]
        weights = {f"model.{'.'.join(path)}": whole[place] for path, place in self._places.items()}
        with self._one_call:
            model = self._model(values)
            given = (whole[: self._inputs],)
            found: tuple[torch.Tensor, ...] = torch.func.functional_call(
                model, weights | model.constants(), given, tie_weights=False
            )
            return found

    def _model(self, values: Sequence[Any]) -> _Flat:
        several = len(self._workloads) > 1
        found = self._workload_of(tuple(values)) if several else self._workloads[0]
        # At other sizes than these the model is the same: only a kernel whose workloads construct one serves them.
        workload = self._workloads.index(found) if found in self._workloads else 0
        key = (workload, _device(values))
        if key not in self._models:
            self._models[key] = self._made(*key)
        return self._models[key]

    def _made(self, workload: int, device: torch.device) -> _Flat:
        """The reference's model without memory for its weights: those of a call take their places."""
        gpus = [device] if device.type == "cuda" else []
        with _disable_current_modes(), torch.random.fork_rng(gpus), device, torch.no_grad():
            model = self._reference.Model(*constructor_arguments(self._reference, self._sizes[workload])).eval()
            for *holders, last in self._places:
                holder = model.get_submodule(".".join(holders))
                held: Any = holder._parameters if last in holder._parameters else holder._buffers
                empty = torch.empty_like(held[last], device="meta")
                held[last] = torch.nn.Parameter(empty, False) if held is holder._parameters else empty
        return _Flat(model, self._outputs)


class _Flat(torch.nn.Module):
    """A model from the kernel's inputs to its outputs, however its own forward takes and returns them."""

    def __init__(self, model: torch.nn.Module, outputs: Callable[[Any, Sequence[Any]], tuple[Any, ...]]) -> None:
        super().__init__()
        self.model, self._outputs, self._constants = model, outputs, _kept_aside(model)

    def constants(self) -> dict[str, torch.Tensor]:
        """What the model computes with beside the kernel's arguments; of the graph, where one is traced."""
        traced = torch._C._len_torch_dispatch_stack() > 0
        lifted = torch.ops.aten.lift_fresh_copy.default
        return {f"model.{name}": lifted(each) if traced else each for name, each in self._constants.items()}

    def forward(self, inputs: Sequence[Any]) -> tuple[Any, ...]:
        return self._outputs(self.model, inputs)


class _Differentiable(torch.autograd.Function):
    """What the operator's autograd formula does, at half of its cost: PyTorch's wrappers take 10 us a call."""

    @staticmethod
    def forward(ctx: Any, gradients: Gradients, run: Run, *values: Any) -> Any:
        ctx.gradients = gradients
        gradients.keep(ctx, values)
        return run(values)

    @staticmethod
    def backward(ctx: Any, *given: Any) -> Any:
        return None, None, *ctx.gradients.backward(ctx, ctx.needs_input_grad[2:], given)


def _kept_aside(model: torch.nn.Module) -> dict[str, torch.Tensor]:
    """Tensors that modules keep as plain attributes; buffers from now on, for a call can exchange those."""
    found = [(path, module, name, value) for path, module in model.named_modules()
             for name, value in vars(module).items() if isinstance(value, torch.Tensor)]  # fmt: skip
    for _, module, name, value in found:
        del module.__dict__[name]
        module.register_buffer(name, value.detach(), persistent=False)
    return {f"{path}.{name}".lstrip("."): value.detach() for path, _, name, value in found}


def _leaf(value: Any, wanted: bool, again: bool) -> Any:
    """A value to differentiate by: where the gradients have gradients, one that hangs on the caller's graph."""
    if not isinstance(value, torch.Tensor):
        return value
    if again and wanted:
        return value.view_as(value)
    return value.detach().requires_grad_(wanted)


def _device(values: Sequence[Any]) -> torch.device:
    return next(each.device for each in values if isinstance(each, torch.Tensor))
