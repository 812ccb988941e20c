"""The loops of a function's machine code: what its jumps repeat, and how deep each lies in others."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass

from harness.building.disassembly import Function, Instruction

MAX_INSTRUCTIONS = 20_000
"""Of one function; the largest exemplar's has 3,000. Beyond it nobody reads remarks, and the walk takes seconds."""

_ENDS = frozenset({"ret", "jmp", "ud2", "hlt"})


@dataclass(frozen=True)
class MachineLoop:
    """An innermost loop. `turns` are the jumps that go round or leave it; `depth` counts it and the loops around it.

    `branches`: no turn goes through all of its instructions.
    """

    function: str
    instructions: tuple[Instruction, ...]
    turns: tuple[Instruction, ...]
    depth: int
    branches: bool


@dataclass(frozen=True)
class _Graph:
    """Basic blocks by number, in the order of their addresses; `ends` are their last instructions."""

    blocks: list[list[Instruction]]
    successors: list[list[int]]


def innermost_loops(function: Function) -> list[MachineLoop]:
    """The natural loops with no other in them: a jump back to a block that every way to the jump leads through."""
    if not 0 < len(function.instructions) <= MAX_INSTRUCTIONS:
        return []
    graph = _graph(function.instructions)
    bodies = _bodies(graph)
    found = []
    for head, body in bodies.items():
        if any(other in body for other in bodies if other != head):
            continue
        ordered = sorted(body)
        found.append(
            MachineLoop(
                function=function.name,
                instructions=tuple(each for block in ordered for each in graph.blocks[block]),
                turns=tuple(
                    graph.blocks[block][-1] for block in ordered if _turns(graph.successors[block], head, body)
                ),
                depth=sum(head in around for around in bodies.values()),
                branches=any(len(set(graph.successors[block]) & body) > 1 for block in ordered),
            )
        )
    return found


def _graph(instructions: Sequence[Instruction]) -> _Graph:
    addresses = {each.address: at for at, each in enumerate(instructions)}
    targets = {at: _target(each, addresses) for at, each in enumerate(instructions) if each.mnemonic.startswith("j")}
    starts = {0, *(to for to in targets.values() if to is not None)}
    starts |= {at + 1 for at, each in enumerate(instructions) if at in targets or each.mnemonic in _ENDS}
    cuts = sorted(start for start in starts if start < len(instructions))
    blocks = [list(instructions[a:b]) for a, b in zip(cuts, [*cuts[1:], len(instructions)], strict=True)]
    successors = []
    for number, block in enumerate(blocks):
        last = cuts[number] + len(block) - 1
        to = targets.get(last)
        follows = [] if block[-1].mnemonic in _ENDS or number + 1 == len(blocks) else [number + 1]
        successors.append(follows + ([bisect_right(cuts, to) - 1] if to is not None else []))
    return _Graph(blocks, successors)


def _turns(successors: Sequence[int], head: int, body: set[int]) -> bool:
    return len(successors) > 1 and (head in successors or not body.issuperset(successors))


def _target(jump: Instruction, addresses: dict[int, int]) -> int | None:
    """The place that a jump leads to; None out of the function, where a relocation says so, or through a register."""
    first = jump.operands.split(" ", 1)[0].split(",")[-1]
    try:
        return None if jump.symbol else addresses.get(int(first, 16))
    except ValueError:
        return None


def _bodies(graph: _Graph) -> dict[int, set[int]]:
    """The blocks of each loop, by its head."""
    order = _reverse_postorder(graph)
    before: dict[int, list[int]] = {block: [] for block in order}
    for block in order:
        for after in graph.successors[block]:
            before[after].append(block)
    above = _dominators(order, before)
    bodies: dict[int, set[int]] = {}
    for block in order:
        for head in graph.successors[block]:
            if _dominates(head, block, above):
                _gather(bodies.setdefault(head, {head}), block, before)
    return bodies


def _gather(body: set[int], latch: int, before: dict[int, list[int]]) -> None:
    """Add what reaches the latch without passing the head, which is in `body` from the start."""
    waiting = [latch]
    while waiting:
        block = waiting.pop()
        if block not in body:
            body.add(block)
            waiting += before[block]


def _reverse_postorder(graph: _Graph) -> list[int]:
    done: list[int] = []
    seen = {0}
    stack = [(0, iter(graph.successors[0]))]
    while stack:
        block, rest = stack[-1]
        after = next((each for each in rest if each not in seen), None)
        if after is None:
            done.append(block)
            stack.pop()
        else:
            seen.add(after)
            stack.append((after, iter(graph.successors[after])))
    return done[::-1]


def _dominators(order: Sequence[int], before: dict[int, list[int]]) -> dict[int, int]:
    """Each block's immediate dominator, by the iteration of Cooper, Harvey and Kennedy; the entry's is itself."""
    rank = {block: at for at, block in enumerate(order)}
    above = {order[0]: order[0]}
    changed = True
    while changed:
        changed = False
        for block in order[1:]:
            known = [each for each in before[block] if each in above]
            common = known[0]
            for other in known[1:]:
                common = _common(common, other, above, rank)
            changed |= above.get(block) != common
            above[block] = common
    return above


def _common(one: int, other: int, above: dict[int, int], rank: dict[int, int]) -> int:
    while one != other:
        if rank[one] > rank[other]:
            one = above[one]
        else:
            other = above[other]
    return one


def _dominates(head: int, block: int, above: dict[int, int]) -> bool:
    while block != head and above[block] != block:
        block = above[block]
    return block == head
