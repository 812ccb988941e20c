"""A kernel someone wrote."""

from __future__ import annotations

import hashlib
from typing import Literal

from harness.nouns.frozen import Frozen

TargetName = Literal["cpu", "cuda"]
TargetChoice = Literal["auto", TargetName]


class Candidate(Frozen):
    """One source text for one target. `author` is "agent:model"; `parent` the digest of the kernel it came from."""

    source: str
    target: TargetName
    author: str
    parent: str | None = None

    @property
    def digest(self) -> str:
        """First 16 hex digits of the SHA-256 of target and source."""
        return hashlib.sha256(f"{self.target}\n{self.source}".encode()).hexdigest()[:16]
