"""Right kernels to begin with: the exemplars, and what playbook and compiler write, for small tasks of odd sizes."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import islice

from harness.building.toolchain import compiled_with
from harness.judging.protocol import KernelJudge
from harness.nouns.candidate import Candidate, TargetName
from harness.nouns.devices import on_gpu
from harness.nouns.task import Task
from harness.wire.entry import stub
from knowledge.compiler.kernels.source import PROCESSOR, load
from knowledge.compiler.plan import Decline, Draft
from knowledge.compiler.problem import Problem
from knowledge.compiler.search.moves import next_draft, translations
from nodes.models.playbook import problem_of
from nodes.request import Request

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


def right_kernels(judge: KernelJudge, jobs: int = 1) -> Iterator[Kernel]:
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


def _written(task: Task, judge: KernelJudge) -> Iterator[Kernel]:
    """The playbook's first kernel, and one that a move or more made of it."""
    target = judge.device.target
    request = Request(
        role="generator", task=task, target=target, precision="ieee", device=judge.facts(),
        compiled_with=compiled_with(target), stub=stub(task, target),
    )  # fmt: skip
    problem = problem_of(request)
    drafts = [] if isinstance(problem, Decline) else list(islice(translations(problem, 1), _DRAFTS + 1))
    chosen = [drafts[number] for number in sorted({0, len(drafts) - 1} if drafts else set())]
    if on_gpu(target) and not isinstance(problem, Decline):
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


# -- Kernels with one mistake each, as people and models make them: by rules over the text of a right one -------------


_APART = re.compile(
    r"//[^\n]*|/\*.*?\*/|\"(?:\\.|[^\"\\\n])*\"|^[ \t]*#[ \t]*(?:include|define|if|endif|else)[^\n]*",
    re.DOTALL | re.MULTILINE,
)
_GUARD = re.compile(r"^(?:inline |static )?void require\(.*?^}$", re.DOTALL | re.MULTILINE)
"""Text that the rules leave alone: comments, strings and directives, and the test of the arguments."""
_NAME = r"[A-Za-z_]\w*"


@dataclass(frozen=True)
class Operator:
    """One kind of mistake. `change` gives what stands in place of a match; nothing where it does not apply there."""

    name: str
    pattern: re.Pattern[str]
    change: Callable[[re.Match[str]], str | None]
    target: TargetName | None = None


@dataclass(frozen=True)
class Mutant:
    """A right kernel's source with one mistake in `line`."""

    operator: str
    line: int
    source: str


def _operator(name: str, pattern: str, replacement: str, target: TargetName | None = None) -> Operator:
    return Operator(name, re.compile(pattern, re.MULTILINE), lambda found: found.expand(replacement), target)


def _scaled(found: re.Match[str]) -> str | None:
    """A literal that is no 0, 1 or 2, one part in eight larger."""
    value = float(found[1])
    return f"{value * 1.125!r}f" if value not in (0.0, 1.0, 2.0) and 1e-6 < value < 1e6 else None


