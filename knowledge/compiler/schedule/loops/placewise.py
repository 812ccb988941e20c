"""Kernels on a processor that a thread does one after the other for each place of the axes where they do not meet.

A row's mean, its variance and what becomes of it are three kernels: row by row each is read from memory once, and what
passes between them stays in the cache, in a thread's own memory where nobody else needs it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from math import prod

from knowledge.compiler.emit.elements import STORED_TYPES
from knowledge.compiler.emit.source_text import decoded, indented
from knowledge.compiler.ir.cost import WORTH_THREADS
from knowledge.compiler.ir.dtypes import BYTES
from knowledge.compiler.ir.index import Axis
from knowledge.compiler.ir.nodes import Values, reads
from knowledge.compiler.passes.apart import separated
from knowledge.compiler.passes.fusion import Fused
from knowledge.compiler.passes.kernel import Kernel
from knowledge.compiler.passes.loops import Nest, count, nest_of
from knowledge.compiler.passes.stepping import in_loop
from knowledge.compiler.problem import Device, Tensor
from knowledge.compiler.schedule.loops import cpu

LEAST, WANTED = 16, 64
"""Elements of a kernel that are worth a place, and how many are made where one has fewer."""
MOST = 8
"""Kernels of one group."""
SLOWER = 1.25
"""How much more all elements may cost where registers lie along other loops."""
OWN_BYTES = 64 << 10
"""What a thread may have of its own."""
CACHE_BYTES = 256 << 10
"""The second cache of a processor that does not say what it has."""


@dataclass(frozen=True)
class Places:
    """The kernels that go together, by their numbers, the axes along which they do, and what each thread has alone."""

    numbers: tuple[int, ...]
    apart: tuple[Axis, ...]
    own: tuple[Tensor, ...]

    @property
    def kept(self) -> frozenset[str]:
        """The names of what each thread has alone."""
        return frozenset(tensor.name for tensor in self.own)


def grouped(fused: Fused, first: int, graph: Values, device: Device) -> tuple[list[Nest], Places] | None:
    """The longest group that begins with a kernel, as loop nests."""
    kernels = fused.kernels
    found = None
    for last in range(first, min(first + MOST, len(kernels))):
        if in_loop(kernels[last]) or any(value.kind == "sort" for _, value in kernels[last].totals):
            break
        if multiplies(kernels[last]):
            break
        made = _apart(kernels[first : last + 1], graph, device) if last > first else None
        if made is not None:
            numbers = tuple(range(first, last + 1))
            own = _own(fused, numbers, *made)
            found = (
                [nest_of(_with(each, own), graph) for each in made[0]],
                Places(numbers, made[1], tuple(own.values())),
            )
    return found


def multiplies(kernel: Kernel) -> bool:
    """Whether it is a product or a convolution: both factors are read again along loops of the results."""
    axes = [axis for axis in kernel.axes if axis.extent > 1]
    for _, value in kernel.totals:
        read = reads(value.body) if value.contracts and value.body is not None else ()
        again = [each for each in read if any(not any(i.uses(axis) for i in each.indices) for axis in axes)]
        if len(again) > 1:
            return True
    return False


def _apart(kernels: Sequence[Kernel], graph: Values, device: Device) -> tuple[list[Kernel], tuple[Axis, ...]] | None:
    """Without as many of the axes as leave registers as full as they were, and what a place needs in the cache."""
    before = sum(_cost(nest_of(each, graph), device) for each in kernels)
    most = len(separated(kernels, graph, 0, 0)[1])
    for outer in range(most, 0, -1):
        made, apart = separated(kernels, graph, LEAST, WANTED, outer)
        nests = [nest_of(each, graph) for each in made]
        if sum(_touched(nests).values()) > (device.l2_bytes or CACHE_BYTES) // 2:
            return None
        after = sum(_cost(each, device) for each in nests) * count(apart)
        if after <= SLOWER * before and count(apart) >= 2 * device.threads:
            return made, apart
    return None


def _cost(nest: Nest, device: Device) -> float:
    """What all elements cost, in loads."""
    each = cpu.cost(nest, cpu.lane(nest, device.simd_floats), device.simd_floats)
    return each * count(nest.axes) * max(count(nest.reduced), 1)


def _touched(nests: Sequence[Nest]) -> dict[str, int]:
    """The bytes of each tensor that one place reads or stores."""
    found: dict[str, int] = {}
    for nest in nests:
        at = [(nest.tensor(read), nest.address(read)) for read in reads(*nest.bodies)]
        for tensor, address in (*at, *((store.tensor, store.address) for store in nest.stores)):
            extents = [axis.extent for axis in (*nest.axes, *nest.reduced) if address.uses(axis)]
            found[tensor.name] = max(found.get(tensor.name, 0), prod(extents) * BYTES[tensor.dtype])
    return found


def _own(fused: Fused, numbers: Sequence[int], made: Sequence[Kernel], apart: Sequence[Axis]) -> dict[str, Tensor]:
    """What passes between these kernels alone, by its name: as a tensor of one place, without the axes of the places.

    All that go together store and read it at their own place of those axes alone.
    """
    others = [each for number, each in enumerate(fused.kernels) if number not in numbers]
    elsewhere = {each.memory[id(read.value)].name for each in others for read in reads(*each.bodies)}
    elsewhere |= {store.tensor.name for each in others for store in each.stores}
    between = {each.name for each in fused.between} - elsewhere
    found: dict[str, Tensor] = {}
    for store in (store for kernel in made for store in kernel.stores if store.tensor.name in between):
        whole = [index.alone not in apart for index in store.indices]
        if any(kept and index.uses(axis) for kept, index in zip(whole, store.indices, strict=True) for axis in apart):
            continue
        extents = [extent if kept else 1 for extent, kept in zip(store.tensor.shape, whole, strict=True)]
        steps = [prod(extents[dim + 1 :]) if kept else 0 for dim, kept in enumerate(whole)]
        found[store.tensor.name] = store.tensor.model_copy(update={"strides": tuple(steps)})
    return found if sum(map(_bytes, found.values())) <= OWN_BYTES else {}


def _bytes(own: Tensor) -> int:
    return _elements(own) * BYTES[own.dtype]


def _elements(own: Tensor) -> int:
    """Of one place."""
    return prod(extent for extent, step in zip(own.shape, own.strides, strict=True) if step)


def _with(kernel: Kernel, own: dict[str, Tensor]) -> Kernel:
    """A kernel that has some tensors in a thread's own memory."""
    memory = {key: own.get(tensor.name, tensor) for key, tensor in kernel.memory.items()}
    stores = tuple(replace(each, tensor=own.get(each.tensor.name, each.tensor)) for each in kernel.stores)
    return replace(kernel, memory=memory, stores=stores)


def function(parts: Sequence[cpu.KernelText], places: Places, parameters: str, device: Device) -> str:
    """The function that does all kernels, place by place."""
    inside = [line for part in parts for line in ("{", *indented(part.by_one_thread()), "}")]
    tasks = count(places.apart)
    steps = sum(count(part.nest.axes) * max(count(part.nest.reduced), 1) for part in parts) * tasks
    lines = [
        *(["#pragma omp parallel for schedule(static)"] if steps >= WORTH_THREADS and device.threads > 1 else []),
        f"for (int64_t task = 0; task < {tasks}; ++task) {{",
        *indented([*decoded(places.apart, "task"), *_memory(parts[0], places), *parts[0].views_made(), *inside]), "}",
    ]  # fmt: skip
    return "\n".join([f"void {parts[0].name}({parameters}) {{", *indented(lines), "}"])


def _memory(part: cpu.KernelText, places: Places) -> Iterator[str]:
    for own in places.own:
        kind, stem = STORED_TYPES[own.dtype], part.views.stems[own.name]
        yield f"alignas(64) {kind} own{stem}[{_elements(own)}];"
        yield f"{kind}* const p{stem} = own{stem};"
