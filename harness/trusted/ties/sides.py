"""Decisions with shares of several sides, and what single operations make of them."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch

Key = tuple[str, int]
Side = tuple[torch.Tensor, torch.Tensor]
Shares = Callable[..., torch.Tensor]

VIEWS = frozenset(("view", "_unsafe_view", "squeeze", "unsqueeze", "clone", "expand", "permute", "transpose", "t",
                   "slice", "select", "reshape", "alias", "flip"))  # fmt: skip
"""What moves a decision and its shares alike."""
INDEXED: Mapping[str, int] = {"gather": 2, "index": 1, "index_select": 2, "embedding": 1}
"""What takes an element, or a row, for each index: the argument that holds the indices."""
MAPPED = frozenset((*INDEXED, "where", "masked_fill", "add", "sub", "rsub", "mul", "div", "floor_divide", "remainder",
                    "fmod", "neg", "abs", "pow", "clamp", "clamp_min", "clamp_max", "minimum", "maximum", "_to_copy",
                    "eq", "ne", "lt", "le", "gt", "ge", "bitwise_and", "bitwise_or", "bitwise_xor", "bitwise_not",
                    "logical_and", "logical_or", "logical_xor", "logical_not"))  # fmt: skip
"""What makes each element of one element of a decision, or of several."""
ADDING = frozenset(("sum", "mean", "cumsum", "mm", "bmm", "addmm", "mv", "dot"))
"""What adds elements up: whole numbers and flags with a share count by it."""
SCATTERING = {"scatter": 3, "scatter_add": 3, "max_pool2d_with_indices_backward": 0,
              "max_pool3d_with_indices_backward": 0, "adaptive_max_pool2d_backward": 0,
              "adaptive_max_pool3d_backward": 0}  # fmt: skip
"""What sends elements to where indices say: the argument that holds them, in which the result is linear."""
LOGICAL: Mapping[str, Shares] = {
    "logical_and": lambda a, b: a * b, "bitwise_and": lambda a, b: a * b,
    "logical_or": lambda a, b: a + b - a * b, "bitwise_or": lambda a, b: a + b - a * b,
}  # fmt: skip
"""Flags of two decisions together."""


@dataclass(frozen=True)
class Open:
    """Flags or whole numbers as the oracle has them, and by each side of a decision others, with each one's share."""

    own: torch.Tensor
    others: Mapping[Key, Side]

    @property
    def number(self) -> torch.Tensor:
        """The mean by the shares: of a flag a number between 0 and 1."""
        own = self.own.double()
        return own + sum(share * (other.double() - own) for other, share in self.others.values())

    def off(self, wanted: torch.Tensor) -> torch.Tensor:
        """The share of what is not as wanted, by element."""
        right = (self.own == wanted).double()
        for other, share in self.others.values():
            right = right + share * ((other == wanted).double() - (self.own == wanted).double())
        return 1 - right


def opened(
    name: str, own: torch.Tensor, sides: Sequence[tuple[torch.Tensor, torch.Tensor, torch.Tensor]]
) -> Open | torch.Tensor:
    """A result some elements of which may be others: `sides` are places in it, values there, and their shares."""
    others = {}
    for number, (at, values, share) in enumerate(sides):
        whole = torch.zeros(own.numel(), dtype=torch.float64, device=own.device).index_put((at,), share)
        other = own.reshape(-1).clone().index_put_((at,), values)
        others[name, number] = other.reshape(own.shape), whole.reshape(own.shape)
    return _closed(own, others)


