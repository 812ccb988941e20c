"""The general schedule for GPUs: a thread a result where neighbours are results, else a warp or a block a result.

Threads of a warp go along the loop whose addresses are neighbours. Where a neighbouring result shares what is read,
one thread computes several. A scan along neighbours is a block's, tile by tile.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import replace

from knowledge.compiler.emit import cuda_frame as frame
from knowledge.compiler.emit.cuda_math import DeviceEmitter
from knowledge.compiler.emit.elements import ELEMENT_TYPES, REDUCERS, literal
from knowledge.compiler.emit.source_text import decoded, indented
from knowledge.compiler.ir.index import Axis
from knowledge.compiler.ir.nodes import Element, Values, neutral, reads
from knowledge.compiler.kernels.source import load
from knowledge.compiler.passes.loops import Nest, Total, count, indices_of, jammed
from knowledge.compiler.plan import Plan
from knowledge.compiler.problem import Device, Problem
from knowledge.compiler.schedule.loops import cpu, sorting
from knowledge.compiler.schedule.loops.cpu import Choice, joined, wide
from knowledge.compiler.schedule.loops.cuda_contract import ContractText, engine

THREADS = 256
# Elements that a thread of a group takes before their sum goes on in a wider type: so many loads are in flight.
STEPS = 8
# Results that keep every multiprocessor busy with a thread each.
MANY = 64 << 10
# Elements up to which a warp reduces a step's result: a block's threads would wait for each other more than they sum.
STEPPED = 1024
JAM = (8, 6, 4, 3, 2)
# Neighbouring elements that a thread of a scan takes at a time: as many fewer steps from thread to thread.
SCANNED = 4

HELPERS = """
// What all threads of a warp, or of a block, hold, joined in the same order for each.
template <class T, class Join>
__device__ inline T over_warp(T value, Join join) {
  for (int mask = 16; mask > 0; mask /= 2) { value = join(value, T(__shfl_xor_sync(~0u, value, mask))); }
  return value;
}
template <class T, class Join>
__device__ inline T over_block(T value, Join join) {
  __shared__ T parts[kThreads / 32];
  value = over_warp(value, join);
  __syncthreads();
  if (threadIdx.x % 32 == 0) { parts[threadIdx.x / 32] = value; }
  __syncthreads();
  T result = parts[0];
  for (int warp = 1; warp < kThreads / 32; ++warp) { result = join(result, parts[warp]); }
  return result;
}
// Of what the threads of a block hold, in their order: that of those before this one joined, and that of all.
template <class T>
struct Scanned {
  T before, all;
};
template <class T, class Join>
__device__ inline Scanned<T> scanned_over_block(T own, T none, Join join) {
  __shared__ T parts[kThreads / 32];
  int const lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  for (int gap = 1; gap < 32; gap *= 2) {
    T const other = __shfl_up_sync(~0u, own, gap);
    if (lane >= gap) { own = join(other, own); }
  }
  T before = __shfl_up_sync(~0u, own, 1);
  if (lane == 0) { before = none; }
  __syncthreads();
  if (lane == 31) { parts[warp] = own; }
  __syncthreads();
  T ahead = none, all = none;
  for (int each = 0; each < kThreads / 32; ++each) {
    if (each == warp) { ahead = all; }
    all = join(all, parts[each]);
  }
  return {join(ahead, before), all};
}
"""
OVER_SHARES = """
// What `Shares` threads hold, `Apart` from each other, joined in the same order for each of them.
template <int Shares, int Apart, int Threads, class T, int N, class Join>
__device__ inline void over_shares(T (&own)[N], Join join) {
  UNROLL
  for (int mask = Apart; mask < Shares * Apart && mask < 32; mask *= 2) {
    UNROLL
    for (int n = 0; n < N; ++n) { own[n] = join(own[n], T(__shfl_xor_sync(~0u, own[n], mask))); }
  }
  constexpr int kWarps = Shares * Apart / 32;
  if constexpr (kWarps > 1) {
    __shared__ T parts[Threads / 32][Apart][N];
    int const warp = threadIdx.x / 32, lane = threadIdx.x % Apart, first = warp / kWarps * kWarps;
    __syncthreads();
    if (threadIdx.x % 32 < Apart) {
      UNROLL
      for (int n = 0; n < N; ++n) { parts[warp][lane][n] = own[n]; }
    }
    __syncthreads();
    UNROLL
    for (int n = 0; n < N; ++n) { own[n] = parts[first][lane][n]; }
    for (int each = 1; each < kWarps; ++each) {
      UNROLL
      for (int n = 0; n < N; ++n) { own[n] = join(own[n], parts[first + each][lane][n]); }
    }
  }
}
"""
OVER_CLUSTER = """
// What the blocks of a cluster hold, joined in their order for each of them.
template <int Blocks, class T, class Join>
__device__ inline void over_cluster(T (&own)[1], Join join) {
  __shared__ T part[1];
  if (threadIdx.x == 0) { part[0] = own[0]; }
  __cluster_barrier_arrive();
  __cluster_barrier_wait();
  own[0] = *static_cast<T*>(__cluster_map_shared_rank(part, 0));
  for (int each = 1; each < Blocks; ++each) {
    own[0] = join(own[0], *static_cast<T*>(__cluster_map_shared_rank(part, each)));
  }
  __cluster_barrier_arrive();
  __cluster_barrier_wait();
}
"""
ARENA = """
// Memory for what passes between kernels, from the caller's allocator, in the order of the stream.
struct Arena {
  tvm::ffi::Tensor held;
  Arena(int64_t bytes, DLDevice device)
      : held(tvm::ffi::Tensor::FromEnvAlloc(TVMFFIEnvTensorAlloc, {bytes}, DLDataType{kDLUInt, 8, 1}, device)) {}
  char* start() const { return static_cast<char*>(held.data_ptr()); }
};
"""


def chosen(nest: Nest, graph: Values) -> tuple[Nest, str]:
    """The nest with its loops in the order of the threads, and who computes a result: "thread", "warp" or "block"."""
    neighbours = {axis: _neighbours(nest, axis) for axis in (*nest.axes, *nest.reduced)}
    free = [axis for axis in nest.axes if axis != nest.scanned and axis.extent > 1]
    best = max(reversed(free), key=lambda axis: neighbours[axis], default=None)
    if nest.sorts:
        return nest, sorting.group(nest)
    if nest.scanned:
        own = neighbours[nest.scanned] > (neighbours[best] if best else 0) and nest.scanned.extent > 32
        return _last(nest, best), "block" if own or best is None else "thread"
    steps = count(nest.reduced)
    inner = max((neighbours[axis] for axis in nest.reduced), default=0)
    outer = neighbours[best] if best else 0
    results = count(nest.axes)
    few = results * 64 < MANY or (results < MANY and _along_steps(nest))
    if nest.totals and steps >= 32 and (inner > outer or few):
        short = STEPPED if nest.stepped else 128
        return nest, "warp" if steps <= short and results >= 1024 else "block"
    return _blocked(_last(nest, best), graph, best), "thread"


def _along_steps(nest: Nest) -> bool:
    """Whether all that is summed lies in neighbours along the sum: a group of threads reads it in whole sectors.

    A thread for each result would read a sector for each element: a product with a weight of (N, K), a cell's step.
    """
    summed = _summed(nest)
    return bool(summed) and all(any(nest.address(read).times(axis) == 1 for axis in nest.reduced) for read in summed)


def _last(nest: Nest, axis: Axis | None) -> Nest:
    """The axis as the fastest of those that are not scanned."""
    kept = tuple(each for each in nest.axes if each != axis)
    return replace(nest, axes=(*kept, axis)) if axis else nest


def _neighbours(nest: Nest, axis: Axis) -> float:
    """How many reads and stores are of neighbours along an axis; a small extent counts less.

    So does what has fewer elements than are computed: a batch norm's weights stay in the caches, its input does not.
    """
    repeated = _repeated(nest)
    often = [read for read in _summed(nest) if any(nest.address(read).uses(over) for over in nest.reduced)]
    near = float(sum(repeated for read in often if nest.address(read).times(axis) == 1))
    others = [read for read in reads(*nest.bodies) if read not in often and nest.address(read).times(axis) == 1]
    near += sum(count(tuple(filter(nest.address(read).uses, nest.axes))) / max(count(nest.axes), 1) for read in others)
    near += sum(2 for store in nest.stores if store.address.times(axis) == 1)
    return near * min(axis.extent, 32) / 32


def _repeated(nest: Nest) -> int:
    """How often what is summed is read for what is stored once.

    Where neighbouring results share all that they read, the caches serve it, and 1 stands for that.
    """
    free = [axis for axis in nest.axes if axis.extent > 1]
    whole = any(all(nest.address(read).uses(axis) for axis in free) for read in _summed(nest))
    return count(nest.reduced) if whole else 1


def _summed(nest: Nest) -> list[Element]:
    return list(reads(*(total.body for total in nest.totals)))


def _blocked(nest: Nest, graph: Values, lane: Axis | None) -> Nest:
    """Several results a thread: along a loop where what neighbours read is the same, and along another."""
    if lane is None or not nest.totals or count(nest.reduced) < 8:
        return nest
    for shared, most in ((True, 8), (False, 4)):
        axis, times = _shared(nest, lane, shared, most)
        if axis is not None and count(nest.axes) // times >= MANY:
            nest = jammed(nest, graph, axis, times)
    return nest


def _shared(nest: Nest, lane: Axis, same: bool, most: int) -> tuple[Axis | None, int]:
    """The loop along which the reads that differ along `lane` are the same, or not; the others the other way."""
    varying = nest.varying(lane)
    read = _summed(nest)
    best: tuple[Axis | None, int] = (None, 1)
    for axis in nest.axes:
        used = {(id(each) in varying, nest.address(each).uses(axis)) for each in read}
        if axis != lane and used == {(True, not same), (False, same)}:
            times = next((each for each in JAM if each <= most and axis.extent % each == 0), 1)
            best = max(best, (axis, times), key=lambda pair: pair[1])
    return best


class KernelText(cpu.KernelText):
    """One kernel for a GPU."""

    index = "Index"

    def __init__(
        self, name: str, nest: Nest, graph: Values, stems: Mapping[str, str], scalars: Mapping[str, str], device: Device
    ) -> None:
        made, self.who = chosen(nest, graph)
        super().__init__(name, Choice(made, None, 1), stems, scalars, device)
        self.statements.emitter = DeviceEmitter()

    def text(self, parameters: str) -> str:
        """The kernel."""
        step = f"{', ' if parameters else ''}Index const {self.nest.stepped.name}" if self.nest.stepped else ""
        head = f"__global__ void __launch_bounds__(kThreads) {self.name}({parameters}{step})"
        return "\n".join([f"{head} {{", *indented(self.inside()), "}"])

    def inside(self, alone: bool = False, kept: Collection[str] = ()) -> list[str]:
        """The kernel's statements; `alone`: those of a block that does all of it, with `kept` in shared memory."""
        body = self._body(alone)
        return [*self.tensors(kept), *body]

    def tensors(self, kept: Collection[str] = ()) -> list[str]:
        """What the statements so far read and write; `kept`: what lies in shared memory."""
        return [
            f"Tensor m{view.name} = make_tensor(make_{'s' if view.tensor.name in kept else 'g'}mem_ptr("
            f"p{self.stem(view.tensor.name)}{_plus(view.offset)}), {view.layout()});  // {view.comment()}"
            for view in self.views.made.values()
        ]

    def stem(self, tensor: str) -> str:
        """A tensor's name after p and m."""
        return self.views.stems[tensor]

    @property
    def results(self) -> int:
        """How many threads, warps or blocks compute something."""
        return count(tuple(axis for axis in self.nest.axes if axis != self.nest.scanned))

    @property
    def far(self) -> bool:
        """Whether indices need 64 bits."""
        bounds = [end for index in indices_of(self.nest) for end in index.bounds if abs(end) < 1 << 61]
        spans = [axis.extent for axis in (*self.nest.axes, *self.nest.reduced)]
        steps = count(self.nest.reduced)
        largest = max(map(abs, (*bounds, *spans, steps, self.results)), default=0)
        return largest + 1024 * STEPS >= 1 << 31

    def launch(self, arguments: str) -> str:
        """The statement of `run` that starts it."""
        if (step := self.nest.stepped) is None:
            return f"{self.grid()}({arguments});"
        name = step.name
        head = f"for (Index {name} = 0; {name} < {step.extent}; ++{name})"
        return f"{head} {{ {self.grid()}({arguments}, {name}); }}"

    def grid(self) -> str:
        """The kernel with its blocks."""
        each = {"thread": "kThreads", "warp": "(kThreads / 32)", "block": "1"}[self.who]
        return f"{self.name}<<<{self.results - 1} / {each} + 1, kThreads, 0, stream>>>"

    def _body(self, alone: bool) -> list[str]:
        axes = [axis for axis in self.nest.axes if axis != self.nest.scanned]
        lines = [*decoded(axes, "t", 1, "Index")]
        if self.nest.sorts:
            lines += sorting.on_a_gpu(self, self.who)
        elif self.who != "thread" and self.nest.scanned:
            lines += self._tiles(self.nest.scanned)
        else:
            lines += self._element()
        if alone:
            return [self._every(), *indented(lines), "}"]
        first = {
            "thread": "Index(blockIdx.x) * kThreads + threadIdx.x",
            "warp": "Index(blockIdx.x) * (kThreads / 32) + threadIdx.x / 32",
            "block": "blockIdx.x",
        }[self.who]
        ends = [] if self.who == "block" else [f"if (t >= {self.results}) {{ return; }}"]
        return [f"[[maybe_unused]] Index const t = {first};", *ends, *lines]

    def _every(self) -> str:
        """Over all results, by one block."""
        first, step = {"thread": ("threadIdx.x", "kThreads"), "warp": ("threadIdx.x / 32", "kThreads / 32"),
                       "block": ("0", "1")}[self.who]  # fmt: skip
        return f"for (Index t = {first}; t < {self.results}; t += {step}) {{"

    def _element(self) -> list[str]:
        if self.who == "thread" or not self.nest.totals:
            return super()._element()
        lines = list(self._together())
        group = "kThreads" if self.who == "block" else "32"
        after = self.stored()
        return [*lines, f"if (threadIdx.x % {group} == 0) {{", *indented(after), "}"]

    def _together(self) -> Iterator[str]:
        """The totals by all threads of a group: STEPS elements each at a time, then joined."""
        group = "kThreads" if self.who == "block" else "32"
        steps, totals = count(self.nest.reduced), self.nest.totals
        for total in totals:
            yield f"{ELEMENT_TYPES[wide(total)]} {total.name}w = {self._start(total, wide(total))};"
        block = self._block()
        inner = [*decoded(self.nest.reduced, "f", 1, "Index"), *block]
        body = [
            "UNROLL", f"for (int u = 0; u < {STEPS}; ++u) {{",
            *indented([f"Index const f = first + u * {group};", f"if (f < {steps}) {{", *indented(inner), "}"]), "}",
        ]  # fmt: skip
        first = f"Index first = threadIdx.x % {group}; first < {steps}; first += {group} * {STEPS}"
        yield from [f"for ({first}) {{", *indented(self._flushed([t for t in totals if cpu.blocked(t)], body)), "}"]
        for total in totals:
            kind = ELEMENT_TYPES[total.dtype]
            yield f"{kind} const {total.name} = {kind}(over_{self.who}({total.name}w, Join_{total.op}{{}}));"

    def _start(self, total: Total, dtype: str) -> str:
        return literal(neutral(total.op, dtype), dtype)

    def _tiles(self, axis: Axis) -> list[str]:
        """A block's scan: a tile of several elements a thread, the tiles before it carried on."""
        (total,) = self.nest.totals
        kind, none = ELEMENT_TYPES[wide(total)], self._start(total, wide(total))
        known = dict(self.statements.emitter.names)
        lines = self.statements.write([total.body])
        taken = [*lines, f"own[k] = {kind}({self.statements.emitter.name(total.body)});"]
        self.statements.emitter.names = known
        after = [f"{ELEMENT_TYPES[total.dtype]} const {total.name} = "
                 f"{ELEMENT_TYPES[total.dtype]}({joined(total, 'ahead', 'own[k]')});"]  # fmt: skip
        after += self.stored()
        here = f"Index const {axis.name} = first + Index(threadIdx.x) * {SCANNED} + k;"
        loop = ["UNROLL", f"for (int k = 0; k < {SCANNED}; ++k) {{"]
        own = [
            here, f"own[k] = {none};", f"if ({axis.name} < {axis.extent}) {{", *indented(taken), "}",
            f"if (k > 0) {{ own[k] = {joined(total, 'own[k - 1]', 'own[k]')}; }}",
        ]  # fmt: skip
        step = [
            f"{kind} own[{SCANNED}];", *loop, *indented(own), "}",
            f"auto const tile = scanned_over_block(own[{SCANNED - 1}], {kind}({none}), Join_{total.op}{{}});",
            f"{kind} const ahead = {joined(total, 'carried', 'tile.before')};",
            *loop, *indented([here, f"if ({axis.name} < {axis.extent}) {{", *indented(after), "}"]), "}",
            f"carried = {joined(total, 'carried', 'tile.all')};",
        ]  # fmt: skip
        return [
            f"{kind} carried = {none};",
            f"for (Index first = 0; first < {axis.extent}; first += kThreads * {SCANNED}) {{", *indented(step), "}",
        ]  # fmt: skip


