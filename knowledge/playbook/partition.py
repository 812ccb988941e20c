"""Cuts a forward that is no single kernel into parts that are, each the longest that some recipe can write.

What a part hands to a later one is materialized in a buffer. Views are not: a later part takes them of the buffer anew.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

from knowledge.compiler.aten import CLASSES
from knowledge.playbook.expressions import UnwritableError
from knowledge.playbook.lowering import WITHOUT_EFFECT, aliases, base_name, reads, refs
from knowledge.playbook.problem import ByContent, Op, Problem, Ref, Scalar, Tensor
from knowledge.playbook.recipe import Decline, Plan, Recipe
from knowledge.playbook.strided import packed_strides

# Operations that one part may take in: what is longer costs seconds to cut.
LONGEST = 24
# What sometimes copies, or is no view that every recipe takes, is materialized.
VIEWS = CLASSES["view"]


@dataclass(frozen=True)
class Stage:
    """One part: what it computes, and the recipe that writes it. Its inputs and outputs go by the values' names."""

    problem: Problem
    recipe: Recipe

    @property
    def plan(self) -> Plan:
        """Its first plan."""
        plan = self.recipe.first_plan(self.problem)
        assert isinstance(plan, Plan)
        return plan


@dataclass(frozen=True)
class Stages:
    """The parts in their order, and the values that pass between them."""

    parts: tuple[Stage, ...]
    between: tuple[Tensor, ...]


def stages_of(problem: Problem, recipes: tuple[Recipe, ...]) -> Stages:
    """The parts of a forward, at least two. Raises `UnwritableError` saying which operation no recipe can write."""
    return _stages(ByContent.of(problem), recipes)


@lru_cache(maxsize=8)
def _stages(key: ByContent, recipes: tuple[Recipe, ...]) -> Stages:
    cut = _Cut(key.problem)
    parts, start = [], 0
    while start < len(cut.ops):
        part, start = _longest(cut, start, recipes)
        parts.append(part)
    if len(parts) < 2:
        raise UnwritableError("a forward without two parts")
    return Stages(tuple(parts), tuple(cut.between.values()))


def _longest(cut: _Cut, start: int, recipes: tuple[Recipe, ...]) -> tuple[Stage, int]:
    """The part from operation `start` on that takes in most operations, and where it ends."""
    last = min(len(cut.ops), start + LONGEST)
    for end in range(last, start, -1):
        for part in cut.parts(start, end):
            for recipe in recipes if part.outputs else ():
                if isinstance(recipe.first_plan(part), Plan):
                    cut.close(part)
                    return Stage(part, recipe), end
    parts = (cut.part(start, end) for end in range(start + 1, len(cut.ops) + 1))
    raise UnwritableError(_why_not(next(part for part in parts if part.outputs), recipes))


def _why_not(part: Problem, recipes: tuple[Recipe, ...]) -> str:
    """What the recipes say on the shortest part, of one operation and views: more than its name, where one does."""
    answers = (recipe.first_plan(part) for recipe in recipes)
    said = [answer.reason.rstrip(".") for answer in answers if isinstance(answer, Decline)]
    telling = [reason for reason in said if reason not in ("the forward holds no matrix product", part.ops[-1].target)]
    return "; ".join(dict.fromkeys(telling or said[:1]))


