"""Does a forward say the same twice? One that draws at random does not, and shapes may follow from values.

And what does it leave for the next call? Parameters and buffers that it writes each time are the state of a module.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress

import torch
from torch._subclasses.fake_tensor import FakeTensor

from harness.checks.discrete import MANY
from harness.nouns.errors import UserError
from harness.trusted.integer_uses import due, watch
from harness.trusted.keeping import over_copies
from harness.trusted.reference import Reference, Value, held_tensors

APART_EPS = 64.0
"""Two runs of one forward on a processor agree to the bit; so many units of the type's last place are forgiven."""

ALIKE = 0.01
"""With and without gradients PyTorch may choose different algorithms: so much of a result's size is forgiven, or of a
result of integers so many elements."""


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


Versions = dict[str, tuple[torch.Tensor, int]]


def versions(reference: Reference) -> Versions:
    """The parameters and buffers as they are now, with the count of the writes to each."""
    held = held_tensors(reference.model)
    return {name: (tensor, tensor._version) for name, tensor in held.items() if name not in reference.ties}


def settle_state(reference: Reference, before: Versions) -> bool:
    """Find out which of them each call leaves with other values, where the call since `before` wrote some.

    What the first call alone makes is no state, and neither is what comes out the same on other inputs. True where
    there is some. Raises `UserError`.
    """
    odd = _left_beside_nan(reference)
    names = [
        name
        for name, was in versions(reference).items()
        if name in odd or (name in before and _written(before[name], was))
    ]
    if not names:
        return False
    held = held_tensors(reference.model)
    kept = {name: held[name].detach().clone() for name in names}
    started, now = _called_on(reference, kept)
    written = [name for name in names if _written(started[name], now[name]) and _differs(kept[name], now[name][0])]
    written = [name for name in names if name in {*written, *odd, *_written_later(reference, kept)}]
    for name in written:
        new, old = now[name][0], kept[name]
        if (new.shape, new.dtype) != (old.shape, old.dtype):
            raise reference.error(
                f"forward leaves {name} in another shape or type, {tuple(old.shape)} {old.dtype} before and "
                f"{tuple(new.shape)} {new.dtype} after a call",
                "Give it its largest size from the start, and write the part that is new.",
            )
    if not written or reference.direction == "backward":  # what a backward is called with has been written before
        return False
    if reference.direction == "both":
        raise reference.error(
            f"forward writes {written[0]}, whose new values a kernel of both directions does not return",
            "Run the forward and the backward each by itself.",
        )
    reference.state = tuple(written)
    reference.renewed = tuple(name for name in written if odd.get(name) or now[name][0] is not started[name][0])
    return True


def _left_beside_nan(reference: Reference) -> dict[str, bool]:
    """Buffers that a call leaves with other values where inputs hold a NaN and an infinity, and which it puts anew.

    A module may count such calls, or forget what it kept. Empty where there are only shapes to look at.
    """
    held = {name: tensor for name, tensor in reference.model.named_buffers() if name not in reference.ties}
    if not held or reference.direction != "forward" or any(isinstance(each, FakeTensor) for each in held.values()):
        return {}
    copies = {name: tensor.detach().clone() for name, tensor in held.items()}
    inputs = [each.clone() if isinstance(each, torch.Tensor) else each for each in reference.inputs(seed=0)]
    for value in inputs:
        if isinstance(value, torch.Tensor) and value.is_floating_point():
            for place, odd in ((-1, float("inf")), (0, float("nan"))):
                value[(place,) * value.dim()] = odd
    with over_copies(reference.model, copies, reference.ties):
        started = versions(reference)
        with suppress(UserError):
            reference.run(inputs)
        now = versions(reference)
    return {
        name: now[name][0] is not started[name][0]
        for name in held
        if _written(started[name], now[name]) and _differs(held[name], now[name][0])
    }


def _called_on(reference: Reference, kept: Mapping[str, torch.Tensor]) -> tuple[Versions, Versions]:
    """One call on a state, which stays as it is: what the call finds, and what it leaves. Raises `UserError`."""
    with over_copies(reference.model, {name: value.clone() for name, value in kept.items()}, reference.ties):
        started = versions(reference)
        try:
            reference.run(reference.inputs(seed=1))
        except UserError:
            reference.run(reference.inputs(seed=0))
        return started, versions(reference)


def _written_later(reference: Reference, kept: Mapping[str, torch.Tensor]) -> set[str]:
    """What a call leaves with other values once the counters and flags among the state stand elsewhere.

    An update may come with every tenth step, or with the first one alone, which a flag remembers.
    """
    found = set[str]()
    if any(isinstance(value, FakeTensor) for value in kept.values()):
        turn = MANY
    else:
        uses = watch(lambda: _called_on(reference, kept))
        turn = due(each for turns in uses.turns.values() for each in turns)
    for steps in dict.fromkeys((MANY - 1, MANY, turn - 1, turn)):
        later = {name: _later(value, steps) for name, value in kept.items()}
        if all(later[name] is kept[name] for name in kept):
            break
        with suppress(UserError):
            started, now = _called_on(reference, later)
            found |= {
                name for name in kept if _written(started[name], now[name]) and _differs(later[name], now[name][0])
            }
    return found


def _later(value: torch.Tensor, steps: int) -> torch.Tensor:
    if isinstance(value, FakeTensor) or value.numel() != 1 or value.is_floating_point() or value.is_complex():
        return value
    return ~value if value.dtype == torch.bool else torch.full_like(value, min(steps, torch.iinfo(value.dtype).max))


def _written(before: tuple[torch.Tensor, int], after: tuple[torch.Tensor, int]) -> bool:
    return before[0] is not after[0] or before[1] != after[1]


def _differs(one: torch.Tensor, other: torch.Tensor) -> bool:
    """Whether values differ, as far as there are any."""
    if isinstance(one, FakeTensor) or one.shape != other.shape or one.dtype != other.dtype:
        return True
    return not torch.equal(one, other)


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


def defect_of_gradients(reference: Reference, inputs: list[Value], outputs: list[torch.Tensor]) -> str:
    """Why no kernel can be right: the results differ where gradients are recorded; empty where they do not.

    A forward that fails there makes no claim.
    """
    if reference.direction != "forward":
        return ""
    model, returns = reference.model, reference.returns
    given, named = reference.arranged(inputs)
    try:
        with torch.enable_grad(), over_copies(model, reference.copies_of_state(model), reference.ties):
            found = reference.opened(reference.guarded("forward", lambda: model(*given, **named)))
    except UserError:
        return ""
    finally:
        reference.returns = returns
    alike = len(found) == len(outputs) - len(reference.state) and all(map(_alike, found, outputs))
    return "" if alike else "its forward asks whether gradients are recorded: it returns something else where they are"


def _alike(one: torch.Tensor, other: torch.Tensor) -> bool:
    """Whether two results are the same but for the rounding of another algorithm, and for what that decides."""
    if one.shape != other.shape or one.dtype != other.dtype:
        return False
    if not one.is_floating_point():
        return float((one != other).double().mean()) <= ALIKE
    return _apart(one.detach(), other) * APART_EPS * torch.finfo(one.dtype).eps <= ALIKE


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
