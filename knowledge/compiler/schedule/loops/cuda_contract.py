"""The schedule for products on tensor cores: an implicit GEMM over the operands' index maps (exemplar contract_3xtf32).

Knobs: `bm`, `bn` (a block's tile). Without them each kernel takes the tile that should need the fewest cycles, or on
Hopper, where there is enough to do, the schedule of `schedule/loops/cuda_contract_wgmma.py`.
`products`: 1 rounds a convolution's operands to TF32 where the precision says that PyTorch may; where cuDNN then does
not, the judge refuses it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property

from knowledge.compiler.emit.elements import STORED_TYPES
from knowledge.compiler.emit.source_text import decoded, indented, truth
from knowledge.compiler.emit.spelling import Statements, Views, spelled, within
from knowledge.compiler.ir.expressions import Node
from knowledge.compiler.ir.index import Axis, Index
from knowledge.compiler.ir.nodes import Element, Values
from knowledge.compiler.kernels.source import load
from knowledge.compiler.passes.loops import Nest, Place, indices_of
from knowledge.compiler.plan import PRODUCTS
from knowledge.compiler.problem import Device, Problem
from knowledge.compiler.schedule.loops.contraction import FEW_COLUMNS, INT_SPAN, TILE, Contraction, contraction

# Multiplications below which loops are as good.
WORTH_IT = 1 << 23
# Of what the tensor cores multiply, what must count: they are so much faster than loops.
LEAST_USED = 0.15
# The same of rows that both operands hold along K: loops would read them once for each of few results.
LEAST_OF_ROWS = 0.05
STAGES = 4
# What TF32 holds exactly, and float32, which takes several products.
ELEMENTS = ("float32", "bfloat16", "float16")


@dataclass(frozen=True)
class Tile:
    """A block's tile, a warp's part of it, and how many blocks a multiprocessor must hold."""

    bm: int
    bn: int
    wm: int
    wn: int
    blocks: int = 1

    @property
    def shared_bytes(self) -> int:
        """Shared memory of a block."""
        return max(STAGES * (self.bm + self.bn) * TILE, self.bm * self.bn) * 4

    def speed(self, lone: bool) -> float:
        """Products a cycle beside the best: small tiles read memory more often; a lone block waits at its ends."""
        return self.bm * self.bn / (self.bm * self.bn + 16 * (self.bm + self.bn)) * (0.8 if lone else 1)


TILES = (
    Tile(64, 128, 32, 64, 2), Tile(64, 64, 32, 32, 3), Tile(32, 128, 32, 32, 3), Tile(32, 256, 32, 64, 2),
    Tile(128, 128, 32, 64), Tile(64, 256, 32, 64), Tile(128, 64, 32, 32),
)  # fmt: skip


def matches(problem: Problem, nest: Nest, graph: Values) -> Contraction | None:
    """The nest as a product that pays on tensor cores; None where the loops write it."""
    device = problem.device
    if not device.has.mma or device.shared_bytes < 96 << 10 or not nest.stores:
        return None
    made = contraction(nest, graph)
    if made is None or not all(each.dtype in ELEMENTS for each in (made.total, made.left, made.right)):
        return None
    batches, m, n, k = made.sizes
    tile = chosen(made, device)
    padded = -(-m // tile.bm) * tile.bm * (-(-n // tile.bn) * tile.bn) * (-(-k // TILE) * TILE)
    fits = n + 256 < INT_SPAN and m + 256 < INT_SPAN and n >= FEW_COLUMNS
    least = LEAST_OF_ROWS if made.k_major and made.wide else LEAST_USED
    return made if fits and batches * m * n * k >= WORTH_IT and m * n * k >= least * padded else None


def products_of(problem: Problem, made: Contraction, knobs: Mapping[str, object]) -> int:
    """TF32 products for one: of float32 three for its accuracy, one where the precision allows it; else one."""
    if "float32" not in (made.left.dtype, made.right.dtype):
        return 1
    return 1 if problem.precision == "tf32" or (knobs.get(PRODUCTS) == 1 and rounded(problem, made)) else 3


def rounded(problem: Problem, made: Contraction) -> bool:
    """Whether PyTorch rounds to TF32 by default: a convolution that cuDNN has such a kernel for.

    Of images with three channels it had none on an H200 (cuDNN of PyTorch 2.11), of those with 64 or more it had.
    """
    even = any(axis.extent % 4 == 0 for axis in made.k)
    return problem.precision == "default" and made.total.convolves and made.left.dtype == "float32" and even


def chosen(made: Contraction, device: Device) -> Tile:
    """The tile that should need the fewest cycles."""
    return ranked(made, device)[0]


def ranked(made: Contraction, device: Device) -> list[Tile]:
    """Tiles by their cycles on the multiprocessor that has most of them."""
    batches, m, n, _ = made.sizes

    def cycles(tile: Tile) -> float:
        tiles, own = -(-m // tile.bm) * -(-n // tile.bn) * batches, max(device.multiprocessors, 1)
        each = tiles / own if tiles > 4 * own * tile.blocks else -(-tiles // own)
        return each * tile.bm * tile.bn / tile.speed(lone=min(each, tile.blocks) == 1)

    return sorted(TILES, key=cycles)


class ContractText:
    """One kernel on tensor cores: what the engine is told of it."""

    who = "tile"
    results = 1
    exemplar = "contract_3xtf32"
    space = "contract"

    def __init__(
        self, name: str, made: Contraction, problem: Problem, stems: Mapping[str, str], scalars: Mapping[str, str],
        device: str, knobs: Mapping[str, object],
    ) -> None:  # fmt: skip
        self.name = f"Contract{name.removeprefix('loops')}"
        self.made, self.nest, self.problem = made, made.nest, problem
        self.stems, self.scalars, self.device, self.knobs = stems, scalars, device, knobs
        self.products = products_of(problem, made, knobs)

    @cached_property
    def tile(self) -> Tile:
        """As the knobs say, else the one that should need the fewest cycles."""
        tile = chosen(self.made, self.problem.device)
        wanted = (self.knobs.get("bm", tile.bm), self.knobs.get("bn", tile.bn))
        return next((each for each in TILES if (each.bm, each.bn) == wanted), tile)

    @property
    def far(self) -> bool:
        """Whether indices need 64 bits."""
        ends = [abs(end) for index in indices_of(self.nest) for end in index.bounds]
        return max(ends, default=0) + 4096 >= INT_SPAN

    def launch(self, arguments: str) -> str:
        """The statement of `run` that starts it."""
        held = f"Arena const held({self.space}::HeldBytes<{self.name}>, {self.device});"
        checked = "".join(f"{self.space}::check_aligned(p{stem}); " for stem in self._aligned)
        return f"{{ {checked}{held} {self.space}::launch({self.name}{{{arguments}}}, held.start(), stream); }}"

    def text(self, parameters: str) -> str:
        """The structure that tells the engine its operands, its tile and its stores."""
        made, (batches, m, n, k) = self.made, self.made.sizes
        loops = ", ".join(f"{kind} = {_names(axes)}" for kind, axes in
                          (("batch", made.batch), ("m", made.m), ("n", made.n), ("k", made.k)) if axes)  # fmt: skip
        body = [
            *(f"{each};" for each in parameters.split(", ")),
            f"static constexpr int M = {m}, N = {n}, K = {k}, Batches = {batches};",
            f"static constexpr int Products = {self.products};  // of float32; 1 is plain TF32",
            f"static constexpr bool Packs = {truth(not made.direct)}, Spares = {truth(made.spares)};",
            f"static constexpr int StrideA = {self._row_stride}, Columns = {self._columns}, Apart = {made.apart};",
            *self._own(),
            *self._row(), *self._left(), *self._step(), *self._store(),
        ]  # fmt: skip
        return "\n".join([
            f"// {loops}; shared memory: {self._budget}", f"struct {self.name} {{", *indented(body), "};"
        ])  # fmt: skip

    def _own(self) -> list[str]:
        """What this engine alone is told."""
        tile = self.tile
        return [
            *(f"using {name} = Int<{value}>;" for name, value in
              (("BLK_M", tile.bm), ("BLK_N", tile.bn), ("WARP_M", tile.wm), ("WARP_N", tile.wn))),
            f"static constexpr bool k_major = {truth(self.made.k_major)};",
            f"static constexpr int CopyRight = {4 if self.made.wide else 1}, Stages = {STAGES}, "
            f"MinBlocks = {tile.blocks};",
        ]  # fmt: skip

    @property
    def _budget(self) -> str:
        tile = self.tile
        stages = f"({tile.bm} + {tile.bn}) x {TILE} x {STAGES} x 4"
        return f"the larger of {stages} and {tile.bm} x {tile.bn} x 4 = {tile.shared_bytes} bytes"

    @property
    def _row_stride(self) -> int:
        (axis,) = self.made.m if self.made.direct and self.made.m else (None,)
        return (self.nest.address(self.made.left).times(axis) or 0) if axis else 0

    @property
    def _columns(self) -> int:
        return 4 if any(map(self._together, self.nest.stores)) else 1

    @property
    def _aligned(self) -> list[str]:
        """What is read or written four elements at a time."""
        tensors = [self.nest.tensor(read) for read in self._read_in_words]
        tensors += [store.tensor for store in self.nest.stores if self._together(store)]
        return list(dict.fromkeys(self.stems[tensor.name] for tensor in tensors))

    @property
    def _read_in_words(self) -> list[Element]:
        operands = ((self.made.left, self.made.direct), (self.made.right, self.made.wide))
        return [read for read, whole in operands if whole]

    def _pointer(self, read: Element) -> str:
        return f"p{self.stems[self.nest.tensor(read).name]}"

    def _row(self) -> Iterator[str]:
        made = self.made
        ats = [f"at{position}" for position in range(len(made.stepped))]
        kind = STORED_TYPES[made.right.dtype]
        yield from ["struct Row {", f"  {kind} const* from;"]
        if ats:
            yield f"  int {', '.join(ats)};"
        yield from ["  bool kept;", "};"]
        yield f"CUTE_DEVICE {kind} const* right_start() const {{ return {self._pointer(made.right)}; }}"
        yield "CUTE_DEVICE Row row(int batch, int n) const {"
        yield from indented(self._decoded(("batch", made.batch), ("n", made.n)))
        kept = ["n < N", *(within(index, extent, no_data) for index, extent in made.guards)]
        for at, each in zip(ats, made.stepped, strict=True):
            low, high = each.step.bounds
            kept.append(f"{at} >= {-high} && {at} < {each.extent - low}")
            yield f"  int const {at} = {spelled(each.row, no_data)};"
        start = f"{self._pointer(made.right)} + ({spelled(made.address.row, no_data)})"
        yield f"  return {{{', '.join([start, *ats, ' && '.join(kept)])}}};"
        yield "}"

    def _left(self) -> Iterator[str]:
        made = self.made
        address = self.nest.address(made.left)
        yield "CUTE_DEVICE float const* left_start(int batch) const {"
        if made.direct:
            outer = Index(tuple(term for term in address.terms if term[0] in made.batch), address.offset)
            yield from indented(self._decoded(("batch", made.batch)))
            yield f"  return {self._pointer(made.left)} + ({spelled(outer, no_data)});"
        else:
            yield f"  return {self._pointer(made.left) if made.left.dtype == 'float32' else 'nullptr'};"
        yield "}"
        statements = self._statements()
        text = statements.single(made.left)
        loops = (("batch", made.batch), ("m", made.m), ("k", made.k))
        yield "CUTE_DEVICE float left(int batch, int m, int k) const {"
        yield from indented([*self._tensors(statements.views), *self._decoded(*loops), f"return {text};"])
        yield "}"
        if made.spares:
            tests = " && ".join(within(index, extent, no_data) for index, extent in self.nest.guards(made.left))
            yield "CUTE_DEVICE bool counts(int batch, int m, int k) const {"
            yield from indented([*self._decoded(*loops), f"return {tests or 'true'};"])
            yield "}"

    def _step(self) -> Iterator[str]:
        made = self.made
        parts = [spelled(each.step, no_data) for each in (made.address, *made.stepped)]
        parts += ["0"] * (4 - len(parts))
        yield "CUTE_DEVICE int4 step(int k) const {"
        yield from indented([*self._decoded(("k", made.k)), f"return make_int4({', '.join(parts)});"])
        yield "}"
        tests = [f"uint32_t(row.at{position} + step.{'yzw'[position]}) < {each.extent}"
                 for position, each in enumerate(made.stepped)]  # fmt: skip
        yield "CUTE_DEVICE static bool inside(Row const& row, [[maybe_unused]] int4 const& step) {"
        yield f"  return {' && '.join(['row.kept', *tests])};"
        yield "}"

    def _store(self) -> Iterator[str]:
        """One column, or four neighbours: each sum through what follows it, then to memory."""
        made, statements = self.made, self._statements()
        lines = statements.write(store.body for store in self.nest.stores)
        names = statements.emitter.name
        together = [store for store in self.nest.stores if self._together(store)]
        each, after = [], []
        for number, store in enumerate(self.nest.stores):
            view = statements.views.of(store.tensor, store.address)
            place = f"m{view.name}({view.at(store.address, names)})"
            value = f"{STORED_TYPES[store.tensor.dtype]}({names(store.body)})"
            each.append(f"y{number}[j] = {value};" if store in together else f"{place} = {value};")
            if store in together:
                held = ", ".join(f"y{number}[{j}]" for j in range(4))
                after.append(f"*reinterpret_cast<float4*>(&{place}) = make_float4({held});")
        element = "x[j]" if together else "x[0]"
        body = [f"float const {self.made.total.name} = {element};", *lines, *each]
        if made.inside:
            tests = " && ".join(within(index, extent, names) for index, extent in made.inside)
            body = [f"if ({tests}) {{", *indented(body), "}"]
        head = self._decoded(("batch", made.batch), ("m", made.m))
        yield "CUTE_DEVICE void store(int batch, int m, int n, float const (&x)[Columns]) const {"
        yield from indented([*self._tensors(statements.views), *head])
        plain = [*self._decoded(("n", made.n)), *body]
        yield from indented(self._in_fours(together, body, after) if together else plain)
        yield "}"

    def _in_fours(self, together: list[Place], body: list[str], after: list[str]) -> list[str]:
        """Four columns are neighbours along the last loop: one decoding, and one store of 16 bytes each."""
        *outer, last = self.made.n
        first = Axis(f"{last.name}first", last.extent)
        numbers = [number for number, store in enumerate(self.nest.stores) if store in together]
        return [
            f"float {', '.join(f'y{number}[4]' for number in numbers)};",
            *self._decoded(("n", (*outer, first))),
            "UNROLL", "for (int j = 0; j < 4; ++j) {",
            *indented([f"[[maybe_unused]] Index const {last.name} = {first.name} + j;", *body]), "}",
            f"Index const {last.name} = {first.name};", *after,
        ]  # fmt: skip

    def _together(self, store: Place) -> bool:
        """Whether four columns from a multiple of four on are 16 aligned bytes of a tensor."""
        address = store.address
        if self.made.inside or not self.made.n or store.tensor.dtype != "float32":
            return False
        last = self.made.n[-1]
        if not all(isinstance(atom, Axis) for atom, _ in address.terms):
            return False
        others = [address.offset, last.extent, *(times for atom, times in address.terms if atom != last)]
        return address.times(last) == 1 and not any(each % 4 for each in others)

    def _statements(self) -> Statements:
        return Statements(self.nest, Views(self.stems), self.scalars, None, exact=False)

    def _tensors(self, views: Views) -> Iterator[str]:
        for view in views.made.values():
            start = f"p{self.stems[view.tensor.name]} + {view.offset}".replace(" + 0", "").replace("+ -", "- ")
            layout = f"{view.layout()});  // {view.comment()}"
            yield f"Tensor m{view.name} = make_tensor(make_gmem_ptr({start}), {layout}"

    def _decoded(self, *loops: tuple[str, Iterable[Axis]]) -> list[str]:
        return [f"[[maybe_unused]] {line}" for name, axes in loops for line in decoded(tuple(axes), name, 1, "Index")]


def no_data(node: Node) -> str:
    """For indices of a contraction, which takes none that is computed. Raises AssertionError."""
    raise AssertionError(f"an index computed from {node.kind}: contraction() takes none")


def engine(exemplar: str) -> str:
    """What all kernels of a schedule on tensor cores share."""
    loaded = load(exemplar)
    return "\n".join(loaded.section(name) for name in ("steps", "fragments", "engine") if name in loaded.sections)


def _names(axes: tuple[Axis, ...]) -> str:
    return " x ".join(f"{axis.name}:{axis.extent}" for axis in axes)
