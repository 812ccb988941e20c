"""The second half of docs/agents.md: each agent's question and the answer it got, from a recorded conversation.

Of the rules, which `cutegen prompts` prints, the sections are listed. A section that is shown before is not repeated,
and a kernel with line numbers is cut.

`python -m bench.agents_page` writes it; a test fails where the page is older than the recording.
"""

from __future__ import annotations

import re
import textwrap
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


KERNEL_LINES = 16


def with_prompts(page: str, exchanges: tuple[Exchange, ...]) -> str:
    """The page with everything below its mark written anew. Raises ValueError for a page without the mark."""
    own, mark, _ = page.partition(MARK)
    if not mark:
        raise ValueError(f"the page has lost its line {MARK.strip()}")
    return own + MARK + "".join(f"\n{block}\n" for block in _blocks(exchanges))


def _blocks(exchanges: tuple[Exchange, ...]) -> Iterator[str]:
    last = {said.role: said for said in exchanges}
    shown: set[str] = set()
    for role in get_args(Speaker):
        if role not in last:
            continue
        yield f"### The {role}"
        for message in last[role].prompt:
            if message.type == "system":
                yield _rules(message)
            else:
                yield _folded("The question", message, _without(shown, message.content))
                shown.update(_sections(message.content))
        answer = Said(type="ai", content=last[role].answer)
        yield _folded("The answer", answer, answer.content)


def _rules(message: Said) -> str:
    titles = ", ".join(_title(section).lower() for section in _sections(message.content)[1:])
    return textwrap.fill(f"Rules, {_size(message)}: {titles}.", 120, break_on_hyphens=False)


def _without(shown: set[str], content: str) -> str:
    return "".join(f"## {_title(each)} (as above)\n\n" if each in shown else _cut(each) for each in _sections(content))


def _cut(section: str) -> str:
    """The first lines of a numbered kernel, any other section whole."""
    lines = section.splitlines()
    if not _title(section).endswith("with line numbers") or len(lines) <= KERNEL_LINES:
        return section
    end = max(index for index, line in enumerate(lines) if line.startswith("```"))
    return "\n".join((*lines[:KERNEL_LINES], f"({end - KERNEL_LINES} more lines)", lines[end], "", ""))


def _sections(content: str) -> list[str]:
    return [section for section in re.split(r"^(?=## )", content, flags=re.M) if section.strip()]


def _title(section: str) -> str:
    return section.partition("\n")[0].removeprefix("## ")


def _folded(title: str, message: Said, text: str) -> str:
    return f"<details><summary>{title} ({_size(message)})</summary>\n\n{fenced(text, 'markdown')}\n\n</details>"


def _size(message: Said) -> str:
    return f"about {estimated_tokens(message.content):,} tokens"


def main() -> None:
    """Write docs/agents.md."""
    exchanges = ReplayModel.load(CONVERSATION).exchanges
    PAGE.write_text(with_prompts(PAGE.read_text(encoding="utf-8"), exchanges), encoding="utf-8")


if __name__ == "__main__":
    main()
