"""A module's gradients as a function of its inputs, its weights and the gradients of its outputs.

So a backward task is judged, traced and timed like any other: what is compared is what `torch.autograd.grad` gives.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache, partial
from types import ModuleType
from typing import TYPE_CHECKING, Any, NamedTuple, get_args

import torch
from torch._decomp import decomposition_table

from harness.nouns.form import Form as FormNoun
from harness.nouns.task import Direction
from harness.wire.forms import Form, put_together, take_apart

if TYPE_CHECKING:
    from harness.trusted.reference import Value

DIRECTIONS: tuple[Direction, ...] = get_args(Direction)
PREFIX = "grad_"
"""Before the name of what a gradient belongs to."""

Forward = Callable[..., Any]
Tensors = dict[str, torch.Tensor]


class NoGradientError(Exception):
    """There is nothing to differentiate, or it cannot be; the message says why, as what follows a file's name."""


class _Graph(NamedTuple):
    """One forward with its history: all outputs, those that are differentiated, by what, with which gradients."""

    outputs: list[torch.Tensor]
    asked: list[torch.Tensor]
    sources: Tensors
    gradients: list[torch.Tensor]

    def backward(self, *, retain: bool = False) -> tuple[torch.Tensor | None, ...]:
        """A gradient for each source; None for one that no output depends on."""
        return torch.autograd.grad(
            self.asked, [*self.sources.values()], self.gradients, retain_graph=retain, allow_unused=True
        )


