"""One judge a process for each target, tier, precision and tolerance."""

from __future__ import annotations

from functools import lru_cache

from harness.judging.local import Judge
from harness.nouns.candidate import TargetChoice, TargetName
from harness.nouns.tier import Tier
from harness.nouns.verdict import Precision
from harness.targets.select import resolve_target
from harness.targets.target import Target

QUICK_S = 0.25
QUICK_TRIALS = 1


def choose_target(requested: TargetChoice) -> Target:
    """The target to use. Raises `MachineError` where its kernels cannot run on this machine."""
    target = resolve_target(requested)
    target.require_device()
    return target


@lru_cache(maxsize=16)
def judge_for(
    target: TargetName, tier: Tier, precision: Precision, tolerance: float = 1.0, *, quick: bool = False
) -> Judge:
    """The judge that runs in this process with this target, isolation, precision and tolerance share.

    A quick one makes one comparison and times for a shorter while: enough to choose the kernels worth a verdict.
    """
    made = resolve_target(target)
    if not quick:
        return Judge(made, tier=tier, precision=precision, tolerance=tolerance)
    return Judge(made, tier=tier, precision=precision, tolerance=tolerance, timing_s=QUICK_S, trials=QUICK_TRIALS)
