"""A text cut into its fenced code blocks and the prose around them."""

from __future__ import annotations

import re
from dataclasses import dataclass

_FENCE = re.compile(r"^ {0,3}(?P<fence>`{3,}|~{3,})[ \t]*(?P<info>[^`]*)$")


@dataclass(frozen=True)
class Block:
    """A code block: what stands behind its opening fence, its lines, and whether a fence ends it."""

    info: str
    text: str
    closed: bool


def split(text: str) -> tuple[str, list[Block]]:
    """The prose around the fenced blocks, and the blocks. A fence that never closes takes the rest of the text."""
    prose: list[str] = []
    blocks: list[Block] = []
    inside: list[str] = []
    fence, info = "", ""
    for line in text.split("\n"):
        match = _FENCE.match(line)
        if fence:
            if match and match["fence"].startswith(fence) and not match["info"].strip():
                blocks.append(Block(info, "\n".join(inside), closed=True))
                fence = ""
            else:
                inside.append(line)
        elif match:
            fence, info, inside = match["fence"], match["info"].strip(), []
        else:
            prose.append(line)
    if fence:
        blocks.append(Block(info, "\n".join(inside), closed=False))
    return "\n".join(prose), blocks
