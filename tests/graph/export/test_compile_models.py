"""The backend "cutegen" on whole models: a GPT that trains, and Hugging Face's families with random weights."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from drop_ins import exported
from test_compile_backend import KERNEL, TASK
from torch import nn
from torch._dynamo.backends import registry
from torch.nn import functional as F

from graph.export.runtime import backend

pytestmark = pytest.mark.slow

STEPS = 50
SMALL = {"hidden_size": 32, "intermediate_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2, "vocab_size": 50}
DECODER = {"num_key_value_heads": 1, "head_dim": 16, "max_position_embeddings": 32}
FAMILIES = {
    "llama": (DECODER, 2),
    "qwen3": (DECODER, 2),
    "gemma3_text": (DECODER, 0),  # its gate is another
    "bert": ({"max_position_embeddings": 32}, 0),
    "vit": ({"image_size": 16, "patch_size": 8}, 0),
}
"""What each is made with beside `SMALL`, and how many places the kernel has in it."""


@pytest.fixture(scope="module")
def gate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return exported(tmp_path_factory.mktemp("kernels") / "gate", TASK, KERNEL.replace("ADDED", "0"))


@pytest.fixture(autouse=True)
def fresh(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    torch._dynamo.reset()
    # Whoever came first in this process has registered: a folder's own copy of the backend may have.
    monkeypatch.setitem(registry._COMPILER_FNS, backend.NAME, backend.compile_graph)
    backend.COMPILED.clear()
    yield
    torch._dynamo.reset()


class Layer(nn.Module):
    """Causal attention and a gated MLP, each behind a norm."""

    def __init__(self) -> None:
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(16), nn.LayerNorm(16)
        self.qkv, self.out = nn.Linear(16, 48), nn.Linear(16, 16)
        self.gate, self.up, self.down = nn.Linear(16, 32), nn.Linear(16, 32), nn.Linear(32, 16)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        q, k, v = (each.view(2, 8, 2, 8).transpose(1, 2) for each in self.qkv(self.norm1(x)).chunk(3, -1))
        x = x + self.out(F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).reshape(2, 8, 16))
        seen = self.norm2(x)
        return x + self.down(F.silu(self.gate(seen)) * self.up(seen))


class Gpt(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.words, self.positions = nn.Embedding(20, 16), nn.Embedding(8, 16)
        self.layers, self.head = nn.Sequential(Layer(), Layer()), nn.Linear(16, 20)

    def forward(self, words: torch.Tensor, wanted: torch.Tensor) -> torch.Tensor:
        x = self.words(words) + self.positions(torch.arange(8))
        return F.cross_entropy(self.head(self.layers(x)).flatten(0, 1), wanted.flatten())


def losses(folder: Path | None) -> list[float]:
    """Of the same steps from the same weights; compiled with a folder's kernels, or in eager mode."""
    torch.manual_seed(0)
    model = Gpt()
    step = torch.compile(model, backend="cutegen", options={"kernels": folder}) if folder else model
    optimizer, drawn, found = torch.optim.SGD(model.parameters(), lr=0.1), torch.Generator().manual_seed(1), []
    for _ in range(STEPS):
        words = torch.randint(0, 20, (2, 9), generator=drawn)
        optimizer.zero_grad()
        loss = step(words[:, :-1], words[:, 1:].cummax(-1).values)
        loss.backward()
        optimizer.step()
        found.append(loss.item())
    return found


def test_a_gpt_trains_as_it_does_without_kernels(gate: Path) -> None:
    found = losses(gate)
    assert [dict(each.placed) for each in backend.COMPILED] == [{"gate": 2}]
    wanted = losses(None)
    assert found == pytest.approx(wanted, rel=1e-4)
    assert sum(found[-5:]) < sum(found[:5]), "it learned something"


def made(family: str) -> tuple[Any, torch.Tensor]:
    transformers = pytest.importorskip("transformers", reason="Hugging Face's models need transformers")
    torch.manual_seed(0)
    config = transformers.AutoConfig.for_model(family, **SMALL, **FAMILIES[family][0])
    head = transformers.AutoModelForCausalLM if "head_dim" in FAMILIES[family][0] else transformers.AutoModel
    given = torch.randn(2, 3, 16, 16) if family == "vit" else torch.randint(0, 50, (2, 8))
    return head.from_config(config).eval(), given


@pytest.mark.parametrize("family", FAMILIES)
def test_a_family_is_right_with_the_kernel_where_it_computes_that(family: str, gate: Path) -> None:
    model, given = made(family)
    with torch.no_grad():
        found = torch.compile(model, backend="cutegen", options={"kernels": gate})(given)
        torch.testing.assert_close(found[0], model(given)[0])
    assert sum(sum(each.placed.values()) for each in backend.COMPILED) == FAMILIES[family][1]


def test_generate_with_a_compiled_forward_and_a_static_cache(gate: Path) -> None:
    model, given = made("llama")
    how = {"max_new_tokens": 4, "do_sample": False, "cache_implementation": "static", "disable_compile": True}
    wanted = model.generate(given, **how)
    model.forward = torch.compile(model.forward, backend="cutegen", options={"kernels": gate}, dynamic=False)
    assert torch.equal(model.generate(given, **how), wanted)
    assert {"gate": 2} in [dict(each.placed) for each in backend.COMPILED], "in the prefill"
