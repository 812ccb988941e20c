"""One kernel for several sizes: the traces as one problem over sizes, and loops that learn them in the call.

A dimension of an argument that differs is a size of its own; dimensions that always agree are one. Any other number of
the traces that differs (a stride, the shape of a view) is looked for among their products, with a whole factor or
divisor, and their sums with a whole number.

One kernel for several sizes: loops that learn them in the call, and after a move a kernel for each known one.

Knobs: `fixed` (1: a case for each workload; what fits none goes by the loops), then each case's recipe and knobs under
its number ("1.recipe", "1.kernel").
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import chain, combinations_with_replacement
from math import lcm, prod
from typing import Any

from knowledge.compiler.emit import source_text
from knowledge.compiler.emit.source_text import integers
from knowledge.compiler.ir.expressions import UnwritableError
from knowledge.compiler.ir.sizes import STAND_INS, Size, stands_in
from knowledge.compiler.plan import PLAN_MARK, Decline, Move, Plan, Recipe, settled
from knowledge.compiler.problem import Op, Problem, Scalar, Tensor
from knowledge.compiler.schedule.loops.recipe import LoopsRecipe
from knowledge.compiler.schedule.parts.stages import entry_head, include_lines, part

# Sizes multiplied to one number: of a tensor's elements, at most so many dimensions differ.
_FACTORS = 4


def generals(problem: Problem) -> Iterator[Problem]:
    """The problem over sizes of which all its shapes are cases: dimensions apart, then multiples of each other as one.

    Raises `UnwritableError` naming what is no such number.
    """
    every = (problem, *problem.others, *problem.apart)
    if any(len(each.ops) != len(problem.ops) for each in every):
        raise UnwritableError("a forward that takes other operations at other sizes")
    for together in (False, True):
        yield _general(every, _Fit(every, together))


def _general(every: tuple[Problem, ...], fit: _Fit) -> Problem:
    first = every[0]
    groups: dict[str, Any] = {
        kind: tuple(_argument(fit, each) for each in zip(*(getattr(one, kind) for one in every), strict=True))
        for kind in ("inputs", "parameters", "outputs")
    }
    ops = tuple(_op(fit, each) for each in zip(*(one.ops for one in every), strict=True))
    told: dict[str, Any] = {name: getattr(first, name) for name in ("target", "returns", "device", "precision")}
    return Problem.model_construct(**told, **groups, ops=ops, others=())


class _Fit:
    """Finds what a number is that has these values in the traces. `together`: a dimension may be a multiple of another.

    A dimension of which the forward takes a part counts in such parts: so the part is exact.
    """

    def __init__(self, every: tuple[Problem, ...], together: bool) -> None:
        self.known: dict[tuple[int, ...], int] = {}
        self.products: dict[tuple[int, ...], int] = {}
        parts = {*_extents([op.results for op in each.ops] for each in every)}
        for values in _extents((each.inputs, each.parameters) for each in every):
            if values in self.known or (together and any(_times(values, have) for have in self.known)):
                continue
            if len(self.known) == len(STAND_INS):
                raise UnwritableError(f"more than {len(STAND_INS)} sizes that differ between workloads")
            cut = [values[0] // part[0] for part in parts if part[0] and _times(values, part)]
            self.known[values] = Size.named(len(self.known)) * lcm(*cut)
        self.products = dict(reversed([*self._products()]))

    def _products(self) -> Iterator[tuple[tuple[int, ...], int]]:
        for count in range(1, _FACTORS + 1):
            for chosen in combinations_with_replacement(self.known, count):
                made = prod((self.known[each] for each in chosen[1:]), start=self.known[chosen[0]])
                yield tuple(map(prod, zip(*chosen, strict=True))), made

    def __call__(self, values: tuple[int, ...], where: str) -> int:
        """A number, by its value in each trace."""
        if len({*values}) == 1:
            return values[0]
        return next(self._found(values), None) or self._unknown(values, where)

    def _found(self, values: tuple[int, ...]) -> Iterator[int]:
        if values in self.products:
            yield self.products[values]
        yield from (made * times for have, made in self.products.items() if (times := _times(values, have)))
        yield from (made // by for have, made in self.products.items() if (by := _times(have, values)))
        for have, made in self.known.items():
            apart = {one - each for one, each in zip(values, have, strict=True)}
            if len(apart) == 1:
                yield made + apart.pop()

    @staticmethod
    def _unknown(values: tuple[int, ...], where: str) -> int:
        shown = ", ".join(map(str, dict.fromkeys(values)))
        raise UnwritableError(f"a number of {where} that follows from no size of the arguments ({shown})")


def _times(values: tuple[int, ...], have: tuple[int, ...]) -> int:
    """How many times the one the other is, where that is more than once and always the same; else 0."""
    times = values[0] // have[0] if have[0] else 0
    return times if times > 1 and all(one == each * times for one, each in zip(values, have, strict=True)) else 0


def _extents(traces: Iterable[Iterable[Sequence[Tensor | Scalar]]]) -> Iterator[tuple[int, ...]]:
    """The dimensions of some tensors that differ between the traces, each by its values."""
    for tensors in zip(*(chain.from_iterable(each) for each in traces), strict=True):
        shapes = [each.shape for each in tensors if isinstance(each, Tensor)]
        if len({len(each) for each in shapes}) == 1:
            yield from (values for values in zip(*shapes, strict=True) if len({*values}) > 1)


def _argument(fit: _Fit, found: tuple[Tensor | Scalar, ...]) -> Tensor | Scalar:
    first = found[0]
    if isinstance(first, Scalar):
        return first
    return _tensor(fit, tuple(each for each in found if isinstance(each, Tensor)), first.name)


def _tensor(fit: _Fit, found: tuple[Tensor, ...], where: str) -> Tensor:
    if len({(each.dtype, len(each.shape)) for each in found}) > 1:
        raise UnwritableError(f"workloads of several element types or ranks ({where})")
    sizes = {
        kind: tuple(fit(values, where) for values in zip(*(getattr(each, kind) for each in found), strict=True))
        for kind in ("shape", "strides")
    }
    return found[0].model_copy(update=sizes)


def _op(fit: _Fit, found: tuple[Op, ...]) -> Op:
    first = found[0]
    if any((each.target, len(each.args), [*each.kwargs]) != (first.target, len(first.args), [*first.kwargs])
           for each in found):  # fmt: skip
        raise UnwritableError(f"{first.target} in the place of another operation at another size")
    args = tuple(_taken(fit, each, first.target) for each in zip(*(one.args for one in found), strict=True))
    kwargs = {name: _taken(fit, tuple(each.kwargs[name] for each in found), first.target) for name in first.kwargs}
    results = tuple(_tensor(fit, each, first.target) for each in zip(*(one.results for one in found), strict=True))
    return Op.model_construct(target=first.target, args=args, kwargs=kwargs, results=results)


def _taken(fit: _Fit, values: tuple[Any, ...], where: str) -> Any:
    """One argument of an operation."""
    first = values[0]
    if all(each == first and type(each) is type(first) for each in values):
        return first
    if all(isinstance(each, tuple) and len(each) == len(first) for each in values):
        return tuple(_taken(fit, each, where) for each in zip(*values, strict=True))
    if all(type(each) is int for each in values):
        return fit(values, where)
    raise UnwritableError(f"an argument of {where} that differs between workloads")


_LOOPS = LoopsRecipe()
_LEFT = "the playbook's loops would need it before the call"
FITS = """\
// Whether a tensor has this shape and lies like that.
inline bool fits(tvm::ffi::TensorView x, std::initializer_list<int64_t> shape, std::initializer_list<int64_t> strides) {
  if (x.ndim() != int(shape.size())) { return false; }
  for (int dim = 0; dim < x.ndim(); ++dim) {
    if (x.size(dim) != shape.begin()[dim]) { return false; }
    if (x.size(dim) > 1 && x.stride(dim) != strides.begin()[dim]) { return false; }
  }
  return true;
}
"""


class SizesRecipe:
    """For problems with `others`. `recipes` write what is of one size."""

    name = "sizes"

    def __init__(self, recipes: tuple[Recipe, ...]) -> None:
        self.recipes = recipes

    def first_plan(self, problem: Problem) -> Plan | Decline:
        """Loops over whatever sizes come, or what keeps them from being written."""
        if not problem.others:
            return Decline("all sizes are known")
        try:
            _loops(problem)
        except UnwritableError as failure:
            return Decline(str(failure))
        return Plan(self.name)

    def moves(self, problem: Problem, plan: Plan) -> tuple[Move, ...]:
        """A case for each workload; then the cases' own moves, those of one name together. Nothing is swept."""
        if "fixed" not in plan.knobs:
            fixed = self._fixed(problem, plan)
            why = "What is known when a kernel is compiled need not be computed: each workload's sizes as constants."
            return (Move("fixed sizes", why, fixed),) if fixed else ()
        found: dict[str, Move] = {}
        for number, case in enumerate(_cases(problem), 1):
            recipe, own = self._case(plan, number)
            for move in recipe.moves(case, own):
                before = found.get(move.name, replace(move, why=move.why, plan=plan, sweep={}))
                found[move.name] = replace(before, plan=_with_case(before.plan, number, move.plan))
        return tuple(move for move in found.values() if move.plan != plan)

    def render(self, problem: Problem, plan: Plan) -> str:
        """The loops; with `fixed` all kernels in namespaces of their own, and a `run` that looks at the shapes."""
        loops = _loops(problem)
        if "fixed" not in plan.knobs:
            return loops.replace(Plan(_LOOPS.name).comment(), plan.comment(), 1)
        cases = [(case, *self._case(plan, number)) for number, case in enumerate(_cases(problem), 1)]
        texts = [*(recipe.render(case, own) for case, recipe, own in cases), loops]
        head = [f"// A kernel for each of {len(cases)} workloads' sizes, and loops for any others.", plan.comment()]
        return _joined(problem, head, texts, [case for case, _, _ in cases])

    @staticmethod
    def widened(problem: Problem, source: str) -> str | Decline:
        """A kernel of the problem's own sizes with loops beside it for those of its `others`, and all between."""
        try:
            loops = _loops(problem)
        except UnwritableError as failure:
            return Decline(str(failure))
        mark = "\n".join(line for line in source.splitlines() if line.startswith(PLAN_MARK))
        head = ["// A kernel for the task's own sizes, and loops for other batches.", *filter(None, [mark])]
        return _joined(problem, head, [source, loops], [problem])

    def _fixed(self, problem: Problem, plan: Plan) -> Plan | None:
        """Every case by the first recipe that writes it, its sure moves made; None where one has none."""
        plan = plan.with_knobs(fixed=1)
        for number, case in enumerate(_cases(problem), 1):
            begun = next(self._begun(case), None)
            if begun is None:
                return None
            plan = _with_case(plan, number, begun)
        return plan

    def _begun(self, case: Problem) -> Iterator[Plan]:
        for recipe in self.recipes:
            plan = recipe.first_plan(case)
            if isinstance(plan, Plan):
                yield settled(recipe, case, plan)[0]

    def _case(self, plan: Plan, number: int) -> tuple[Recipe, Plan]:
        knobs = plan.part(number, "").knobs
        name = str(knobs.pop("recipe"))
        return next(each for each in self.recipes if each.name == name), Plan(name, knobs)


