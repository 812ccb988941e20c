"""Several kernels, one after the other in one source file, for what no recipe writes as a single one."""

from __future__ import annotations

import re
from dataclasses import replace

from knowledge.playbook import source_text
from knowledge.playbook.expressions import UnwritableError
from knowledge.playbook.identifiers import identifiers
from knowledge.playbook.partition import Stage, Stages, stages_of
from knowledge.playbook.problem import Problem, Scalar, Tensor
from knowledge.playbook.recipe import PLAN_MARK, Decline, Move, Plan, Recipe
from knowledge.playbook.source_text import BYTES, DLPACK, integers
from knowledge.playbook.sweeping import RANK

_MARK = re.compile(r"// (?:begin|end) \w+")
_DEFINED = re.compile(r"#define (\w+)")

BUFFER = {
    "cpu": """\
// A tensor between two parts.
struct Between {
  DLTensor tensor;
  Between(DLDevice device, DLDataType type, int64_t* shape, int64_t* strides, int ndim, size_t bytes)
      : tensor{std::aligned_alloc(64, (bytes + 63) / 64 * 64), device, ndim, type, shape, strides, 0} {
    if (tensor.data == nullptr) { TVM_FFI_THROW(RuntimeError) << "no memory for a tensor between two parts"; }
  }
  Between(Between const&) = delete;
  ~Between() { std::free(tensor.data); }
};
""",
    "cuda": """\
// A tensor between two parts, from the caller's allocator, which hands it out again in the order of the stream.
struct Between {
  tvm::ffi::Tensor held;
  DLTensor tensor;
  Between(DLDevice device, DLDataType type, int64_t* shape, int64_t* strides, int ndim, size_t bytes)
      : held(tvm::ffi::Tensor::FromEnvAlloc(
            TVMFFIEnvTensorAlloc, {static_cast<int64_t>(bytes)}, DLDataType{kDLUInt, 8, 1}, device)),
        tensor{held.data_ptr(), device, ndim, type, shape, strides, 0} {}
  Between(Between const&) = delete;
};
""",
}
HEADERS = {"cpu": ("cstdlib",), "cuda": ("cuda_runtime.h", "tvm/ffi/extra/c_env_api.h")}


class StagesRecipe:
    """The parts by the recipes for single kernels; a move is made in every part that has it."""

    name = "stages"

    def __init__(self, recipes: tuple[Recipe, ...]) -> None:
        self.recipes = recipes

    def first_plan(self, problem: Problem) -> Plan | Decline:
        """Every part's first kernel after its sure moves, or which operation is in no part that can be written."""
        try:
            stages = stages_of(problem, self.recipes)
        except UnwritableError as failure:
            return Decline(str(failure))
        return self._joined(Plan(self.name), {k: _begun(stage) for k, stage in enumerate(stages.parts, 1)})

    def moves(self, problem: Problem, plan: Plan) -> tuple[Move, ...]:
        """The parts' moves, those of one name together. Nothing is swept: the parts' constants share their names."""
        found: dict[str, Move] = {}
        for number, stage in enumerate(stages_of(problem, self.recipes).parts, 1):
            for move in stage.recipe.moves(stage.problem, self._part(plan, number, stage.recipe)):
                if RANK in move.sweep:
                    continue  # its values are among the moves, too
                before = found.get(move.name, replace(move, why=f"part {number}: {move.why}", plan=plan, sweep={}))
                after = self._joined(before.plan, {number: move.plan})
                found[move.name] = replace(before, plan=after, sure=before.sure and move.sure)
        return tuple(move for move in found.values() if move.plan != plan)

    def nbytes(self, problem: Problem) -> int | None:
        """What the parts read and write; None where one is a product or attention, whose recipes count for more."""
        parts = stages_of(problem, self.recipes).parts
        if any(part.recipe.name in ("gemm", "attention") for part in parts):
            return None
        tensors = (each for part in parts for each in part.problem.arguments if isinstance(each, Tensor))
        return sum(each.numel * BYTES[each.dtype] for each in tensors)

    def render(self, problem: Problem, plan: Plan) -> str:
        """The kernel's source: the parts in namespaces of their own, and a `run` that calls one after the other."""
        stages = stages_of(problem, self.recipes)
        texts = [
            stage.recipe.render(stage.problem, self._part(plan, number, stage.recipe))
            for number, stage in enumerate(stages.parts, 1)
        ]
        parts = [part(text, number) for number, text in enumerate(texts, 1)]
        head = [f"// {len(parts)} kernels, one after the other; what passes between them lies in memory of their own."]
        entry = [*_entry(problem, stages), "TVM_FFI_DLL_EXPORT_TYPED_FUNC(run, run);", ""]
        return "\n".join(
            [*head, plan.comment(), *include_lines(problem, texts), "", *parts, BUFFER[problem.target], *entry]
        )

    def _part(self, plan: Plan, number: int, recipe: Recipe) -> Plan:
        prefix = f"{number}."
        own = {knob.removeprefix(prefix): value for knob, value in plan.knobs.items() if knob.startswith(prefix)}
        return Plan(recipe.name, own)

    def _joined(self, plan: Plan, parts: dict[int, Plan]) -> Plan:
        knobs = {f"{number}.{knob}": value for number, part in parts.items() for knob, value in part.knobs.items()}
        return plan.with_knobs(**knobs)


