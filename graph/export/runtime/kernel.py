"""A kernel as a module's forward calls it: straight where the call is the one it was made for, else by its operator.

A call costs the caller a few microseconds beside the memory of its outputs; so what every call asks is quick rather
than short, and the rest is asked only where that says no.
"""

from __future__ import annotations

import os
import threading
import warnings
import weakref
from collections import Counter
from collections.abc import Sequence
from contextlib import nullcontext
from typing import Any

import torch
from torch.autograd import forward_ad

from .gradients import Gradients
from .library import Library
from .operators import Work, operator
from .settings import Held, changed, described
from .sizes import Sizes
from .specs import PLAIN, Tensor, Unfit, Workload, empty, fitting, in_pairs, laid_out, misfit
from .straight import Run, Straight, make_straight, ready, runner

_dispatch_modes = torch._C._len_torch_dispatch_stack
_function_transforms = torch._C._are_functorch_transforms_active
_is_traced = torch.compiler.is_dynamo_compiling
# What a caller does, not what is given: no value is wrong.
_OF_THE_CALL = frozenset({"mode", "gradient", "autocast", "transform", "setting"})

Path = tuple[str, ...]
MOST_KNOWN = 32
"""Kinds of calls that are remembered: workloads, with and without inference mode, on each device."""


class Kernel:
    """`parameters` and `ties` are paths from the module on: the arguments after the inputs, and other names of them.

    `operator` is what torch.compile and torch.export see, under `name`: a digest of all that it computes. `fallbacks`
    counts, by kind, the calls that the reference took. Without `gradients` it takes those that want some, too. `served`
    are the sizes that it takes beside those of its workloads. `state` are those parameters whose new values the last
    outputs are, each with whether it becomes another tensor. `places` are inputs that name places of a table, with the
    least and the end of what the reference takes.
    """

    def __init__(
        self,
        library: Library,
        workloads: Sequence[Workload],
        parameters: Sequence[Path],
        ties: Sequence[tuple[Path, Path]],
        name: str,
        schema: tuple[str, str],
        gradients: Gradients | None = None,
        served: Sizes | None = None,
        state: Sequence[tuple[Path, bool]] = (),
        places: Sequence[tuple[int, int, int]] = (),
    ) -> None:
        self.places = tuple(places)
        self.state = tuple(state)
        self._begin_turns()
        if state:
            os.register_at_fork(after_in_child=self._begin_turns)
        self.library, self.device = library, library.device
        self.workloads, self.parameters, self.ties = tuple(workloads), tuple(parameters), tuple(ties)
        self.served = served
        self.fallbacks: Counter[str] = Counter()
        self._name = name
        self._held: dict[int, Held] = {}
        self._entries: dict[int | None, Any] = {}
        arguments = self.workloads[0].arguments
        self._tensors = tuple(k for k, each in enumerate(arguments) if isinstance(each, Tensor))
        self._pairs = tuple(k for k in self._tensors if arguments[k].pairs)  # type: ignore[union-attr]
        self._known: dict[bool, list[Straight]] = {True: [], False: []}
        self.gradients = gradients
        if gradients is not None:
            gradients.attach(self.workloads, self.parameters, self.ties, self._pairs, self._workload)
        outputs = self.workloads[0].outputs
        self._viewed = frozenset(each.view.of for each in outputs if each.view)
        self._only_views = all(each.view for each in outputs)
        key = self.device.upper() if self._tensors else "CompositeExplicitAutograd"
        self.operator = operator(name, schema, key, Work(self._compute, self._write, self._pretend), gradients)

    def call(self, module: Any, *inputs: Any) -> tuple[Any, Unfit | None]:
        """What the kernel makes of a forward's inputs, or why they are not for it."""
        if not _is_traced():
            held = self._held.get(id(module))
            if (held is None or not held.stands()) and (unfit := self._unfit_settings(module)):
                return None, unfit
        values = (*inputs, *[find(module, path) for path in self.parameters])
        if self._pairs:
            values = self._paired(values)
        if self.places and (unfit := self._astray(inputs)):
            return None, unfit
        if self._only_views:
            return (), self._unfit(module, values)
        if (
            _is_traced()
            or (module.training and module.kernel_depends_on_mode)
            or forward_ad._current_level >= 0
            or (self.ties and self._parted(module))
        ):
            return self._carefully(module, values)
        try:
            for straight in self._known[torch.is_grad_enabled()]:
                made = straight(values)
                if made is not None:
                    return made, None
        except TypeError:  # something else in a tensor's place
            pass
        return self._carefully(module, values)

    def adopt(self, module: Any) -> None:
        """Take a module's parts and settings for those that the kernel was made for; copies of it take them along.

        Where that was said of this module and kernel before, it stays.
        """
        if module.__dict__.get("kernel_made_for", ("",))[0] != self._name:
            module.__dict__["kernel_made_for"] = (self._name, described(module))

    def _unfit_settings(self, module: Any) -> Unfit | None:
        """Why a module that was not looked at, or has changed since, is not the one that the kernel was made for."""
        self.adopt(module)
        if said := changed(module.__dict__["kernel_made_for"][1], described(module)):
            return Unfit("setting", f"the kernel was made for the module as it was: {said}")
        if module.kernel_depends_on_mode and not module.training and any(each.training for each in module.modules()):
            return Unfit("mode", "a part of the module is in training mode: call .eval() first")
        if id(module) not in self._held:
            weakref.finalize(module, self._held.pop, id(module), None).atexit = False
        self._held[id(module)] = Held(module)
        return None

    def viewed(self, module: Any, made: Any, *inputs: Any) -> Any:
        """What the module returns of a call's outputs: those that eager answers with views are the arguments' own."""
        values = self._paired((*inputs, *[find(module, path) for path in self.parameters]))
        workload = self._workload(values)
        named = {spec.name: value for spec, value in zip(workload.arguments, values, strict=True) if spec}
        outputs = list(made) if self._only_views or len(workload.outputs) > 1 else [made]
        found = [
            _within(named[spec.view.of], spec) if spec.view else outputs[place]
            for place, spec in enumerate(workload.outputs)
        ]
        return found[0] if len(found) == 1 else tuple(found)

    def _paired(self, values: tuple[Any, ...]) -> tuple[Any, ...]:
        """With the pairs of what is complex for the module."""
        return tuple(in_pairs(value) if k in self._pairs else value for k, value in enumerate(values))

    def step(self, module: Any, *inputs: Any) -> tuple[Any, Unfit | None]:
        """`call` of a forward that writes state, which no other thread reads meanwhile: no update is lost."""
        if torch.compiler.is_compiling():
            return self._stepped(module, inputs)
        with self._turns:
            return self._stepped(module, inputs)

    def _begin_turns(self) -> None:
        """Also in a fork's child: a thread that is not there has its turn for ever."""
        self._turns = threading.RLock()

    def _stepped(self, module: Any, inputs: tuple[Any, ...]) -> tuple[Any, Unfit | None]:
        outputs, unfit = self.call(module, *inputs)
        if unfit:
            return outputs, unfit
        made = self.viewed(module, outputs, *inputs) if self._viewed else outputs
        return self._leave(module, made), None

    def _leave(self, module: Any, outputs: Sequence[torch.Tensor]) -> Any:
        """What the module returns of a call's outputs, once its state is as the reference would have left it."""
        results = len(outputs) - len(self.state)
        with torch.no_grad():
            for (path, renewed), new in zip(self.state, outputs[results:], strict=True):
                if renewed:
                    put(module, path, new)
                else:
                    find(module, path).copy_(new)
        return outputs[0] if results == 1 else tuple(outputs[:results])

    def tell(self, module: Any, unfit: Unfit) -> None:
        """Count a call that goes to the reference, and warn of the first of its kind.

        Raises `ValueError` or `RuntimeError` instead where the module's `kernel_fallback` is "error". What an index
        beyond a table means, an error or a place from the end, the reference says.
        """
        refuses = module.kernel_fallback == "error" and unfit.kind != "index"
        if refuses or unfit.kind in module.kernel_refuses:
            raise (RuntimeError if unfit.kind in _OF_THE_CALL else ValueError)(unfit.said)
        if torch.compiler.is_compiling():
            return
        self.fallbacks[unfit.kind] += 1
        if self.fallbacks[unfit.kind] == 1:
            warnings.warn(f"{unfit.said}. The reference computes this call and others like it.", stacklevel=3)

    def _carefully(self, module: Any, values: tuple[Any, ...]) -> tuple[Any, Unfit | None]:
        """A call unlike those before: whether it is the kernel's, and whether others like it can go straight to it."""
        unfit = self._unfit(module, values)
        if unfit:
            return None, unfit
        if torch.compiler.is_compiling() or _dispatch_modes():
            return self.operator(*values), None
        workload = self._workload(values)
        tensors = [values[k] for k in self._tensors]
        if not (ready(values, workload) and _lie_so(tensors, workload)):
            return self.operator(*values), None
        run = self._runner(values, workload)
        if self.gradients is not None and _wants_gradient(tensors):
            run = self.gradients.through(run)
        straight = make_straight(values, workload, run)
        known = self._known[torch.is_grad_enabled()]
        if straight is not None and len(known) < MOST_KNOWN:
            known.append(straight)
        return run(values), None

    def _runner(self, values: tuple[Any, ...], workload: Workload) -> Run:
        device = self._device(values)
        return runner(workload, self._entry(device), device)

    def _device(self, values: Sequence[Any]) -> torch.device:
        return values[self._tensors[0]].device if self._tensors else torch.device(self.device)

    def _entry(self, device: torch.device) -> Any:
        """The kernel loaded for a device."""
        if device.index not in self._entries:
            self._entries[device.index] = self.library.entry(device.index)
        return self._entries[device.index]

    def _astray(self, inputs: Sequence[Any]) -> Unfit | None:
        """Why a call's indices are not for the kernel, as far as they can be looked at here."""
        if _is_traced() or _dispatch_modes() or _function_transforms():
            return None
        for k, _, end in self.places:
            if type(inputs[k]) in PLAIN and not _lie_in(inputs[k], 0, end):
                return Unfit("index", f"argument {k} has values below 0 or above {end - 1}: places that a table lacks")
        return None

    def _require_places(self, values: Sequence[Any]) -> None:
        """Raise `IndexError` for an index that the reference refuses."""
        for k, low, end in self.places:
            if not _lie_in(values[k], low, end):
                raise IndexError(f"argument {k} of the kernel has values below {low} or above {end - 1}")

    def _unfit(self, module: Any, values: tuple[Any, ...]) -> Unfit | None:
        """Why a call is not the kernel's."""
        unfit = self._unfit_call(module, values)
        if unfit is not None:
            return unfit
        found = self._fitting(values, module.kernel_fallback != "error")
        return found if isinstance(found, Unfit) else None

    def _unfit_call(self, module: Any, values: tuple[Any, ...]) -> Unfit | None:
        """Why it is not, whatever the shapes and types."""
        tensors = [each for each in values if isinstance(each, torch.Tensor)]
        unfit = _unfit_trace(tensors) if torch.compiler.is_compiling() else self._unfit_ties(module)
        if unfit is not None:
            return unfit
        if _function_transforms() or forward_ad._current_level >= 0:
            return Unfit("transform", "the kernel is called within torch.func or forward-mode differentiation")
        if module.training and module.kernel_depends_on_mode:
            return Unfit("mode", "the kernel computes what the module does in evaluation mode: call .eval() first")
        if self.gradients is None and _wants_gradient(tensors):
            said = "the kernel has no gradient: call it under torch.no_grad() or torch.inference_mode()"
            return Unfit("gradient", said)
        if torch.is_autocast_enabled(self.device):
            return Unfit("autocast", f"autocast is on for {self.device}; the kernel was judged without it")
        return None

    def _unfit_ties(self, module: Any) -> Unfit | None:
        """What cannot be asked while a call is traced."""
        parted = self._parted(module) if self.ties else ""
        return Unfit("ties", parted) if parted else None

    def _misfit(self, values: tuple[Any, ...], workload: Workload, exactly: bool) -> Unfit | None:
        """`exactly`: where elements of a tensor share a place, they must do so in the value."""
        device = None
        for value, spec in zip(values, workload.arguments, strict=True):
            unfit = misfit(value, spec, self.device)
            if unfit is not None:
                return unfit
            if isinstance(spec, Tensor):
                if exactly and spec.repeats and value.stride() != spec.strides:
                    return Unfit("layout", f"{spec.name} is not expanded as the kernel was made for")
                if spec.name in self._viewed and value.stride() != spec.strides:
                    return Unfit("layout", f"{spec.name} lies in another way, and a result is a view of it")
                device = device or value.device
                if value.device != device:
                    return Unfit("device", f"{spec.name} is on {value.device}, others on {device}")
        return None

    def _parted(self, module: Any) -> str:
        """Which weights are no longer one tensor."""
        for path, other in self.ties:
            if find(module, path).data_ptr() != find(module, other).data_ptr():
                return f"the kernel was made for {'.'.join(other)} tied to {'.'.join(path)}: one tensor"
        return ""

    def _compute(self, *values: Any) -> Any:
        _require_no_tangents()
        workload = self._workload(values)
        self._require_places(values)
        return self._runner(values, workload)(tuple(map(laid_out, values, workload.arguments)))

    def _write(self, *values: Any, **outs: torch.Tensor) -> Any:
        """The same into memory that is there, by way of other memory where it is laid out in another way."""
        workload, device, given = self._workload(values), self._device(values), tuple(outs.values())
        self._require_places(values)
        made = [fitting(out, spec) for out, spec in zip(given, workload.outputs, strict=True)]
        with torch.cuda.device(device.index) if device.index is not None else nullcontext():
            self._entry(device)(*map(laid_out, values, workload.arguments), *made)
        for out, result in zip(given, made, strict=True):
            if out is not result:
                out.copy_(result)
        return given if len(given) > 1 else given[0]

    def _pretend(self, *values: Any) -> Any:
        """Shapes and types only, for tracing."""
        _require_no_tangents()
        workload = self._workload(values)
        outputs = tuple(empty(spec, self._device(values)) for spec in workload.outputs)
        return outputs[0] if len(outputs) == 1 else outputs

    def _workload(self, values: tuple[Any, ...]) -> Workload:
        found = self._fitting(values, False)
        if isinstance(found, Unfit):
            raise ValueError(found.said)
        return found

    def _fitting(self, values: tuple[Any, ...], exactly: bool) -> Workload | Unfit:
        """The workload that the values are of; where none is, why they are not of the first, or of no size served."""
        unfits = []
        for workload in self.workloads:
            unfit = self._misfit(values, workload, exactly)
            if unfit is None:
                return workload
            unfits.append(unfit)
        if self.served is None or unfits[0].kind != "shape":
            return unfits[0]
        other = self.served.of(values)
        if isinstance(other, Unfit):
            return other
        return self._misfit(values, other, exactly) or other


