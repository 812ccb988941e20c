"""The compiler as a recipe of the playbook: any forward that its front can trace, as one kernel or several."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import prod

from knowledge.compiler.emit import source_text
from knowledge.compiler.emit.elements import STORED_TYPES
from knowledge.compiler.emit.float8 import with_float8
from knowledge.compiler.emit.source_text import SCALAR_TYPES, identifiers, tensor_names
from knowledge.compiler.emit.spelling import Views
from knowledge.compiler.ir.cost import WORTH_CACHE
from knowledge.compiler.ir.dtypes import BYTES
from knowledge.compiler.ir.expressions import UnwritableError
from knowledge.compiler.ir.kept import kept
from knowledge.compiler.ir.nodes import Element, Values, elements
from knowledge.compiler.ir.sizes import FLOOR, Size
from knowledge.compiler.ir.verify import verify
from knowledge.compiler.lower.lowering import Lowered
from knowledge.compiler.passes.chunking import chunked
from knowledge.compiler.passes.fusion import Fused, allocated, fused
from knowledge.compiler.passes.loops import Nest, count
from knowledge.compiler.passes.pooling import pooled
from knowledge.compiler.passes.staging import staged
from knowledge.compiler.plan import MOST_CHARACTERS, PRODUCTS, Decline, Move, Plan
from knowledge.compiler.problem import Problem, Scalar, Tensor, base_name
from knowledge.compiler.schedule.loops import cpu, cuda, placewise, shortening, sorting, stepped
from knowledge.compiler.schedule.loops import cpu as cpu_source
from knowledge.compiler.schedule.loops import launches as launching
from knowledge.compiler.schedule.loops.contraction import Contraction
from knowledge.compiler.schedule.loops.cuda_contract import ContractText, matches, ranked, rounded
from knowledge.compiler.schedule.loops.cuda_contract_wgmma import BackgroundText, background
from knowledge.compiler.schedule.loops.cuda_contract_window import WindowText
from knowledge.compiler.schedule.loops.cuda_contract_window import fitting as boxed
from knowledge.compiler.schedule.loops.cuda_held import HeldText
from knowledge.compiler.schedule.loops.cuda_sorting import LongSortText
from knowledge.compiler.schedule.loops.held import Finder, Rows
from knowledge.compiler.schedule.loops.launches import Launch, Part
from knowledge.compiler.schedule.loops.placewise import Places
from knowledge.compiler.schedule.loops.stepped import Loop, laid_out

CHUNK = "chunk"
"""The knob that says of how many steps a chunk of a linear recurrence is."""


@dataclass(frozen=True)
class Compiled:
    """A forward as loop nests, and the tensors that pass between them."""

    graph: Values
    fused: Fused
    nests: tuple[Nest, ...]
    loops: tuple[Loop, ...] = ()
    rows: tuple[Rows, ...] = ()
    groups: tuple[Places, ...] = ()


def compiled(problem: Problem, chunk: int = 0) -> Compiled:
    """The loop nests of a forward, with linear recurrences in chunks of so many steps where `chunk` is not 0.

    Raises `UnwritableError` naming what has no place in the IR.
    """
    return _compiled(problem, chunk)


@kept(8)
def _compiled(problem: Problem, chunk: int) -> Compiled:
    lowered = staged(problem)
    lowered = chunked(lowered, chunk) if chunk else lowered
    verify(node for _, node in lowered.outputs)
    made = fused(problem, lowered)
    if problem.on_gpu:
        made = pooled(made, lowered.graph, {each.name for each in problem.outputs})
    device = None if problem.on_gpu or problem.others else problem.device
    nests, loops, groups = laid_out(made, lowered.graph, problem.on_gpu, device)
    if device is not None and len(nests) > 1 and (again := _in_the_cache(problem, lowered, made, groups)) is not None:
        made, nests, loops, groups = again
    for nest in nests:
        if nest.sorts:
            sorting.check(nest)
        if nest.stepped and problem.on_gpu and sorting.long(nest):
            raise UnwritableError("a sort of more than a block's elements in a loop over steps")
    rows = _held(problem, lowered.graph, nests)
    shared: tuple[Rows | Places, ...] = (*rows, *groups)
    if shared:
        together = [each.numbers for each in shared]
        kept = frozenset[str]().union(*(each.kept for each in shared))
        returned = {each.name for each in problem.outputs}
        made = allocated(made.kernels, returned, together, kept)
    return Compiled(lowered.graph, made, nests, loops, rows, groups)


def _held(problem: Problem, graph: Values, nests: tuple[Nest, ...]) -> tuple[Rows, ...]:
    """The nests of a GPU whose threads hold the rows that they go over."""
    if not problem.on_gpu or any(isinstance(axis.extent, Size) for nest in nests for axis in nest.axes + nest.reduced):
        return ()
    alone = [at for at, nest in enumerate(nests) if matches(problem, nest, graph)]
    returned = {each.name for each in problem.outputs}
    return Finder(nests, graph, returned, alone, problem.device).all()


def _in_the_cache(
    problem: Problem, lowered: Lowered, before: Fused, groups: tuple[Places, ...]
) -> tuple[Fused, tuple[Nest, ...], tuple[Loop, ...], tuple[Places, ...]] | None:
    """The same with more in memory instead of computed again, where all of that is in threads' own."""
    made = fused(problem, lowered, WORTH_CACHE)
    if len(made.between) == len(before.between):
        return None
    nests, loops, new = laid_out(made, lowered.graph, False, problem.device)
    return (made, nests, loops, new) if _shared(made, new) <= _shared(before, groups) else None


