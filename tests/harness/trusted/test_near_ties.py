"""What is chosen among equals, or by a last bit: either decision is right, and so is all that follows from it."""

from __future__ import annotations

import pytest

from harness.checks.errors import Expected, compare
from harness.trusted.oracle import Oracle
from harness.trusted.reference import Reference

FILE = """
import torch
from torch.nn import functional as F

KERNEL = {kernel}  # 0: PyTorch; 1 and 2: sums have other last bits, of equals the first or the last is taken

def up(t):
    if not KERNEL:
        return t
    noise = torch.rand(t.shape, generator=torch.Generator().manual_seed(7)) - 0.5
    return t + noise * 2**-22 * t.abs()

def topk(x, k, dim=-1):
    if not KERNEL:
        return x.topk(k, dim=dim)
    turned = x.flip(dim) if KERNEL == 2 else x
    values, places = turned.sort(dim=dim, descending=True, stable=True)
    places = x.shape[dim] - 1 - places if KERNEL == 2 else places
    return values.narrow(dim, 0, k), places.narrow(dim, 0, k)

def best(x):
    return topk(x, 1)[1].squeeze(-1)

class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.randint(-8, 9, (16, 12)) / 16)
        self.table = torch.nn.Parameter(torch.randn(12, 8))

    def forward(self, x, history):
        sums = up(1.1 * x @ self.weight)
        {forward}

def get_inputs():
    return [torch.randint(-4, 5, (64, 16)) / 4, torch.randint(0, 1000, (8, 8))]
"""
BEAM = "v, i = topk(up(F.log_softmax(x, 1)).view(8, 128), 3); "
ROUTER = "p = torch.softmax(sums, -1); v, i = topk(p, 2); "
SORTED = "s, i = topk(x.repeat(1, 2) * 1.5, 32); p = torch.softmax(s, -1); c = up(p.cumsum(-1)); "
FILTERED = "s, i = topk(x * 1.5, 16); p = torch.softmax(s, -1); r = up(p.cumsum(-1)) - p > 0.9; "
HIDDEN = (
    "return torch.softmax((x.repeat(1, 2) * 1.5).masked_fill(torch.zeros_like(r).scatter(1, i, r), -torch.inf), -1)"
)
SCALED = "y = up((sums + 0.1) - 0.1); s = y.abs().amax(-1, keepdim=True) / 448; "
USES = {
    "beam": BEAM + "return v, i // 16, i % 16, history.gather(1, i // 16)",
    "beam-stacked": BEAM + "return torch.stack([torch.div(i, 16, rounding_mode='floor'), i.remainder(16)], 1)",
    "router": ROUTER + "return v / v.sum(-1, keepdim=True), (F.one_hot(i, 12).sum((0, 1)) * p.mean(0)).sum() / 64",
    "loads": "v, i = topk(torch.softmax(x, -1), 2); return torch.bincount(i.flatten(), minlength=16)",
    "loads-added": "v, i = topk(x, 2); return torch.zeros(16).index_add(0, i.flatten(), torch.ones(128)) / 128",
    "slots": ROUTER + "m = F.one_hot(i.T.flatten(), 12); p = (m.cumsum(0) * m).sum(-1) - 1; return v, p, p < 9",
    "experts": ROUTER + "return (self.table[i] * v.unsqueeze(-1)).sum(1)",
    "experts-in-order": "e = best(sums); o = torch.argsort(e, stable=True); return x[o], e[o]",
    "nucleus": SORTED + "r = c - p > 0.75; " + HIDDEN,
    "nucleus-moved": SORTED + "r = F.pad((c > 0.8)[:, :-1], (1, 0)); " + HIDDEN,
    "nucleus-filtered": FILTERED + "return x.masked_fill(torch.zeros_like(r).scatter(1, i, r), -torch.inf)",
    "least-share": "p = torch.softmax(sums, -1); return torch.where(p < 0.5 * p.amax(-1, keepdim=True), 0.0, p)",
    "four-best": "return sums.masked_fill(sums < topk(sums, 4)[0][:, -1:], -torch.inf)",
    "four-best-alone": "v, i = topk(x, 4); return torch.zeros_like(x).scatter(1, i, v)",
    "embedding": "i = best(sums); return F.embedding(i, self.table).sum(0), i + 3",
    "codebook": "d = self.table.square().sum(1) - 2 * sums[:, :8] @ self.table.T; i = best(-d); q = self.table[i]; "
    "return q, (q - sums[:, :8]).square().mean(), i",
    "clusters": "i = best(-up((x.unsqueeze(1) - x[:5]).square().sum(-1))); "
    "return torch.zeros(5, 16).index_add(0, i, x) / F.one_hot(i, 5).sum(0).clamp(min=1).unsqueeze(1)",
    "accepted": "p = torch.softmax(up(x), -1); ok = p[:, :4] / p[:, 4:8] >= 1; return ok.long().cumprod(-1).sum(-1)",
    "hash": "return ((up(sums + 0.1) - 0.1 > 0).long() * 2 ** torch.arange(12)).sum(-1)",
    "quantized": "y = up((sums + 0.1) - 0.1); s = y.abs().amax(-1, keepdim=True) / 127; "
    "q = torch.round(y / s).clamp(-127, 127).to(torch.int8); return q, s, q.float() @ self.table",
    "eighths": SCALED + "q = (y / s).to(torch.float8_e4m3fn); return q, s",
    "eighths-used": SCALED + "q = (y / s).to(torch.float8_e5m2); return q, q.float() @ self.table",
    "buckets": "b = torch.bucketize(up(sums + 0.1), torch.tensor([-1.0, 0.0, 1.0])); return self.table[b], b * 2",
    "straight-through": "p = torch.softmax(sums, -1); return F.one_hot(best(p), 12) - p + p",
    "pairs": "v, i = topk(up(x @ x.T).flatten(), 10); return v, torch.stack([i // 64, i % 64], 1)",
}  # fmt: skip
WRONG = {
    "word-of-another-beam": "v, i = topk(x.view(8, 128), 3); j = 127 - topk(x.view(8, 128).flip(1), 3)[1]; "
    "return i // 16, (j if KERNEL else i) % 16",
    "one-twice": "v, i = topk(x.view(8, 128), 3); "
    "i = torch.where((v == v[:, :1]) & (KERNEL > 0), i[:, :1], i); return i // 16, i % 16",
    "history-of-another": "v, i = topk(x.view(8, 128), 3); b = i // 16; return b, history.gather(1, (b + KERNEL) % 8)",
    "all-equals-count": "v, i = x.topk(2); m = F.one_hot(i, 16).sum(1) > 0; "
    "return (x >= v[:, 1:] if KERNEL else m).sum(0)",
    "all-equals-stay": "v, i = x.topk(4); m = torch.zeros_like(x).scatter(1, i, 1.0); "
    "return (x >= v[:, 3:]).float() * x if KERNEL else m * x",
    "all-equals-filtered": FILTERED + "least = s.masked_fill(r, torch.inf).amin(1, keepdim=True); "
    "m = x * 1.5 < least if KERNEL else torch.zeros_like(r).scatter(1, i, r); return x.masked_fill(m, -torch.inf)",
    "one-more": SORTED + "r = (c if KERNEL else c - p) > 0.75; " + HIDDEN,
    "another-slot": ROUTER + "m = F.one_hot(i.T.flatten(), 12); return (m.cumsum(0) * m).sum(-1) - 1 < 9 + KERNEL",
    "weights-turned": ROUTER + "return (self.table[i] * (v.flip(1) if KERNEL else v).unsqueeze(-1)).sum(1)",
    "next-eighth": SCALED
    + "return torch.where(torch.arange(12) == 3, y / s * (1 + KERNEL / 16), y / s).to(torch.float8_e4m3fn)",
    "cut-eighth": SCALED + "q = y / s; return (q * (1 - KERNEL / 16)).to(torch.float8_e4m3fn)",
    "eighth-not-a-number": SCALED + "return torch.where(KERNEL * y > 1, torch.nan, y / s).to(torch.float8_e4m3fn)",
    "another-row": "return self.table[(best(sums) + KERNEL) % 12]",
    "in-parts": "y = x.view(1, 1, 64, 16); v, i = F.max_pool2d(y, 2, return_indices=True); "
    "n = (y == F.interpolate(v, scale_factor=2)).float(); w = F.interpolate(F.avg_pool2d(n, 2) * 4, scale_factor=2); "
    "return n / w if KERNEL else F.max_unpool2d(torch.ones_like(v), i, 2)",
}  # fmt: skip