def _begun(stage: Stage) -> Plan:
    plan = stage.plan
    while move := next((each for each in stage.recipe.moves(stage.problem, plan) if each.sure), None):
        plan = move.plan
    return plan


def include_lines(problem: Problem, texts: list[str]) -> list[str]:
    """What some kernels in one file include, and what holds them together does."""
    own = [f"#include <{header}>" for header in HEADERS[problem.target]]
    return list(
        dict.fromkeys([*own, *(line for text in texts for line in text.splitlines() if line.startswith("#include "))])
    )


def part(text: str, number: int) -> str:
    """A whole kernel as the content of a namespace: its `run` is called from outside, its macros end with it."""
    dropped = (PLAN_MARK, "#include ", "TVM_FFI_DLL_EXPORT_TYPED_FUNC")
    lines = [line for line in text.splitlines() if not line.startswith(dropped) and not _MARK.fullmatch(line)]
    code = next(k for k, line in enumerate(lines) if not line.startswith("//"))
    ends = [f"#undef {name}" for name in dict.fromkeys(_DEFINED.findall(text))]
    opened = [*lines[:code], f"namespace part{number} {{", *lines[code:], *ends, f"}}  // namespace part{number}", ""]
    return re.sub(r"\n{3,}", "\n\n", "\n".join(opened))


def _entry(problem: Problem, stages: Stages) -> list[str]:
    """`run`: the buffers, then the parts."""
    names = identifiers([each.name for each in problem.arguments] + [f"between {each.name}" for each in stages.between])
    passed = {each.name: names[each.name] for each in problem.arguments}
    for each in stages.between:
        passed[each.name] = f"&{names[f'between {each.name}']}.tensor"
    first = next(names[each.name] for each in problem.arguments if isinstance(each, Tensor))
    body = [line for each in stages.between for line in _buffer(each, names[f"between {each.name}"], first)]
    for number, stage in enumerate(stages.parts, 1):
        arguments = ", ".join(passed[each.name] for each in stage.problem.arguments)
        body.append(f"part{number}::run({arguments});")
    return [entry_head(problem, names), *source_text.indented(body), "}"]


def entry_head(problem: Problem, names: dict[str, str]) -> str:
    """How `run` begins."""
    return f"void run({', '.join(_parameter(each, names[each.name]) for each in problem.arguments)}) {{"


def _parameter(argument: Tensor | Scalar, name: str) -> str:
    if isinstance(argument, Scalar):
        return f"{source_text.SCALAR_TYPES[argument.type]} {name}"
    return f"tvm::ffi::TensorView {name}"


def _buffer(tensor: Tensor, name: str, first: str) -> list[str]:
    code, bits = DLPACK[tensor.dtype]
    rank = len(tensor.shape)
    return [
        f"int64_t shape_{name}[{rank + 1}] = {integers((*tensor.shape, 1))};",
        f"int64_t strides_{name}[{rank + 1}] = {integers((*tensor.strides, 1))};",
        f"Between {name}({first}.device(), DLDataType{{{code}, {bits}, 1}}, shape_{name}, strides_{name}, {rank}, "
        f"{max(tensor.numel, 1) * BYTES[tensor.dtype]});",
    ]
