"""A task file's text for one direction: the file itself says which one its kernels compute."""

from __future__ import annotations

from harness.nouns.task import Direction


def directed(source: str, direction: Direction | None) -> str:
    """The file with this direction declared at its end; as it is without one, and where it ends so already.

    What makes a task is then still one text: runs, archives and verdicts tell a backward from its forward by it.
    """
    declared = f'DIRECTION = "{direction}"\n'
    plain = direction == "forward" and "DIRECTION" not in source
    if direction is None or plain or source.endswith(f"\n{declared}"):
        return source
    return f"{source.rstrip()}\n\n{declared}"
