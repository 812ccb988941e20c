"""The task file brought to life: its model, its inputs, and what it returns. Runs in a child that has torch."""

from __future__ import annotations

import copy
import inspect
import json
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import torch
from torch.nn.parameter import is_lazy

from harness.nouns.form import Form as FormNoun
from harness.nouns.form import Path
from harness.nouns.task import Direction, DType, Variant
from harness.trusted.gradients import DIRECTIONS, Differentiated
from harness.trusted.keeping import attributes_of, over_copies
from harness.trusted.reach import tensors_of
from harness.trusted.rows import Value as Value
from harness.trusted.rows import rows_of
from harness.trusted.task_file import CONTRACT, HOST, PLAIN, TaskFile
from harness.wire.forms import Form, FormlessError, put_together, take_apart

DTYPES: dict[torch.dtype, DType] = {
    torch.float32: "float32", torch.float64: "float64", torch.float16: "float16", torch.bfloat16: "bfloat16",
    torch.float8_e4m3fn: "float8_e4m3fn", torch.float8_e5m2: "float8_e5m2",
    torch.int8: "int8", torch.uint8: "uint8", torch.int16: "int16", torch.int32: "int32", torch.int64: "int64",
    torch.bool: "bool",
}  # fmt: skip
TORCH_DTYPES: dict[DType, torch.dtype] = {name: dtype for dtype, name in DTYPES.items()}
COMPLEX = {torch.complex64: torch.complex128}
"""A kernel is given such an input, parameter or buffer as its pairs of reals (`torch.view_as_real`)."""

_TAKEN = "Inputs are tensors, numbers, texts and None, also within tuples, lists, dicts, named tuples and dataclasses."
_RETURNED = "It must return a tensor, or tensors within tuples, lists, dicts, named tuples and dataclasses."
DENSE = "Only dense (strided) tensors are supported."
NEW = "new_"
"""Before the name of what a state is after the call."""
_LAZY = "Call the lazy module once in __init__, on zeros of its input's shape: a kernel is given its weights."
_ONE_VALUE: Form = {"kind": "value", "parts": [], "keys": [], "constant": None, "type": ""}


