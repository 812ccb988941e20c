"""The diagnoser's structured answer: what is wrong and the smallest fix, before anybody edits."""

from __future__ import annotations

from pydantic import Field

from harness.frozen import Frozen


class Diagnosis(Frozen):
    """Diagnosis apart from repair: `intent` is what the kernel computes and must go on computing."""

    intent: str = Field(description="What the kernel computes and which of its structures must stay.")
    cause: str = Field(description="Where it fails and why, with the line numbers.")
    evidence: str = Field(description="The part of the report that shows it.")
    fix: str = Field(description="The smallest change that mends it.")
    proof: str = Field(description="What must be seen to know that it is mended.")
