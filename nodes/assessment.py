"""The structured answers of an evolution's verifiers and of its summarizer."""

from __future__ import annotations

from pydantic import Field

from harness.nouns.frozen import Frozen
from nodes.diagnosis import Text


class Assessment(Frozen):
    """A verifier's word on one kernel. `right` is the probability that the judge passes it, as far as it can tell."""

    checked: tuple[Text, ...] = Field(min_length=1, max_length=12, description="What you followed, place by place.")
    faults: tuple[Text, ...] = Field(max_length=8, description="What is wrong, with line numbers; empty where nothing.")
    right: float = Field(ge=0, le=1, description="From 0, surely wrong, to 1, surely right.")


class Recommendations(Frozen):
    """What a summarizer makes of a profile: three changes, the most promising first."""

    recommendations: tuple[Text, Text, Text] = Field(description="Each one change, with the number that speaks for it.")
