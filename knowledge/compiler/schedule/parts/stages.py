"""Cuts a forward into parts, each the longest that some recipe writes, and writes them into one source file.

What a part hands to a later one is materialized in a buffer. Views are not: a later part takes them of the buffer anew.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace

from harness.nouns.aten import of_kinds
from knowledge.compiler.emit import source_text
from knowledge.compiler.emit.source_text import identifiers, integers
from knowledge.compiler.ir.dtypes import BYTES, DLPACK
from knowledge.compiler.ir.expressions import UnwritableError
from knowledge.compiler.ir.kept import kept
from knowledge.compiler.ir.strides import packed_strides
from knowledge.compiler.lower.lowering import WITHOUT_EFFECT
from knowledge.compiler.lower.writes import aliases
from knowledge.compiler.plan import PLAN_MARK, RANK, Decline, Move, Plan, Recipe, settled
from knowledge.compiler.problem import Op, Problem, Ref, Scalar, Tensor, base_name, reads, refs

# Operations that one part may take in: what is longer costs seconds to cut.
LONGEST = 24
# What sometimes copies, or is no view that every recipe takes, is materialized.
VIEWS = of_kinds("reshape", "permute", "expand", "alias") - {"broadcast_tensors", "lift_fresh_copy"}


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


@kept(8)
def stages_of(problem: Problem, recipes: tuple[Recipe, ...]) -> Stages:
    """The parts of a forward, at least two. Raises `UnwritableError` saying which operation no recipe can write."""
    cut = _Cut(problem)
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


_MARK = re.compile(r"// (?:begin|end) \w+")
_DEFINED = re.compile(r"#define (\w+)")

BUFFER = """\
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
"""
BUFFER_ON_GPU = """\
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
"""
HEADERS, HEADERS_ON_GPU = ("cstdlib",), ("cuda_runtime.h", "tvm/ffi/extra/c_env_api.h")


class StagesRecipe:
    """The parts by the recipes for single kernels; a move is made in every part that has it."""

    name = "stages"

    def __init__(self, recipes: tuple[Recipe, ...]) -> None:
        self.recipes = recipes

    def stages(self, problem: Problem) -> Stages:
        """The parts. Raises `UnwritableError` where there are none."""
        return stages_of(problem, self.recipes)

    def first_plan(self, problem: Problem) -> Plan | Decline:
        """Every part's first kernel after its sure moves, or which operation is in no part that can be written."""
        try:
            stages = self.stages(problem)
        except UnwritableError as failure:
            return Decline(str(failure))
        plan = Plan(self.name)
        for number, stage in enumerate(stages.parts, 1):
            begun, _ = settled(stage.recipe, stage.problem, stage.plan)
            plan = plan.with_part(number, begun)
        return plan

    def moves(self, problem: Problem, plan: Plan) -> tuple[Move, ...]:
        """The parts' moves, those of one name together. Nothing is swept: the parts' constants share their names."""
        found: dict[str, Move] = {}
        for number, stage in enumerate(self.stages(problem).parts, 1):
            for move in stage.recipe.moves(stage.problem, plan.part(number, stage.recipe.name)):
                if RANK in move.sweep:
                    continue  # its values are among the moves, too
                before = found.get(move.name, replace(move, why=f"part {number}: {move.why}", plan=plan, sweep={}))
                after = before.plan.with_part(number, move.plan)
                found[move.name] = replace(before, plan=after, sure=before.sure and move.sure)
        return tuple(move for move in found.values() if move.plan != plan)

    def nbytes(self, problem: Problem) -> int | None:
        """What the parts read and write; None where one is a product or attention, whose recipes count for more."""
        parts = self.stages(problem).parts
        if any(part.recipe.name in ("gemm", "attention") for part in parts):
            return None
        tensors = (each for part in parts for each in part.problem.arguments if isinstance(each, Tensor))
        return sum(each.numel * BYTES[each.dtype] for each in tensors)

    def render(self, problem: Problem, plan: Plan) -> str:
        """The kernel's source: the parts in namespaces of their own, and a `run` that calls one after the other."""
        stages = self.stages(problem)
        texts = [
            stage.recipe.render(stage.problem, plan.part(number, stage.recipe.name))
            for number, stage in enumerate(stages.parts, 1)
        ]
        parts = [part(text, number) for number, text in enumerate(texts, 1)]
        head = [f"// {len(parts)} kernels, one after the other; what passes between them lies in memory of their own."]
        buffer = BUFFER_ON_GPU if problem.on_gpu else BUFFER
        entry = [*_entry(problem, stages), "TVM_FFI_DLL_EXPORT_TYPED_FUNC(run, run);", ""]
        return "\n".join([*head, plan.comment(), *include_lines(problem, texts), "", *parts, buffer, *entry])


def include_lines(problem: Problem, texts: list[str]) -> list[str]:
    """What some kernels in one file include, and what holds them together does."""
    own = [f"#include <{header}>" for header in (HEADERS_ON_GPU if problem.on_gpu else HEADERS)]
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
    body = [line for each in stages.between for line in _allocated(each, names[f"between {each.name}"], first)]
    for number, stage in enumerate(stages.parts, 1):
        arguments = ", ".join(passed[each.name] for each in stage.problem.arguments)
        body.append(f"part{number}::run({arguments});")
    return [entry_head(problem, names), *source_text.indented(body), "}"]


def entry_head(problem: Problem, names: dict[str, str]) -> str:
    """How `run` begins."""
    return f"void run({source_text.parameter_list(problem, names)}) {{"


def _allocated(tensor: Tensor, name: str, first: str) -> list[str]:
    code, bits = DLPACK[tensor.dtype]
    rank = len(tensor.shape)
    return [
        f"int64_t shape_{name}[{rank + 1}] = {integers((*tensor.shape, 1))};",
        f"int64_t strides_{name}[{rank + 1}] = {integers((*tensor.strides, 1))};",
        f"Between {name}({first}.device(), DLDataType{{{code}, {bits}, 1}}, shape_{name}, strides_{name}, {rank}, "
        f"{max(tensor.numel, 1) * BYTES[tensor.dtype]});",
    ]