def followed(function: Any, name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """What an operation makes of its arguments, some of which may be open."""
    found = [*_opens(args)]
    if function is operator.getitem or not found:
        return function(*args, **kwargs)
    if name in VIEWS and isinstance(args[0], Open):
        return _viewed(lambda value: function(value, *args[1:], **kwargs), args[0])
    if name in ("cat", "stack"):
        return _joined(lambda parts: function(parts, *args[1:], **kwargs), args[0])
    if name in SCATTERING:
        return _scattered(function, name, args, kwargs)
    keys = dict.fromkeys(key for each in found for key in each.others)
    if name in LOGICAL and len(found) > 1 and keys.keys() != found[0].others.keys():
        return _logical(function, LOGICAL[name], found)
    if name in MAPPED:
        return _mapped(function, name, args, kwargs, keys)
    if name in ADDING or all(each.own.dtype == torch.bool for each in found):
        whole = "dtype" in kwargs and not kwargs["dtype"].is_floating_point
        return function(*map(_number, args), **(kwargs | {"dtype": torch.float64} if whole else kwargs))
    return function(*map(_own, args), **kwargs)


def _viewed(apart: Callable[[Any], Any], decision: Open) -> Open:
    others = {key: (apart(other), apart(share)) for key, (other, share) in decision.others.items()}
    return Open(apart(decision.own), others)


def _joined(apart: Callable[[list[Any]], Any], parts: Sequence[Any]) -> Any:
    keys = dict.fromkeys(key for each in _opens(parts) for key in each.others)

    def share(part: Any, key: Key) -> torch.Tensor:
        known = part.others.get(key) if isinstance(part, Open) else None
        return known[1] if known else torch.zeros(_own(part).shape, dtype=torch.float64, device=_own(part).device)

    others = {
        key: (apart([_by(part, key) for part in parts]), apart([share(part, key) for part in parts])) for key in keys
    }
    return _closed(apart([*map(_own, parts)]), others)


def _mapped(function: Any, name: str, args: Sequence[Any], kwargs: dict[str, Any], keys: Iterable[Key]) -> Any:
    own = function(*map(_own, args), **kwargs)
    others = {}
    for key in keys:
        other = function(*(_by(each, key) for each in args), **kwargs)
        place = max(place for place, each in enumerate(args) if any(key in held.others for held in _opens([each])))
        share = next(held.others[key][1] for held in _opens([args[place]]) if key in held.others)
        if name in INDEXED and place == 0:  # it is looked up in, by indices that are not its
            others[key] = other, function(share, *map(_own, args[1:]))
        else:
            others[key] = other, _spread(share, name, args, own)
    return _closed(own, others)


def _spread(share: torch.Tensor, name: str, args: Sequence[Any], result: torch.Tensor) -> torch.Tensor:
    """An element's share for all that is made of it."""
    place = INDEXED.get(name)
    if place is None or name == "gather" or not isinstance(args[place], Open | list | tuple):
        return share.broadcast_to(result.shape)
    if name == "index_select":
        shape = [1] * result.ndim
        shape[args[1]] = share.numel()
        return share.reshape(shape).broadcast_to(result.shape)
    if name == "index" and args[1][0] is None:
        raise NotImplementedError("indices behind an axis that is taken as a whole")
    behind = result.ndim - (share.ndim if name == "embedding" else max(_own(each).ndim for each in args[1]))
    return share.reshape(*share.shape, *[1] * behind).broadcast_to(result.shape)


def _scattered(function: Any, name: str, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
    place = SCATTERING[name]
    sent = args[place]
    index = next((each for at, each in enumerate(args) if isinstance(each, Open) and at != place), None)
    given = [*map(_own, args)]
    if isinstance(sent, Open):
        given[place] = sent = sent.number
        given[0] = given[0].double()
    result = function(*given, **kwargs)
    if index is None:
        return result
    for other, share in index.others.values():
        part = sent * share
        if name.startswith("scatter"):  # two may be sent to one place, of which one has a share
            zeros = torch.zeros_like(result, dtype=torch.float64)
            change = zeros.scatter_add(args[1], other, part) - zeros.scatter_add(args[1], index.own, part)
        else:
            at = args.index(index)
            change = function(part, *given[1:at], other, *given[at + 1 :], **kwargs)
            change = change - function(part, *given[1:], **kwargs)
        result = result + change
    return result


def _logical(function: Any, shares: Shares, flags: Sequence[Open]) -> Open:
    own = function(*(each.own for each in flags))
    number = shares(*(each.number for each in flags))
    return Open(own, {(f"of {id(number)}", 0): (~own, (number - own.double()).abs())})


def _closed(own: torch.Tensor, others: Mapping[Key, Side]) -> Open | torch.Tensor:
    """Numbers with a fraction have no sides: they are what the shares make of them."""
    if not own.is_floating_point():
        return Open(own, others)
    for other, share in others.values():
        own = own + share * torch.where(other != own.detach(), (other - own).nan_to_num(0.0, 0.0, 0.0), 0.0)
    return own


def _opens(values: Sequence[Any]) -> Iterator[Open]:
    for each in values:
        if isinstance(each, Open):
            yield each
        elif isinstance(each, list | tuple):
            yield from _opens(each)


def _by(value: Any, key: Key) -> Any:
    """What is there by one side of a decision."""
    if isinstance(value, list | tuple):
        return [_by(each, key) for each in value]
    return value.others[key][0] if isinstance(value, Open) and key in value.others else _own(value)


def _own(value: Any) -> Any:
    if isinstance(value, list | tuple):
        return [*map(_own, value)]
    return value.own if isinstance(value, Open) else value


def _number(value: Any) -> Any:
    return value.number if isinstance(value, Open) else value
