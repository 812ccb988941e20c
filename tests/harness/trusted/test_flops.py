"""FLOPs that torch's own formulas miss, or fail on: attention with fewer heads of keys, causal, and shapes unknown."""

from __future__ import annotations

import pytest
import torch

from harness.trusted.facts.watching import flop_counter

ATEN = torch.ops.aten
BIASED = (None, False, 0.0, True)


@pytest.mark.parametrize(
    ("operation", "more"),
    [
        (ATEN._scaled_dot_product_flash_attention.default, (0.0, True)),
        (ATEN._scaled_dot_product_efficient_attention.default, BIASED),
        (ATEN._scaled_dot_product_cudnn_attention.default, BIASED),
    ],
    ids=["flash", "efficient", "cudnn"],
)
def test_causal_attention_with_grouped_heads_counts_the_pairs_that_are_needed(
    operation: torch._ops.OpOverload, more: tuple[object, ...]
) -> None:
    query = torch.empty(1, 8, 4, 16, device="meta", dtype=torch.float16)
    keys = torch.empty(1, 2, 4, 16, device="meta", dtype=torch.float16)
    with flop_counter() as counter:
        operation(query, keys, keys, *more)
    pairs = 1 + 2 + 3 + 4
    assert counter.get_total_flops() == 8 * pairs * 2 * (16 + 16)


def test_what_a_formula_cannot_follow_ends_nothing() -> None:
    one = torch.ones(2, 3)
    with flop_counter() as counter:
        counter.flop_registry[ATEN.mul] = counter.flop_registry[ATEN.mm]
        assert torch.equal(one * 2.0, torch.full((2, 3), 2.0))
        one @ one.T
    assert counter.get_total_flops() == 2 * 2 * 3 * 2
