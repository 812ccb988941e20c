"""Which source lines the code of a library comes from, by its line table."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from harness.building.toolchain import host_compiler, line_finder
from harness.isolation.policy import Access, Limits
from harness.isolation.process import run_isolated
from harness.isolation.scratch import scratch_folder
from harness.nouns.tier import Tier

_LIMITS = Limits(wall_s=10.0, memory_bytes=2 << 30, output_bytes=8 << 20)
MOST_ADDRESSES = 4000
_ADDRESS = re.compile(r"^0x[0-9a-f]{16}$")
_PLACE = re.compile(r"^(?P<file>.*):(?P<line>\d+)(?: \(.*\))?$")


def kernel_lines(library: Path, offsets: Sequence[int], *, kernel_file: str, tier: Tier) -> dict[int, tuple[int, ...]]:
    """The kernel's own lines at these offsets of a library with lines, at most `MOST_ADDRESSES`.

    Of each: where the code stands, then the calls that it was inlined through, the innermost first; none where all of
    it is other files'. Nothing at all where there is no addr2line, or it fails.
    """
    program = line_finder()
    if program is None or not offsets:
        return {}
    asked = [hex(offset) for offset in offsets[:MOST_ADDRESSES]]
    readable = (str(library), str(program), *map(str, host_compiler().roots))
    with scratch_folder() as folder:
        done = run_isolated(
            [str(program), "--addresses", "--inlines", "--exe", str(library), *asked],
            cwd=folder,
            access=Access(read=readable),
            limits=_LIMITS,
            environment={"LC_ALL": "C"},
            tier=tier,
        )
    return read_places(done.stdout.decode(errors="replace"), kernel_file) if done.exit_code == 0 else {}


def read_places(text: str, kernel_file: str) -> dict[int, tuple[int, ...]]:
    """What addr2line prints: an address, then `file:line` where it stands and for each of its callers."""
    found: dict[int, list[int]] = {}
    address: int | None = None
    for line in text.splitlines():
        if _ADDRESS.match(line):
            address = int(line, 16)
            found[address] = []
        elif address is not None and (place := _PLACE.match(line)) and Path(place["file"]).name == kernel_file:
            found[address].append(int(place["line"]))
    return {at: tuple(dict.fromkeys(lines)) for at, lines in found.items()}
