"""The moves of kernels with reductions along rows for GPUs, and their source."""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil

from knowledge.compiler.emit.cuda_math import CHEAPER, has_cheaper
from knowledge.compiler.ir.dtypes import BYTES
from knowledge.compiler.passes.row_program import RowProgram
from knowledge.compiler.plan import Move, Plan
from knowledge.compiler.problem import Problem
from knowledge.compiler.schedule.rows import cuda_source as source
from knowledge.compiler.schedule.rows.cuda_operands import Knobs
from knowledge.compiler.schedule.rows.cuda_source import joins
from knowledge.compiler.schedule.rows.cuda_text import CudaRowText
from knowledge.compiler.schedule.strided_reading import lower_problem

# Elements of a row that a thread can hold: of 128 registers, with 512 threads on a multiprocessor.
LARGEST_SHARE = 96
# Up to this many several blocks fit on a multiprocessor, whose loads and arithmetic overlap.
SMALL_SHARE = 32
# Registers for many narrow operands at once: two blocks of 256 threads fit on a multiprocessor.
MANY_OPERANDS = 48
LONGEST_CLUSTER = 8
WIDEST_CLUSTER = 16
STAGED_ALIGNMENT = 16
LONGEST_CHAIN = 12
# Packs that a thread has on their way where it does not keep the row.
MOST_PACKS = 8
# Shared memory left for partial results and barriers.
PARTIAL_BYTES = 8 << 10
# The longest row that one cluster is left with: 64 packs for each of its threads.
LONGEST_SHARED = 1 << 20
# Threads of each of the blocks that share a row.
SHARED_BY = 256


def moves(problem: Problem, plan: Plan) -> tuple[Move, ...]:
    """The row kept on chip, vector access, the next row ahead of time, cache hints, the block's shape."""
    program = _program(problem, plan)
    makers = (
        _split, _across, _keep, _online, _blocked, _vector, _staged, _wide, _once, _shape, _flight, _exact, _chains,
    )  # fmt: skip
    found = (maker(problem, plan, program) for maker in makers)
    return tuple(move for move in found if move is not None)


def render(problem: Problem, plan: Plan) -> str:
    """The kernel's source."""
    return source.render(problem, plan, lower_problem(problem), _program(problem, plan))


def _program(problem: Problem, plan: Plan) -> RowProgram:
    return RowProgram(lower_problem(problem), online=Knobs.of(plan).online)


@dataclass(frozen=True)
class Share:
    """How a row is spread: threads a block, blocks, elements a thread, and rows side by side."""

    group: int
    cluster: int
    items: int
    rows: int

    def knobs(self) -> dict[str, int]:
        """As a plan's knobs."""
        return {"group": self.group, "cluster": self.cluster, "items": self.items, "rows": self.rows}


