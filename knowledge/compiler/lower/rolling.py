"""Time as a loop: Python loops over steps, which a trace has unrolled, found again.

Operations that repeat are one step done `count` times if each operand is, in every step, the same value, the same one
of this step's, the same one of an earlier step's, or the next element of what is unbound, split, or made by a loop.
Indices of `select` and `slice` may move by as much a step. What the first steps find in place of earlier ones is what
the loop begins with.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from harness.nouns.aten import of_kinds
from knowledge.compiler.ir.sizes import Size
from knowledge.compiler.lower import cells, places, writes
from knowledge.compiler.problem import Argument, Op, Problem, Ref, Tensor, base_name, reads, refs

LEAST_STEPS, LEAST_OPERATIONS, LEAST_WITH_KERNELS = 8, 96, 24
"""What is shorter, or fewer operations in all, is written as the trace has it; the last where a step has more than
elementwise operations, each of which is a kernel of its own."""
_KERNELS = of_kinds("reduction", "norm", "loss", "scan", "sort", "product", "convolution", "attention", "recurrence")
MOST_BEFORE = 3
"""Steps back that an operand may lie."""
_WINDOWS, _PERIODS, _TRIES = (1, 2, 4, 12, 40), 4, 4
_MOVES = {"aten.select.int": (2,), "aten.slice.Tensor": (2, 3)}
_PARTS = ("aten.unbind.int", "aten.split.Tensor", "aten.chunk.default")


class Moving(NamedTuple):
    """A whole number that grows: `first + by * step`."""

    first: int
    by: int


@dataclass(frozen=True)
class Carried:
    """`name` is what `after` was a step earlier; `first` in the first step."""

    name: str
    first: str
    after: str


@dataclass(frozen=True)
class Taken:
    """`name` is the result at a moving place among those that `of` makes, or that another loop's steps make.

    `first` is the one in the first step.
    """

    name: str
    first: str
    of: Op | None
    place: Moving


@dataclass(frozen=True)
class Loop:
    """One step and how often it is done. Operands are this step's values, those listed, and those around the loop.

    `moving` are the arguments that move, by the operation's first result and by position. `shows` says which names of
    the trace are which value of which step.
    """

    count: int
    ops: tuple[Op, ...]
    moving: Mapping[str, Mapping[int, Moving]]
    carried: tuple[Carried, ...]
    taken: tuple[Taken, ...]
    shows: Mapping[str, tuple[str, int]]

    @property
    def reads(self) -> Iterator[str]:
        """The values around the loop that it needs; of another loop's steps, the first that it takes."""
        own = {result.name for op in self.ops for result in op.results}
        own |= {each.name for each in self.carried} | {each.name for each in self.taken}
        yield from (name for op in self.ops for name in reads(op) if name not in own)
        yield from (each.first for each in self.carried)
        for each in self.taken:
            yield from refs(each.of.args) if each.of else (each.first,)

    def showing(self, names: Collection[str]) -> Loop:
        """The loop with those of its values alone that are asked for, and with what they need."""
        shows = {name: place for name, place in self.shows.items() if name in names}
        wanted = {of for of, _ in shows.values()}
        count = -1
        while count < len(wanted):
            count = len(wanted)
            for op in reversed(self.ops):
                if not wanted.isdisjoint(result.name for result in op.results):
                    wanted.update(reads(op))
            wanted.update(each.after for each in self.carried if each.name in wanted)
        ops = tuple(op for op in self.ops if not wanted.isdisjoint(result.name for result in op.results))
        carried = tuple(each for each in self.carried if each.name in wanted)
        taken = tuple(each for each in self.taken if each.name in wanted)
        return replace(self, ops=ops, carried=carried, taken=taken, shows=shows)


def _atoms(arguments: Sequence[Argument]) -> Iterator[Argument]:
    for argument in arguments:
        yield from argument if isinstance(argument, tuple) else (argument,)


