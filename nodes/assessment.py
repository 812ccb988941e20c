"""The structured answers of those who write no kernels: verifiers, summarizer, reviewer."""

from __future__ import annotations

from typing import Annotated

from pydantic import AfterValidator, Field

from harness.nouns.frozen import Frozen

# -- The diagnoser's structured answer: what is wrong and the smallest fix, before anybody edits ----------------------


def _something(text: str) -> str:
    if not text.strip():
        raise ValueError("it says nothing")
    return text


Text = Annotated[str, AfterValidator(_something)]


class Diagnosis(Frozen):
    """Diagnosis apart from repair: `intent` is what the kernel computes and must go on computing."""

    intent: Text = Field(description="What the kernel computes and which of its structures must stay.")
    cause: Text = Field(description="Where it fails and why, with the line numbers.")
    evidence: Text = Field(description="The part of the report that shows it.")
    fix: Text = Field(description="The smallest change that mends it.")
    proof: Text = Field(description="What must be seen to know that it is mended.")


# -- The structured answers of those who write no kernels: verifiers, summarizer, reviewer ----------------------------


class Assessment(Frozen):
    """A verifier's word on one kernel. `right` is the probability that the judge passes it, as far as it can tell."""

    checked: tuple[Text, ...] = Field(min_length=1, max_length=12, description="What you followed, place by place.")
    faults: tuple[Text, ...] = Field(max_length=8, description="What is wrong, with line numbers; empty where nothing.")
    right: float = Field(ge=0, le=1, description="From 0, surely wrong, to 1, surely right.")


class Recommendations(Frozen):
    """What a summarizer makes of a profile: three changes, the most promising first."""

    recommendations: tuple[Text, Text, Text] = Field(description="Each one change, with the number that speaks for it.")


class Critique(Frozen):
    """A reviewer's word on the kernel judged last, and its plan for the next one."""

    changed: Text = Field(description="What the diff changes in what the machine does.")
    shown: tuple[Text, ...] = Field(
        min_length=1,
        max_length=6,
        description="What of that the build, the machine code and the verdict show, or do not.",
    )
    doubts: tuple[Text, ...] = Field(max_length=6, description="What speaks against the kernel; empty where nothing.")
    plan: tuple[Text, ...] = Field(
        min_length=1, max_length=3, description="The next changes, the most promising first, each with a number."
    )
