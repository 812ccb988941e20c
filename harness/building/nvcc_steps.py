"""nvcc's own steps, its two front ends side by side.

nvcc compiles a source for the host and for the device one after the other, 6 s each where a kernel uses CuTe, though
neither needs the other. `nvcc --dryrun` prints the commands that it would run; here they become three edges: host,
device, and what joins them.
"""

from __future__ import annotations

import re
import shlex
import subprocess
import tempfile
from collections.abc import Sequence
from functools import lru_cache

from harness.building.ninja_file import Edge

MODULE_ID = "kernel.module_id"
"""A file that both front ends read: the name by which they call what is private to the source."""
MODULE_ID_TEXT = "_kernel"

_LINE = re.compile(r"^#\$ (?P<text>.*)$", re.MULTILINE)
_SETTING = re.compile(r"(?P<name>[A-Z_]+)=(?P<value>.*)")
_OWN_ID = "--gen_module_id_file"
_HOST, _DEVICE = "kernel.cudafe1.cpp", "kernel.fatbin.c"
_ASK_S = 20.0


def parallel_edges(command: Sequence[str], source: str, library: str, path: str) -> tuple[Edge, ...] | None:
    """The edges of `command SOURCE -o LIBRARY`; None where this nvcc goes another way than the one known here.

    `path` is the PATH that they will be run with.
    """
    asked = (*command, "--keep", "--keep-dir", ".", "--dryrun", source, "-o", library)
    return _edges(_said(asked, path), source, library)


@lru_cache(maxsize=8)
def _said(command: tuple[str, ...], path: str) -> str:
    """What nvcc prints on stderr; it reads no source for that, and writes nothing."""
    with tempfile.TemporaryDirectory(prefix="cutegen-") as folder:
        environment = {"PATH": path, "LC_ALL": "C"}
        try:
            done = subprocess.run(command, env=environment, cwd=folder, capture_output=True, text=True, timeout=_ASK_S)
        except (OSError, subprocess.TimeoutExpired):
            return ""
    return done.stderr if done.returncode == 0 else ""


def _edges(said: str, source: str, library: str) -> tuple[Edge, ...] | None:
    lines = [match["text"].strip() for match in _LINE.finditer(said)]
    settings = [match for line in lines if (match := _SETTING.fullmatch(line))]
    steps = [line for line in lines if not _SETTING.fullmatch(line) and not line.startswith("rm ")]
    programs = [_program(step) for step in steps]
    if [programs.count(name) for name in ("cudafe++", "cicc", "ptxas")] != [1, 1, 1]:
        return None
    host_end, ptxas = programs.index("cudafe++") + 1, programs.index("ptxas")
    device_end = ptxas + 2
    ordered = host_end <= programs.index("cicc") < ptxas and programs[ptxas + 1 : device_end] == ["fatbinary"]
    if not ordered or _OWN_ID not in steps[host_end - 1] or _HOST not in steps[host_end - 1]:
        return None
    steps[host_end - 1] = steps[host_end - 1].replace(_OWN_ID, "")
    exported = [f"export {match['name']}={shlex.quote(match['value'])}" for match in settings]

    def edge(name: str, part: Sequence[str], inputs: tuple[str, ...], output: str) -> Edge:
        return Edge(name, ("/bin/sh", "-c", " && ".join((*exported, *part))), inputs, output)

    return (
        edge("host", steps[:host_end], (source, MODULE_ID), _HOST),
        edge("device", steps[host_end:device_end], (source, MODULE_ID), _DEVICE),
        edge("join", steps[device_end:], (_HOST, _DEVICE), library),
    )


def _program(step: str) -> str:
    """The name of the program that a step runs, without its folder."""
    return shlex.split(step)[0].rpartition("/")[2]