def rolled(problem: Problem) -> Sequence[Op | Loop]:
    """The operations, with what repeats as loops."""
    sized = any(isinstance(extent, Size) for each in problem.outputs for extent in each.shape)
    if len(problem.ops) < LEAST_WITH_KERNELS or problem.others or sized:
        return problem.ops
    known = next((items for one, items in _KNOWN if one is problem), None)
    if known is None:
        known = _Roller(problem).items()
        _KNOWN.append((problem, known))
    return known


_KNOWN: deque[tuple[Problem, list[Op | Loop]]] = deque(maxlen=4)
"""What was rolled last: a problem of many thousand operations takes as long to compare as to roll."""


class _Stretch(NamedTuple):
    """`times` as many operations as the period, from `start` on."""

    start: int
    period: int
    times: int

    @property
    def end(self) -> int:
        return self.start + self.period * self.times


class _Made(NamedTuple):
    """Where a value comes from: the operation's place in the trace, and which of its results it is."""

    op: int
    result: int


class _Own(NamedTuple):
    """An operand of the stretch itself: how many steps earlier, by which of a step's operations, which result."""

    before: int
    op: int
    result: int


@dataclass
class _Slot:
    """What an operand is in all steps, and the names that it has in the first ones."""

    length: int
    own: _Own | None = None
    names: list[str] = field(default_factory=list)
    of: Op | str = ""
    place: Moving | None = None


