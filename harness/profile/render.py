"""A profile as text for a prompt or a terminal."""

from __future__ import annotations

import textwrap

from harness.profile.summary import Profile

MAX_LINES = 60
_WIDTH = 110


def render(profile: Profile) -> str:
    """At most `MAX_LINES` lines: the rates against their peaks, then the findings, the most limiting first."""
    lines = [
        f"device      {profile.device} ({profile.target})",
        f"time        {profile.time_ms:.4g} ms a call",
        _rate("memory", profile.achieved_gb_s, profile.peak_gb_s, "GB/s"),
        _rate("arithmetic", profile.achieved_gflop_s, profile.peak_gflop_s, "GFLOP/s"),
        f"bound       {profile.bound}, at {profile.share_of_roof:.0%} of the roof",
    ]
    for number, finding in enumerate(profile.findings, start=1):
        lines += textwrap.wrap(f"{number}. {finding}", _WIDTH, subsequent_indent="   ")
    if len(lines) > MAX_LINES:
        lines = [*lines[: MAX_LINES - 1], f"({len(lines) - MAX_LINES + 1} more lines left out)"]
    return "\n".join(lines)


def _rate(name: str, achieved: float, peak: float, unit: str) -> str:
    share = f" ({achieved / peak:.0%})" if peak > 0 else ""
    return f"{name:<11} {achieved:.4g} of {peak:.4g} {unit}{share}"
