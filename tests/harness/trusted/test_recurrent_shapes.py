"""Recurrent layers without data have the shapes and FLOPs of those with data, and none of their steps is walked."""

from __future__ import annotations

import pytest
import torch
from torch._decomp import decompositions
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.nn.utils.rnn import PackedSequence

from harness.trusted.facts.recurrent_shapes import by_shapes
from harness.trusted.facts.watching import flop_counter

STEPS = ("one_layer_lstm", "mkldnn_one_layer_lstm", "one_layer_rnn", "one_layer_rnn_data", "one_layer_lstm_data")
Found = tuple[list[torch.Size], int]


def found(layers: torch.nn.Module, x: torch.Tensor, batches: torch.Tensor | None = None) -> Found:
    with torch.no_grad(), flop_counter() as counter:
        out, last = layers(x if batches is None else PackedSequence(x, batches))
    tensors = (out if batches is None else out.data, *(last if isinstance(last, tuple) else (last,)))
    return [each.shape for each in tensors], counter.get_total_flops()


@pytest.mark.parametrize("kind", ["LSTM", "GRU", "RNN"])
@pytest.mark.parametrize(("both", "batch_first"), [(False, True), (True, False)])
def test_shapes_and_flops_are_those_of_layers_with_data(
    kind: str, both: bool, batch_first: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    def told() -> Found:
        return found(getattr(torch.nn, kind)(3, 5, 2, bidirectional=both, batch_first=batch_first), torch.rand(4, 6, 3))

    with FakeTensorMode():
        walked = told()
    assert walked[1] > 0
    for name in STEPS:
        monkeypatch.setattr(decompositions, name, pytest.fail, raising=False)
    with by_shapes(), FakeTensorMode():
        assert told() == walked


@pytest.mark.parametrize("kind", ["LSTM", "GRU"])
def test_a_packed_batch_has_its_steps_and_rows_in_one_dimension(kind: str) -> None:
    layers, batches = getattr(torch.nn, kind)(3, 5, bidirectional=True), torch.tensor([3, 2, 1])
    expected, _ = found(layers, torch.rand(6, 3), batches)
    with FakeTensorMode() as mode, by_shapes():
        weights = [mode.from_tensor(each) for each in layers.parameters()]
        state = torch.zeros(2, 3, 5)
        states = (state, state) if kind == "LSTM" else state
        call = torch.lstm if kind == "LSTM" else torch.gru
        given = call(torch.rand(6, 3), mode.from_tensor(batches), states, weights, True, 1, 0.0, False, True)
    assert [each.shape for each in given] == expected
