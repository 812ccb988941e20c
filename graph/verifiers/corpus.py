"""Right kernels to begin with: the exemplars, and what playbook and compiler write, for small tasks of odd sizes."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import islice

from harness.building.versions import compiled_with
from harness.judging.protocol import Judge
from harness.nouns.candidate import Candidate
from harness.nouns.task import Task
from harness.wire.entry import stub
from knowledge.compiler.kernels.source import PROCESSOR, load
from knowledge.compiler.plan import Decline, Draft
from knowledge.compiler.problem import Problem
from knowledge.compiler.search import next_draft, translations
from nodes.models.playbook import problem_of
from nodes.turn.request import Request

_DRAFTS = 3
"""Of those that the playbook makes for a task, the first and the one after so many moves."""
_MOVES = 4
_EXTENT = re.compile(r"^(using \w+ = Int<)\d+(>;)", re.MULTILINE)
_FRAME = '''import torch
from torch import nn


class Model(nn.Module):
    """One operation at a size that is no multiple of anything."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = {inner}

    def forward(self, {names}):
        return {forward}


def get_inputs():
    return [{inputs}]


def get_init_inputs():
    return []
'''


@dataclass(frozen=True)
class Kernel:
    """A kernel that should be right. `name` tells the task and the author."""

    name: str
    task: Task
    candidate: Candidate


def _text(forward: str, inputs: Sequence[str], inner: str = "nn.Identity()") -> str:
    names = ", ".join("xyz"[: len(inputs)])
    return _FRAME.format(inner=inner, forward=forward, names=names, inputs=", ".join(inputs))


_ROWS = (37, 1003)
_PRODUCT = (69, 77, 150)
_TASKS = {
    "swish": _text("x * torch.sigmoid(x)", ["torch.randn(37, 1003)"]),
    "softmax": _text("torch.softmax(x, -1)", ["torch.randn(37, 1003)"]),
    "matmul": _text("x @ y", ["torch.randn(69, 150)", "torch.randn(150, 77)"]),
    "linear_relu": _text("torch.relu(self.inner(x))", ["torch.randn(45, 131)"], "nn.Linear(131, 67)"),
    "layer_norm": _text("self.inner(x)", ["torch.randn(19, 517)"], "nn.LayerNorm(517)"),
    "max_pool": _text("self.inner(x)", ["torch.randn(2, 3, 37, 41)"], "nn.MaxPool2d(3)"),
    "row_sums": _text("torch.sum(x, -1) * 0.125", ["torch.randn(67, 301)"]),
}
_EXEMPLARS = {
    "cpu_pointwise": ("swish", _ROWS),
    "cpu_softmax": ("softmax", _ROWS),
    "cpu_gemm_plain": ("matmul", _PRODUCT),
    "cpu_gemm": ("matmul", _PRODUCT),
}


def right_kernels(judge: Judge, jobs: int = 1) -> Iterator[Kernel]:
    """All of them, on the judge's target; so many tasks are described at once. Raises `MachineError`."""
    with ThreadPoolExecutor(jobs) as pool:
        for task in pool.map(lambda name: judge.describe(_TASKS[name], name=name), _TASKS):
            if judge.device.target == PROCESSOR:
                yield from _exemplars(task)
            yield from _written(task, judge)


def _exemplars(task: Task) -> Iterator[Kernel]:
    for exemplar, (of, extents) in _EXEMPLARS.items():
        if of == task.name:
            candidate = Candidate(source=_resized(exemplar, extents), target="cpu", author="exemplar")
            yield Kernel(f"{task.name}: exemplar {exemplar}", task, candidate)


def _resized(name: str, extents: Sequence[int]) -> str:
    """The exemplar for other extents, in the order in which it names its own."""
    exemplar, sizes = load(name), iter(extents)
    problem = _EXTENT.sub(lambda found: f"{found[1]}{next(sizes)}{found[2]}", exemplar.section("problem"))
    text = exemplar.with_sections(problem=problem)
    return re.sub(r"^// (?:begin|end) \w+\n", "", text, flags=re.MULTILINE)


def _written(task: Task, judge: Judge) -> Iterator[Kernel]:
    """The playbook's first kernel, and one that a move or more made of it."""
    target = judge.device.target
    request = Request(
        role="generator", task=task, target=target, precision="ieee", device=judge.facts(),
        compiled_with=compiled_with(target), stub=stub(task, target),
    )  # fmt: skip
    problem = problem_of(request)
    drafts = [] if isinstance(problem, Decline) else list(islice(translations(problem, 1), _DRAFTS + 1))
    chosen = [drafts[number] for number in sorted({0, len(drafts) - 1} if drafts else set())]
    if target == "cuda" and not isinstance(problem, Decline):
        chosen += _moved_on(problem, chosen)
    for draft in chosen:
        candidate = Candidate(source=draft.source, target=target, author="playbook")
        yield Kernel(f"{task.name}: playbook, {draft.move}", task, candidate)


def _moved_on(problem: Problem, drafts: Sequence[Draft]) -> Iterator[Draft]:
    """The kernel some moves further, with the stages and barriers of a GPU's fast kernels; none where it has few."""
    draft = drafts[0] if drafts else None
    tried: list[str] = []
    for _ in range(_MOVES):
        found = next_draft(problem, draft.source, tuple(tried), None, max_sweep=1) if draft else Decline("")
        if isinstance(found, Decline):
            return
        draft = found
        tried.append(found.move)
    yield from [draft] if draft else []