def _plus(offset: int) -> str:
    return f" + {offset}" if offset > 0 else f" - {-offset}" if offset else ""


def source(
    problem: Problem, names: dict[str, str], comment: list[str], plan: Plan,
    parts: list[tuple[KernelText | ContractText, str]], body: list[str], threads: int,
) -> str:  # fmt: skip
    """The whole file: sections that replace those of the exemplar `pointwise.cu`."""
    functions = "\n\n".join(text for _, text in parts if text)
    ops = dict.fromkeys(
        total.op
        for part, _ in parts
        for total in part.nest.totals
        if part.who in ("warp", "block") and total.op in REDUCERS
    )
    joins = [
        f"struct Join_{op} {{\n  template <class T> __device__ T operator()(T a, T b) const {{ "
        f"return T({REDUCERS[op].join.format('a', 'b')}); }}\n}};"
        for op in ops
    ]  # fmt: skip
    own = "\n".join(joins) + HELPERS if "over_" in functions else ""
    own += OVER_SHARES if "over_shares" in functions else ""
    own += OVER_CLUSTER if "over_cluster" in functions else ""
    if "sort_in_group" in functions:
        own += sorting.FIRST.format(device="__device__ ") + sorting.NETWORK
    far = any(part.far for part, _ in parts)
    contracts = sorted({part.exemplar for part, _ in parts if isinstance(part, ContractText)})
    own = "\n".join([*map(engine, contracts), own])
    exemplar = load(contracts[-1] if contracts else "pointwise")
    return load("pointwise").with_sections(
        includes=exemplar.section("includes"),
        header=frame.header(comment, plan),
        knobs="\n".join(
            [f"constexpr int kThreads = {threads};  // a block", f"using Index = {'int64_t' if far else 'int'};"]
        ),
        arithmetic=(frame.device_helpers(own + functions) + "\n" + own).strip("\n"),
        kernel=functions + (ARENA.rstrip("\n") if any("Arena" in line for line in body) else ""),
        entry=frame.entry(problem, names, [frame.stream(problem, names), *body]),
    )
