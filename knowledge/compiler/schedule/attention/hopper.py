"""Attention of float16 or bfloat16 by Hopper's tensor copies and wgmma: sections of the exemplar attention_wgmma.cu.

Knobs: `warpgroups` (of 64 rows each), `keys` of a tile, `stages` of K and V in shared memory, `turn` (1: warpgroups
start their products in turn), `group` (heads whose tiles run side by side).
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from math import ceil, prod
from string import Template

from knowledge.compiler.emit import cuda_frame as frame
from knowledge.compiler.emit import source_text
from knowledge.compiler.emit.source_text import decoded, indented
from knowledge.compiler.emit.spelling import spelled
from knowledge.compiler.ir.dtypes import BYTES
from knowledge.compiler.ir.index import Index
from knowledge.compiler.kernels.source import load
from knowledge.compiler.plan import Plan
from knowledge.compiler.problem import Device, Problem
from knowledge.compiler.schedule.attention import cuda as plain
from knowledge.compiler.schedule.attention import text
from knowledge.compiler.schedule.attention.masks import Band
from knowledge.compiler.schedule.attention.match import Attention, Operand

KERNEL = "attention_wgmma"
ROWS = 64
"""Of a warpgroup; a problem of fewer rows leaves the others idle."""
# Columns of a head: fewer waste most of what a tile of 64 columns multiplies, more have no room in registers.
_COLUMNS = range(33, 257)
# Elements in the 16 bytes that a tensor copy's strides must be multiples of, and its dimensions beside row and column.
_UNIT, _DIMENSIONS = 8, 2
_PROBLEM = Template(
    "using T = $type;\n"
    + text.CONSTANTS
    + """\
$strides

// Where an operand's heads are: its first element, and up to two coordinates' extents and steps beside that of a row.
struct Spread {
  int64_t first, row;
  int extents[2];
  int64_t steps[2];
};
$spreads

// A head's coordinates, and where its rows of the result begin.
struct Places {
  int q[2], k[2], v[2];
  int64_t o;
};
CUTE_HOST_DEVICE Places places_of([[maybe_unused]] int head) {
$places
}"""
)

# Warpgroups, keys, stages, turn for heads of up to so many columns, and what a unit of work costs with them, the first
# one's 1. An H200 takes for bfloat16, 4 x 32 heads of 4096 rows, full and causal, ms: with 128 columns 1.64 and 0.93,
# not in turn 1.64 and 1.03, of 64 keys causal 1.03; with 64 columns 1.19 and 0.61, not in turn 1.16, of two warpgroups
# 1.25 and 0.65. Tiles of 192 keys and 128 columns, or of 176 under a diagonal, leave nvcc no registers to let products
# run in the background: 61 ms.
Tile = tuple[int, int, int, int]
TILES: dict[int, dict[Tile, float]] = {
    64: {(3, 128, 2, 1): 1, (2, 128, 2, 1): 1.12, (3, 128, 2, 0): 1.06},
    128: {(2, 128, 2, 1): 1, (2, 128, 2, 0): 1.06, (2, 64, 2, 1): 1.11},
    256: {(2, 64, 2, 1): 1, (2, 80, 2, 1): 1.05, (2, 64, 2, 0): 1.06},
}


def suits(problem: Problem, form: Attention) -> bool:
    """Whether the device is Hopper, scores are plain products of near keys, and tensor copies can read q, k and v."""
    columns = max(form.inner, form.outer)
    narrow = problem.device.has.wgmma and BYTES[form.dtype] == 2 and columns in _COLUMNS
    operands = ((form.q, form.row.extent, form.inner), (form.k, form.key.extent, form.inner),
                (form.v, form.key.extent, form.outer))  # fmt: skip
    near = form.score is None and not form.band.sinks
    return narrow and near and form.row.extent > ROWS and all(_copyable(*each) for each in operands)


def _copyable(operand: Operand, rows: int, columns: int) -> bool:
    steps = [times for _, times in operand.start.terms] + [operand.row] * (rows > 1)
    whole = operand.start.offset % _UNIT == 0 and all(step > 0 and step % _UNIT == 0 for step in steps)
    near = operand.column == 1 or columns == 1
    return whole and near and len(operand.start.terms) <= _DIMENSIONS


def plans(problem: Problem, form: Attention) -> list[Plan]:
    """All tiles, the most promising first."""
    tiles = TILES[next(most for most in TILES if max(form.inner, form.outer) <= most)]
    found = []
    for tile, cost in tiles.items():
        warpgroups, keys, stages, turn = tile
        lengths = tuple(_lengths(form, ROWS * warpgroups, keys))
        group, span = _order(problem.device, form, lengths)
        knobs: dict[str, int | str] = {"warpgroups": warpgroups, "keys": keys, "stages": stages, "turn": turn}
        plan = Plan("attention", {"kernel": KERNEL, **knobs, "group": group})
        found.append((span * warpgroups * keys * cost, plan))
    return [plan for _, plan in sorted(found, key=lambda each: each[0])]


# A tile's beginning and end, as tiles of keys; what is added for each of its tiles of keys is 1.
_ENDS = 1
# Rounds after which an order of tiles shows what it does.
_ROUNDS = 64


def _lengths(form: Attention, rows: int, keys: int) -> Iterator[int]:
    """How many tiles of keys each tile of rows sees, as the kernel walks them: under a diagonal from the last on."""
    first = form.band.first
    for tile in reversed(range(ceil(form.row.extent / rows))):
        begin = 0 if first is None else max(0, tile * rows + first) // keys
        yield max(0, ceil(form.band.reach((tile + 1) * rows - 1, form.key.extent) / keys) - begin)


def _order(device: Device, form: Attention, lengths: tuple[int, ...]) -> tuple[int, float]:
    """How many heads run side by side, and how long the longest block is at work, in tiles of keys.

    Heads whose keys the L2 cache does not hold cost more than blocks gain that are equally long at work: 4 x 32 heads
    of 4096 x 128, causal, took 0.93 ms one at a time and 1.13 all together.
    """
    heads, blocks = prod(axis.extent for axis in form.heads), device.multiprocessors or 132
    head_bytes = form.key.extent * (form.inner + form.outer) * BYTES[form.dtype]
    fitting = [
        each for each in (1, 2, 4, 8, 16, 32, 64) if each <= heads and each * head_bytes <= 0.75 * device.l2_bytes
    ]
    groups = [1] if form.band == Band() else fitting or [1]
    group = min(groups, key=lambda each: longest(lengths, heads, each, blocks))
    whole = heads * sum(length + _ENDS for length in lengths) / blocks
    return group, longest(lengths, heads, group, blocks) * whole


@lru_cache(maxsize=64)
def longest(lengths: tuple[int, ...], heads: int, group: int, blocks: int) -> float:
    """How much longer than all on average the longest block is at work, in the order of the kernel's works."""
    works = [
        length + _ENDS
        for first in range(0, heads, group)
        for length in lengths
        for _ in range(min(group, heads - first))
    ][: blocks * _ROUNDS]
    load = [0] * blocks
    for start in range(0, len(works), blocks):
        step = 1 if start // blocks % 2 == 0 else -1
        for block, work in zip(range(blocks)[::step], works[start : start + blocks], strict=False):
            load[block] += work
    return max(load) * blocks / sum(load)


