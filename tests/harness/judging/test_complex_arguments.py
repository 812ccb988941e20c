"""A module's complex buffers and inputs are judged as the pairs of reals that a kernel is given."""

from __future__ import annotations

import pytest

TURNED = """
import torch

class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        angle = torch.outer(torch.arange(16).float(), 0.1 ** torch.arange(4))
        self.register_buffer("turns", torch.polar(torch.ones_like(angle), angle))

    def forward(self, x, other):
        return torch.view_as_real(torch.view_as_complex(x.unflatten(-1, (-1, 2))) * self.turns * other).flatten(-2)

def get_inputs():
    return [torch.randn(16, 8), torch.randn(16, 4, dtype=torch.complex64)]
"""
KERNEL = """
void run(TensorView x, TensorView other, TensorView turns, TensorView y) {
  float const *a = in(x), *b = in(turns), *c = in(other);
  for (int i = 0; i < 128; i += 2) {
    float r = a[i] * b[i] - a[i + 1] * b[i + 1], s = a[i] * b[i + 1] + a[i + 1] * b[i];
    out(y)[i] = r * c[i] - s * c[i + 1];
    out(y)[i + 1] = r * c[i + 1] + s * c[i];
  }
}
"""


def test_a_right_kernel_passes(bench):
    verdict = bench.verdict(KERNEL, TURNED)
    assert verdict.status == "passed", verdict.message


@pytest.mark.parametrize(
    ("read", "instead"),
    [
        ("c[i + 1]", "0.0f"),  # the imaginary part of an input
        ("b[i + 1]", "sqrtf(fabsf(1 - b[i] * b[i]))"),  # that of a buffer, which has length 1 in the file
    ],
)
def test_a_kernel_that_leaves_a_part_out_is_refused(bench, read, instead):
    verdict = bench.verdict(KERNEL.replace(read, instead), TURNED)
    assert (verdict.status, verdict.check) == ("wrong", "correctness"), verdict.message


def test_a_kernel_is_told_what_its_pairs_are(bench):
    from harness.wire.entry import stub

    told = stub(bench.task(TURNED), "cpu")
    lines = [line for line in told.splitlines() if "complex for the module" in line]
    assert [line.split('"')[1] for line in lines] == ["other", "turns"], told


def test_gradients_of_a_module_with_a_complex_buffer(bench):
    """The buffer is given in pairs there, too."""
    source = (
        TURNED.replace("x, other", "x")
        .replace(" * other", "")
        .replace(", torch.randn(16, 4, dtype=torch.complex64)", "")
    )
    task = bench.task(f'DIRECTION = "backward"\n{source}')
    assert task.program is not None, task.trace_failure
    assert [(each.name, each.shape, each.pairs) for each in task.signature.parameters] == [("turns", (16, 4, 2), True)]
