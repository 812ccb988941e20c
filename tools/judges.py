"""The judges of this process: one for each target, isolation, precision and tolerance."""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache

from harness.isolation.tiers import resolve_tier
from harness.judging.foreign import ModuleJudge
from harness.judging.local import LocalJudge
from harness.judging.protocol import Judge, JudgeOrder, KernelJudge
from harness.judging.terms import TIMING_S, Terms
from harness.nouns.candidate import TargetChoice
from harness.nouns.verdict import precision_on
from harness.targets.select import resolve_target
from harness.targets.target import Target

QUICK_S = 0.25
QUICK_TRIALS = 1


def choose_target(requested: TargetChoice, ordinal: int = 0) -> Target:
    """The target to use. Raises `MachineError` where its kernels cannot run on this machine."""
    target = resolve_target(requested, ordinal)
    target.require_device()
    return target


def open_judge(order: JudgeOrder) -> KernelJudge:
    """A judge that runs on this machine, the same one for the same order all through the process.

    Raises `MachineError` where the target's kernels cannot run here, and where there is no such isolation.
    """
    return local_judge(settled(order))


def open_module_judge(order: JudgeOrder) -> Judge:
    """A judge of Python files with `ModelNew`. Raises like `open_judge`."""
    order = settled(order)
    return ModuleJudge(resolve_target(order.target), terms_of(order))


def settled(order: JudgeOrder) -> JudgeOrder:
    """The order with nothing left open. Raises like `open_judge`."""
    target = choose_target(order.target, order.ordinal).name
    return replace(
        order, target=target, isolation=resolve_tier(order.isolation), precision=precision_on(target, order.precision)
    )


@lru_cache(maxsize=16)
def local_judge(order: JudgeOrder) -> LocalJudge:
    """The judge of an order that leaves nothing open."""
    return LocalJudge(resolve_target(order.target, order.ordinal), terms_of(order))


def terms_of(order: JudgeOrder) -> Terms:
    """A quick judge makes one comparison and times for a shorter while."""
    return Terms(
        tier=resolve_tier(order.isolation),
        precision=order.precision,
        tolerance=order.tolerance,
        timing_s=QUICK_S if order.quick else TIMING_S,
        trials=QUICK_TRIALS if order.quick else None,
        describe_s=order.describe_s,
    )
