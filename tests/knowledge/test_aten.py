"""The table of operations: complete, and true of PyTorch."""

import torch

from harness.nouns.aten import LOWERED
from knowledge.compiler.front import OPERATIONS


def overloads(name: str) -> list[torch._ops.OpOverload]:
    packet = getattr(torch.ops.aten, name)
    return [getattr(packet, each) for each in packet.overloads()]


def test_the_table_has_every_operation_with_a_lowering_and_no_other() -> None:
    assert sorted(LOWERED) == sorted(OPERATIONS)


def test_every_operation_is_one_of_pytorch() -> None:
    assert [name for name in LOWERED if not hasattr(torch.ops.aten, name)] == []


def test_no_operation_stands_under_two_kinds() -> None:
    from harness.nouns import aten

    names = " ".join(aten._LOWERED.values()).split()
    assert len(names) == len(set(names))
