"""The compiler as a recipe of the playbook: any forward that its front can trace, as one kernel or several."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property, lru_cache
from math import prod

from knowledge.compiler import cpu, cpu_source, cuda, sorting
from knowledge.compiler.contraction import Contraction
from knowledge.compiler.cuda_contract import ContractText, matches, ranked, rounded
from knowledge.compiler.cuda_contract_wgmma import BackgroundText, fitting
from knowledge.compiler.cuda_sorting import LongSortText
from knowledge.compiler.front import traced
from knowledge.compiler.fusion import Fused, fused
from knowledge.compiler.loops import Nest, nest_of
from knowledge.compiler.nodes import Element, Values, elements
from knowledge.compiler.verify import verify
from knowledge.playbook import source_text
from knowledge.playbook.emission import STORED_TYPES
from knowledge.playbook.expressions import UnwritableError
from knowledge.playbook.identifiers import identifiers, tensor_names
from knowledge.playbook.lowering import base_name
from knowledge.playbook.problem import ByContent, Problem, Scalar, Tensor
from knowledge.playbook.recipe import PRODUCTS, Decline, Move, Plan
from knowledge.playbook.sizes import FLOOR
from knowledge.playbook.source_text import BYTES, SCALAR_TYPES


@dataclass(frozen=True)
class Compiled:
    """A forward as loop nests, and the tensors that pass between them."""

    graph: Values
    fused: Fused
    nests: tuple[Nest, ...]


def compiled(problem: Problem) -> Compiled:
    """The loop nests of a forward. Raises `UnwritableError` naming what has no place in the IR."""
    return _compiled(ByContent.of(problem))


@lru_cache(maxsize=8)
def _compiled(key: ByContent) -> Compiled:
    lowered = traced(key.problem)
    verify(node for _, node in lowered.outputs)
    made = fused(key.problem, lowered)
    assert isinstance(lowered.graph, Values)
    nests = tuple(nest_of(kernel, lowered.graph) for kernel in made.kernels)
    for nest in nests:
        if nest.sorts:
            sorting.check(nest)
    return Compiled(lowered.graph, made, nests)


class LoopsRecipe:
    """Loop nests by the general schedule of the target: threads, registers and blocks from the start."""

    name = "loops"

    def first_plan(self, problem: Problem) -> Plan | Decline:
        """The plan without knobs but for convolutions in TF32 where they may be, or what the front cannot trace."""
        try:
            compiled(problem)
        except UnwritableError as failure:
            return Decline(str(failure))
        return Plan(self.name, {PRODUCTS: 1} if _rounded(problem) else {})

    def moves(self, problem: Problem, plan: Plan) -> tuple[Move, ...]:
        """On a GPU, other tiles for the largest product on tensor cores, and how many threads a block of loops has."""
        if problem.target == "cpu":
            return ()
        products = _on_tensor_cores(problem)
        moves = () if "bm" in plan.knobs else tuple(_tiles(problem, plan, products))
        if "threads" in plan.knobs:
            return moves
        why = "how many threads a block needs to hide the memory's latency depends on the registers that each takes"
        swept = Move("block size", why, plan.with_knobs(threads=cuda.THREADS), sweep={"threads": (128, 512)})
        return (*moves, swept)

    def nbytes(self, problem: Problem) -> int:
        """What the kernels read and write, each tensor once a kernel."""
        file = File(problem, Plan(self.name))
        tensors = (each for nest in file.made.nests for each, _ in file.tensors(nest))
        return sum(each.numel * BYTES[each.dtype] for each in tensors)

    def render(self, problem: Problem, plan: Plan) -> str:
        """The kernel's source."""
        return File(problem, plan).text()


def _on_tensor_cores(problem: Problem) -> list[Contraction]:
    made = compiled(problem)
    return [found for nest in made.nests if (found := matches(problem, nest, made.graph))]


def _rounded(problem: Problem) -> bool:
    """Whether to begin with convolutions in TF32: where only the judge can tell that cuDNN does not, three products
    are the repair.
    """
    return problem.target == "cuda" and any(rounded(problem, each) for each in _on_tensor_cores(problem))


