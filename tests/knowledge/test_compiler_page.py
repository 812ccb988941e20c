"""docs/compiler.md shows what the compiler does today."""

from __future__ import annotations

import inspect
from pathlib import Path

import torch
from loops_over_time import selective_scan
from shown import shown, shown_kernels
from torch import nn
from torch.nn import functional
from traced import trace

from knowledge.compiler.passes.staging import staged
from knowledge.compiler.plan import Draft, Plan
from knowledge.compiler.schedule.loops.recipe import LoopsRecipe, compiled
from knowledge.compiler.search.first import first_draft

PAGE = Path(__file__).resolve().parents[2] / "docs" / "compiler.md"


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm, self.up = nn.RMSNorm(256, 1e-6), nn.Linear(256, 256, bias=False)

    def forward(self, x):
        return x + functional.relu(self.up(self.norm(x)))


class Sigmoid(nn.Module):
    def forward(self, x):
        return torch.sigmoid(x)


def parts() -> dict[str, str]:
    """What the page prints of each stage."""
    problem = trace(Block(), torch.randn(64, 256))
    source = LoopsRecipe().render(problem, Plan("loops"))
    first = source[source.index("void loops0(") :]
    sized = first_draft(trace(Sigmoid(), torch.randn(64, 48)).model_copy(update={"others": (
        trace(Sigmoid(), torch.randn(128, 96)),)}))  # fmt: skip
    assert isinstance(sized, Draft)
    of_sizes = sized.source[sized.source.index("void loops0(") :]
    steps = trace(selective_scan, *(torch.randn(2, 20, 64) for _ in "xd"), torch.randn(64, 16), torch.randn(2, 20, 16))
    return {
        "loop": shown_kernels(compiled(steps).fused).split("kernel 2")[0],
        "module": inspect.getsource(Block),
        "trace": "\n".join(f"{op.results[0].name} = {op.target}" for op in problem.ops),
        "values": shown(node for _, node in staged(problem).outputs),
        "kernels": shown_kernels(compiled(problem).fused),
        "source": first[: first.index("\n      }") + 8],
        "sizes": "\n".join(of_sizes.splitlines()[:2]),
    }


def test_the_page_prints_what_each_stage_gives() -> None:
    """Long lines go on in the next one, further right."""
    page = " ".join(PAGE.read_text(encoding="utf-8").split())
    missing = [name for name, text in parts().items() if " ".join(text.split()) not in page]
    assert not missing
