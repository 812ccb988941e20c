"""Decisions with shares of both sides, and what single operations make of them."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch

Shares = Callable[..., torch.Tensor]

VIEWS = frozenset(("view", "_unsafe_view", "squeeze", "unsqueeze", "clone", "expand", "permute", "transpose", "t",
                   "slice", "select", "reshape"))  # fmt: skip
"""What moves a decision and its shares alike."""
SELECTING = frozenset(("where", "masked_fill", "gather"))
"""What takes a decision for each of its result's elements."""
SCATTERING = {"scatter": 3, "scatter_add": 3, "max_pool2d_with_indices_backward": 0,
              "max_pool3d_with_indices_backward": 0, "adaptive_max_pool2d_backward": 0,
              "adaptive_max_pool3d_backward": 0}  # fmt: skip
"""What sends elements to where indices say: the argument that holds them, in which the result is linear."""
LOGICAL: Mapping[str, Shares] = {
    "logical_and": lambda a, b: a * b, "bitwise_and": lambda a, b: a * b,
    "logical_or": lambda a, b: a + b - a * b, "bitwise_or": lambda a, b: a + b - a * b,
    "logical_not": lambda a: 1 - a, "bitwise_not": lambda a: 1 - a,
}  # fmt: skip


@dataclass(frozen=True)
class Open:
    """Flags or indices as the oracle has them, and others, each with the share that it has of each element."""

    own: torch.Tensor
    others: tuple[tuple[torch.Tensor, torch.Tensor], ...]

    @property
    def number(self) -> torch.Tensor:
        """A flag as a number between 0 and 1."""
        own = self.own.double()
        return own + sum(share * (other.double() - own) for other, share in self.others)


def opened(own: torch.Tensor, sides: Sequence[tuple[torch.Tensor, torch.Tensor, torch.Tensor]]) -> Open | torch.Tensor:
    """A result some elements of which may be others: `sides` are places in it, values there, and their shares."""
    others = []
    for at, values, share in sides:
        whole = torch.zeros(own.numel(), dtype=torch.float64, device=own.device).index_put((at,), share)
        other = own.reshape(-1).clone().index_put_((at,), values)
        others.append((other.reshape(own.shape), whole.reshape(own.shape)))
    if own.is_floating_point():
        return own + sum(share * (other - own) for other, share in others)
    return Open(own, tuple(others))


def followed(function: Any, name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """What an operation makes of its arguments, some of which may be open."""
    places = [place for place, each in enumerate(args) if isinstance(each, Open)]
    if function is operator.getitem:
        return function(*args)
    if not places:
        return function(*map(_own, args), **kwargs)
    if name in LOGICAL:
        return _logical(function, LOGICAL[name], args)
    if len(places) > 1 or name not in _FOLLOWED:
        return _as_number(function, name, args, kwargs)
    (place,) = places

    def apart(value: torch.Tensor, given: Sequence[Any] = args) -> Any:
        return function(*given[:place], value, *given[place + 1 :], **kwargs)

    return _FOLLOWED[name](name, apart, args[place], args)


def _viewed(_name: str, apart: Callable[..., Any], decision: Open, _args: Sequence[Any]) -> Open:
    return Open(apart(decision.own), tuple((apart(other), apart(share)) for other, share in decision.others))


def _selected(_name: str, apart: Callable[..., Any], decision: Open, _args: Sequence[Any]) -> Any:
    result = own = apart(decision.own)
    for other, share in decision.others:
        result = result + share * torch.where(other != decision.own, apart(other) - own, 0.0)
    return result


def _scattered(name: str, apart: Callable[..., Any], decision: Open, args: Sequence[Any]) -> Any:
    result = apart(decision.own)
    for other, share in decision.others:
        sent = args[SCATTERING[name]] * share
        if name.startswith("scatter"):  # two may be sent to one place, of which one has a share
            zeros = torch.zeros_like(result)
            change = zeros.scatter_add(args[1], other, sent) - zeros.scatter_add(args[1], decision.own, sent)
        else:
            change = apart(other, (sent, *args[1:])) - apart(decision.own, (sent, *args[1:]))
        result = result + change
    return result


_FOLLOWED: dict[str, Callable[..., Any]] = {
    **dict.fromkeys(VIEWS, _viewed), **dict.fromkeys(SELECTING, _selected), **dict.fromkeys(SCATTERING, _scattered)
}  # fmt: skip


def _as_number(function: Any, name: str, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
    """Flags are multiplied, added up and divided by; what goes on in whole numbers stays as the oracle has it."""
    whole = name == "_to_copy" and not (kwargs.get("dtype") or torch.bool).is_floating_point
    flags = all(each.own.dtype == torch.bool for each in args if isinstance(each, Open))
    if whole or not flags:
        return function(*map(_own, args), **kwargs)
    return function(*(each.number if isinstance(each, Open) else each for each in args), **kwargs)


def _logical(function: Any, shares: Shares, args: Sequence[Any]) -> Open:
    own = function(*map(_own, args))
    number = shares(*(each.number if isinstance(each, Open) else each.double() for each in args))
    return Open(own, ((~own, (number - own.double()).abs()),))


def _own(value: Any) -> Any:
    if isinstance(value, list | tuple):
        return [*map(_own, value)]
    return value.own if isinstance(value, Open) else value
