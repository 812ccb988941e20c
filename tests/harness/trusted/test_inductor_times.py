"""What each operation takes within what Inductor makes of a program: how times are shared out, and once for real."""

from __future__ import annotations

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from harness.trusted.models import inductor_times
from harness.trusted.models.exporting import Exported
from harness.trusted.models.inductor_times import Spent, Started, _least, inductor_ms, shared_out


def test_a_kernel_s_time_goes_to_what_it_computes_and_that_of_libraries_to_what_they_do() -> None:
    started = [
        Started("triton_norm", ("norm0",)),
        Started("extern_kernels.mm", ("up0",)),
        Started("triton_gelu_add", ("gelu0", "add0")),
        Started("triton_norm", ("norm1",)),
        Started("extern_kernels.addmm", ("up1",)),
    ]
    eager = {"norm0": 1.0, "norm1": 1.0, "up0": 3.0, "up1": 1.0, "gelu0": 0.3, "add0": 0.1, "view": 0.5}
    found = shared_out(started, Spent({"triton_norm": 0.4, "triton_gelu_add": 0.2}, 2.0, 2.6), eager)
    assert found == pytest.approx({"norm0": 0.2, "norm1": 0.2, "gelu0": 0.15, "add0": 0.05, "up0": 1.5, "up1": 0.5})
    assert sum(found.values()) == pytest.approx(2.6)


def test_of_a_kernel_at_several_places_the_call_counts_in_which_it_took_least() -> None:
    assert _least([1.0, 2.0, 9.0, 2.0, 1.0, 1.5], 2) == 2.5


class Net(nn.Module):
    """Two equal layers, and a softmax over another look at the memory."""

    def __init__(self) -> None:
        super().__init__()
        self.norm, self.up, self.down = nn.LayerNorm(32), nn.Linear(32, 64), nn.Linear(64, 32)
        self.act = nn.ReLU(inplace=True)  # which has another name before it is exported

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for _ in range(2):
            x = x + self.act(self.down(F.gelu(self.up(self.norm(x)))))
        return F.softmax(x.view(4, 8, 32).transpose(0, 1), -1)


def test_inductor_s_kernels_are_mapped_back_to_the_program_s_operations(monkeypatch: pytest.MonkeyPatch) -> None:
    net, x = Net().eval(), torch.randn(32, 32)
    program = torch.export.export(net, (x,), strict=False).run_decompositions({})
    arguments = [program.state_dict[str(spec.target)] if spec.target else x
                 for spec in program.graph_signature.input_specs]  # fmt: skip
    seen: list[Started] = []
    given = inductor_times.shared_out
    monkeypatch.setattr(
        inductor_times, "shared_out", lambda started, *more: seen.extend(started) or given(started, *more)
    )
    with torch.no_grad():
        found, whole_ms = inductor_ms(Exported("", net, program, arguments, ((x,), {})), {}, lambda: None, queues=False)
    products = [each for each in seen if not each.generated]
    assert [each.nodes for each in products] == [("linear",), ("linear_1",), ("linear_2",), ("linear_3",)]
    fused = [set(each.nodes) for each in seen if each.generated]
    assert {"gelu"} in fused
    assert any({"add", "layer_norm_1"} <= nodes for nodes in fused), "the residual and the next layer's norm"
    assert any("softmax" in nodes for nodes in fused)
    assert set(found) == set().union(*fused, *(each.nodes for each in products))
    assert all(found[name] > 0 for name in ("gelu", "gelu_1", "relu", "relu_1", "softmax"))
    assert set(found) <= {node.name for node in program.graph.nodes}
    assert whole_ms > 0
