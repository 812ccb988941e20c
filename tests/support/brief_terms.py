"""Terms of a judge that takes little time over timing: for who asks what passes, and not how fast it is."""

from __future__ import annotations

from dataclasses import replace

from harness.judging.terms import Terms

TIMING_S = 0.1
"""The least rounds are made whatever this is; a head-to-head that nobody can decide ends after twelve times as long."""
ROTATION_BYTES = 2 << 20
"""Calls of the smallest tasks take turns on 50 sets of arguments, and not on 256: most of a brief verdict goes into
filling them. Inputs are as new, and as many of the outputs are compared; only the caches are not passed by."""


def brief(terms: Terms) -> Terms:
    """All that these terms check, and the least that is timed."""
    return replace(terms, timing_s=TIMING_S, rotation_bytes=ROTATION_BYTES)
