"""Terms of a judge that takes little time over timing: for who asks what passes, and not how fast it is."""

from __future__ import annotations

from dataclasses import replace

from harness.judging.terms import Terms

TIMING_S = 0.1
"""The least rounds are made whatever this is; a head-to-head that nobody can decide ends after twelve times as long."""
MANY_BYTES = 2 << 20
"""Calls of the smallest tasks take turns on 50 sets of arguments, not on 256. Judges of cheats need as many: more of
what a cheat answers is compared."""
FEW_BYTES = 1 << 18
"""On a dozen sets. Filling them is most of a brief verdict, and every output of an honest kernel is right."""


def brief(terms: Terms, rotation_bytes: int = FEW_BYTES) -> Terms:
    """All that these terms check, and the least that is timed. Inputs are new in every round, and outputs compared."""
    return replace(terms, timing_s=TIMING_S, rotation_bytes=rotation_bytes)
