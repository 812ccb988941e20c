"""What a verifier thinks of a kernel that the judge has not seen yet."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from pydantic import Field

from harness.nouns.frozen import Frozen, SanitizedText

Verifier = Literal["static", "sanitizers", "compile", "memory", "numerics"]
"""Who looks: by rule at the build, by tools at one watched call, and by model at one kind of mistake each."""
EVIDENCE: tuple[Verifier, ...] = ("static", "sanitizers")
"""Those that need no model."""
EVEN = 0.5
"""Below it an opinion is that the kernel is wrong."""


class Opinion(Frozen):
    """`right` is the probability that the judge passes the kernel. `unmet` says what of a move's claim is not there."""

    verifier: Verifier
    right: float = Field(ge=0, le=1)
    reasons: tuple[SanitizedText, ...] = ()
    unmet: tuple[SanitizedText, ...] = ()
    seconds: float = 0.0
    dollars: float = 0.0


def score_of(opinions: Sequence[Opinion]) -> float:
    """All opinions as one probability: the mean of the models', times the least of those that rest on evidence.

    A tool that saw a fault is not outvoted; a model alone drops nothing that two others believe in.
    """
    evidence = min((each.right for each in opinions if each.verifier in EVIDENCE), default=1.0)
    believed = [each.right for each in opinions if each.verifier not in EVIDENCE]
    return evidence * (sum(believed) / len(believed) if believed else 1.0)


def brier(pairs: Sequence[tuple[float, bool]]) -> float:
    """The mean square of what probabilities were off by: 0 is perfect, 0.25 what a coin would get."""
    return sum((probability - right) ** 2 for probability, right in pairs) / len(pairs) if pairs else 0.0