class Differentiated:
    """What the reference of a backward task computes. Values are the forward's own, then `further` ones.

    `backward` gives gradients, and its values hold the forward's outputs, ahead of their gradients: what a forward
    kernel wrote need not be computed again. `both` gives the outputs, then the gradients.
    """

    def __init__(self, direction: Direction, home: ModuleType, name_outputs: Callable[[Any], list[str]]) -> None:
        self.direction = direction
        self._home, self._name_outputs = home, name_outputs
        self._form: Form = {}
        self._names: list[str] = []
        self._wanted: list[bool] = []
        self._outputs: list[str] = []
        self._asked: list[int] = []

    @property
    def further(self) -> list[str]:
        """Names of the values after the forward's own."""
        return [*self.saved, *(PREFIX + self._outputs[place] for place in self._asked)]

    @property
    def saved(self) -> list[str]:
        """Names of the forward's outputs, where they are among the values."""
        return self._outputs if self.direction == "backward" else []

    def own(self, values: Sequence[Value]) -> Sequence[Value]:
        """The forward's own values among all."""
        return values[: len(self._names)]

    def settle(self, form: Form, names: list[str], values: Sequence[Value], model: Forward, weights: Tensors) -> None:
        """Find out what has a gradient, from the values that the file gives. Raises `NoGradientError`.

        Inputs that the file marks by `requires_grad` are those that need one; where none is marked, all that have a
        fraction are. Parameters need one where they say so.
        """
        floats = [isinstance(value, torch.Tensor) and value.is_floating_point() for value in values]
        marked = [isinstance(value, torch.Tensor) and value.requires_grad for value in values]
        self._form, self._names, self._wanted = form, names, marked if any(marked) else floats
        with torch.enable_grad():
            leaves = self._leaves(values)
            if not self._sources(leaves, weights):
                raise NoGradientError(
                    "nothing in it has a gradient: its inputs are no numbers with a fraction, and it has no parameters"
                )
            found, outputs = take_apart(self._called(model, leaves), (torch.Tensor,), self._home)
        self._outputs = self._name_outputs(FormNoun.model_validate(found).paths)
        self._asked = [place for place, each in enumerate(outputs) if each.requires_grad and each.is_floating_point()]
        if not self._asked:
            raise NoGradientError(
                "none of its outputs can be differentiated: they follow from inputs and parameters only through "
                "operations without a gradient, or within torch.no_grad()"
            )

    def fresh(self, values: Sequence[Value], model: Forward) -> list[torch.Tensor]:
        """Values for `further`: the outputs, where they are among them, and gradients drawn from a normal."""
        outputs = self.forward(values, model)
        kept = outputs if self.saved else []
        return [*kept, *(torch.randn_like(outputs[place]) for place in self._asked)]

    def forward(self, values: Sequence[Value], model: Forward) -> list[torch.Tensor]:
        """The forward's own outputs."""
        with torch.no_grad():
            return take_apart(self._called(model, self.own(values)), (torch.Tensor,), self._home)[1]

    def run(self, values: Sequence[Value], model: Forward, weights: Tensors) -> Tensors:
        """What the task gives, by name. Raises `NoGradientError`."""
        graph = self._graph(values, model, weights)
        return self._named(graph, graph.backward())

    def prepared(self, values: Sequence[Value], model: Forward, weights: Tensors) -> Callable[[], object]:
        """What is timed: of a backward the gradients alone, for the forward has run and its graph is kept."""
        if self.direction == "backward":
            return partial(self._graph(values, model, weights).backward, retain=True)
        leaves = self._leaves(self.own(values))
        return lambda: self._graph(values, model, weights, leaves).backward()

    def traced(self, values: Sequence[Value], model: Forward, weights: Tensors) -> list[torch.Tensor]:
        """What the forward saves, and then what the task gives."""
        graph = self._graph(values, model, weights)
        return [*(graph.outputs if self.saved else []), *self._named(graph, graph.backward()).values()]

    def _named(self, graph: _Graph, gradients: Sequence[torch.Tensor | None]) -> Tensors:
        """By their names, without those that there are not."""
        outputs = dict(zip(self._outputs, graph.outputs, strict=True)) if self.direction == "both" else {}
        found = {PREFIX + name: each for name, each in zip(graph.sources, gradients, strict=True) if each is not None}
        if not found:
            raise NoGradientError("its outputs depend on none of its inputs and parameters")
        return {name: each.detach() for name, each in (outputs | found).items()}

    def _graph(
        self, values: Sequence[Value], model: Forward, weights: Tensors, leaves: list[Value] | None = None
    ) -> _Graph:
        with torch.enable_grad():
            leaves = leaves or self._leaves(self.own(values))
            outputs = take_apart(self._called(model, leaves), (torch.Tensor,), self._home)[1]
        asked = [outputs[place] for place in self._asked]
        gradients = [value for value in values[len(values) - len(asked) :] if isinstance(value, torch.Tensor)]
        return _Graph(outputs, asked, self._sources(leaves, weights), gradients)

    def _called(self, model: Forward, own: Sequence[Value]) -> Any:
        given = put_together(self._form, iter(own), self._home)
        return model(**given) if isinstance(given, dict) else model(*given)

    def _leaves(self, own: Sequence[Value]) -> list[Value]:
        return [
            value.detach().requires_grad_() if wanted and isinstance(value, torch.Tensor) else value
            for value, wanted in zip(own, self._wanted, strict=True)
        ]

    def _sources(self, leaves: Sequence[Value], weights: Tensors) -> Tensors:
        own = zip(self._names, leaves, self._wanted, strict=True)
        inputs = {name: leaf for name, leaf, wanted in own if wanted and isinstance(leaf, torch.Tensor)}
        return inputs | {name: weight for name, weight in weights.items() if weight.requires_grad}


_WHOLE = ("max_pool2d_with_indices_backward", "nll_loss_backward", "nll_loss2d_backward", "embedding_dense_backward")
"""Backward operations whose parts would scatter, while a kernel can gather what each element gets."""


@cache
def backward_parts() -> dict[Any, Any]:
    """The operations of a backward pass that PyTorch can write as plainer ones."""
    named = ((op, parts, str(op)) for op, parts in decomposition_table.items())
    return {op: parts for op, parts, name in named if "backward" in name and name.split(".")[1] not in _WHOLE}
