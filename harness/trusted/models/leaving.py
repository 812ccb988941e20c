"""Calls of a model that may write to its inputs and buffers: each begins alike, and what it leaves is a result, too."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from harness.trusted.reference import Reference, Value


@dataclass(frozen=True)
class Run:
    """A call's outputs, and its inputs and the model's buffers after it; all of them copies."""

    outputs: list[torch.Tensor]
    left: list[torch.Tensor]

    def results(self, changed: list[int]) -> list[torch.Tensor]:
        """The outputs, and of what is left that which a call of the model changes."""
        return [*self.outputs, *(self.left[k] for k in changed)]


class Leaving:
    """A model's buffers as they are now, before any call that counts."""

    def __init__(self, reference: Reference) -> None:
        self._reference = reference
        self._buffers = [(name, each, each.clone()) for name, each in reference.model.named_buffers()]

    def restore(self, model: torch.nn.Module) -> None:
        """The same tensors in the model's buffers, with what they held."""
        for name, tensor, held in self._buffers:
            owner, _, leaf = name.rpartition(".")
            model.get_submodule(owner)._buffers[leaf] = tensor
            tensor.copy_(held)

    def run(self, inputs: list[Value], model: torch.nn.Module | None = None) -> Run:
        """Call the model, or one that is made of it, on copies of these inputs."""
        chosen = model if model is not None else self._reference.model
        self.restore(chosen)
        mine = copied(inputs)
        outputs = [each.clone() for each in self._reference.run(mine, model)]
        buffers = dict(chosen.named_buffers())
        after = [*_tensors(mine), *(buffers[name] for name, _, _ in self._buffers)]
        self.restore(chosen)
        return Run(outputs, [each.clone() for each in after])

    def changed(self, inputs: list[Value], run: Run) -> list[int]:
        """Which of what a call leaves it has changed."""
        before = [*_tensors(inputs), *(held for _, _, held in self._buffers)]
        return [k for k, (old, new) in enumerate(zip(before, run.left, strict=True)) if not torch.equal(old, new)]


def copied(inputs: list[Value]) -> list[Value]:
    """The same values in tensors of their own."""
    return [each.clone() if isinstance(each, torch.Tensor) else each for each in inputs]


def _tensors(values: list[Value]) -> list[torch.Tensor]:
    return [each for each in values if isinstance(each, torch.Tensor)]