def _tiles(problem: Problem, plan: Plan, products: list[Contraction]) -> Iterator[Move]:
    if not products:
        return
    largest = max(products, key=lambda each: prod(each.sizes))
    first = 0 if fitting(problem, largest, plan.knobs) else 1
    why = "how much of a tile waits for memory, and for the tiles before it to end, is seen only by running it"
    for tile in ranked(largest, problem.device)[first : first + 3]:
        yield Move(f"tiles of {tile.bm} x {tile.bn}", why, plan.with_knobs(bm=tile.bm, bn=tile.bn))


class File:
    """One source file: a function for each kernel, and `run`, which calls them in their order."""

    def __init__(self, problem: Problem, plan: Plan) -> None:
        self.problem = problem
        self.plan = plan
        self.made = compiled(problem)
        between = self.made.fused.between
        self.names = identifiers([*(each.name for each in problem.arguments), *(each.name for each in between)])
        self.stems = tensor_names(self.names)
        self.sizes = tuple(source_text.sizes_of(problem))
        self.scalars = {each.name: f"p{self.stems[each.name]}" for each in problem.inputs if isinstance(each, Scalar)}

    def text(self) -> str:
        """The whole source."""
        text = self._for_the_processor() if self.problem.target == "cpu" else self._for_the_gpu()
        begins = "using namespace cute;\n"
        return text.replace(begins, f"{begins}\n{FLOOR}", 1) if "floor_" in text else text

    def _for_the_gpu(self) -> str:
        parts = [self._for_a_gpu(same, nest, self.stems) for same, nest in zip(self.same, self.made.nests, strict=True)]
        texts = [
            (part, part.text(self._parameters(part.nest, self.stems)))
            for number, part in enumerate(parts)
            if self.same[number] == number
        ]
        body = self._pointers()
        for part in parts:
            if part.results:
                body += [part.launch(self._arguments(part.nest)), "launched();"]
        names = source_text.argument_names(self.problem)
        threads = int(self.plan.knobs.get("threads", cuda.THREADS))
        return cuda.source(self.problem, names, self._comment(), self.plan, texts, body, threads)

    def _for_a_gpu(self, number: int, nest: Nest, stems: Mapping[str, str]) -> cuda.KernelText | ContractText:
        """On tensor cores what pays there, else loops."""
        name, graph, device = f"loops{number}", self.made.graph, self.problem.device
        product = None if self.sizes else matches(self.problem, nest, graph)
        place = f"{self.names[self.problem.outputs[0].name]}.device()"
        if sorting.long(nest):
            return LongSortText(name, nest, graph, stems, self.scalars, device, place)
        if product is None:
            return cuda.KernelText(name, nest, graph, stems, self.scalars, device)
        kind = BackgroundText if fitting(self.problem, product, self.plan.knobs) else ContractText
        return kind(name, product, self.problem, stems, self.scalars, place, self.plan.knobs)

    def _for_the_processor(self) -> str:
        lanes = self.lanes
        nests = [(self.same[number], nest) for number, nest in enumerate(self.made.nests)]
        functions = [
            self._on_the_processor(number, nest, self.stems)
            for number, (same, nest) in enumerate(nests)
            if same == number
        ]
        names = source_text.argument_names(self.problem)
        calls = [f"loops{number}({self._arguments(nest)});" for number, nest in nests]
        entry = source_text.entry(self.problem, names, [*self._pointers(), *calls])
        code = cpu_source.needs_lanes(lanes) + "\n" + "\n\n".join(functions) + "\n"
        return cpu_source.source(self._comment(), self.plan, code, entry, lanes)

    def _on_the_processor(self, number: int, nest: Nest, stems: Mapping[str, str]) -> str:
        choice = cpu.chosen(nest, self.made.graph, self.lanes)
        part = cpu.KernelText(f"loops{number}", choice, stems, self.scalars, self.problem.device)
        return "\n".join(part.lines(self._parameters(choice.nest, stems)))

    @cached_property
    def lanes(self) -> int:
        """Elements in a vector of the processor's."""
        return cpu.lanes_of(self.made.nests, self.problem.device)

    @cached_property
    def same(self) -> list[int]:
        """For each kernel the number of the first that reads the same but for its tensors' names: it is called again.

        Models repeat their layers: a ResNet101 of 101 convolutions has 20 that differ.
        """
        first: dict[str, int] = {}
        return [first.setdefault(self._nameless(nest), number) for number, nest in enumerate(self.made.nests)]

    def _nameless(self, nest: Nest) -> str:
        """The kernel's text, its tensors numbered as it takes them."""
        stems = {each.name: f"T{place}" for place, (each, _) in enumerate(self.tensors(nest))}
        if self.problem.target == "cpu":
            return self._on_the_processor(0, nest, stems)
        return self._for_a_gpu(0, nest, stems).text(self._parameters(nest, stems))

    def _comment(self) -> list[str]:
        operations = Counter(base_name(op.target) for op in self.problem.ops)
        words = ", ".join(name if times == 1 else f"{name} x{times}" for name, times in operations.items())
        lines = [f"{words}: {len(self.made.nests)} loop nest{'s' if len(self.made.nests) > 1 else ''}."]
        for number, nest in enumerate(self.made.nests):
            if (same := self.same[number]) != number:
                lines.append(f"  loops{same} again")
                continue
            loops = " x ".join(str(axis.extent) for axis in nest.axes) or "1"
            over = " x ".join(str(axis.extent) for axis in nest.reduced)
            kinds = ", ".join(dict.fromkeys(total.op for total in nest.totals))
            what = (
                f", {kinds} along {nest.scanned.extent}" if nest.scanned else f", {kinds} over {over}" if over else ""
            )
            lines.append(f"  loops{number}: {loops}{what}; {len(nest.stores)} stored")
        if self.made.fused.between:
            lines.append(f"  between them: {self.made.fused.nbytes} bytes")
        return lines

    def tensors(self, nest: Nest) -> list[tuple[Tensor, bool]]:
        """What a kernel reads and writes, each with whether it writes it."""
        read = {nest.tensor(node).name: nest.tensor(node) for node in elements(*nest.bodies)
                if isinstance(node, Element) and node.kind == "read"}  # fmt: skip
        written = {store.tensor.name: store.tensor for store in nest.stores}
        only = [(each, False) for name, each in read.items() if name not in written]
        return [*only, *((each, True) for each in written.values())]

    def _used_scalars(self, nest: Nest) -> list[Scalar]:
        used = {node.op for node in elements(*nest.bodies) if node.kind == "scalar"}
        return [each for each in self.problem.inputs if isinstance(each, Scalar) and each.name in used]

    def _parameters(self, nest: Nest, stems: Mapping[str, str]) -> str:
        tensors = [
            f"{STORED_TYPES[each.dtype]}{'' if written else ' const'}* p{stems[each.name]}"
            for each, written in self.tensors(nest)
        ]
        scalars = [f"{SCALAR_TYPES[each.type]} {self.scalars[each.name]}" for each in self._used_scalars(nest)]
        sizes = [f"int64_t {size}" for size in self.sizes]
        return ", ".join([*tensors, *scalars, *sizes])

    def _arguments(self, nest: Nest) -> str:
        tensors = [f"p{self.stems[each.name]}" for each, _ in self.tensors(nest)]
        return ", ".join([*tensors, *(self.names[each.name] for each in self._used_scalars(nest)), *self.sizes])

    def _pointers(self) -> list[str]:
        """Where every tensor begins."""
        outputs = {each.name for each in self.problem.outputs}
        used = {tensor.name for nest in self.made.nests for tensor, _ in self.tensors(nest)}
        lines = []
        for each in self.problem.arguments:
            if isinstance(each, Tensor) and each.name in used:
                kind = STORED_TYPES[each.dtype] + ("" if each.name in outputs else " const")
                start = f"static_cast<{kind}*>({self.names[each.name]}.data_ptr())"
                lines.append(f"{kind}* const p{self.stems[each.name]} = {start};")
        made = self.made.fused
        if made.between:
            first = next(self.names[each.name] for each in self.problem.arguments if isinstance(each, Tensor))
            lines.append(f"Arena const arena({made.nbytes}, {first}.device());")
        for each in made.between:
            kind = STORED_TYPES[each.dtype]
            start = f"reinterpret_cast<{kind}*>(arena.start() + {made.places[each.name]})"
            lines.append(f"{kind}* const p{self.stems[each.name]} = {start};")
        return lines
