"""One kernel for several sizes: loops that learn them in the call, and after a move a kernel for each known one.

Knobs: `fixed` (1: a case for each workload; what fits none goes by the loops), then each case's recipe and knobs under
its number ("1.recipe", "1.kernel").
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from knowledge.compiler.recipe import LoopsRecipe
from knowledge.compiler.resizing import generals
from knowledge.playbook import source_text
from knowledge.playbook.expressions import UnwritableError
from knowledge.playbook.partition_recipe import entry_head, include_lines, part
from knowledge.playbook.problem import Problem, Tensor
from knowledge.playbook.recipe import Decline, Move, Plan, Recipe
from knowledge.playbook.sizes import stands_in
from knowledge.playbook.source_text import integers

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
        head = [f"// A kernel for each of {len(cases)} workloads' sizes, and loops for any others."]
        entry = [*_entry(problem, [case for case, _, _ in cases]), "TVM_FFI_DLL_EXPORT_TYPED_FUNC(run, run);", ""]
        parts = [part(text, number) for number, text in enumerate(texts, 1)]
        return "\n".join([*head, plan.comment(), *include_lines(problem, texts), "", *parts, FITS, *entry])

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
                while move := next((each for each in recipe.moves(case, plan) if each.sure), None):
                    plan = move.plan
                yield plan

    def _case(self, plan: Plan, number: int) -> tuple[Recipe, Plan]:
        prefix = f"{number}."
        own = {knob.removeprefix(prefix): value for knob, value in plan.knobs.items() if knob.startswith(prefix)}
        name = own.pop("recipe")
        return next(each for each in self.recipes if each.name == name), Plan(str(name), own)


def _with_case(plan: Plan, number: int, case: Plan) -> Plan:
    return plan.with_knobs(
        **{f"{number}.recipe": case.recipe}, **{f"{number}.{knob}": value for knob, value in case.knobs.items()}
    )


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
    every = (problem.model_copy(update={"others": ()}), *problem.others)
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
