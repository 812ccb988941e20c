"""The moves of pointwise kernels for GPUs, and their source."""

from __future__ import annotations

from knowledge.compiler.strided_reading import lower_problem
from knowledge.playbook import cuda_pointwise_text as text
from knowledge.playbook.cuda_math import CHEAPER, has_cheaper
from knowledge.playbook.cuda_pointwise_text import Knobs, PassText
from knowledge.playbook.pointwise_pass import Pass, passes_of
from knowledge.playbook.problem import Problem
from knowledge.playbook.recipe import Move, Plan

# Bytes that must be on their way to keep the memory of one multiprocessor busy.
IN_FLIGHT = 32 << 10
# Packs that a thread has on their way: more only take registers.
MOST_PACKS = 4


def moves(problem: Problem, plan: Plan) -> tuple[Move, ...]:
    """Vector access, cheaper exact math, cache hints, several packs in flight, the block size; then both at once."""
    passes = passes_of(lower_problem(problem))
    makers = (_vector, _exact, _once, _packs, _threads, _sweep)
    found = (maker(problem, plan, passes) for maker in makers)
    return tuple(move for move in found if move is not None)


def render(problem: Problem, plan: Plan) -> str:
    """The kernel's source."""
    lowered = lower_problem(problem)
    return text.render(problem, plan, lowered, passes_of(lowered))


Passes = tuple[Pass, ...]


def _vector(problem: Problem, plan: Plan, passes: Passes) -> Move | None:
    widened = plan.with_knobs(vector=1)
    widths = [PassText(problem, widened, part, k).vector for k, part in enumerate(passes)]
    if "vector" in plan.knobs or max(widths) == 1:
        return None
    why = f"one instruction moves {max(widths)} neighbours"
    return Move("vector access", why, widened, ("on_chip", "latency", "compute", "coalescing"), sure=True)


def _exact(problem: Problem, plan: Plan, passes: Passes) -> Move | None:
    if "exact" in plan.knobs or not any(has_cheaper(node) for each in passes for node in each.nodes):
        return None
    return Move("cheaper exact math", CHEAPER, plan.with_knobs(exact=1), ("compute", "latency", "memory"))


def _packs(problem: Problem, plan: Plan, passes: Passes) -> Move | None:
    packs = 2 * Knobs.of(plan).packs
    if (
        "swept" in plan.knobs
        or packs > MOST_PACKS
        or max(each.numel for each in passes) < problem.device.multiprocessors * IN_FLIGHT
    ):
        return None
    why = f"{packs} loads of a thread on their way at once hide more of the memory's latency"
    return Move("loads in flight", why, plan.with_knobs(packs=packs), ("latency",))


def _once(problem: Problem, plan: Plan, passes: Passes) -> Move | None:
    moved = sum(each.numel for each in passes) * 8
    if "once" in plan.knobs or moved < problem.device.l2_bytes:
        return None
    why = "nothing is used twice: loads and stores that leave the L2 cache first keep it for data on its way"
    return Move("cache hints", why, plan.with_knobs(once=1), ("memory", "on_chip"))


def _threads(problem: Problem, plan: Plan, passes: Passes) -> Move | None:
    if "threads" in plan.knobs or max(each.numel for each in passes) < problem.device.multiprocessors * IN_FLIGHT:
        return None
    why = "larger blocks: fewer of them to start"
    return Move("block size", why, plan.with_knobs(threads=256), ("launch", "latency"))


def _sweep(problem: Problem, plan: Plan, passes: Passes) -> Move | None:
    """What is left when each was tried alone: their combinations."""
    if "swept" in plan.knobs or max(each.numel for each in passes) < problem.device.multiprocessors * IN_FLIGHT:
        return None
    knobs = Knobs.of(plan)
    why = "registers, blocks a multiprocessor and loads in flight depend on both: only a trial tells"
    after = plan.with_knobs(threads=knobs.threads, packs=knobs.packs, swept=1)
    return Move("block size and loads", why, after, sweep={"threads": (128, 256, 512), "packs": (1, 2, 4)})
