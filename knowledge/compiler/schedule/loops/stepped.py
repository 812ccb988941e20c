"""Loops over time: which kernels one thread, or one block, repeats at every step, and the functions that do it.

Where a loop's kernels are apart along some axes, whoever takes a place there does all steps of it. Else all threads of
a processor meet after every kernel; a GPU has one block do all steps if they are short, or launches them one by one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

from knowledge.compiler.emit.source_text import decoded, indented
from knowledge.compiler.ir.cost import WORTH_THREADS
from knowledge.compiler.ir.index import Axis
from knowledge.compiler.ir.nodes import Values
from knowledge.compiler.passes.apart import separated, size
from knowledge.compiler.passes.fusion import Fused, spanning
from knowledge.compiler.passes.kernel import Kernel
from knowledge.compiler.passes.loops import Nest, count, nest_of
from knowledge.compiler.passes.stepping import in_loop
from knowledge.compiler.problem import Device
from knowledge.compiler.schedule.loops import cpu, cuda
from knowledge.compiler.schedule.loops.placewise import Places, grouped

LEAST = {False: 16, True: 128}
"""Elements of a kernel that occupy a thread's registers, or a block of a GPU."""
TOGETHER = {False: 64, True: 256}
"""How many are made together where there are fewer."""
MOST_OF_A_BLOCK = 64 << 10
"""Elements that a block computes at a step: beyond them all blocks together start anew for each kernel."""
MOST_ALONE = 16 << 10
"""The same of a block that does all places."""


@dataclass(frozen=True)
class Loop:
    """The kernels that a loop repeats, by their numbers; `apart` are the axes along which they do not meet."""

    numbers: tuple[int, ...]
    step: Axis
    apart: tuple[Axis, ...]


def laid_out(
    fused: Fused, graph: Values, on_gpu: bool, device: Device | None = None
) -> tuple[tuple[Nest, ...], tuple[Loop, ...], tuple[Places, ...]]:
    """The kernels as loop nests, which are loops over time, and on a processor which are done place by place."""
    nests: list[Nest] = []
    loops: list[Loop] = []
    groups: list[Places] = []
    kernels = fused.kernels
    for (first, last), kernel in zip(spanning(kernels), kernels, strict=True):
        if not in_loop(kernel) or kernel.stepped is None:
            if groups and len(nests) > first:
                continue
            group = grouped(fused, first, graph, device) if device is not None else None
            nests += group[0] if group else [nest_of(kernel, graph)]
            groups += [group[1]] if group else []
        elif len(nests) == first:
            made, apart = _apart(kernels[first : last + 1], graph, on_gpu)
            nests += (nest_of(each, graph) for each in made)
            loops.append(Loop(tuple(range(first, last + 1)), kernel.stepped, apart))
    return tuple(nests), tuple(loops), tuple(groups)


def _apart(kernels: Sequence[Kernel], graph: Values, on_gpu: bool) -> tuple[list[Kernel], tuple[Axis, ...]]:
    made, apart = separated(kernels, graph, LEAST[on_gpu], TOGETHER[on_gpu])
    whole = on_gpu and sum(map(size, made)) > MOST_OF_A_BLOCK
    return (list(kernels), ()) if whole or not apart else (made, apart)


def _elements(nest: Nest) -> int:
    return count(nest.axes) * max(count(nest.reduced), 1) * max(len(nest.totals), 1)


def _head(axis: Axis, index: str) -> str:
    return f"for ({index} {axis.name} = 0; {axis.name} < {axis.extent}; ++{axis.name}) {{"


def on_a_processor(parts: Sequence[cpu.KernelText], loop: Loop, parameters: str, device: Device) -> str:
    """The function that does all steps."""
    lines: list[str] = []
    for part in parts:
        inside = part.by_one_thread() if loop.apart else part.loop()
        lines += ["{", *indented(inside), "}"] if len(parts) > 1 else inside
    lines = [_head(loop.step, "int64_t"), *indented(lines), "}"]
    if loop.apart:
        tasks = count(loop.apart)
        elements = sum(_elements(part.nest) for part in parts) * tasks * loop.step.extent
        threads = ["#pragma omp parallel for schedule(static)"]
        lines = [
            *(threads if elements >= WORTH_THREADS and device.threads > 1 else []),
            f"for (int64_t task = 0; task < {tasks}; ++task) {{",
            *indented([*decoded(loop.apart, "task"), *lines]), "}",
        ]  # fmt: skip
    made = [*parts[0].views_made(), *lines]
    return "\n".join([f"void {parts[0].name}({parameters}) {{", *indented(made), "}"])


def one_launch(parts: Sequence[cuda.KernelText], loop: Loop) -> bool:
    """Whether blocks of a GPU do all steps without the others."""
    return bool(loop.apart) or sum(_elements(part.nest) for part in parts) <= MOST_ALONE


def on_a_gpu(parts: Sequence[cuda.KernelText], loop: Loop, parameters: str) -> str:
    """The kernel of one launch, in which a block does all steps."""
    lines: list[str] = []
    for part in parts:
        lines += ["{", *indented(part.inside(alone=True)), "}", "__syncthreads();"]
    lines = [*decoded(loop.apart, "int(blockIdx.x)", 1, "Index"), _head(loop.step, "Index"), *indented(lines), "}"]
    head = f"__global__ void __launch_bounds__(kThreads) {parts[0].name}({parameters})"
    return "\n".join([f"{head} {{", *indented(lines), "}"])


def start(parts: Sequence[cuda.KernelText], loop: Loop, arguments: Sequence[str]) -> list[str]:
    """The statements that start it; `arguments` of all parts together, or of each."""
    if one_launch(parts, loop):
        return [
            f"{parts[0].name}<<<{prod(axis.extent for axis in loop.apart)}, kThreads, 0, stream>>>({arguments[0]});"
        ]
    name = loop.step.name
    calls = [f"{part.grid()}({given}, {name});" for part, given in zip(parts, arguments, strict=True)]
    return [_head(loop.step, "Index"), *indented(calls), "}"]