def share(columns: int, width: int, live: int, clusters: bool, words: float) -> Share | None:
    """The smallest spread of a row over threads whose registers hold it; None where it does not fit.

    `width` elements go together; `live` values of each are held at once, in `words` registers.
    """
    packs = ceil(columns / width)
    if packs * width <= 32 * SMALL_SHARE // live:
        group = min(32, 1 << (packs - 1).bit_length())
        return Share(group, 1, ceil(packs / group) * width, 256 // group)
    for cluster in (1, 2, 4, LONGEST_CLUSTER) if clusters else (1,):
        for group, most in ((128, 16), (256, 16), (512, SMALL_SHARE)):
            items = ceil(packs / (group * cluster)) * width
            if items * live <= most:
                return Share(group, cluster, items, 1)
    for group in (128, 256, 512):  # a single pack of each of many operands is more than that
        items = ceil(packs / group) * width
        if items * words <= MANY_OPERANDS:
            return Share(group, 1, items, 1)
    cluster = LONGEST_CLUSTER if clusters else 1
    items = ceil(packs / (512 * cluster)) * width
    return Share(512, cluster, items, 1) if items * live <= LARGEST_SHARE else None


def _kept(problem: Problem, plan: Plan, program: RowProgram) -> tuple[CudaRowText, Share | None]:
    kept = CudaRowText(problem, plan.with_knobs(keep=1, vector=1), program)
    live = max(len(kept.resident), len(program.kept), 1)
    words = sum(BYTES[kept.loads[id(node)].tensor.dtype] for node in kept.resident) / 4 + len(program.kept)
    return kept, share(kept.columns, kept.vector, live, problem.device.has.clusters, words)


def _keep(problem: Problem, plan: Plan, program: RowProgram) -> Move | None:
    kept, found = _kept(problem, plan, program)
    if "keep" in plan.knobs or program.sweeps < 2 or not kept.resident or found is None:
        return None
    where = f"the registers of {found.cluster} blocks" if found.cluster > 1 else "a block's registers"
    if found.group <= 32:
        where = f"the registers of {found.group} threads"
    why = f"the row stays in {where}: memory is read once instead of {program.sweeps} times"
    staged = staging(problem, kept, found)
    if found.items > SMALL_SHARE and staged:
        knobs = {"keep": 1, "vector": 1, **found.knobs(), **staged}
        why = f"{why}; the next row is on its way meanwhile"
        return Move("one pass over memory", why, plan.with_knobs(**knobs), ("memory",), sure=True)
    after = plan.with_knobs(keep=1, vector=1, **found.knobs())
    return Move("one pass over memory", why, after, ("memory",), sure=True)


def _online(problem: Problem, plan: Plan, program: RowProgram) -> Move | None:
    """Where the row fits no block: its maximum and the sum below it in one sweep."""
    better = RowProgram(lower_problem(problem), online=True)
    kept, found = _kept(problem, plan, program)
    taken = {"online", "keep", "across", "split", "each"} & plan.knobs.keys()
    if taken or (kept.resident and found) or not joins(better):
        return None
    why = f"a sum that is corrected as the maximum grows: memory is read {better.sweeps} times, not {program.sweeps}"
    return Move("online softmax", why, plan.with_knobs(online=1, vector=1, items=4, group=1024), ("memory",))


def _vector(problem: Problem, plan: Plan, program: RowProgram) -> Move | None:
    widened = plan.with_knobs(vector=1, items=4)
    width = CudaRowText(problem, widened, program).vector
    if "vector" in plan.knobs or width == 1:
        return None
    why = f"one instruction moves {width} neighbours, and a thread has four such packs on their way"
    return Move("vector access", why, widened, ("on_chip", "latency", "compute", "coalescing"), sure=True)


def _split(problem: Problem, plan: Plan, program: RowProgram) -> Move | None:
    """Too few rows for all multiprocessors: many blocks share one."""
    text = CudaRowText(problem, plan.with_knobs(vector=1), program)
    wanted = 8 * max(problem.device.multiprocessors, 1) // text.count
    split = min(wanted, text.columns // (16 * SHARED_BY * text.vector))
    if "split" in plan.knobs or split < 2 or not _one_sweep(program, text):
        return None
    why = f"{split} blocks share a row, so that all multiprocessors load; a second kernel joins their results"
    knobs = {"vector": 1, "items": 4, "group": SHARED_BY, "rows": 1, "cluster": 1}
    return Move("split rows", why, plan.with_knobs(split=split, **knobs), ("occupancy", "launch"), sure=True)


def starved(problem: Problem, plan: Plan) -> bool:
    """Whether the rows are too few for the multiprocessors, and too long for a block, and cannot be split."""
    program = _program(problem, plan)
    text = CudaRowText(problem, plan.with_knobs(vector=1), program)
    few = text.count < problem.device.multiprocessors
    return few and text.columns > LONGEST_SHARED and not _one_sweep(program, text)


def _one_sweep(program: RowProgram, text: CudaRowText) -> bool:
    """Whether one sweep gives all results, from what belongs to its columns alone."""
    (sweep, *more) = text.sweeps
    return not (more or program.maximum_of) and not sweep.numbers and not sweep.stores and not program.row_nodes(0)


def _blocked(problem: Problem, plan: Plan, program: RowProgram) -> Move | None:
    """A vector that all rows share is read once for several of them."""
    widened = plan.with_knobs(vector=1, each=4, items=2, once=1, group=512)
    text = CudaRowText(problem, widened, program)
    columns = [node for node in program.operands if not program.flat(node)]
    shared = len(columns) > len(text.moving) > 0
    plain = _one_sweep(program, text) and not any(each.op.startswith("arg") for each in program.reductions)
    if "each" in plan.knobs or not (shared and plain) or text.vector == 1 or text.columns < 4096 or text.count < 1024:
        return None
    why = "four rows at once read what they share only once: it comes from the L2 cache, whose bandwidth the rows need"
    return Move("register blocking", why, widened, ("on_chip", "compute"))


def _across(problem: Problem, plan: Plan, program: RowProgram) -> Move | None:
    """Where neighbours in memory belong to neighbouring rows, threads side by side take rows, not columns."""
    rows = program.rows
    leading = CudaRowText(problem, plan, program).leading
    if "across" in plan.knobs or leading is None or rows.columns < 32:
        return None
    columns = program.columns.columns * program.columns.rows
    group = min(32, max(4, 1 << (ceil(columns / 64) - 1).bit_length()))
    spread = plan.with_knobs(across=1, rows=32, group=group, cluster=1, items=4, keep=0, vector=0, split=1)
    why = "neighbouring threads take neighbouring rows, whose elements lie side by side"
    return Move("coalesced access", why, spread, ("coalescing", "memory"), sure=True)


def staging(problem: Problem, kept: CudaRowText, spread: Share, blocks: int = 1) -> dict[str, int]:
    """The knobs that bring the next row to shared memory in the background; none where that cannot be, or has no room.

    `blocks` share a multiprocessor's memory. A cluster takes few rows, so that there are several times as many clusters
    as run at once and the last end together.
    """
    operands = [kept.loads[id(node)] for node in kept.resident]
    aligned = all(
        BYTES[operand.tensor.dtype] * number % STAGED_ALIGNMENT == 0
        for operand in operands
        for number in (kept.columns, operand.offset, *operand.strides[1:])
    )
    chain = min(LONGEST_CHAIN, kept.count * spread.cluster // (8 * max(problem.device.multiprocessors, 1)))
    row_bytes = spread.items * spread.group * sum(BYTES[operand.tensor.dtype] for operand in operands)
    fits = blocks * (row_bytes + PARTIAL_BYTES) <= problem.device.shared_bytes
    packed = {operand.form for operand in operands} == {"pack"} and kept.vector > 1
    if not (problem.device.has.clusters and aligned and packed and fits and chain > 1):
        return {}
    return {"staged": 1, "chain": chain, "parts": _parts(spread.items // kept.vector)}


def _parts(packs: int) -> int:
    """Steps in which the next row is fetched: each takes the same number of a thread's packs."""
    return 2 if packs % 2 == 0 else 1


def _staged(problem: Problem, plan: Plan, program: RowProgram) -> Move | None:
    knobs = Knobs.of(plan)
    if not knobs.keep or "staged" in plan.knobs or knobs.group < 128:
        return None
    kept = CudaRowText(problem, plan, program)
    staged = staging(problem, kept, Share(knobs.group, knobs.cluster, knobs.items, knobs.rows))
    if not staged:
        return None
    why = "the next row comes to shared memory while this one is computed"
    return Move("next row ahead", why, plan.with_knobs(**staged), ("latency",))


def _wide(problem: Problem, plan: Plan, program: RowProgram) -> Move | None:
    """Twice the blocks with half the threads: two of them on a multiprocessor, each with its part of another row."""
    knobs = Knobs.of(plan)
    whole = knobs.staged and knobs.cluster == LONGEST_CLUSTER and knobs.group >= 256 and knobs.blocks == 1
    if not whole or problem.device.has.max_cluster < WIDEST_CLUSTER:
        return None
    halved = Share(knobs.group // 2, WIDEST_CLUSTER, knobs.items, knobs.rows)
    kept = CudaRowText(problem, plan, program)
    ahead = staging(problem, kept, halved, blocks=2)
    if not ahead:
        return None
    why = (
        "two rows side by side on a multiprocessor: one's loads and stores run beside the other's arithmetic and waits"
    )
    return Move("clusters of 16", why, plan.with_knobs(**halved.knobs(), **ahead, blocks=2), ("latency", "memory"))


def _chains(problem: Problem, plan: Plan, program: RowProgram) -> Move | None:
    """How many rows a cluster takes: few leave it often without a row ahead, many end at different times."""
    if not plan.knobs.get("staged") or "swept" in plan.knobs:
        return None
    chain = int(plan.knobs["chain"])
    values = {"chain": tuple(sorted({max(1, chain // 2), 16, 32, 64} - {chain}))}
    why = "fewer rows a cluster in turn end more evenly, more of them begin less often"
    return Move("rows in turn", why, plan.with_knobs(swept=1), ("latency", "occupancy"), values)


def _once(problem: Problem, plan: Plan, program: RowProgram) -> Move | None:
    moved = sum(each.tensor.numel * BYTES[each.tensor.dtype] for each in CudaRowText(problem, plan, program).operands)
    reread = program.sweeps > 1 and not Knobs.of(plan).keep
    if "once" in plan.knobs or reread or moved < problem.device.l2_bytes:
        return None
    why = "every element is loaded once and stored once: the L2 cache need not keep it"
    return Move("cache hints", why, plan.with_knobs(once=1), ("memory", "on_chip"))


def _exact(problem: Problem, plan: Plan, program: RowProgram) -> Move | None:
    costly = any(has_cheaper(node) for node in program.nodes if not program.flat(node))
    if "exact" in plan.knobs or not costly:
        return None
    return Move("cheaper exact math", CHEAPER, plan.with_knobs(exact=1), ("compute",))


def _flight(problem: Problem, plan: Plan, program: RowProgram) -> Move | None:
    """Where rows stream through a block: twice the packs of a thread on their way."""
    knobs = Knobs.of(plan)
    text = CudaRowText(problem, plan, program)
    longest = text.columns // (text.vector * knobs.group * knobs.cluster * knobs.split)
    items = 2 * knobs.items
    if knobs.keep or "vector" not in plan.knobs or items > min(MOST_PACKS, longest):
        return None
    why = f"{items} loads of a thread on their way at once hide more of the memory's latency"
    return Move("loads in flight", why, plan.with_knobs(items=items), ("latency",))


def _shape(problem: Problem, plan: Plan, program: RowProgram) -> Move | None:
    """Twice the threads with half the work each."""
    knobs = Knobs.of(plan)
    width = CudaRowText(problem, plan, program).vector
    if "shape" in plan.knobs or knobs.group * knobs.rows * 2 > 1024 or plan.knobs.get("across"):
        return None
    if not knobs.keep:
        why, larger = "more threads a row", plan.with_knobs(group=knobs.group * 2, shape=1)
        return Move("block size", why, larger, ("latency", "occupancy"))
    if knobs.items % (2 * width) or knobs.blocks > 1:
        return None
    halved = plan.with_knobs(group=knobs.group * 2, items=knobs.items // 2, shape=1)
    if knobs.staged:
        halved = halved.with_knobs(parts=_parts(knobs.items // 2 // width))
    why = "twice the threads with half the registers each hide more latency"
    return Move("block size", why, halved, ("latency", "occupancy"))
