"""What is done with a generation's proposals before any is run: what is no new kernel is dropped, the rest is built."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from harness.nouns.build import Build
from nodes.builds import side_by_side
from nodes.evolution.state import EvolutionState, Proposal
from nodes.node import Update
from nodes.node_context import NodeContext
from nodes.state import Usage, require
from nodes.stops import over_budget
from tools.kernel_tools import call_tool


def sifter(state: EvolutionState, node_context: NodeContext) -> Update:
    """Join the proposals of a generation, and drop what has the source of an earlier one."""
    fresh = [each for each in state.pool if each.order.generation == state.generation]
    spent = [each.seconds for each in fresh]
    dropped = repeats(state.pool, lambda each: each.digest, "the same source")
    return {"pool": dropped, "seconds": max(spent, default=0.0) - sum(spent)}


def builder(state: EvolutionState, node_context: NodeContext) -> Update:
    """Build what waits, side by side, and drop what came to the machine code of an earlier one, before it is timed.

    What the screen refuses is not built; nor is what a spent budget leaves no build for.
    """
    task, judge, tools = require(state.task, "task"), node_context.judge(state), node_context.tools(state)
    waiting = [each for each in state.pool if each.waits and each.candidate and not judge.screen(task, each.candidate)]
    if over_budget(state, node_context.settings):
        return {}

    def built(proposal: Proposal) -> Proposal:
        build: Build = call_tool(tools.compile_kernel, require(proposal.candidate, "candidate").source)
        return proposal.model_copy(update={"machine_code": build.machine_code})

    marked = side_by_side(built, waiting)
    numbers = {each.order.number: each for each in marked}
    pool = [numbers.get(each.order.number, each) for each in state.pool]
    dropped = repeats(pool, lambda each: each.machine_code, "the same machine code")
    numbers |= {each.order.number: each for each in dropped}
    return {"pool": tuple(numbers.values()), "usage": Usage(builds=len(dropped))}


def repeats(pool: Sequence[Proposal], mark: Callable[[Proposal], str], what: str) -> tuple[Proposal, ...]:
    """Those that wait to be judged and bear the mark of an earlier proposal, dropped. An empty mark is nobody's."""
    first: dict[str, Proposal] = {}
    found = []
    for each in pool:
        known = first.setdefault(mark(each), each) if mark(each) and not each.dropped else each
        if each.waits and known is not each:
            found.append(each.model_copy(update={"dropped": f"It has {what} as kernel {known.digest}."}))
    return tuple(found)