def shared_bytes(form: Attention, plan: Plan) -> int:
    """Of one block, as the exemplar has it."""
    inner, outer = (ceil(columns / 64) * 64 for columns in (form.inner, form.outer))
    rows, keys, stages = (int(plan.knobs[name]) for name in ("warpgroups", "keys", "stages"))
    barriers = 16 * (rows + 2 * stages)
    return ceil((2 * (ROWS * rows * inner + stages * keys * (inner + outer)) + barriers) / 1024) * 1024


def render(problem: Problem, form: Attention, plan: Plan) -> str:
    """The whole source."""
    names = source_text.argument_names(problem)
    return load(KERNEL).with_sections(
        header=frame.header(_comment(form, plan), plan),
        problem=_problem(form),
        knobs=_knobs(problem, form, plan),
        entry=_entry(problem, form, names),
    )


def _comment(form: Attention, plan: Plan) -> list[str]:
    tile = f"{ROWS * int(plan.knobs['warpgroups'])} rows x {plan.knobs['keys']} keys"
    return plain.comment(form, tile, shared_bytes(form, plan))


def _problem(form: Attention) -> str:
    return _PROBLEM.substitute(
        text.constants(form), strides=text.strides(form)[-1],
        spreads="\n".join(_spread(name, operand) for name, operand in _operands(form)),
        places="\n".join(indented(_places(form))),
    )  # fmt: skip


def _operands(form: Attention) -> tuple[tuple[str, Operand], ...]:
    return ("Q", form.q), ("K", form.k), ("V", form.v)


def _spread(name: str, operand: Operand) -> str:
    terms = [(atom.bounds[1] + 1, times) for atom, times in operand.start.terms]
    terms += [(1, 0)] * (_DIMENSIONS - len(terms))
    extents, steps = (", ".join(map(str, each)) for each in zip(*terms, strict=True))
    return f"constexpr Spread Spread{name}{{{operand.start.offset}, {operand.row}, {{{extents}}}, {{{steps}}}}};"


def _places(form: Attention) -> list[str]:
    coordinates = [f"{{{', '.join(_coordinates(operand))}}}" for _, operand in _operands(form)]
    begin = spelled(form.output.start, text.no_data)
    return [*decoded(form.heads, "int64_t(head)"), f"return {{{', '.join(coordinates)}, {begin}}};"]


def _coordinates(operand: Operand) -> list[str]:
    made = [f"int({spelled(Index(((atom, 1),)), text.no_data)})" for atom, _ in operand.start.terms]
    return made + ["0"] * (_DIMENSIONS - len(made))


def _knobs(problem: Problem, form: Attention, plan: Plan) -> str:
    knobs = plan.knobs
    values = {
        "Warpgroups": knobs["warpgroups"], "BlockKeys": knobs["keys"], "Stages": knobs["stages"],
        "Blocks": problem.device.multiprocessors or 132, "Group": knobs["group"],
    }  # fmt: skip
    return source_text.constants({}, values, {"InTurn": knobs["turn"], "Vectors": plain.stored_at_once(form) > 1})


def _entry(problem: Problem, form: Attention, names: dict[str, str]) -> str:
    given = plain.pointers(form, names, (_UNIT, _UNIT, _UNIT))
    launch = f"launch({', '.join(given)}, {names[form.output.tensor.name]}.device());"
    return frame.entry(problem, names, [launch]).replace("{\n", "{\n  using namespace attending;\n", 1)
