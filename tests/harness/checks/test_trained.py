"""Weights as training could have left them: what moves, and what a file promises."""

import math

import pytest
import torch

from harness.checks.trained import Trained

WEIGHTS = {
    "bias": torch.zeros(40),
    "alpha": torch.tensor(0.0),
    "second": torch.zeros(30, 4),
    "identity": torch.eye(6),
    "norm": torch.ones(40),
    "variance": torch.ones(40),
    "branch": torch.full((40,), 1e-6),
    "gate": torch.tensor(-1e-4),
    "thin": torch.linspace(-2e-5, 1e-5, 120).view(10, 12),
    "matrix": torch.linspace(-1, 1, 120).view(10, 12),
    "pruned": torch.tensor([[0.0, 0.0, 1.0, 2.0, -1.0, 3.0, 0.0, 1.0]] * 4),
    "lower": torch.rand(7, 7).add_(0.1).tril(),
    "both": torch.ones(5, 5) + torch.arange(5) + torch.arange(5).unsqueeze(1),
    "causal": torch.full((6, 6), -math.inf).triu(1),
    "ones_below": torch.ones(6, 6).tril(),
    "whitening": torch.eye(5),
    "kept": torch.tensor([[0.0, 1.0, 1.0, 0.0, 1.0, 0.0, 0.0, 0.0]] * 3),
    "steps": torch.tensor(7),
}
BUFFERS = ("variance", "whitening", "causal", "ones_below", "kept", "steps")


def generator(seed: int = 5) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def drawn(name: str, seed: int = 5, *, keeps=(), tame=False) -> torch.Tensor:
    trained = Trained(WEIGHTS, BUFFERS)
    trained.keeps_sign, trained.tame = {*keeps}, tame
    values = trained.draw(name, generator(seed))
    assert (values.shape, values.dtype) == (WEIGHTS[name].shape, WEIGHTS[name].dtype)
    assert torch.equal(values, trained.draw(name, generator(seed))), "a verdict is replayed by its seed"
    return values


@pytest.mark.parametrize("name", ["bias", "alpha", "second", "identity"])
def test_what_begins_at_nothing_is_nothing_nowhere(name):
    values = [drawn(name, seed) for seed in range(30)]
    assert all(bool(value.all()) for value in values)
    assert any(bool((value > 0).any()) for value in values) and any(bool((value < 0).any()) for value in values)
    assert all(bool((drawn(name, seed, keeps=[name]) > 0).all()) for seed in range(5))
    assert not torch.equal(values[0], values[1])


@pytest.mark.parametrize(("name", "size"), [("branch", 1.0), ("gate", 1.0), ("thin", 12**-0.5)])
def test_what_begins_tiny_grows_to_any_size_up_to_that_of_trained_weights(name, size):
    trained, peak = Trained(WEIGHTS, BUFFERS), float(WEIGHTS[name].abs().max())
    timed = [trained.draw(name, generator(seed), timed=True) for seed in range(30)]
    assert all(0.4 * size < float(value.abs().max()) < 1.6 * size for value in timed)
    drawn_sizes = [float(trained.draw(name, generator(seed)).abs().max()) / peak for seed in range(60)]
    octaves = [math.log(each) / math.log(size / peak) for each in drawn_sizes]
    assert min(octaves) < 0.15 and sum(octave > 0.85 for octave in octaves) in range(20, 55)
    assert any(0.4 < octave < 0.6 for octave in octaves)
    trained.keeps_size = {name}
    assert float(trained.draw(name, generator(), timed=True).abs().max()) < 1.6 * peak
    assert trained.tiny == ("branch", "gate", "thin")


@pytest.mark.parametrize("name", ["norm", "variance"])
def test_ones_lie_on_either_side_of_one_and_of_zero(name):
    values = drawn(name)
    assert ((values.abs() > 1).any() and (values.abs() < 1).any()) and (values < 0).any() and (values > 0).any()
    kept = drawn(name, keeps=[name])
    assert ((kept >= 0.5) & (kept < 1.5)).all()


def test_weights_of_both_signs_have_others_and_move_across_one():
    ratio = drawn("matrix") / WEIGHTS["matrix"]
    sizes = ratio.abs()
    assert ((sizes >= 0.5) & (sizes < 1.5)).all() and (sizes < 1).any() and (sizes > 1).any()
    assert 0.2 < float((ratio < 0).double().mean()) < 0.6
    assert not (drawn("matrix", keeps=["matrix"]) / WEIGHTS["matrix"] < 0).any()


@pytest.mark.parametrize("name", ["norm", "bias", "identity"])
def test_training_may_not_have_reached_the_first_or_the_last(name):
    trained, held = Trained(WEIGHTS, BUFFERS), []
    for seed in range(40):
        same = (trained.draw(name, generator(seed), partly=True) == WEIGHTS[name]).flatten()
        assert int(same.sum()) <= same.numel() // 2
        held.append((bool(same[0]), bool(same[-1])))
    assert {(True, False), (False, True), (False, False)} == {*held}
    assert not any(
        (trained.draw("matrix", generator(seed), partly=True) == WEIGHTS["matrix"]).any() for seed in range(9)
    )


