"""The diagnoser's structured answer: what is wrong and the smallest fix, before anybody edits."""

from __future__ import annotations

from typing import Annotated

from pydantic import AfterValidator, Field

from harness.nouns.frozen import Frozen


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
