"""What lies where in a function's frame: registers that were spilled, or what the kernel itself keeps on the stack.

g++ calls the place of a spilled register `%sfp` in the comments that -fverbose-asm asks for, and names what else it is;
the assembler's listing has these comments beside addresses. Neither changes a byte of the object.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Literal

LISTING = "listing.txt"
LISTING_BYTES = 64 << 20
LISTED = f"-Wa,-adln={LISTING},--listing-rhs-width=2000"
"""For the assembler: without debugging directives, whose lines are the most, and without cutting comments off."""
COMMENTED = "-fverbose-asm"

Kept = Literal["spill", "own"]
Slots = Mapping[tuple[int, str], Kept]
"""By an instruction's address within its section, and the place in the frame that it accesses, as `slot` writes it."""

_LINE = re.compile(
    r"^ *\d+ (?P<address>[0-9a-f]{4,}) [0-9A-F]+\s+"
    r"[a-z][^#\n]*?(?P<offset>-?\d*)\((?P<base>%r[sb]p)\)[^#\n]*#(?P<said>.*)$",
    re.MULTILINE,
)


def slot(offset: int, base: str) -> str:
    """One place in a frame."""
    return f"{offset}({base})"


def stack_slots(listing: str) -> Slots:
    """What each access of a frame at a fixed place is to. Left out where two functions have different ones at the same
    address and place."""
    found: dict[tuple[int, str], Kept] = {}
    unsure = set()
    for line in _LINE.finditer(listing):
        key = int(line["address"], 16), slot(int(line["offset"] or 0), line["base"])
        kept: Kept = "spill" if "%sfp" in line["said"] else "own"
        if found.setdefault(key, kept) != kept:
            unsure.add(key)
    return {key: kept for key, kept in found.items() if key not in unsure}