def wrong(forward: str, kernel: int, seed: int) -> list[float]:
    """How much of each output is wrong, as trials have it."""
    task, other = (Reference(FILE.format(forward=forward, kernel=each), "task", seed=seed) for each in (0, kernel))
    oracle, weights, values = Oracle(task, "other"), task.parameters(), task.inputs(seed)
    results, got = task.run(values), other.run(values)
    exact = oracle.run(values, weights, results)
    assert not oracle.absent
    further = oracle.further(values, weights, got, 1.0)
    wanted = (Expected("y", *pair, further=more) for *pair, more in zip(exact, results, further, strict=True))
    return [compare(result, each).bad_fraction for result, each in zip(got, wanted, strict=True)]


@pytest.mark.sampled(8)
@pytest.mark.parametrize("use", USES)
def test_all_that_follows_from_either_decision_is_right(use: str) -> None:
    found = {(kernel, seed): wrong(USES[use], kernel, seed) for kernel in (1, 2) for seed in range(2)}
    assert {key: each for key, each in found.items() if any(each)} == {}


@pytest.mark.parametrize("seed", [0, pytest.param(1, marks=pytest.mark.slow)])
@pytest.mark.parametrize("way", WRONG)
def test_what_follows_from_no_decision_is_wrong(way: str, seed: int) -> None:
    assert any(wrong(WRONG[way], 1, seed))
