"""The second half of docs/agents.md: each agent's prompt and the answer it got, from a recorded conversation.

`python -m bench.agents_page` writes it; a test fails where the page is older than the recording.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import get_args

from nodes.models.conversation import Exchange, Said
from nodes.models.replay import ReplayModel
from nodes.roles import Speaker
from nodes.turn.prompt_size import estimated_tokens
from nodes.turn.prompt_words import fenced

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "agents.md"
CONVERSATION = ROOT / "examples" / "recorded" / "gated_tanh" / "conversation.jsonl"
MARK = "<!-- Below this line the page is written by `python -m bench.agents_page`. -->\n"

_NAMES = {"system": "The rules, with the guides", "human": "The question"}


def with_prompts(page: str, exchanges: tuple[Exchange, ...]) -> str:
    """The page with everything below its mark written anew. Raises ValueError for a page without the mark."""
    own, mark, _ = page.partition(MARK)
    if not mark:
        raise ValueError(f"the page has lost its line {MARK.strip()}")
    return own + MARK + "".join(f"\n{block}\n" for block in _blocks(exchanges))


def _blocks(exchanges: tuple[Exchange, ...]) -> Iterator[str]:
    last = {said.role: said for said in exchanges}
    for role in get_args(Speaker):
        if role not in last:
            continue
        yield f"### The {role}"
        for message in last[role].prompt:
            yield _folded(_NAMES.get(message.type, message.type), message)
        yield _folded("The answer", Said(type="ai", content=last[role].answer))


def _folded(title: str, message: Said) -> str:
    size = f"about {estimated_tokens(message.content):,} tokens"
    return f"<details><summary>{title} ({size})</summary>\n\n{fenced(message.content, 'markdown')}\n\n</details>"


def main() -> None:
    """Write docs/agents.md."""
    exchanges = ReplayModel.load(CONVERSATION).exchanges
    PAGE.write_text(with_prompts(PAGE.read_text(encoding="utf-8"), exchanges), encoding="utf-8")


if __name__ == "__main__":
    main()