OPERATORS: tuple[Operator, ...] = (
    _operator(
        "dropped predicate", rf"\bstd::min(?:<\w+>)?\(({_NAME}(?:\{{\}})?), [^;()]*(?:\([^()]*\)[^;()]*)*\)", r"int(\1)"
    ),
    _operator("dropped predicate", r"\bif \(([^();]* < [^();]*)\) (?=[\w(*])", r"if (true) "),
    _operator("loop one too far", r"(for \((?:int|int64_t) \w+ = [^;]+; \w+) < ([^;]+;)", r"\1 <= \2"),
    _operator("loop begins late", r"(for \((?:int|int64_t) \w+ = )0;", r"\g<1>1;"),
    _operator("tile left out", r"\bceil_div\(([^()]+(?:\{\})?), ([^()]+)\)", r"((\1) / (\2))"),
    _operator("wrong step", rf"(; )({_NAME}) \+= ({_NAME}(?:\{{\}})?)\)", r"\1\2 += 2 * \3)"),
    _operator("wrong stride", rf"\bStride<({_NAME}), (_1|Int<1>)>", r"Stride<Int<\1::value + 1>, \2>"),
    _operator("wrong stride", r"(\[[^\[\]]*\w \* )(\d+)( \+)", r"\1(\2 + 1)\3"),
    _operator("swapped coordinates", r"\b(g\w+|m[A-Z]\w*|s[A-Z]\w*|tC\w+)\((\w+), (\w+)\)(?! const)", r"\1(\3, \2)"),
    _operator(
        "swapped operands", r"(?<![\w.)\]-] )\b(\w+(?:\([^()]*\))?) ([-/]) (\w+(?:\([^()]*\))?)(?=[;)])", r"\3 \2 \1"
    ),
    _operator("stale stage", r"make_coord\((\w+), (k_tile|k\w*)\)", r"make_coord(\1, 0)"),
    _operator("stale stage", r"\^= ?1;", r"^= 0;"),
    _operator("narrow accumulator", r"\bmake_tensor<(?:float|Vec)>\(", r"make_tensor<cutlass::half_t>("),
    _operator(
        "narrow accumulator", r"^(\s+)(?:float|double|Vec) (\w*(?:sum|acc|total)\w*) =", r"\1_Float16 \2 =", "cpu"
    ),
    _operator("uninitialised accumulator", r"^(\s+)(?:fill|clear)\([^;]*\);", r"\1"),
    _operator("uninitialised accumulator", r"^(\s+(?:float|double|Vec) \w+) = (?:0(?:\.0f?)?|Vec\{\}|\{\});", r"\1;"),
    _operator("missing scale", r" \* (?:scale|inverse|\w*scale\w*|rstd|alpha)\b", r""),
    _operator("missing scale", r" \+ (?:bias|shift|\w*[bB]ias\w*)(?:\([^()]*\)|\[[^\]]*\])?", r""),
    _operator("lost sum", r"^(\s+[^;=\n]*[\w)\]]) \+= ", r"\1 = "),
    _operator("flipped comparison", r"(\w+(?:\([^()]*\))?) > (\w+(?:\([^()]*\))?) \?", r"\1 < \2 ?"),
    _operator("lost sign", rf"\((-)({_NAME})\)", r"(\2)"),
    Operator("wrong constant", re.compile(r"(?<![\w.])(\d+\.\d+(?:e[-+]?\d+)?)f\b"), _scaled),
    _operator("neighbour's index", rf"\b(i|j|n|k) \+ ({_NAME}) \* ({_NAME})", r"\1"),
    _operator("dropped rest", r"^(\s+)for \(; [^\n]*;$", r"\1"),
    _operator("dropped rest", r"^(\s+)for \(; [^\n]*\) \{$", r"\1for (; false;) {"),
    _operator(
        "missing barrier",
        r"^(\s+)(?:__syncthreads\(\)|__syncwarp\(\)|cutlass::arch::NamedBarrier[^;]*);",
        r"\1",
        "cuda",
    ),
    _operator(
        "missing wait",
        r"^(\s+)(?:cp_async_wait<[^;]*|warpgroup_wait<[^;]*|wait_barrier\([^;]*|\w+\.wait\([^;]*);",
        r"\1",
        "cuda",
    ),
    _operator("missing barrier", r"^(\s*)#pragma omp (?:barrier|critical|atomic)[^\n]*", r"\1", "cpu"),
    _operator("missing barrier", r" reduction\([^()]*\)", r"", "cpu"),
    _operator("shared scratch", r"^( *)#pragma omp for[^\n]*", r"\1", "cpu"),
)  # fmt: skip


def mutants_of(source: str, target: TargetName) -> Iterator[Mutant]:
    """Every source that one operator makes of a kernel at one place."""
    apart = [found.span() for pattern in (_APART, _GUARD) for found in pattern.finditer(source)]
    for operator in OPERATORS:
        if operator.target not in (None, target):
            continue
        for found in operator.pattern.finditer(source):
            inside = any(start < found.end() and found.start() < end for start, end in apart)
            changed = None if inside and not found[0].lstrip().startswith("#pragma") else operator.change(found)
            if changed is not None and changed != found[0]:
                mutated = source[: found.start()] + changed + source[found.end() :]
                begins = found.end() - len(found[0].lstrip())
                yield Mutant(operator.name, source.count("\n", 0, begins) + 1, mutated)


def chosen(mutants: Sequence[Mutant], most: int, seed: int) -> list[Mutant]:
    """At most so many, of as many operators as there are, and of each operator at another place for another seed."""
    kinds: dict[str, list[Mutant]] = {}
    for each in mutants:
        kinds.setdefault(each.operator, []).append(each)
    names = sorted(kinds)
    turned = names[seed * most % len(names) :] + names[: seed * most % len(names)] if names else []
    queues = [_from(kinds[name], seed) for name in turned]
    rounds = (each for place in range(max(map(len, queues), default=0)) for each in _nth(queues, place))
    return list(islice(rounds, most))


def _from(mutants: list[Mutant], seed: int) -> list[Mutant]:
    at = seed * 7919 % len(mutants)
    return mutants[at:] + mutants[:at]


def _nth(queues: Sequence[Sequence[Mutant]], place: int) -> Iterator[Mutant]:
    return (queue[place] for queue in queues if place < len(queue))
