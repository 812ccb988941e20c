"""What a reference's tensors are to a task: their names, and specs of them."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from harness.nouns.form import Form, Path
from harness.nouns.frozen import plain_name
from harness.nouns.task import ScalarSpec, TensorSpec
from harness.trusted.reference import (
    DENSE,
    DTYPES,
    NEW,
    TORCH_DTYPES,
    Reference,
    Value,
    held_tensors,
    is_complex,
    other_than_dense,
    output_names,
)


def input_names(reference: Reference, paths: Sequence[Path]) -> list[str]:
    """The names of a reference's inputs, with those that a backward takes besides."""
    further = reference.gradients.further if reference.gradients is not None else []
    return [*reference.own_names(paths[: len(paths) - len(further)]), *further]


def labels(reference: Reference) -> list[str]:
    """A name for each output of the last `run`."""
    own = output_names(Form.model_validate(reference.returns).paths)
    return [*own, *(NEW + name for name in reference.state)]


def tensor_spec(reference: Reference, name: str, tensor: torch.Tensor) -> TensorSpec:
    """Spec of a dense tensor of a supported type."""
    if kind := other_than_dense(tensor):
        raise reference.error(f"{name} is a {kind} tensor", DENSE)
    if tensor.dtype not in DTYPES:
        raise reference.error(
            f"{name} has the unsupported type {tensor.dtype}", f"Supported are {', '.join(TORCH_DTYPES)}."
        )
    if tensor.numel() == 0:
        raise reference.error(f"{name} is empty, of shape {tuple(tensor.shape)}", "Give it at least one element.")
    try:
        plain_name(name)
    except ValueError as error:
        raise reference.error(f"the tensor {name[:40]!r} cannot be told to a kernel's author: {error}") from error
    return TensorSpec(name=name, shape=tuple(tensor.shape), strides=tuple(tensor.stride()), dtype=DTYPES[tensor.dtype])


def parameter_specs(reference: Reference) -> tuple[TensorSpec, ...]:
    """Specs of `parameters`, each with the further names of the same tensor."""
    names: dict[str, list[str]] = {}
    for tied, first in reference.ties.items():
        names.setdefault(first, []).append(tied)
    held = held_tensors(reference.model)
    specs = (tensor_spec(reference, name, tensor) for name, tensor in reference.parameters().items())
    return tuple(
        spec.model_copy(update={"also": tuple(names.get(spec.name, ())), "pairs": is_complex(held[spec.name])})
        for spec in specs
    )


def value_spec(
    reference: Reference,
    name: str,
    value: Value,
    others: Sequence[Value] = (),
    *,
    free: bool = False,
    pairs: bool = False,
) -> TensorSpec | ScalarSpec:
    """Spec of a tensor, or of a number with what the forward takes in its place (see `ScalarSpec`)."""
    if isinstance(value, torch.Tensor):
        return tensor_spec(reference, name, value).model_copy(update={"pairs": pairs})
    kind = "bool" if isinstance(value, bool) else "int" if isinstance(value, int) else "float"
    return ScalarSpec(name=name, type=kind, value=value, others=others, free=free)  # type: ignore[arg-type]
