"""Which of a forward's kernels one launch serves: a small kernel takes less time than the next one's launch.

Where several in a row are small, one block does them one after the other. Where each thread, warp or block stands for
the same results in all of them, and reads of what the others have stored only its own, it goes on by itself.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

from knowledge.compiler.emit.elements import STORED_TYPES
from knowledge.compiler.emit.source_text import indented
from knowledge.compiler.ir.dtypes import BYTES
from knowledge.compiler.ir.index import along
from knowledge.compiler.ir.nodes import reads
from knowledge.compiler.passes.loops import Nest, count
from knowledge.compiler.problem import Tensor
from knowledge.compiler.schedule.loops import cuda
from knowledge.compiler.schedule.loops.cuda_contract import ContractText
from knowledge.compiler.schedule.loops.cuda_sorting import LongSortText
from knowledge.compiler.schedule.loops.held import Rows
from knowledge.compiler.schedule.loops.placewise import Places
from knowledge.compiler.schedule.loops.stepped import Loop

Part = cuda.KernelText | ContractText
MOST = 8
"""Kernels of one launch."""
ROOM = 16 << 10
"""Bytes that a block keeps in shared memory between them."""
SHORT = 32
"""Steps, one after the other, of each thread of a block that does a whole kernel: about as long as a launch."""
_WAITS = {"thread": [], "warp": ["__syncwarp();"], "block": ["__syncthreads();"]}


@dataclass(frozen=True)
class Launch:
    """Kernels by their numbers, in their order; `alone`: one block does all of them.

    `kept` are the tensors that nobody else needs, by name: they lie in that block's shared memory, or in registers of
    those who hold the `rows`. `loop` is a loop over time that repeats them, `places` those of a processor where one
    thread does all of them.
    """

    numbers: tuple[int, ...]
    alone: bool = False
    kept: frozenset[str] = frozenset()
    loop: Loop | None = None
    rows: Rows | None = None
    places: Places | None = None


def launches(parts: Sequence[Part], meet: Callable[[Tensor, Tensor], bool], held: Sequence[Rows] = ()) -> list[Launch]:
    """All kernels, as few launches as there may be. `meet` says whether two tensors have memory in common."""
    found: list[Launch] = []
    begun = {each.numbers[0]: Launch(each.numbers, kept=each.kept, rows=each) for each in held}
    later = {number for each in held for number in each.numbers[1:]}
    for number, part in enumerate(parts):
        if number in begun:
            found.append(begun[number])
        if number in begun or number in later:
            continue
        last = found[-1].numbers if found and not found[-1].rows else ()
        before = [each for each in (parts[at] for at in last) if isinstance(each, cuda.KernelText)]
        joins = 0 < len(before) == len(last) < MOST and isinstance(part, cuda.KernelText) and _plain(part, *before)
        if joins and all(_short(each) for each in (part, *before)):
            found[-1] = Launch((*last, number), alone=True)
        elif joins and not found[-1].alone and _apart(before, part, meet):
            found[-1] = Launch((*last, number))
        else:
            found.append(Launch((number,)))
    return found


def keeping(launch: Launch, own: Sequence[Tensor]) -> Launch:
    """A launch of one block that keeps the tensors that only it needs, if it has room for all."""
    room = sum(each.numel * BYTES[each.dtype] for each in own) <= ROOM
    return replace(launch, kept=frozenset(each.name for each in own)) if launch.alone and room else launch


def text(parts: Sequence[cuda.KernelText], launch: Launch, parameters: str) -> str:
    """The kernel that does all of these."""
    waits = ["__syncthreads();"] if launch.alone else _WAITS[parts[0].who]
    lines: list[str] = []
    for each in {store.tensor.name: store.tensor for part in parts for store in part.nest.stores}.values():
        if each.name in launch.kept:
            lines.append(f"__shared__ {STORED_TYPES[each.dtype]} p{parts[0].stem(each.name)}[{each.numel}];")
    for number, part in enumerate(parts):
        lines += [*(waits if number else []), "{", *indented(part.inside(launch.alone, launch.kept)), "}"]
    head = f"__global__ void __launch_bounds__(kThreads) {parts[0].name}({parameters})"
    return "\n".join([f"{head} {{", *indented(lines), "}"])


def start(part: Part, alone: bool, arguments: str) -> str:
    """The statement that starts a launch, `part` being its first kernel."""
    return f"{part.name}<<<1, kThreads, 0, stream>>>({arguments});" if alone else part.launch(arguments)


def _plain(*parts: Part) -> bool:
    """Whether these are loops without steps, scans or sorts."""
    return not any(
        isinstance(each, ContractText | LongSortText) or each.nest.scanned or each.nest.stepped or not each.results
        for each in parts
    )


def _short(part: Part) -> bool:
    """Whether a block does all of it in little time."""
    steps = max(count(part.nest.reduced), 1)
    per_thread = {
        "thread": -(-part.results // cuda.THREADS) * steps,
        "warp": -(-part.results * 32 // cuda.THREADS) * -(-steps // 32),
        "block": part.results * -(-steps // cuda.THREADS),
    }
    return per_thread[part.who] <= SHORT


def _apart(before: Sequence[cuda.KernelText], part: Part, meet: Callable[[Tensor, Tensor], bool]) -> bool:
    """Whether who computes a result of `part` has stored all that it reads, and stores nothing that others read."""
    own = [axis.extent for axis in part.nest.axes]
    if any(each.who != part.who or [axis.extent for axis in each.nest.axes] != own for each in before):
        return False
    stored = [store.tensor for store in part.nest.stores]
    if any(meet(store, other) for store in stored for each in before for other in _tensors(each.nest)):
        return False
    return all(_own_reads(each.nest, part.nest, meet) for each in before)


def _own_reads(before: Nest, after: Nest, meet: Callable[[Tensor, Tensor], bool]) -> bool:
    places = {axis: along(theirs) for axis, theirs in zip(after.axes, before.axes, strict=True)}
    stored = {(store.tensor.name, store.address) for store in before.stores}
    for read in reads(*after.bodies):
        tensor, address = after.tensor(read), after.address(read).at(places, lambda data: data)
        others = any(meet(store.tensor, tensor) for store in before.stores)
        if others and (tensor.name, address) not in stored:
            return False
    return True


def _tensors(nest: Nest) -> Iterator[Tensor]:
    """What a kernel reads and writes."""
    yield from (nest.tensor(read) for read in reads(*nest.bodies))
    yield from (store.tensor for store in nest.stores)