class _Cut:
    """A problem while it is cut. `between` holds the values that earlier parts hand on, `known` all tensors at hand."""

    def __init__(self, problem: Problem) -> None:
        self.problem = problem = _returning_results(problem)
        self.ops = tuple(op for op in problem.ops if base_name(op.target) not in WITHOUT_EFFECT)
        self.maker = {result.name: k for k, op in enumerate(self.ops) for result in op.results}
        self.results = {result.name: result for op in self.ops for result in op.results}
        self.between: dict[str, Tensor] = {}
        self.known: dict[str, Tensor | Scalar] = {each.name: each for each in (*problem.inputs, *problem.parameters)}
        self._check()

    def _check(self) -> None:
        """What is written in place must be of no further use under its old name, nor may what shares its storage."""
        roots: dict[str, str] = {}
        for k, op in enumerate(self.ops):
            roots |= {result: roots.get(source, source) for result, source in aliases(op)}
            name = base_name(op.target)
            if not name.endswith("_") or name.endswith("__"):
                continue
            old = next(refs(op.args), "")
            root = roots.get(old, old)
            roots[op.results[0].name] = root
            later = {ref for other in self.ops[k + 1 :] for ref in reads(other)} | {*self.problem.returns}
            seen = {ref for ref in later - {op.results[0].name} if roots.get(ref, ref) == root}
            if root not in self.results or self._is_view(old) or seen:
                raise UnwritableError(f"an in-place write that other values may see ({op.target})")

    def _is_view(self, name: str) -> bool:
        return name in self.maker and base_name(self.ops[self.maker[name]].target) in VIEWS

    def _sources(self, name: str, start: int) -> Iterator[str]:
        """The values that must be at hand for this one: itself, or what the earlier views that lead to it start at."""
        if self._is_view(name) and self.maker[name] < start:
            for ref in refs(self.ops[self.maker[name]].args):
                yield from self._sources(ref, start)
        else:
            yield name

    def _views(self, name: str, start: int) -> Iterator[Op]:
        """The earlier views that lead to a value, in order."""
        if self._is_view(name) and self.maker[name] < start:
            op = self.ops[self.maker[name]]
            for ref in refs(op.args):
                yield from self._views(ref, start)
            yield op

    def parts(self, start: int, end: int) -> Iterator[Problem]:
        """The same operations once for each layout of what they hand on: as in the forward, else packed.

        Later views may be none of a packed tensor: heads beside one another are not where they lie one after the other.
        """
        made = self.part(start, end, packed=False)
        yield made
        packed = self.part(start, end)
        if packed.outputs != made.outputs:
            yield packed

    def part(self, start: int, end: int, *, packed: bool = True) -> Problem:
        """Operations `start` to `end` as a problem; its outputs are what is returned or of use later on."""
        own = self.ops[start:end]
        read = [ref for op in own for ref in reads(op)]
        views = {op.results[0].name: op for ref in read for op in self._views(ref, start)}
        needed = {source for ref in read for source in self._sources(ref, start)}
        given = [each for name, each in self.known.items() if name in needed]
        weights = {each.name for each in self.problem.parameters}
        outputs = self._outputs(start, end, packed=packed)
        return self.problem.model_copy(
            update={
                "inputs": tuple(each for each in given if each.name not in weights),
                "parameters": tuple(each for each in given if each.name in weights),
                "outputs": tuple(tensor for tensor, _ in outputs),
                "ops": (*views.values(), *own),
                "returns": tuple(name for _, name in outputs),
            }
        )

    def _outputs(self, start: int, end: int, *, packed: bool) -> list[tuple[Tensor, str]]:
        """The returned tensors, and buffers for what only later parts read; with the value that each holds."""
        made = [result.name for op in self.ops[start:end] for result in op.results]
        final = [
            (tensor, name) for tensor, name in zip(self.problem.outputs, self.problem.returns, strict=True)
            if name in made
        ]  # fmt: skip
        later = [ref for op in self.ops[end:] for ref in reads(op)]
        wanted = {source for ref in later for source in self._sources(ref, end)}
        handed = [
            _buffer(self.results[name], packed=packed)
            for name in made if name in wanted
        ]  # fmt: skip
        return [*final, *((tensor, tensor.name) for tensor in handed)]

    def close(self, part: Problem) -> None:
        """The part is taken: later ones may read what it hands on."""
        final = {tensor.name for tensor in self.problem.outputs}
        handed = {tensor.name: tensor for tensor in part.outputs if tensor.name not in final}
        self.between |= handed
        self.known |= handed


def _returning_results(problem: Problem) -> Problem:
    """The same forward, returning copies of the arguments that it returned: parts write what they make."""
    made = {result.name for op in problem.ops for result in op.results}
    given = {name: tensor for tensor, name in zip(problem.outputs, problem.returns, strict=True) if name not in made}
    copies = tuple(
        Op(
            target="aten.clone.default",
            args=(Ref(ref=name),),
            results=(tensor.model_copy(update={"name": f"{name} copied"}),),
        )
        for name, tensor in given.items()
    )
    returns = tuple(f"{name} copied" if name in given else name for name in problem.returns)
    return problem.model_copy(update={"ops": (*problem.ops, *copies), "returns": returns})


def _buffer(value: Tensor, *, packed: bool) -> Tensor:
    """Memory of its own for a value: in its order of dimensions where that leaves no gaps, else packed."""
    strides = packed_strides(value.shape)
    if not packed:
        order = sorted(range(len(value.shape)), key=lambda axis: -value.strides[axis])
        dense = packed_strides(tuple(value.shape[axis] for axis in order))
        own = tuple(dense[order.index(axis)] for axis in range(len(order)))
        strides = own if own == value.strides else strides
    return value.model_copy(update={"strides": strides})
