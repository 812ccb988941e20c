"""What a square matrix promises by its values."""

import pytest
import torch

from harness.checks.structure import Structure


def keep(given: torch.Tensor) -> torch.Tensor:
    return Structure.of(given).keep(torch.randn(given.shape, generator=torch.Generator().manual_seed(5)))


def test_triangles_and_symmetry_are_the_tasks_promise():
    square = torch.rand(16, 16)
    for given, lost in ((square.triu(), lambda d: d.tril(-1)), (square.tril(), lambda d: d.triu(1))):
        drawn = keep(given)
        assert not lost(drawn).any()
        assert drawn.diagonal().all()
    assert not keep(torch.rand(3, 5, 5).tril()).triu(1).any()
    assert keep(torch.rand(3, 5, 4).tril()).triu(1).any()
    almost = square.triu()
    almost[1, 0] = 1
    assert keep(almost).tril(-1).any()
    symmetric = keep(square + square.mT)
    assert torch.equal(symmetric, symmetric.mT)
    assert not keep(torch.diag(torch.ones(5))).fill_diagonal_(0).any()


def test_numbers_and_zeros_promise_nothing():
    for given in (torch.rand(1, 1), torch.rand(4, 1, 1), torch.zeros(6, 6), torch.rand(6), torch.rand(16, 16)):
        assert Structure.of(given).empty
        assert keep(given).all()
    assert not Structure.of(torch.ones(6, 6).tril()).empty


def test_a_sparse_lower_half_is_no_triangle():
    given = torch.rand(300, 300).triu()
    given[200, 100] = 1
    assert Structure.of(given).empty
    almost = torch.rand(300, 300)
    almost = almost + almost.mT
    almost[200, 150] += 1
    assert Structure.of(almost).empty


def test_indices_stay_whole_and_within_what_the_file_shows():
    drawn = torch.cat(
        [torch.randn(1000) * 1000, torch.randn(1000) * 1e-2, torch.tensor([1e30, -1e30, torch.inf, torch.nan])]
    )
    for low, high in ((0.0, 63.0), (-3.0, 4.0), (5.0, 5.0)):
        kept = Structure(indices=(low, high)).keep(drawn)
        assert torch.equal(kept, kept.floor())
        assert (kept.min(), kept.max()) == (low, high)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
def test_a_product_with_its_own_transpose_is_symmetric_in_any_order_of_sums(dtype):
    a = torch.rand(48, 512, generator=torch.Generator().manual_seed(7)).to(dtype)
    upper = a.flip(1) @ a.flip(1).mT
    given = (a @ a.mT).triu() + upper.tril(-1)
    kept = keep(given)
    assert torch.equal(kept, kept.mT)
    given[0, 1] *= 1.25
    assert Structure.of(given).empty