def _joined(problem: Problem, head: list[str], texts: list[str], cases: list[Problem]) -> str:
    """Kernels in namespaces of their own, of each case and last the loops, and a `run` that looks at the shapes."""
    entry = [*_entry(problem, cases), "TVM_FFI_DLL_EXPORT_TYPED_FUNC(run, run);", ""]
    parts = [part(text, number) for number, text in enumerate(texts, 1)]
    return "\n".join([*head, *include_lines(problem, texts), "", *parts, FITS, *entry])


def _with_case(plan: Plan, number: int, case: Plan) -> Plan:
    return plan.with_part(number, case.with_knobs(recipe=case.recipe))


def _loops(problem: Problem) -> str:
    """The loops' source. Raises `UnwritableError` naming what must be known before the call."""
    failure = UnwritableError(f"several sizes by one kernel: {_LEFT}")
    for general in generals(problem):
        try:
            text = _LOOPS.render(general, Plan(_LOOPS.name))
        except UnwritableError as refused:
            failure = UnwritableError(f"several sizes by one kernel: {refused}")
            continue
        if not stands_in(text):
            return text
    raise failure


def _cases(problem: Problem) -> list[Problem]:
    """The workloads that differ in what they are called with, each as a problem of its own."""
    every = (problem.model_copy(update={"others": (), "apart": ()}), *problem.others)
    return [*{tuple(each.arguments): each for each in reversed(every)}.values()][::-1]


def _entry(problem: Problem, cases: list[Problem]) -> list[str]:
    """`run`: the first case that fits."""
    names = source_text.argument_names(problem)
    passed = ", ".join(names[each.name] for each in problem.arguments)
    lines = []
    for number, case in enumerate(cases, 1):
        tests = [
            f"fits({names[each.name]}, {integers(each.shape)}, {integers(each.strides)})"
            for each in case.arguments if isinstance(each, Tensor)
        ]  # fmt: skip
        lines.append(f"if ({' && '.join(tests)}) {{ return part{number}::run({passed}); }}")
    return [entry_head(problem, names), *source_text.indented([*lines, f"part{len(cases) + 1}::run({passed});"]), "}"]
