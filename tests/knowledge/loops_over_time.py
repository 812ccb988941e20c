"""Forwards with a Python loop over steps, as people write them, and a trace of few steps made one of many."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from ir_cases import Case
from torch import Tensor

from knowledge.compiler.lower.rolling import Loop, rolled
from knowledge.compiler.problem import Argument, Op, Problem, Ref
from knowledge.compiler.problem import Tensor as Spec

STEPS = 18


def _randn(*shape: int) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(sum(shape)))


def selective_scan(x: Tensor, dt: Tensor, a: Tensor, b: Tensor) -> Tensor:
    """Mamba's recurrence, as its reference has it."""
    h, seen = x.new_zeros(x.shape[0], x.shape[2], a.shape[1]), []
    for t in range(x.shape[1]):
        h = torch.exp(dt[:, t, :, None] * a) * h + dt[:, t, :, None] * b[:, t, None, :] * x[:, t, :, None]
        seen.append((h * b[:, t, None, :]).sum(-1))
    return torch.stack(seen, 1)


def rwkv(k: Tensor, v: Tensor, fade: Tensor, bonus: Tensor) -> Tensor:
    """RWKV-4's weighted mean in running maxima."""
    above, below, most = k.new_zeros(k[:, 0].shape), k.new_zeros(k[:, 0].shape), k.new_full(k[:, 0].shape, -1e38)
    seen = []
    for t in range(k.shape[1]):
        here = bonus + k[:, t]
        top = torch.maximum(most, here)
        old, new = torch.exp(most - top), torch.exp(here - top)
        seen.append((old * above + new * v[:, t]) / (old * below + new))
        top = torch.maximum(most + fade, k[:, t])
        old, new = torch.exp(most + fade - top), torch.exp(k[:, t] - top)
        above, below, most = old * above + new * v[:, t], old * below + new, top
    return torch.stack(seen, 1)


def matrix_states(r: Tensor, k: Tensor, v: Tensor, w: Tensor) -> tuple[Tensor, Tensor]:
    """RWKV-6: a state of keys by values."""
    s, seen = r.new_zeros(*r[:, 0].shape, v.shape[-1]), []
    for t in range(r.shape[1]):
        both = k[:, t, :, :, None] * v[:, t, :, None, :]
        seen.append((r[:, t, :, None, :] @ (s + both)).squeeze(-2))
        s = w[:, t, :, :, None] * s + both
    return torch.stack(seen, 1), s


def crf(emission: Tensor, moved: Tensor, begin: Tensor, end: Tensor) -> Tensor:
    """A conditional random field's normalizer."""
    score = begin + emission[:, 0]
    for t in range(1, emission.shape[1]):
        score = torch.logsumexp(score[:, :, None] + moved + emission[:, t, None, :], 1)
    return torch.logsumexp(score + end, 1)


def viterbi(emission: Tensor, moved: Tensor) -> tuple[Tensor, Tensor]:
    """The best path: forwards for its score, backwards along where the best came from."""
    score, came = emission[:, 0], []
    for t in range(1, emission.shape[1]):
        best, place = (score[:, :, None] + moved).max(1)
        came.append(place)
        score = best + emission[:, t]
    path = [score.argmax(-1)]
    for place in reversed(came):
        path.append(place.gather(1, path[-1][:, None]).squeeze(1))
    return torch.stack(path[::-1], 1), score


def ctc(logs: Tensor, labels: Tensor) -> Tensor:
    """The loss of connectionist temporal classification, over labels with blanks between them."""
    count = 2 * labels.shape[1] + 1
    wide = F.pad(torch.stack((torch.zeros_like(labels), labels), -1).flatten(1), (0, 1))
    skips = F.pad((wide[:, 2:] != wide[:, :-2]) & (wide[:, 2:] != 0), (2, 0))
    score = torch.where(torch.arange(count) < 2, logs[:, 0].gather(1, wide), -1e30)
    for t in range(1, logs.shape[1]):
        one = F.pad(score[:, :-1], (1, 0), value=-1e30)
        two = torch.where(skips, F.pad(score[:, :-2], (2, 0), value=-1e30), -1e30)
        score = torch.logsumexp(torch.stack((score, one, two)), 0) + logs[:, t].gather(1, wide)
    return -torch.logsumexp(score[:, -2:], 1)


