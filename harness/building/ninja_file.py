"""The text of a build.ninja: a list of commands with their inputs and outputs."""

from __future__ import annotations

import os
import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from harness.building.store import require_room, write_text
from harness.building.toolchain import Compiler, headers, ninja
from harness.isolation.policy import Access, Limits
from harness.isolation.process import Completed, run_isolated
from harness.nouns.errors import MachineError
from harness.nouns.tier import Tier
from harness.wire.entry import ENTRY_HEADERS, EXPORT


@dataclass(frozen=True)
class Edge:
    """One command. `inputs` and `output` are file names as the command spells them."""

    name: str
    command: tuple[str, ...]
    inputs: tuple[str, ...]
    output: str


def ninja_file(edges: Sequence[Edge]) -> str:
    """A build.ninja that runs every edge in the order its inputs demand."""
    blocks = [
        f"rule {edge.name}\n"
        f"  command = {_escape_variables(shlex.join(edge.command))}\n"
        f"build {_escape_path(edge.output)}: {edge.name} {' '.join(map(_escape_path, edge.inputs))}\n"
        for edge in edges
    ]
    return "ninja_required_version = 1.8\n" + "".join(blocks)


def _escape_variables(text: str) -> str:
    return text.replace("$", "$$")


def _escape_path(text: str) -> str:
    return _escape_variables(text).replace(" ", "$ ").replace(":", "$:")


# -- Runs ninja, and through it a compiler, on a source that nobody vouches for ---------------------------------------


# The prelude takes g++ 1.4 GB at its peak and a kernel 0.6 GB; a template that runs away meets the limit in seconds.
LIMITS = Limits(
    wall_s=120.0, memory_bytes=6 << 30, processes=64, file_bytes=1 << 30, disk_bytes=2 << 30, output_bytes=4 << 20
)
_ROOM_BYTES = 64 << 20


def run_edges(
    edges: Sequence[Edge],
    folder: Path,
    *,
    compiler: Compiler,
    tier: Tier,
    read: tuple[Path, ...] = (),
    limits: Limits = LIMITS,
) -> Completed:
    """Run the edges inside `folder`, the only place they may write. `MachineError` where nothing could be run.

    Two at a time where neither needs the other.
    """
    require_room(folder, _ROOM_BYTES)
    write_text(folder / "build.ninja", ninja_file(edges))
    # Ninja as the first process would load nothing of ours: its own binary has to be readable inside.
    readable = (*headers().roots, *compiler.roots, ninja().resolve(), *read)
    completed = run_isolated(
        [str(ninja()), "--quiet", "-j2"],
        cwd=folder,
        access=Access(read=tuple(map(str, readable)), write=(str(folder),)),
        limits=limits,
        environment=_environment(folder, compiler),
        tier=tier,
    )
    if completed.outcome == "setup_failed":
        raise MachineError(f"The compiler could not be started in isolation: {completed.note}.", "Try cutegen doctor.")
    if completed.exit_code != 0:
        # A compiler that failed for want of room would otherwise be taken for a kernel that does not compile.
        require_room(folder, _ROOM_BYTES)
    return completed


def search_path(compiler: Compiler) -> str:
    """The PATH of a compiler's run: its own folders and the system's."""
    own = [str(root) for root in compiler.roots]
    return os.pathsep.join([*own, "/usr/local/bin", "/usr/bin", "/bin"])


def _environment(folder: Path, compiler: Compiler) -> dict[str, str]:
    return {"PATH": search_path(compiler), "HOME": str(folder), "TMPDIR": str(folder), "LC_ALL": "C", "TERM": "dumb"}


# -- The headers that every kernel is compiled with, whether its source includes them or not, and how it is exporte ---

# For the host compiler they are precompiled once: parsing them takes 3 s of a 3.5 s build.


PRELUDE_NAME = "prelude.hpp"

PRELUDE = "#pragma once\n" + "".join(f"#include <{header}>\n" for header in ENTRY_HEADERS) + EXPORT
