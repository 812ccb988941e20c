"""A kernel as an operator of PyTorch's, which torch.compile and torch.export keep whole.

Registered without torch.library.custom_op, whose wrappers cost a call four times as much.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any, NamedTuple

import torch

from .gradients import Gradients

_operators: Any = torch.library.Library("cutegen", "FRAGMENT")  # type: ignore[no-untyped-call]
_TAGS = (torch.Tag.pt2_compliant_tag, torch.Tag.needs_exact_strides)
_OUT = getattr(torch.Tag, "out", None)
"""Of an overload that writes where it is asked to: torch.compile then plans that memory (torch 2.13)."""


class _Tags(list[Any]):
    """Of an overload that writes to `out`: Inductor declares no function for one where it writes C++ (`cpp_wrapper`,
    ahead of time), and shall take the operator that returns its results.
    """

    def __contains__(self, tag: object) -> bool:
        return super().__contains__(tag) and not (tag == _OUT and _in_cpp())


def _in_cpp() -> bool:
    virtualized = sys.modules.get("torch._inductor.virtualized")
    return virtualized is not None and bool(getattr(virtualized.V.graph, "cpp_wrapper", False))


class Work(NamedTuple):
    """`compute` takes the arguments, `write` those and the results to write to; `pretend` gives shapes and types."""

    compute: Callable[..., Any]
    write: Callable[..., Any]
    pretend: Callable[..., Any]


def operator(name: str, schema: tuple[str, str], key: str, work: Work, gradients: Gradients | None) -> Any:
    """The operator of this name, which is a digest of all that it computes: copies of a drop-in share one.

    The newest copy does its work, for the folders of others may be gone. `schema` is its own, and that of the overload
    that writes its results to `out`, or to `out0`, `out1` and so on.
    """
    if not hasattr(torch.ops.cutegen, name):
        held = [work]
        _define(name, schema[0], _TAGS, key, lambda *values: held[0].compute(*values), work.pretend)
        if _OUT is not None:
            tags = (*_TAGS, _OUT)
            _define(
                f"{name}.out", schema[1], tags, key, lambda *values, **outs: held[0].write(*values, **outs), _written
            )
            out = getattr(torch.ops.cutegen, name).out
            out._tags = _Tags(out.tags)
        backward, keep = _formula(gradients)
        torch.library.register_autograd(f"cutegen::{name}", backward, setup_context=keep, lib=_operators)
        getattr(torch.ops.cutegen, name).held_work = held
    packet = getattr(torch.ops.cutegen, name)
    packet.held_work[0] = work
    return packet.default


def _define(
    name: str, schema: str, tags: tuple[Any, ...], key: str, compute: Callable[..., Any], pretend: Callable[..., Any]
) -> None:
    _operators.define(name + schema, tags=tags)
    _operators.impl(name, compute, key)
    torch.library.register_fake(f"cutegen::{name}", pretend, lib=_operators)


def _written(*_values: Any, **outs: Any) -> Any:
    results = tuple(outs.values())
    return results[0] if len(results) == 1 else results


def _formula(gradients: Gradients | None) -> tuple[Callable[..., Any], Callable[..., None] | None]:
    if gradients is None:
        return _without, None

    def backward(ctx: Any, *given: Any) -> Any:
        return gradients.backward(ctx, ctx.needs_input_grad, given)

    def keep(ctx: Any, inputs: Any, output: Any) -> None:
        gradients.keep(ctx, inputs)

    return backward, keep


def _without(_ctx: Any, *_given: Any) -> Any:
    raise RuntimeError("the kernel has no gradient: call it under torch.no_grad() or torch.inference_mode()")
