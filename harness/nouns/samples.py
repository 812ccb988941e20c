"""The rounds of a timing, each by itself."""

from __future__ import annotations

from typing import Self

from pydantic import model_validator

from harness.nouns.frozen import Frozen


class Samples(Frozen):
    """What a call took round by round, in ms: both sides of a round stand at the same place."""

    candidate_ms: tuple[float, ...]
    baseline_ms: tuple[float, ...]

    @model_validator(mode="after")
    def _are_pairs(self) -> Self:
        if len(self.candidate_ms) != len(self.baseline_ms):
            raise ValueError("each round has both sides")
        return self