def retention(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """In chunks: attention within them, and a state between them."""
    s, seen = q.new_zeros(q.shape[0], q.shape[3], v.shape[3]), []
    for one, other, third in zip(q.unbind(1), k.unbind(1), v.unbind(1), strict=True):
        seen.append(torch.tril(one @ other.mT) @ third + one @ s)
        s = 0.9 * s + other.mT @ third
    return torch.cat(seen, 1)


def both_ways(x: Tensor, w: Tensor) -> Tensor:
    h, there, back = x.new_zeros(x.shape[0], x.shape[2]), [], []
    for t in range(x.shape[1]):
        h = torch.tanh(x[:, t] + h @ w)
        there.append(h)
    h = torch.zeros_like(h)
    for t in reversed(range(x.shape[1])):
        h = torch.tanh(x[:, t] * 2 + h @ w)
        back.append(h)
    return torch.stack(there, 1) + torch.stack(back[::-1], 1)


def in_layers(x: Tensor, w: Tensor, h: Tensor) -> tuple[Tensor, Tensor]:
    """The second loop takes what the first one's steps made."""
    below, above = [], []
    for each in x.unbind(1):
        h = torch.tanh(each + h @ w)
        below.append(h)
    h = torch.zeros_like(h)
    for each in below:
        h = torch.sigmoid(each @ w.t() + h * 0.5)
        above.append(h)
    return torch.stack(above, 1), h


def second_order(x: Tensor) -> Tensor:
    """Two steps back, and a mean over what the step before made."""
    seen = [x[:, 0], x[:, 1]]
    for t in range(2, x.shape[1]):
        seen.append(0.5 * seen[-1] - 0.3 * seen[-2] + torch.tanh(x[:, t]) * seen[-1].mean(-1, keepdim=True))
    return torch.stack(seen, -1)


def windows(x: Tensor, w: Tensor) -> Tensor:
    """A loop that carries nothing."""
    return torch.cat([(x[:, t : t + 4] * w).sum(1).exp() + x[:, t] for t in range(0, x.shape[1] - 4, 2)], 1)


def delta_rule(q: Tensor, k: Tensor, v: Tensor, rate: Tensor) -> Tensor:
    s, seen = q.new_zeros(q.shape[0], q.shape[2], v.shape[2]), []
    for t in range(q.shape[1]):
        old = torch.einsum("bk,bkv->bv", k[:, t], s)
        s = s + torch.einsum("bk,bv->bkv", k[:, t], rate[:, t, None] * (v[:, t] - old))
        seen.append(torch.einsum("bk,bkv->bv", q[:, t], s))
    return torch.stack(seen, 1)


def turned(x: Tensor) -> Tensor:
    """Only the last state is asked for; a step moves along it."""
    h = x[:, 0]
    for t in range(x.shape[1]):
        h = torch.where(x[:, t] > 0, h * 0.9 + x[:, t], h.roll(1, -1))
        h = h / h.norm(dim=-1, keepdim=True).clamp(min=1e-3)
    return h


def ranked(x: Tensor) -> Tensor:
    """A sort at every step."""
    h = x[:, 0]
    for t in range(1, x.shape[1]):
        h = (h * 0.5 + x[:, t]).sort(-1).values.cumsum(-1) * 0.2 - h.flip(-1)
    return h


def written_out(x: Tensor) -> Tensor:
    """`out[:, t] += h` as a trace without writes has it, from the last step to the first."""
    h, out = x.new_zeros(x[:, 0].shape), x.clone()
    for t in reversed(range(x.shape[1])):
        h = 0.9 * h + torch.tanh(x[:, t])
        out = out.select_scatter(out.select(1, t) + h, 1, t)
        out = out.select_scatter(out.select(1, t), 1, t)
    return out


def table(x: Tensor, w: Tensor) -> Tensor:
    """A table of which each row is made of the one before; its first and its last one stay as they were."""
    rows = x.new_ones(x.shape[0], x.shape[1] + 2, x.shape[2])
    for t in range(x.shape[1]):
        made = torch.logaddexp(rows[:, t : t + 1] @ w, x[:, t : t + 1])
        rows = rows.slice_scatter(made, 1, t + 1, t + 2)
    return rows


def cells(x: Tensor, w: Tensor, b: Tensor) -> tuple[Tensor, Tensor]:
    """An lstm's cell, a gru's above it, and a plain one above that."""
    h = c = g = r = x.new_zeros(x.shape[0], x.shape[2])
    seen = []
    for t in range(x.shape[1]):
        h, c = torch.lstm_cell(x[:, t], (h, c), w, w, b, b)
        g = torch.gru_cell(h, g, w[6:], w[6:], b[6:], b[6:])
        r = torch.rnn_tanh_cell(g, r, w[:6], w[:6])
        seen.append(r)
    return torch.stack(seen, 1), c


def balanced(x: Tensor) -> Tensor:
    """Sinkhorn's rows and columns in turns: few operations, each of which is a kernel."""
    for _ in range(10):
        x = x - x.logsumexp(-1, keepdim=True)
        x = x - x.logsumexp(-2, keepdim=True)
    return x.exp()


def growing(x: Tensor) -> Tensor:
    """Each step looks at all before it: no step is the same operations as another."""
    seen = [x[:, 0]]
    for t in range(1, x.shape[1]):
        share = (x[:, t, None] * x[:, :t]).sum(-1).softmax(-1)
        seen.append(torch.tanh((share[..., None] * torch.stack(seen, 1)).sum(1) + x[:, t]))
    return torch.stack(seen, 1)


CASES: dict[str, Case] = {
    "selective scan": Case(selective_scan, (_randn(2, STEPS, 3), _randn(2, STEPS, 3), _randn(3, 5),
                                            _randn(2, STEPS, 5))),
    "rwkv": Case(rwkv, (_randn(2, STEPS, 5), _randn(2, STEPS, 5) + 1, -_randn(5).abs(), _randn(5))),
    "matrix states": Case(matrix_states, (_randn(2, STEPS, 3, 4), _randn(2, STEPS, 3, 4), _randn(2, STEPS, 3, 4) + 1,
                                          torch.sigmoid(_randn(2, STEPS, 3, 4)))),
    "crf": Case(crf, (_randn(3, 40, 5), _randn(5, 5), _randn(5), _randn(5) + 1)),
    "viterbi": Case(viterbi, (_randn(3, 40, 5), _randn(5, 5))),
    "ctc": Case(ctc, (_randn(3, STEPS, 7).log_softmax(-1), _randn(3, 4).argsort(1) % 3 + 1)),
    "retention": Case(retention, (_randn(2, STEPS, 3, 4), _randn(2, STEPS, 3, 4) + 0.2, _randn(2, STEPS, 3, 5))),
    "both ways": Case(both_ways, (_randn(2, 40, 6), _randn(6, 6) * 0.3)),
    "in layers": Case(in_layers, (_randn(2, 40, 6), _randn(6, 6) * 0.3, _randn(2, 6))),
    "second order": Case(second_order, (_randn(2, 30, 6),)),
    "windows": Case(windows, (_randn(2, 60, 3), _randn(4, 3))),
    "delta rule": Case(delta_rule, (_randn(2, STEPS, 4), F.normalize(_randn(2, STEPS, 4) + 0.1, dim=-1),
                                    _randn(2, STEPS, 5), torch.sigmoid(_randn(2, STEPS)))),
    "turned": Case(turned, (_randn(2, 30, 6),)),
    "ranked": Case(ranked, (_randn(3, 20, 7),)),
    "written out": Case(written_out, (_randn(2, 40, 6),)),
    "table": Case(table, (_randn(2, 30, 6), _randn(6, 6) * 0.3)),
    "cells": Case(cells, (_randn(2, STEPS, 6), _randn(24, 6) * 0.3, _randn(24) * 0.3)),
    "balanced": Case(balanced, (_randn(2, 7, 7),)),
}  # fmt: skip


def lengthened(problem: Problem, few: int, many: int) -> Problem:
    """The problem of as many steps: extents of `few` become `many`, and its loops that many operations long."""
    made = _Unrolled(few, many)
    for item in rolled(problem):
        if isinstance(item, Loop):
            made.loop(item, many - few + item.count)
        else:
            made.ops.append(made.operation(item))
    return problem.model_copy(update={
        "inputs": tuple(map(made.grown, problem.inputs)), "outputs": tuple(map(made.grown, problem.outputs)),
        "ops": tuple(made.ops), "returns": tuple(made.renamed.get(name, name) for name in problem.returns),
    })  # fmt: skip


class _Unrolled:
    """Operations as a trace of more steps has them. `runs` are the names of what a loop shows at all steps."""

    def __init__(self, few: int, many: int) -> None:
        self.few, self.many = few, many
        self.ops: list[Op] = []
        self.renamed: dict[str, str] = {}
        self.runs: dict[str, list[str]] = {}

    def grown(self, given: Any) -> Any:
        """A tensor of more steps."""
        if not isinstance(given, Spec):
            return given
        shape = tuple(self.many if extent == self.few else extent for extent in given.shape)
        return given.model_copy(update={"shape": shape, "strides": torch.empty(shape, device="meta").stride()})

    def operation(self, op: Op) -> Op:
        """An operation that no loop has; of what is stacked or unbound, all steps."""
        results = tuple(map(self.grown, op.results))
        if len(results) == self.few:
            results = tuple(results[0].model_copy(update={"name": f"{results[0].name} {k}"}) for k in range(self.many))
            self.runs |= {op.results[0].name: [each.name for each in results]}
        return op.model_copy(update={"args": tuple(map(self._argument, op.args)), "results": results})

    def _argument(self, argument: Argument) -> Argument:
        if isinstance(argument, Ref):
            return Ref(ref=self.renamed.get(argument.ref, argument.ref))
        if not isinstance(argument, tuple) or not any(isinstance(each, Ref) for each in argument):
            return argument
        made: list[Any] = []
        for each in argument:
            run = self.runs.get(each.ref) if isinstance(each, Ref) else None
            if run is not None:
                made += [Ref(ref=name) for name in run]
            elif not isinstance(each, Ref) or each.ref not in self.renamed or len(argument) < len(self.renamed):
                made.append(self._argument(each))
        return tuple(made)

    def loop(self, loop: Loop, count: int) -> None:
        """All steps of a loop, one after the other."""
        before = {each.name: self.renamed.get(each.first, each.first) for each in loop.carried}
        for step in range(count):
            now = dict(before)
            for each in loop.taken:
                now[each.name] = self.runs[each.first][each.place.first + each.place.by * step]
            for op in loop.ops:
                self.ops.append(self._copy(op, loop, step, now))
            before = {each.name: now[each.after] for each in loop.carried}
        for name, (of, step) in loop.shows.items():
            self.renamed[name] = f"{of} at {step if step < loop.count - 1 else count - 1}"
            if step == 0:
                self.runs[name] = [f"{of} at {k}" for k in range(count)]

    @staticmethod
    def _copy(op: Op, loop: Loop, step: int, now: dict[str, str]) -> Op:
        def named(argument: Argument) -> Argument:
            if isinstance(argument, tuple):
                return tuple(map(named, argument))  # type: ignore[arg-type]
            return Ref(ref=now.get(argument.ref, argument.ref)) if isinstance(argument, Ref) else argument

        args = [named(each) for each in op.args]
        for place, moving in loop.moving.get(op.results[0].name, {}).items():
            args[place] = moving.first + moving.by * step
        now |= {each.name: f"{each.name} at {step}" for each in op.results}
        results = tuple(each.model_copy(update={"name": now[each.name]}) for each in op.results)
        return op.model_copy(update={"args": tuple(args), "results": results})
