"""Which isolation this machine offers, found out by running something in it."""

from __future__ import annotations

import tempfile
from functools import cache

from harness.isolation.policy import Access, Limits
from harness.isolation.process import run_isolated
from harness.nouns.errors import MachineError
from harness.nouns.tier import Tier, TierChoice

_PROBE_WITHIN_S = 30.0
_BY_STRENGTH: tuple[Tier, ...] = ("bubblewrap", "landlock")


def resolve_tier(requested: TierChoice = "auto") -> Tier:
    """The tier to use: the strongest that works for "auto", else the requested one if it works.

    "none" is never chosen, only taken by name. Raises MachineError with each tier's reason where nothing works. Tiers
    are tried once a process.
    """
    if requested == "none":
        return "none"
    candidates = _BY_STRENGTH if requested == "auto" else (requested,)
    reasons = []
    for tier in candidates:
        reason = why_unavailable(tier)
        if not reason:
            return tier
        reasons.append(f"{tier}: {reason}")
    raise MachineError(
        f"No isolation works here ({'; '.join(reasons)}).",
        "Install bubblewrap or use a kernel with Landlock (5.13 or later), or accept the risk with --isolation none.",
    )


@cache
def why_unavailable(tier: Tier) -> str:
    """Why `tier` cannot be used on this machine; empty where it works."""
    with tempfile.TemporaryDirectory() as folder:
        try:
            completed = run_isolated(
                ["/bin/sh", "-c", "echo works"],
                cwd=folder,
                access=Access(),
                limits=Limits(wall_s=_PROBE_WITHIN_S),
                environment={},
                tier=tier,
            )
        except MachineError as error:
            return error.problem
    if completed.outcome == "exited" and completed.stdout == b"works\n":
        return ""
    return completed.note or completed.stderr.decode(errors="replace").strip() or completed.outcome
