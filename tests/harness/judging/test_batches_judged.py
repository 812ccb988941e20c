"""At which batches beside its file's own a kernel is right: tried, timed at the largest, and told in one sentence."""

import pytest
from own_turns import own_turns

SIGNS = """
import torch

class Model(torch.nn.Module):
    def forward(self, x):
        for _ in range(40):
            x = x.neg()
        return x

def get_inputs():
    return [torch.rand(37, 129)]
"""
"""Forty operations of eager's: any machine is slower at them than at a copy."""
ANY_BATCH = """
float const* from = in(x);
float* to = out(y);
for (int64_t i = 0, n = x.numel(); i < n; ++i) to[i] = from[i];
"""


def served(bench, body):
    candidate, _ = bench.build(f"void run(TensorView x, TensorView y) {{ {body} }}")
    task = bench.task(SIGNS)
    with own_turns():
        return bench.judge.serves(task, candidate, bench.judge.batches(task))


def test_a_kernel_of_any_batch_serves_all_that_was_tried_and_between(bench):
    found = served(bench, ANY_BATCH)
    assert {1, 18, 36, 38, 74} <= {*found.tried}, found.refused
    assert found.said.startswith("Serves batches 1 to 74 (also judged at 1, 18, 36, ")
    assert found.said.endswith("x over eager at batch 74).")


@pytest.mark.parametrize(
    ("count", "said"),
    [
        ("37 * 129", "Serves batch 37 alone: the kernel's sizes are constants."),
        ("std::min<int64_t>(x.numel(), 37 * 129)", "Serves batch 37 alone: at 74 it fails (correctness): "),
        (
            "(x.size(0) == 37 ? 37 : x.size(0) / 2 * 2) * 129",
            "Serves batch 37 alone: it fails (correctness): with x (1, 129), ",
        ),
    ],
    ids=["constant", "no larger ones", "no odd ones"],
)
def test_one_that_is_wrong_at_some_serves_its_own_alone(bench, count, said):
    found = served(bench, ANY_BATCH.replace("x.numel()", count))
    assert found.tried == ()
    assert said in found.said
