"""The text of a build.ninja: a list of commands with their inputs and outputs."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import dataclass


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
