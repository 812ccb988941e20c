"""The curated summary an optimizer may read: at most 60 lines, never a raw dump."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from harness.candidate import TargetName
from harness.frozen import Frozen


class Profile(Frozen):
    """One kernel's distance to what the machine can do. Rates are 1e9 per second; shares lie in 0..1.

    `findings` are sentences on the bottleneck, the most limiting first.
    """

    target: TargetName
    device: str
    time_ms: float = Field(gt=0)
    achieved_gb_s: float
    peak_gb_s: float
    achieved_gflop_s: float
    peak_gflop_s: float
    bound: Literal["memory", "compute"]
    share_of_roof: float
    findings: tuple[str, ...] = ()