def test_sparse_weights_have_their_zeros_elsewhere_or_none():
    patterns = {tuple((drawn("pruned", seed) == 0).flatten().tolist()) for seed in range(8)}
    assert len(patterns) > 3
    assert {sum(pattern) for pattern in patterns} == {0, 12}
    trained = Trained(WEIGHTS, BUFFERS)
    timed = [trained.draw("pruned", generator(seed), timed=True) for seed in range(8)]
    assert {int((values == 0).sum()) for values in timed} == {12}


def test_masks_have_as_many_in_each_row_elsewhere():
    for name, shown in (("kept", {0.0, 1.0}), ("causal", {0.0, -math.inf}), ("ones_below", {0.0, 1.0})):
        masks = [drawn(name, seed) for seed in range(3)]
        assert all(set(mask.unique().tolist()) == shown for mask in masks)
        assert all(torch.equal(mask.isinf().sum(1), WEIGHTS[name].isinf().sum(1)) for mask in masks)
        assert all(torch.equal(mask.nan_to_num().sum(1), WEIGHTS[name].nan_to_num().sum(1)) for mask in masks)
        assert any(not torch.equal(mask, WEIGHTS[name]) for mask in masks)


def test_what_a_weight_shows_is_no_promise_but_where_the_reference_takes_nothing_else():
    trained = Trained(WEIGHTS, BUFFERS)
    assert trained.structured == ("identity", "lower", "both", "causal", "ones_below", "whitening")
    assert drawn("whitening").all()
    assert any(drawn("lower", seed).triu(1).any() for seed in range(5))
    symmetric = drawn("both")
    assert not torch.equal(symmetric, symmetric.mT)
    for timed in (False, True):
        trained.keeps_structure = set() if timed else {*trained.structured}
        lower = trained.draw("lower", generator(), timed=timed)
        assert not lower.triu(1).any() and (lower.tril() != 0).sum() == 28
        both = trained.draw("both", generator(), timed=timed)
        assert torch.equal(both, both.mT)
        for name in ("causal", "ones_below"):
            assert torch.equal(trained.draw(name, generator(), timed=timed), WEIGHTS[name])
    assert trained.draw("identity", generator(), timed=True).all()
    assert torch.equal(drawn("steps"), WEIGHTS["steps"])


def test_a_part_of_each_weight_may_be_far_larger_than_it_began():
    trained = Trained(WEIGHTS, BUFFERS)
    trained.keeps_structure = {"lower"}
    for name in ("matrix", "norm", "lower"):
        near, far = (trained.draw(name, generator(3), far=far) for far in (False, True))
        ratio = (far / WEIGHTS[name]).abs().nan_to_num(1.0)
        assert 3 < float(ratio.max()) < 24 and float((ratio > 1.5).double().mean()) < 0.4, name
        assert torch.equal(near != 0, far != 0)
    for seed in range(20):  # in no draw do all of them stay within a table of usual ones
        near, far = (trained.draw("norm", generator(seed), far=far).abs() for far in (False, True))
        assert float(far[near.argmax()] / near.max()) == 16
    single = [float(trained.draw("alpha", generator(seed), far=True).abs()) for seed in range(40)]
    assert sum(each > 4 for each in single) in range(5, 25)
    assert max(float(trained.draw("alpha", generator(seed)).abs()) for seed in range(40)) < 1.5


@pytest.mark.parametrize("name", ["pruned", "kept"])
def test_zeros_move_as_a_whole_or_a_few_of_them(name):
    trained = Trained(WEIGHTS, BUFFERS)
    moved = trained.elsewhere(name, WEIGHTS[name], generator())
    few = WEIGHTS[name].clone()
    for _ in range(3):
        trained.exchange(name, few)
    for other in (moved, few):
        assert ((other != 0) != (WEIGHTS[name] != 0)).any()
        assert set(other.unique().tolist()) <= set(WEIGHTS[name].unique().tolist())
    if name == "kept":
        assert (moved.sum(1) == 3).all() and (few.sum(1) == 3).all()


def test_zeros_that_are_promised_or_absent_stay_where_they_are():
    trained = Trained(WEIGHTS, BUFFERS)
    for name in ("matrix", "lower", "causal"):
        assert torch.equal(trained.elsewhere(name, WEIGHTS[name], generator()), WEIGHTS[name])
        trained.exchange(name, few := WEIGHTS[name].clone())
        assert torch.equal(few, WEIGHTS[name])
    trained.tame = True
    assert torch.equal(trained.elsewhere("pruned", WEIGHTS["pruned"], generator()), WEIGHTS["pruned"])


def test_tame_weights_move_by_factors_alone():
    for name in ("bias", "kept"):
        assert torch.equal(drawn(name, tame=True), WEIGHTS[name])
    assert ((drawn("norm", tame=True) >= 0.5) & (drawn("norm", tame=True) < 1.5)).all()


def test_those_that_have_signs_are_named():
    trained = Trained(WEIGHTS, BUFFERS)
    assert {*trained.signed} == {*WEIGHTS} - {"causal", "ones_below", "kept", "steps"}
    trained.keeps_sign = {"norm"}
    assert [trained.turns(name) for name in ("matrix", "norm", "kept", "steps", "x")] == [True, *[False] * 4]
    trained.tame = True
    assert not trained.turns("matrix")
