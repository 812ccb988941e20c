"""What a kernel's source asks of a GPU, and whether one has that: else it is neither compiled for it nor loaded."""

from __future__ import annotations

import re

_COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)
_NEEDS = (
    ("wgmma", r"\bGMMA\b|\bwgmma\b|\bwarpgroup_(?:arrive|wait|commit)", 90, 90),
    ("clusters or the tensor memory accelerator", r"\bSM90_|\b__cluster_dims__|\bcluster_|\bcp\.async\.bulk", 90, None),
    ("tcgen05", r"\bSM100_|\bUMMA\b|\btcgen05\b", 100, 109),
    ("asynchronous copies or mma of sm_80", r"\bSM80_|\bcp\.async\b|\bcp_async|\bmma\.sync\b", 80, None),
)
"""By what the source says in its code: the first and the last generation that have it, as in "sm_80"."""


def lacking(source: str, architecture: str) -> str:
    """What the source uses and an architecture such as "sm_80" has not, as the end of a sentence; empty where it has
    all of it, and for a processor."""
    number = re.fullmatch(r"sm_(\d+)[af]?", architecture)
    if number is None:
        return ""
    code, generation = _COMMENT.sub(" ", source), int(number[1])
    for what, pattern, first, last in _NEEDS:
        has = first <= generation and (last is None or generation <= last)
        if not has and re.search(pattern, code):
            return f"the kernel uses {what}, which {architecture} has not"
    return ""