class _Roller:
    def __init__(self, problem: Problem) -> None:
        self.ops = cells.spelled(places.joined(writes.without_writes(problem), problem.returns), LEAST_STEPS)
        self.made = {
            result.name: _Made(number, place)
            for number, op in enumerate(self.ops)
            for place, result in enumerate(op.results)
        }
        given = (each for each in (*problem.inputs, *problem.parameters) if isinstance(each, Tensor))
        self.tensors = {each.name: each for each in (*given, *(result for op in self.ops for result in op.results))}
        self.asked = {name: number for number, op in enumerate(self.ops) for name in reads(op)}
        self.asked |= dict.fromkeys(problem.returns, len(self.ops))
        self.parted = {number for number, op in enumerate(self.ops) if op.target in _PARTS
                       and len({each.shape for each in op.results}) == 1}  # fmt: skip
        self.shown: dict[str, tuple[str, int]] = {}

    def items(self) -> list[Op | Loop]:
        """All in order."""
        found: list[Op | Loop] = []
        at = 0
        for stretch in _stretches([self._key(op) for op in self.ops]):
            for loop, part in self._loops(stretch):
                found += [*self.ops[at : part.start], loop]
                at = part.end
        return [*found, *self.ops[at:]]

    def _key(self, op: Op) -> object:
        """Equal for operations that may be the same one of two steps."""
        moves = _MOVES.get(op.target, ())
        args = tuple(_still(each) if place not in moves else "" for place, each in enumerate(op.args))
        kwargs = tuple((name, _still(each)) for name, each in op.kwargs.items())
        return op.target, args, kwargs, tuple((each.shape, each.dtype) for each in op.results)

    def _loops(self, stretch: _Stretch) -> Iterator[tuple[Loop, _Stretch]]:
        """The loops in a stretch, each with its operations' places."""
        tries = 0
        while stretch.times >= LEAST_STEPS and tries < _TRIES:
            steps = [self._slots(stretch, step) for step in range(stretch.times)]
            slots = [self._slot(stretch, [step[place] for step in steps]) for place in range(len(steps[0]))]
            count = min((each.length for each in slots), default=stretch.times)
            part = _Stretch(stretch.start, stretch.period, count)
            written = any(base_name(op.target).endswith("_") for op in self.ops[part.start : part.end])
            if count >= LEAST_STEPS and self._are_many(part) and not written:
                yield self._loop(part, slots), part
            else:
                count, tries = 1, tries + 1
            stretch = _Stretch(stretch.start + count * stretch.period, stretch.period, stretch.times - count)

    def _are_many(self, part: _Stretch) -> bool:
        """Whether a loop's operations are worth one."""
        step = self.ops[part.start : part.start + part.period]
        has_kernels = any(base_name(op.target) in _KERNELS for op in step)
        return part.end - part.start >= (LEAST_WITH_KERNELS if has_kernels else LEAST_OPERATIONS)

    def _slots(self, stretch: _Stretch, step: int) -> list[_Own | str | int]:
        """The operands of one step, and the arguments that may move."""
        begin = stretch.start + step * stretch.period
        found: list[_Own | str | int] = []
        for op in self.ops[begin : begin + stretch.period]:
            for name in reads(op):
                made = self.made.get(name)
                place = (made.op - stretch.start) if made else -1
                if made is None or place < 0:
                    found.append(name)
                else:
                    found.append(_Own(step - place // stretch.period, place % stretch.period, made.result))
            moves = (op.args[place] for place in _MOVES.get(op.target, ()) if place < len(op.args))
            found += (each for each in moves if isinstance(each, int))
        return found

    def _slot(self, stretch: _Stretch, each: list[_Own | str | int]) -> _Slot:
        """What an operand is, and in how many steps."""
        first = next((place for place, entry in enumerate(each) if isinstance(entry, _Own)), len(each))
        if first < len(each):
            own = each[first]
            assert isinstance(own, _Own)
            if own.before == first <= MOST_BEFORE and all(self._fits(stretch, own, name) for name in each[:first]):
                same = first + _same(each[first:])
                return _Slot(same, own, [str(name) for name in each[:first]])
        outside = each[:first]
        if not outside:
            return _Slot(0)
        if isinstance(outside[0], int):
            place, length = _moving([entry for entry in outside if isinstance(entry, int)])
            return _Slot(length, place=place)
        same = _same(outside)
        placed = [self._element(str(name)) for name in outside]
        if same < 2 and placed[0] and (of := placed[0][0]) is not None:
            ends = next(
                (k for k, entry in enumerate(placed) if entry is None or (entry[0] is not of and entry[0] != of)),
                len(placed),
            )
            place, length = _moving([entry[1] for entry in placed[:ends] if entry])
            return _Slot(length, names=[str(outside[0])], of=of, place=place)
        return _Slot(same, names=[str(outside[0])])

    def _fits(self, stretch: _Stretch, own: _Own, name: _Own | str | int) -> bool:
        """Whether what a loop begins with is as what it goes on with."""
        result = self.ops[stretch.start + own.op].results[own.result]
        tensor = self.tensors.get(name) if isinstance(name, str) else None
        return tensor is not None and (tensor.shape, tensor.dtype) == (result.shape, result.dtype)

    def _element(self, name: str) -> tuple[Op | str, int] | None:
        """Of what a value is an element, and at which place."""
        if name in self.shown:
            return self.shown[name]
        made = self.made.get(name)
        op = self.ops[made.op] if made else None
        return (op, made.result) if op and made and made.op in self.parted else None

    def _loop(self, part: _Stretch, slots: list[_Slot]) -> Loop:
        """One step, and which of its values others ask for."""
        body = self.ops[part.start : part.start + part.period]
        step = _Step(body, iter(slots))
        ops = tuple(map(step.op, body))
        shows = {}
        for number in range(part.start, part.end):
            count, place = divmod(number - part.start, part.period)
            for mine, result in zip(body[place].results, self.ops[number].results, strict=True):
                if self.asked.get(result.name, -1) >= part.end:
                    shows[result.name] = mine.name, count
        self.shown |= shows
        carried, taken = tuple(step.carried.values()), tuple(step.taken.values())
        return Loop(part.times, ops, step.moving, carried, taken, shows)


@dataclass
class _Step:
    """Writes the operations of one step, with names for what the loop carries and takes; `slots` are all operands."""

    body: Sequence[Op]
    slots: Iterator[_Slot]
    carried: dict[tuple[str, tuple[str, ...]], Carried] = field(default_factory=dict)
    taken: dict[tuple[str, Moving], Taken] = field(default_factory=dict)
    moving: dict[str, dict[int, Moving]] = field(default_factory=dict)

    def op(self, op: Op) -> Op:
        """An operation of the step."""
        args, kwargs = tuple(map(self._argument, op.args)), {name: self._argument(x) for name, x in op.kwargs.items()}
        for place in _MOVES.get(op.target, ()):
            if place < len(op.args) and isinstance(op.args[place], int):
                moving = next(self.slots).place
                if moving is not None and moving.by:
                    self.moving.setdefault(op.results[0].name, {})[place] = moving
        return op.model_copy(update={"args": args, "kwargs": kwargs})

    def _argument(self, argument: Argument) -> Argument:
        if isinstance(argument, tuple):
            return tuple(Ref(ref=self._named(next(self.slots))) if isinstance(each, Ref) else each for each in argument)
        return Ref(ref=self._named(next(self.slots))) if isinstance(argument, Ref) else argument

    def _named(self, slot: _Slot) -> str:
        if slot.own is not None:
            return self._before(self.body[slot.own.op].results[slot.own.result].name, slot)
        if slot.place is None:
            return slot.names[0]
        key = slot.names[0], slot.place
        of = slot.of if isinstance(slot.of, Op) else None
        return self.taken.setdefault(key, Taken(f"{key[0]} at {len(self.taken)}", key[0], of, slot.place)).name

    def _before(self, name: str, slot: _Slot) -> str:
        """A value so many steps earlier: each step back is carried."""
        assert slot.own is not None
        for back in range(1, slot.own.before + 1):
            firsts = tuple(slot.names[slot.own.before - back :])
            made = Carried(f"{name} before {len(self.carried)}", firsts[0], name)
            name = self.carried.setdefault((name, firsts), made).name
        return name


def _still(argument: Argument) -> object:
    """An argument as far as it must be the same in all steps; 1, 1.0 and True differ."""
    if isinstance(argument, tuple):
        return tuple(map(_still, argument))
    return Ref if isinstance(argument, Ref) else (type(argument), repr(argument))


def _same(entries: Sequence[object]) -> int:
    """How many of the first are the same."""
    return next((place for place, entry in enumerate(entries) if entry != entries[0]), len(entries))


def _moving(places: Sequence[int]) -> tuple[Moving, int]:
    """How the first places move, and how many do so."""
    by = places[1] - places[0] if len(places) > 1 else 0
    wrong = (step for step, place in enumerate(places) if place != places[0] + by * step)
    return Moving(places[0], by), next(wrong, len(places))


def _stretches(keys: Sequence[object]) -> list[_Stretch]:
    """What repeats, the longest first, none in another; in order."""
    numbers: dict[object, int] = {}
    ids = [numbers.setdefault(key, len(numbers)) for key in keys]
    found = [stretch for period in _periods(ids) for stretch in _of_period(ids, period)]
    kept: list[_Stretch] = []
    for each in sorted(found, key=lambda one: (one.start - one.end, one.period)):
        if all(each.end <= other.start or other.end <= each.start for other in kept):
            kept.append(each)
    return sorted(kept)


def _periods(ids: Sequence[int]) -> list[int]:
    """The commonest gaps between a few operations and the next like them."""
    found: dict[int, None] = {}
    for width in _WINDOWS:
        last: dict[tuple[int, ...], int] = {}
        gaps: Counter[int] = Counter()
        for place in range(len(ids) - width + 1):
            window = tuple(ids[place : place + width])
            if window in last:
                gaps[place - last[window]] += 1
            last[window] = place
        found |= dict.fromkeys(gap for gap, times in gaps.most_common(_PERIODS) if times >= LEAST_STEPS)
    return list(found)


def _of_period(ids: Sequence[int], period: int) -> Iterator[_Stretch]:
    """Every stretch that repeats after `period` operations, often enough."""
    start = 0
    for place in range(len(ids) - period + 1):
        if place == len(ids) - period or ids[place] != ids[place + period]:
            count = (place - start) // period + 1
            if count >= LEAST_STEPS and count * period >= LEAST_WITH_KERNELS:
                yield _Stretch(start, period, count)
            start = place + 1
