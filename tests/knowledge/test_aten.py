"""The table of ATen operations: complete for what is lowered, and in agreement with PyTorch's schemas and tags."""

from __future__ import annotations

from collections import Counter

import torch

from harness.nouns.aten import LOWERED
from knowledge.compiler.lower.aten import ALIASING, CLASSES
from knowledge.compiler.lower.front import OPERATIONS

KNOWN = frozenset().union(*CLASSES.values())
# What PyTorch tags as pointwise although one form of it reduces or copies.
OTHERWISE = {"max": "reduction", "min": "reduction", "positive": "aliasing"}


def overloads(name: str) -> list[torch._ops.OpOverload]:
    packet = getattr(torch.ops.aten, name)
    return [getattr(packet, each) for each in packet.overloads()]


def test_every_operation_that_is_lowered_has_a_class() -> None:
    assert OPERATIONS.keys() - KNOWN == set()


def test_no_operation_has_two_classes() -> None:
    assert [
        name for name, times in Counter(name for each in CLASSES.values() for name in each).items() if times > 1
    ] == []


def test_every_entry_is_an_operation_of_pytorch() -> None:
    assert {name for name in KNOWN if not hasattr(torch.ops.aten, name)} == set()


def test_what_pytorch_tags_as_pointwise_is_pointwise() -> None:
    pointwise = torch.Tag.pointwise
    tagged = {name for name in KNOWN if any(pointwise in each.tags for each in overloads(name))}
    assert {
        name: kind for kind, names in CLASSES.items() for name in tagged & names if kind != "pointwise"
    } == OTHERWISE


def test_what_pytorch_says_is_a_view_may_share_memory() -> None:
    views = {name for name in KNOWN if any(each.is_view for each in overloads(name))}
    assert views - ALIASING - {"copy"} == set()


def test_the_tracer_keeps_every_operation_that_is_lowered_and_no_other() -> None:
    assert sorted(LOWERED) == sorted(OPERATIONS)