class Reference(TaskFile):
    """A task file's model in evaluation mode, with the functions that make its inputs.

    Weights are drawn under `seed`; `state` are the parameters that the forward writes (see `Signature`).
    """

    def __init__(
        self,
        source: str,
        name: str,
        place: torch.device = HOST,
        *,
        seed: int = 0,
        variant: Variant = PLAIN,
        state: Sequence[str] = (),
    ) -> None:
        super().__init__(source, name, place, seed=seed, variant=variant)
        self.state = tuple(state)
        self.renewed: tuple[str, ...] = ()
        self.paired: tuple[int, ...] = ()
        """Which of the last inputs are complex numbers in pairs."""
        self.takes: Form | None = None
        self.returns: Form | None = None
        self._begin_drawing(seed)
        with self._there():
            made = self._maker("get_init_inputs") if hasattr(self.module, "get_init_inputs") else list
            arguments = self.guarded("get_init_inputs()", made)
        if not isinstance(arguments, list | tuple):
            raise self.error(f"get_init_inputs returned {type(arguments).__name__}, not a list")
        self.arguments = list(arguments)
        factory = self._ask("Model")
        with self._there():
            self.model: torch.nn.Module = self.guarded("Model(...)", lambda: factory(*arguments))
        if not isinstance(self.model, torch.nn.Module):
            raise self.error("Model is not a torch.nn.Module", CONTRACT)
        if waiting := next((name for name, each in held_tensors(self.model).items() if is_lazy(each)), ""):
            raise self.error(f"the shape of {waiting} is not known before the first call", _LAZY)
        self.ties = _ties(self.model)
        """Names beyond the first of a tensor that the module holds under several, and that first name."""
        self.model.eval()
        direction = getattr(self.module, "DIRECTION", "forward")
        if direction not in DIRECTIONS:
            raise self.error(f"its DIRECTION is {direction!r:.40}", f"It is one of {', '.join(DIRECTIONS)}.")
        self.direction: Direction = direction
        self.gradients = None if direction == "forward" else Differentiated(direction, self.module, output_names)
        if place != HOST:
            self.model.to(place)
        if variant.dtype:
            self.model.to(TORCH_DTYPES[variant.dtype])
        self.started = attributes_of(self.model)
        """What its modules have beside weights before any call: what a forward keeps for the next one is not there."""

    def plain_arguments(self) -> list[Any]:
        """The constructor's arguments, where they can be written down: numbers, texts, None, lists and tuples."""
        try:
            json.dumps(self.arguments)
        except (TypeError, ValueError) as error:
            raise self.error(
                f"get_init_inputs gives more than numbers and texts: {error}", "Other modules cannot be made from it."
            ) from error
        return self.arguments

    def inputs(self, seed: int) -> list[Value]:
        """What `get_inputs` gives under a seed: tensors, on the device, and numbers; `takes` is how they are passed.

        A list holds the forward's arguments by their position, a dict by their names.
        """
        values = self._drawn(seed)
        if self.variant.batch:
            values = rows_of(
                values, self.variant.batch, lambda more: self._drawn((seed + more) % (1 << 31)), self.error
            )
        placed = [self._placed(value) if isinstance(value, torch.Tensor) else value for value in values]
        if self.gradients is not None:
            return self._with_gradients(self.gradients, values, placed)
        self.paired = tuple(place for place, value in enumerate(placed) if is_complex(value))
        return [in_pairs(value) if isinstance(value, torch.Tensor) else value for value in placed]

    def _drawn(self, seed: int) -> list[Value]:
        """What `get_inputs` itself gives; sets `takes`."""
        self._begin_drawing(seed)
        with self._there():
            given = self.guarded("get_inputs()", self._maker("get_inputs"))
        if type(given) is list:
            given = tuple(given)
        if type(given) not in (tuple, dict):
            raise self.error(f"get_inputs returned {type(given).__name__}, not a list or dict", CONTRACT)
        try:
            self.takes, values = take_apart(given, (torch.Tensor, float, int, bool), self.module)
        except FormlessError as error:
            raise self.error(f"get_inputs gives {error}", _TAKEN) from error
        self._require_dense("get_inputs gives", values)
        return values

    def _require_dense(self, who: str, values: Sequence[Value]) -> None:
        for value in values:
            if isinstance(value, torch.Tensor) and (kind := other_than_dense(value)):
                raise self.error(f"{who} a {kind} tensor", DENSE)

    def _with_gradients(self, gradients: Differentiated, given: list[Value], placed: list[Value]) -> list[Value]:
        """The values with those that a backward takes besides; `takes` tells of them, too."""
        form, model = self.takes, self.model
        assert form is not None
        names = self.own_names(FormNoun.model_validate(form).paths)
        marked = [
            value.requires_grad_()
            if isinstance(value, torch.Tensor) and getattr(was, "requires_grad", False)
            else value
            for was, value in zip(given, placed, strict=True)
        ]
        self.guarded("forward", lambda: gradients.settle(form, names, marked, model, self._weights(model)))
        own = [value.detach() if isinstance(value, torch.Tensor) else value for value in placed]
        more = self.guarded("forward", lambda: [*map(writable, gradients.fresh(own, model))])
        keys = [*form["keys"], *gradients.further] if form["kind"] == "dict" else []
        parts = [*form["parts"], *(_ONE_VALUE for _ in more)]
        self.takes = form | {"parts": parts, "keys": keys}
        return [*own, *more]

    def saved(self, inputs: list[Value], model: torch.nn.Module) -> dict[str, torch.Tensor]:
        """Those of a backward's inputs that follow from others: the forward's outputs, by name. Raises `UserError`."""
        gradients = self.gradients
        if gradients is None or not gradients.saved:
            return {}
        outputs = self.guarded("forward", lambda: gradients.forward(inputs, model))
        return dict(zip(gradients.saved, outputs, strict=True))

    def prepared(self, model: Callable[..., Any], weights: torch.nn.Module, inputs: list[Value]) -> Callable[[], Any]:
        """The call that is timed, with all done that comes before it. `model` is that module, compiled or as it is."""
        if self.gradients is not None:
            return self.gradients.prepared(inputs, model, self._weights(weights))
        given, named = self.arranged(inputs)
        call = partial(model, *given, **named)
        return call if not self.state else self._over_copies_once(weights, call)

    def _over_copies_once(self, model: torch.nn.Module, call: Callable[[], Any]) -> Callable[[], Any]:
        """A call that writes its state to copies, which are made before it: others find the state as it was."""
        copies = self.copies_of_state(model)

        def once() -> Any:
            with over_copies(model, copies, self.ties):
                return call()

        return once

    def copies_of_state(self, model: torch.nn.Module) -> dict[str, torch.Tensor]:
        """What the forward writes, as it is in a model now."""
        held = held_tensors(model)
        return {name: held[name].detach().clone() for name in self.state}

    def _weights(self, model: torch.nn.Module) -> dict[str, torch.Tensor]:
        """The parameters that have gradients, each once."""
        named = model.named_parameters()
        return {name: weight for name, weight in named if weight.requires_grad and name not in self.ties}

    def arranged(self, values: list[Value]) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Positional and named arguments of the forward that hold these values, in the order of `inputs`."""
        values = [
            torch.view_as_complex(value) if place in self.paired and isinstance(value, torch.Tensor) else value
            for place, value in enumerate(values)
        ]
        if self.takes is None:
            return tuple(values), {}
        given = put_together(self.takes, iter(values), self.module)
        return ((), given) if isinstance(given, dict) else (tuple(given), {})

    def _placed(self, value: torch.Tensor) -> torch.Tensor:
        """An input on the device and in the variant's element type."""
        dtype = self.variant.dtype
        value = value.detach()
        return value.to(self.place, TORCH_DTYPES[dtype] if dtype and value.is_floating_point() else value.dtype)

    def parameters(self) -> dict[str, torch.Tensor]:
        """Parameters and buffers in state_dict order, then buffers that are not persistent; tied ones once."""
        held = held_tensors(self.model).items()
        return {name: in_pairs(tensor.detach()) for name, tensor in held if name not in self.ties}

    def held_as(self, weights: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
        """Tensors by the names of `parameters`, as the module holds such: complex numbers in place of their pairs."""
        held = held_tensors(self.model)
        return {
            name: torch.view_as_complex(each) if held[name].is_complex() else each for name, each in weights.items()
        }

    def run(self, inputs: list[Value], model: torch.nn.Module | None = None) -> list[torch.Tensor]:
        """The outputs as a flat list, the new values of the state last; `returns` is how the others were put together.

        The model's own state stays as it was.
        """
        chosen = model or self.model
        with torch.no_grad(), over_copies(chosen, self.copies_of_state(chosen), self.ties):
            if self.gradients is not None:
                found = partial(self.gradients.run, inputs, chosen, self._weights(chosen))
            else:
                given, named = self.arranged(inputs)
                found = partial(chosen, *given, **named)
            outputs = self.opened(self.guarded("forward", found))
            held = held_tensors(chosen) if self.state else {}
        return [*outputs, *(held[name].detach() for name in self.state)]

    def opened(self, result: Any) -> list[torch.Tensor]:
        """The tensors of what a forward returned. Raises `UserError` where there is none, or more than a form holds."""
        try:
            self.returns, outputs = take_apart(result, (torch.Tensor,), self.module)
        except FormlessError as error:
            raise self.error(f"forward returned {error}", _RETURNED) from error
        if not outputs:
            raise self.error("forward returned no tensor", _RETURNED)
        self._require_dense("forward returned", outputs)
        return outputs

    def load(self, model: torch.nn.Module, weights: dict[str, torch.Tensor]) -> None:
        """Have the model compute over these tensors themselves, by the names of `parameters`; nothing is copied."""
        held = self.held_as(weights)
        tied = {name: held[first] for name, first in self.ties.items() if first in held}
        for name, tensor in (held | tied).items():
            owner, _, leaf = name.rpartition(".")
            getattr(model.get_submodule(owner), leaf).data = tensor

    def replica(self) -> torch.nn.Module:
        """A model of the same values that shares no tensor with this one.

        A copy, where that is one: the functions that a module keeps, and what they close over, are not copied.
        """
        try:
            copied = copy.deepcopy(self.model)
        except Exception:  # noqa: BLE001 (a lock, a file, a tensor with a history: each says so in its own way)
            return self._anew()
        shared = set(map(id, tensors_of(self.model))) & set(map(id, tensors_of(copied)))
        return self._anew() if shared else copied

    def double(self) -> torch.nn.Module:
        """The model with all that it computes with in float64: see `tensors_of`.

        Built anew, before any call of its forward: what one keeps for the next is then kept in float64, too.
        """
        model = self._anew()
        for tensor in tensors_of(model):
            if tensor.is_floating_point() or tensor.dtype in COMPLEX:
                tensor.data = tensor.data.to(COMPLEX.get(tensor.dtype, torch.float64))
        return model

    def _anew(self, seed: int | None = None) -> torch.nn.Module:
        """The model of the file executed once more, under the same seed where none is given."""
        chosen = self._seed if seed is None else seed
        return Reference(self.source, self.name, self.place, seed=chosen, variant=self.variant).model

    def redrawn(self) -> torch.nn.Module:
        """The model under another seed: what it holds that is the same there was not drawn."""
        return self._anew(self._seed + 1)

    def own_names(self, paths: Sequence[Path]) -> list[str]:
        """For each input its parameter's name, made up where the forward takes *args, and its place within that."""
        kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
        found = [p.name for p in inspect.signature(self.model.forward).parameters.values() if p.kind in kinds]

        def label(top: str) -> str:
            if not top.isdigit():
                return top
            return found[int(top)] if int(top) < len(found) else f"input{top}"

        return [".".join((label(top), *rest)) for top, *rest in paths]


def output_names(paths: Sequence[Path]) -> list[str]:
    """`output`, or `output0` and so on, or the keys; and the place within that."""
    whole = [path or ("output",) for path in paths]
    return [".".join((f"output{top}" if top.isdigit() else top, *rest)) for top, *rest in whole]


def held_tensors(model: torch.nn.Module) -> dict[str, torch.Tensor]:
    """All parameters and buffers, under all of their names."""
    named = dict(model.state_dict(keep_vars=True))
    named.update((name, buffer) for name, buffer in model.named_buffers() if name not in named)
    return {name: tensor for name, tensor in named.items() if isinstance(tensor, torch.Tensor)}


def _ties(model: torch.nn.Module) -> dict[str, str]:
    """Later names of the same memory in the same shape and type. Asked before a cast or a move may part them."""
    first: dict[object, str] = {}
    ties: dict[str, str] = {}
    for name, tensor in held_tensors(model).items():
        if tensor.layout is torch.strided:
            place = tensor.untyped_storage()._cdata, tensor.storage_offset()
            found = first.setdefault((*place, tensor.shape, tensor.stride(), tensor.dtype), name)
            ties |= {name: found} if found != name else {}
    return ties


def writable(output: torch.Tensor) -> torch.Tensor:
    """The output itself, or a contiguous copy where several elements share memory (an expanded result)."""
    dense = torch.empty_like(output).stride() == output.stride()  # empty_like keeps only such strides
    return output if dense else output.contiguous()


def is_complex(value: Value) -> bool:
    """Whether these are complex numbers that a kernel can be given in pairs."""
    return isinstance(value, torch.Tensor) and (value.dtype in COMPLEX or value.dtype in COMPLEX.values())


def in_pairs(tensor: torch.Tensor) -> torch.Tensor:
    """Complex numbers as pairs of reals over the same memory, where that holds them as they are; others as given."""
    return torch.view_as_real(tensor.resolve_conj()) if is_complex(tensor) else tensor


def other_than_dense(tensor: torch.Tensor) -> str:
    """The kind of a tensor whose elements do not lie at strides; empty for all others."""
    if tensor.is_nested:
        return "nested"
    if tensor.is_quantized:
        return "quantized"
    return "" if tensor.layout is torch.strided else str(tensor.layout)
