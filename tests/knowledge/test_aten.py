"""The table of ATen operations: complete for what is lowered, and in agreement with PyTorch's schemas and tags."""

from __future__ import annotations

from collections import Counter

import torch

from harness.nouns.aten import _LOWERED, _NOT_LOWERED, ALIASING, FREE, KINDS, LOWERED, of_kinds
from knowledge.compiler.lower.front import OPERATIONS

# What PyTorch tags as pointwise although one form of it reduces or copies.
OTHERWISE = {"max": "reduction", "min": "reduction", "positive": "alias", "clone": "copy"}


def overloads(name: str) -> list[torch._ops.OpOverload]:
    packet = getattr(torch.ops.aten, name)
    return [getattr(packet, each) for each in packet.overloads()]


def test_no_operation_has_two_kinds() -> None:
    names = [name for table in (_LOWERED, _NOT_LOWERED) for each in table.values() for name in each.split()]
    assert [name for name, times in Counter(names).items() if times > 1] == []


def test_every_entry_is_an_operation_of_pytorch() -> None:
    assert {name for name in KINDS if not hasattr(torch.ops.aten, name)} == set()


def test_what_pytorch_tags_as_pointwise_is_pointwise() -> None:
    pointwise = torch.Tag.pointwise
    tagged = {name for name in KINDS if any(pointwise in each.tags for each in overloads(name))}
    assert {name: KINDS[name] for name in tagged - of_kinds("pointwise")} == OTHERWISE


def test_what_pytorch_says_is_a_view_may_share_memory() -> None:
    views = {name for name in KINDS if any(each.is_view for each in overloads(name))}
    assert views - ALIASING - {"copy"} == set()
    assert views - FREE - {"copy", "contiguous", "to", "type_as"} == set()


def test_the_tracer_keeps_every_operation_that_is_lowered_and_no_other() -> None:
    assert sorted(LOWERED) == sorted(OPERATIONS)
