"""Which instructions a library's GPU code is made of, where the toolkit's disassembler is at hand."""

from __future__ import annotations

import re
import subprocess
from functools import lru_cache
from pathlib import Path

from harness.building.nvidia_tools import find_tool
from harness.machine.inquiry import ask

_PROGRAM = "cuobjdump"
_ASK_S = 60.0
_LINE = re.compile(r"^\s+/\*[0-9a-f]{4,}\*/\s+(?:@!?U?P\w+\s+)?(?P<opcode>[A-Z][\w.]*)", re.MULTILINE)


@lru_cache(maxsize=64)
def opcodes(library: Path) -> frozenset[str]:
    """The opcodes with their modifiers, as "LDG.E.128"; none without cuobjdump, or where it fails."""
    program = find_tool(_PROGRAM)
    if program is None:
        return frozenset()
    try:
        return read_opcodes(ask([str(program), "-sass", str(library)], timeout_s=_ASK_S).stdout)
    except (OSError, subprocess.SubprocessError):
        return frozenset()


def read_opcodes(listing: str) -> frozenset[str]:
    """The opcodes of a listing of `cuobjdump -sass`."""
    return frozenset(found["opcode"] for found in _LINE.finditer(listing))