def _shared(made: Fused, groups: tuple[Places, ...]) -> int:
    """Bytes of what passes between kernels and is no thread's own."""
    own = frozenset[str]().union(*(each.kept for each in groups))
    return sum(each.numel * BYTES[each.dtype] for each in made.between if each.name not in own)


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
        """Linear recurrences in chunks; on a GPU, tiles for the largest product on tensor cores, and the block size."""
        moves = tuple(_in_chunks(problem, plan))
        if not problem.on_gpu:
            return moves
        products = _on_tensor_cores(problem)
        moves += () if "bm" in plan.knobs else tuple(_tiles(problem, plan, products))
        if "threads" in plan.knobs:
            return moves
        why = "how many threads a block needs to hide the memory's latency depends on the registers that each takes"
        swept = Move("block size", why, plan.with_knobs(threads=cuda.THREADS), sweep={"threads": (128, 512)})
        return (*moves, swept)

    def nbytes(self, problem: Problem) -> int:
        """What the kernels read and write, each tensor once a kernel, or once for those that go place by place."""
        file = File(problem, Plan(self.name))
        groups = {each.numbers[0]: each for each in file.made.groups}
        later = {number for each in groups.values() for number in each.numbers[1:]}
        total = 0
        for number in range(len(file.made.nests)):
            group = groups.get(number)
            own = group.kept if group else ()
            nests = [file.made.nests[at] for at in (group.numbers if group else (number,))]
            tensors = [each for each, _ in file.tensors(nests) if each.name not in own]
            total += 0 if number in later else sum(each.numel * BYTES[each.dtype] for each in tensors)
        return total

    def render(self, problem: Problem, plan: Plan) -> str:
        """The kernel's source; one that would be too long in fewer words."""
        whole = File(problem, plan).text()
        return whole if len(whole) <= MOST_CHARACTERS else File(problem, plan, is_short=True).text()


def _on_tensor_cores(problem: Problem) -> list[Contraction]:
    made = compiled(problem)
    return [found for nest in made.nests if (found := matches(problem, nest, made.graph))]


def _rounded(problem: Problem) -> bool:
    """Whether to begin with convolutions in TF32: where only the judge can tell that cuDNN does not, three products
    are the repair.
    """
    return problem.on_gpu and any(rounded(problem, each) for each in _on_tensor_cores(problem))


