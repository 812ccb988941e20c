"""Kernels that have passed, timed beside eager PyTorch in the same rounds."""

from __future__ import annotations

from harness.nouns.frozen import Frozen, SanitizedText
from harness.nouns.verdict import Timing

PATIENCE = 4
"""A contest's rounds may take so many times what a verdict's do, for each pair of sides: a report rests on them."""


class Standing(Frozen):
    """One kernel of a contest, by its digest. Its timing's `head_to_head` is the one with the contest's last kernel.

    Of a task with several workloads `workloads` holds the timing on each, in the task's order.
    """

    candidate: str
    timing: Timing
    workloads: tuple[Timing, ...] = ()


class Contest(Frozen):
    """Each kernel's standing, in the order they were given; the last one, against which the others stand, has no
    head-to-head. There are none where a kernel, `failed` by its digest, did not get through; `message` says why."""

    standings: tuple[Standing, ...] = ()
    failed: str = ""
    message: SanitizedText = ""
