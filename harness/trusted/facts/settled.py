"""Does a forward say the same twice? One that draws at random does not, and shapes may follow from values."""

from __future__ import annotations

import torch

from harness.nouns.errors import UserError
from harness.trusted.reference import Reference, Value

APART_EPS = 64.0
"""Two runs of one forward on a processor agree to the bit; so many units of the type's last place are forgiven."""


def require_one_shape(reference: Reference, inputs: list[Value], outputs: list[torch.Tensor]) -> None:
    """Raise `UserError` where other inputs of the file's have other shapes, or lead to outputs that have."""
    takes, returns = reference.takes, reference.returns
    others = reference.inputs(seed=1)
    if reference.takes != takes or _shapes(others) != _shapes(inputs):
        raise reference.error(
            f"get_inputs gives other shapes each time, {_shapes(inputs)} and {_shapes(others)}",
            "A task has one set of shapes; further ones are WORKLOADS.",
        )
    try:
        later = reference.run(others)
    except UserError:
        return  # the trials skip inputs that the forward refuses
    if _shapes(later) != _shapes(outputs):
        raise reference.error(
            f"the shape of its output follows from the values of its inputs, {_shapes(outputs)} and {_shapes(later)}",
            "A kernel's outputs are allocated before it runs: return a mask, or a size that is always the same.",
        )
    if reference.returns != returns:
        raise reference.error(
            "what forward returns beside tensors follows from the values of its inputs", "Return it as a tensor."
        )


def defect_of_runs(reference: Reference, inputs: list[Value], outputs: list[torch.Tensor], drawn: str) -> str:
    """Why no kernel can be right: two runs on the same inputs differ; empty where they agree.

    `drawn` names an operation that drew at random, where one was seen.
    """
    again = reference.run(inputs)
    apart = max(_apart(one, other) for one, other in zip(outputs, again, strict=True))
    if apart <= 1.0:
        return ""
    cause = f"it draws numbers ({drawn})" if drawn else "it draws numbers, or keeps something from call to call"
    return f"its forward is random: two runs on the same inputs differ; {cause}"


def _apart(one: torch.Tensor, other: torch.Tensor) -> float:
    """How far two results are from each other, in what is forgiven. Infinity where their shapes differ."""
    if one.shape != other.shape:
        return float("inf")
    if not one.is_floating_point():
        return 0.0 if torch.equal(one, other) else float("inf")
    first, second = (each.double().nan_to_num(nan=0.0, posinf=1e300, neginf=-1e300) for each in (one, other))
    scale = float(first.square().mean().sqrt()) or 1.0
    return float((first - second).abs().max()) / (scale * APART_EPS * torch.finfo(one.dtype).eps)


def _shapes(values: list[Value] | list[torch.Tensor]) -> list[tuple[int, ...]]:
    return [tuple(value.shape) for value in values if isinstance(value, torch.Tensor)]
