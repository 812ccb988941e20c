"""Recurrent layers without data have the shapes of those with data, and none of their steps is walked."""

from __future__ import annotations

import pytest
import torch
from torch._decomp import decompositions
from torch._subclasses.fake_tensor import FakeTensorMode

from harness.trusted.facts.recurrent_shapes import without_steps


@pytest.mark.parametrize("kind", ["LSTM", "GRU", "RNN"])
@pytest.mark.parametrize(("both", "batch_first"), [(False, True), (True, False)])
def test_shapes_are_those_of_layers_with_data(
    kind: str, both: bool, batch_first: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    def shapes() -> list[torch.Size]:
        layers = getattr(torch.nn, kind)(3, 5, 2, bidirectional=both, batch_first=batch_first)
        out, last = layers(torch.rand(4, 6, 3))
        return [each.shape for each in (out, *(last if isinstance(last, tuple) else (last,)))]

    expected = shapes()
    for name in ("one_layer_lstm", "mkldnn_one_layer_lstm", "one_layer_rnn"):
        monkeypatch.setattr(decompositions, name, None, raising=False)
    with without_steps(), FakeTensorMode():
        assert shapes() == expected