def _within(value: torch.Tensor, spec: Tensor) -> torch.Tensor:
    """The view of an argument that eager would return."""
    view = spec.view
    assert view is not None
    if view.offset:  # as Dynamo can follow it, which knows no offset
        span = sum((extent - 1) * step for extent, step in zip(spec.shape, view.strides, strict=True))
        value = value.as_strided((view.offset + span + 1,), (1,))[view.offset :]
    found = value.as_strided(spec.shape, view.strides)
    return found.detach() if view.detached else found


def _require_no_tangents() -> None:
    """An operator would lose them without a word."""
    if forward_ad._current_level >= 0:
        raise RuntimeError("the kernel has no forward-mode derivative")


def _lie_in(indices: torch.Tensor, low: int, end: int) -> bool:
    """Whether all lie from `low` to before `end`; on a processor."""
    if indices.device.type != "cpu" or not indices.numel():
        return True
    least, most = torch.aminmax(indices)
    return bool(least >= low) and bool(most < end)


def _unfit_trace(tensors: list[torch.Tensor]) -> Unfit | None:
    if any(isinstance(extent, torch.SymInt) for each in tensors for extent in each.shape):
        return Unfit("shape", "a size is not known yet; the kernel was made for one")
    return None


def _wants_gradient(tensors: list[torch.Tensor]) -> bool:
    return torch.is_grad_enabled() and any(each.requires_grad for each in tensors)


def _lie_so(tensors: list[torch.Tensor], workload: Workload) -> bool:
    specs = [each for each in workload.arguments if isinstance(each, Tensor)]
    return all(value.stride() == spec.strides for value, spec in zip(tensors, specs, strict=True))


def find(module: Any, path: Path) -> Any:
    """The parameter or buffer: where modules keep their own, without their slower look-up by attribute."""
    *holders, last = path
    for name in holders:
        inner = module._modules.get(name)
        module = getattr(module, name) if inner is None else inner
    kept = module._parameters.get(last)
    return getattr(module, last) if kept is None else kept


def put(module: Any, path: Path, new: torch.Tensor) -> None:
    """Another tensor in the place of a parameter or buffer."""
    *holders, last = path
    for name in holders:
        module = getattr(module, name)
    old = getattr(module, last)
    setattr(module, last, torch.nn.Parameter(new, old.requires_grad) if isinstance(old, torch.nn.Parameter) else new)


def depends_on_mode(module: torch.nn.Module) -> bool:
    """Whether a part of the module computes something else in training mode."""
    kinds = (torch.nn.modules.dropout._DropoutNd, torch.nn.modules.batchnorm._NormBase, torch.nn.RReLU)
    return any(isinstance(each, kinds) for each in module.modules())
