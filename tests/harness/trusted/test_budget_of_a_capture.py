"""The first call of a model loads libraries: a budget is refused by what the next one takes."""

from __future__ import annotations

import time

import pytest

from harness.nouns.errors import UserError
from harness.nouns.task import Variant
from harness.trusted.models.capturing import capture
from harness.wire.job import CaptureJob

FILE = """
import time

import torch

class Model(torch.nn.Module):
    calls = 0

    def forward(self, x):
        Model.calls += 1
        if Model.calls <= {slow} and not torch.compiler.is_compiling():
            time.sleep(0.3)
        return x + 1

def get_inputs():
    return [torch.randn(8)]
"""


def captured(slow: int) -> float:
    """With a budget that has room for 45 calls of a model that is to be called about 40 times; one call's seconds."""
    began = time.monotonic()
    job = CaptureJob(
        source=FILE.format(slow=slow), name="toy", device="cpu", variant=Variant(), precision="ieee",
        budget_s=12.0, ends_at=began + 12.0,
    )  # fmt: skip
    return float(capture(job)["costs"]["called_s"])


def test_a_slow_first_call_is_called_again_before_a_refusal() -> None:
    assert captured(slow=1) < 0.2


def test_a_model_whose_calls_stay_slow_is_refused() -> None:
    with pytest.raises(UserError, match="toy has no answer within 12 s"):
        captured(slow=1000)
