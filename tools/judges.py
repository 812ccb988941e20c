"""One judge a process for each target, tier and precision."""

from __future__ import annotations

from functools import lru_cache
from typing import Literal

from harness.isolation.tiers import resolve_tier
from harness.judge import TIMING_S, Judge
from harness.targets.select import resolve_target
from harness.targets.target import Target
from harness.verdict import Precision, Tier


def choose_target(requested: Literal["auto", "cpu", "cuda"]) -> Target:
    """The target to use. Raises `MachineError` where its kernels cannot run on this machine."""
    target = resolve_target(requested)
    target.require_device()
    return target


def choose_tier(requested: Literal["auto"] | Tier) -> Tier:
    """The isolation to use. Raises `MachineError` where this machine does not offer it."""
    return resolve_tier(requested)


@lru_cache(maxsize=16)
def judge_for(target: Literal["cpu", "cuda"], tier: Tier, precision: Precision, timing_s: float = TIMING_S) -> Judge:
    """The judge that runs in this process with this target, isolation, precision and length of timing share."""
    return Judge(resolve_target(target), tier=tier, precision=precision, timing_s=timing_s)
