"""Outputs that a watched call has not written everywhere, as the kernel's own process tells them."""

from __future__ import annotations

import re
from collections.abc import Iterator

from harness.candidate.tool_runner import UNWRITTEN
from harness.nouns.sanitizer_run import Finding

_LINE = re.compile(rf"^{UNWRITTEN} (?P<name>\S+): (?P<count>\d+) of (?P<words>\d+), .* (?P<first>\d+)$", re.MULTILINE)


def unwritten(text: str) -> Iterator[Finding]:
    """A finding for each such output that the process's stderr names."""
    for left in _LINE.finditer(text):
        share = f"{left['count']} of the {left['words']} words of 4 bytes, from word {left['first']} on"
        yield Finding(kind="unwritten output", message=f"{left['name']} is not written everywhere: {share}.")