def _in_chunks(problem: Problem, plan: Plan) -> Iterator[Move]:
    """Where the device has more threads, or lanes, than the longest loop's states have places."""
    made, device = compiled(problem), problem.device
    if CHUNK in plan.knobs or not made.loops:
        return
    longest = max(made.loops, key=lambda each: each.step.extent)
    width = device.multiprocessors * 4 * cuda.THREADS if problem.on_gpu else device.threads * device.simd_floats
    places = max(count(made.nests[number].axes) for number in longest.numbers) * count(longest.apart)
    length = 1 << (longest.step.extent.bit_length() // 2)
    if places < width and len(compiled(problem, length).loops) > len(made.loops):
        why = (
            f"{places} places leave threads without work, which chunks of steps have side by side for a second product"
        )
        yield Move(f"chunks of {length} steps", why, plan.with_knobs(**{CHUNK: length}))


def _tiles(problem: Problem, plan: Plan, products: list[Contraction]) -> Iterator[Move]:
    if not products:
        return
    largest = max(products, key=lambda each: prod(each.sizes))
    first = 0 if background(problem, largest, plan.knobs) or boxed(problem, largest, plan.knobs) else 1
    why = "how much of a tile waits for memory, and for the tiles before it to end, is seen only by running it"
    for tile in ranked(largest, problem.device)[first : first + 3]:
        yield Move(f"tiles of {tile.bm} x {tile.bn}", why, plan.with_knobs(bm=tile.bm, bn=tile.bn))


class File:
    """One source file: a function for each kernel, and `run`, which calls them in their order.

    `is_short`: without comments, with numbers for names, and one template for functions that differ in sizes alone.
    """

    def __init__(self, problem: Problem, plan: Plan, is_short: bool = False) -> None:
        self.problem = problem
        self.plan = plan
        self.is_short = is_short
        self.made = compiled(problem, int(plan.knobs.get(CHUNK, 0)))
        between = (*self.made.fused.between, *(own for each in self.made.groups for own in each.own))
        named = [*(each.name for each in problem.arguments), *(each.name for each in between)]
        self.names = shortening.short(named, "a") if is_short else identifiers(named)
        self.stems = tensor_names(self.names)
        self.sizes = tuple(source_text.sizes_of(problem))
        self.scalars = {each.name: f"p{self.stems[each.name]}" for each in problem.inputs if isinstance(each, Scalar)}

    def text(self) -> str:
        """The whole source."""
        text = self._for_the_gpu() if self.problem.on_gpu else self._for_the_processor()
        text = with_float8(self.problem, text)
        begins = "using namespace cute;\n"
        return text.replace(begins, f"{begins}\n{FLOOR}", 1) if "floor_" in text else text

    def _for_the_gpu(self) -> str:
        texts: list[tuple[cuda.KernelText | ContractText, str]] = []
        body = self._pointers()
        for number, each in enumerate(self.launches):
            nests = [self.made.nests[at] for at in each.numbers]
            if self.same[number] == number:
                texts += self._parts(each, each.numbers[0], self._own_stems(each) if self.is_short else self.stems)
            known = self.launches[self.same[number]]
            first = self._first(known, self.stems)
            if each.loop:
                parts = self._stepped(known, known.numbers[0], self.stems)
                given = [nests] if stepped.one_launch(parts, each.loop) else [[nest] for nest in nests]
                body += [*stepped.start(parts, each.loop, [self._arguments(one) for one in given]), "launched();"]
            elif first.results:
                body += [launching.start(first, each.alone, self._arguments(nests, each.kept)), "launched();"]
        if self.is_short:
            functions, called = shortening.merged({part.name: text for part, text in texts if text})
            texts = [(part, functions.get(part.name, "") if text else "") for part, text in texts]
            body = [shortening.with_names(line, called) for line in body]
        threads = int(self.plan.knobs.get("threads", cuda.THREADS))
        return cuda.source(self.problem, self.names, self._comment(), self.plan, texts, body, threads)

    def _parts(
        self, launch: Launch, number: int, stems: Mapping[str, str]
    ) -> list[tuple[cuda.KernelText | ContractText, str]]:
        """A launch's kernels, with the first one the text of all, named by a number."""
        nests = [self.made.nests[at] for at in launch.numbers]
        if launch.loop:
            steps = self._stepped(launch, number, stems)
            if stepped.one_launch(steps, launch.loop):
                text = stepped.on_a_gpu(steps, launch.loop, self._parameters(nests, stems))
                return [*zip(steps, [text, *[""] * (len(steps) - 1)], strict=True)]
            return [(part, part.text(self._parameters([part.nest], stems))) for part in steps]
        if launch.rows:
            held = self._first(launch, stems, number)
            return [(held, held.text(self._parameters(nests, stems, launch.kept)))]
        parts = [self._for_a_gpu(number, nest, stems) for nest in nests]
        parameters = self._parameters(nests, stems, launch.kept)
        loops = [each for each in parts if isinstance(each, cuda.KernelText)]
        whole = parts[0].text(parameters) if len(parts) == 1 else launching.text(loops, launch, parameters)
        return [*zip(parts, [whole, *[""] * (len(parts) - 1)], strict=True)]

    def _first(self, launch: Launch, stems: Mapping[str, str], number: int | None = None) -> Part:
        """A launch's first kernel, or the one that it is."""
        number = launch.numbers[0] if number is None else number
        if launch.rows is None:
            return self._for_a_gpu(number, self.made.nests[launch.numbers[0]], stems)
        between = frozenset(each.name for each in self.made.fused.between)
        device = self.problem.device
        return HeldText(f"loops{number}", launch.rows, stems, self.scalars, device, between)

    def _stepped(self, launch: Launch, number: int, stems: Mapping[str, str]) -> list[cuda.KernelText]:
        """The kernels of a loop over time."""
        nests = [self.made.nests[at] for at in launch.numbers]
        names = [f"loops{number}" + (f"_{place}" if place else "") for place in range(len(nests))]
        return [cuda.KernelText(name, nest, self.made.graph, stems, self.scalars, self.problem.device)
                for name, nest in zip(names, nests, strict=True)]  # fmt: skip

    def _for_a_gpu(self, number: int, nest: Nest, stems: Mapping[str, str]) -> cuda.KernelText | ContractText:
        """On tensor cores what pays there, else loops."""
        name, graph, device = f"loops{number}", self.made.graph, self.problem.device
        product = None if self.sizes else self._products[id(nest)]
        place = f"{self.names[self.problem.outputs[0].name]}.device()"
        if sorting.long(nest):
            return LongSortText(name, nest, graph, stems, self.scalars, device, place)
        if product is None:
            return cuda.KernelText(name, nest, graph, stems, self.scalars, device)
        if window := boxed(self.problem, product, self.plan.knobs):
            return WindowText(name, window, self.problem, stems, self.scalars, place, self.plan.knobs)
        laid = background(self.problem, product, self.plan.knobs)
        kind, product = (BackgroundText, laid) if laid else (ContractText, product)
        return kind(name, product, self.problem, stems, self.scalars, place, self.plan.knobs)

    def _for_the_processor(self) -> str:
        lanes = self.lanes
        units = [(self.same[number], each) for number, each in enumerate(self.launches)]
        functions = {
            f"loops{each.numbers[0]}": self._on_the_processor(
                number, each, self._own_stems(each) if self.is_short else self.stems
            )
            for number, (same, each) in enumerate(units)
            if same == number
        }
        given = [self._arguments([self.made.nests[at] for at in each.numbers], each.kept) for _, each in units]
        calls = [
            f"loops{self.launches[same].numbers[0]}({arguments});"
            for (same, _), arguments in zip(units, given, strict=True)
        ]
        if self.is_short:
            functions, called = shortening.merged(functions)
            calls = [shortening.with_names(call, called) for call in calls]
        entry = source_text.entry(self.problem, self.names, [*self._pointers(), *calls])
        code = "\n\n".join(functions.values()) + "\n"
        return cpu_source.source(self._comment(), self.plan, code, entry, lanes)

    def _on_the_processor(self, number: int, launch: Launch, stems: Mapping[str, str]) -> str:
        nests = [self.made.nests[at] for at in launch.numbers]
        name, device = f"loops{self.launches[number].numbers[0]}", self.problem.device
        choices = [cpu.chosen(nest, self.made.graph, self.lanes) for nest in nests]
        views = Views(stems)
        parts = [cpu.KernelText(name, each, stems, self.scalars, device, views) for each in choices]
        parameters = self._parameters(nests, stems, launch.kept)
        if launch.loop:
            return stepped.on_a_processor(parts, launch.loop, parameters, device)
        if launch.places:
            return placewise.function(parts, launch.places, parameters, device)
        return "\n".join(parts[0].lines(parameters))

    @cached_property
    def lanes(self) -> int:
        """Elements in a vector of the processor's."""
        return cpu.lanes_of(self.made.nests, self.problem.device)

    @cached_property
    def launches(self) -> list[Launch]:
        """The kernels, those together that one launch of a GPU serves."""
        if not self.problem.on_gpu or self.sizes:
            return self._with_loops([Launch((number,)) for number in range(len(self.made.nests))])
        parts = [self._for_a_gpu(number, nest, self.stems) for number, nest in enumerate(self.made.nests)]
        found = launching.launches(parts, self._meet, self.made.rows)
        return self._with_loops([launching.keeping(each, self._own(each)) if each.alone else each for each in found])

    def _with_loops(self, launches: list[Launch]) -> list[Launch]:
        """With the kernels of each loop over time together, and those that threads do place by place."""
        loops = {loop.numbers[0]: Launch(loop.numbers, loop=loop) for loop in self.made.loops}
        for each in self.made.groups:
            loops[each.numbers[0]] = Launch(each.numbers, kept=each.kept, places=each)
        later = {number for each in loops.values() for number in each.numbers[1:]}
        return [loops.get(each.numbers[0], each) for each in launches if each.numbers[0] not in later]

    def _own(self, launch: Launch) -> list[Tensor]:
        """What passes between the kernels of a launch alone."""
        nests = self.made.nests
        others = self.tensors([nest for number, nest in enumerate(nests) if number not in launch.numbers])
        elsewhere, between = {each.name for each, _ in others}, {each.name for each in self.made.fused.between}
        own = self.tensors([nests[number] for number in launch.numbers])
        return [each for each, _ in own if each.name in between - elsewhere]

    @cached_property
    def _products(self) -> dict[int, Contraction | None]:
        """Each nest's product on tensor cores, by the nest's identity."""
        return {id(nest): matches(self.problem, nest, self.made.graph) for nest in self.made.nests}

    @cached_property
    def _between(self) -> list[Tensor]:
        """What passes between launches, by way of memory."""
        kept = frozenset[str]().union(*(each.kept for each in self.launches))
        return [each for each in self.made.fused.between if each.name not in kept]

    def _meet(self, one: Tensor, other: Tensor) -> bool:
        """Whether two tensors have memory in common."""
        places = self.made.fused.places
        if one.name == other.name or not {one.name, other.name} <= places.keys():
            return one.name == other.name
        ends = [places[each.name] + each.numel * BYTES[each.dtype] for each in (one, other)]
        return places[one.name] < ends[1] and places[other.name] < ends[0]

    @cached_property
    def same(self) -> list[int]:
        """For each launch the number of the first that reads the same but for its tensors' names: it is called again.

        Models repeat their layers: a ResNet101 of 101 convolutions has 20 that differ.
        """
        first: dict[str, int] = {}
        return [first.setdefault(self._nameless(each), number) for number, each in enumerate(self.launches)]

    def _nameless(self, launch: Launch) -> str:
        """The kernel's text, its tensors numbered as it takes them."""
        stems = self._own_stems(launch)
        if not self.problem.on_gpu:
            return self._on_the_processor(0, launch, stems)
        return self._parts(launch, 0, stems)[0][1]

    def _own_stems(self, launch: Launch) -> dict[str, str]:
        """A number for each of its tensors."""
        nests = [self.made.nests[at] for at in launch.numbers]
        return {each.name: f"T{place}" for place, (each, _) in enumerate(self.tensors(nests))}

    def _comment(self) -> list[str]:
        operations = Counter(base_name(op.target) for op in self.problem.ops)
        words = ", ".join(name if times == 1 else f"{name} x{times}" for name, times in operations.items())
        lines = [f"{words}: {len(self.made.nests)} loop nest{'s' if len(self.made.nests) > 1 else ''}."]
        if self.is_short:
            return lines
        for number, launch in enumerate(self.launches):
            if (same := self.same[number]) != number:
                lines.append(f"  loops{self.launches[same].numbers[0]} again")
                continue
            first, *others = (_said(self.made.nests[at]) for at in launch.numbers)
            lines += [f"  loops{launch.numbers[0]}: {first}", *(f"    then: {each}" for each in others)]
        if self._between:
            lines.append(f"  between them: {self.made.fused.nbytes} bytes")
        return lines

    def tensors(self, nests: Sequence[Nest]) -> list[tuple[Tensor, bool]]:
        """What kernels of one launch read and write, each with whether they write it."""
        read = {nest.tensor(node).name: nest.tensor(node) for nest in nests for node in elements(*nest.bodies)
                if isinstance(node, Element) and node.kind == "read"}  # fmt: skip
        written = {store.tensor.name: store.tensor for nest in nests for store in nest.stores}
        only = [(each, False) for name, each in read.items() if name not in written]
        return [*only, *((each, True) for each in written.values())]

    def _used_scalars(self, nests: Sequence[Nest]) -> list[Scalar]:
        used = {node.op for nest in nests for node in elements(*nest.bodies) if node.kind == "scalar"}
        return [each for each in self.problem.inputs if isinstance(each, Scalar) and each.name in used]

    def _parameters(self, nests: Sequence[Nest], stems: Mapping[str, str], kept: Collection[str] = ()) -> str:
        tensors = [
            f"{STORED_TYPES[each.dtype]}{'' if written else ' const'}* p{stems[each.name]}"
            for each, written in self.tensors(nests)
            if each.name not in kept
        ]
        scalars = [f"{SCALAR_TYPES[each.type]} {self.scalars[each.name]}" for each in self._used_scalars(nests)]
        sizes = [f"int64_t {size}" for size in self.sizes]
        return ", ".join([*tensors, *scalars, *sizes])

    def _arguments(self, nests: Sequence[Nest], kept: Collection[str] = ()) -> str:
        tensors = [f"p{self.stems[each.name]}" for each, _ in self.tensors(nests) if each.name not in kept]
        return ", ".join([*tensors, *(self.names[each.name] for each in self._used_scalars(nests)), *self.sizes])

    def _pointers(self) -> list[str]:
        """Where every tensor begins."""
        outputs = {each.name for each in self.problem.outputs}
        used = {tensor.name for tensor, _ in self.tensors(self.made.nests)}
        lines = []
        for each in self.problem.arguments:
            if isinstance(each, Tensor) and each.name in used:
                kind = STORED_TYPES[each.dtype] + ("" if each.name in outputs else " const")
                start = f"static_cast<{kind}*>({self.names[each.name]}.data_ptr())"
                lines.append(f"{self._kind(kind)} const p{self.stems[each.name]} = {start};")
        made = self.made.fused
        if self._between:
            first = next(self.names[each.name] for each in self.problem.arguments if isinstance(each, Tensor))
            lines.append(f"Arena const arena({made.nbytes}, {first}.device());")
        for each in self._between:
            kind = STORED_TYPES[each.dtype]
            start = f"reinterpret_cast<{kind}*>(arena.start() + {made.places[each.name]})"
            lines.append(f"{self._kind(kind)} const p{self.stems[each.name]} = {start};")
        return lines

    def _kind(self, element: str) -> str:
        return "auto*" if self.is_short else f"{element}*"


def _said(nest: Nest) -> str:
    """What a kernel computes, in a line."""
    loops = " x ".join(str(axis.extent) for axis in nest.axes) or "1"
    over = " x ".join(str(axis.extent) for axis in nest.reduced)
    kinds = ", ".join(dict.fromkeys(total.op for total in nest.totals))
    what = f", {kinds} along {nest.scanned.extent}" if nest.scanned else f", {kinds} over {over}" if over else ""
    return f"{loops}{what}; {len(nest.stores)} stored"
