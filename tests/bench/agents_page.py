"""The second half of docs/agents.md: each agent's question and the answer it got, from a recorded conversation.

A table has the tokens of each section, in the order in which they are sent. Of rules and guides, which `cutegen
prompts` prints, the question shows the titles. A section that is shown before is not repeated, and a kernel with line
numbers is cut.

`python -m bench.agents_page` writes it; a test fails where the page is older than the recording.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import get_args

from knowledge.library import guide, guide_names
from nodes.models.replay import Exchange, ReplayModel
from nodes.prompt_words import fenced
from nodes.roles import Speaker
from nodes.turn.prompt_size import estimated_tokens

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "agents.md"
CONVERSATION = ROOT / "examples" / "recorded" / "gated_tanh" / "conversation.jsonl"
MARK = "<!-- Below this line the page is written by `python -m bench.agents_page`. -->\n"

KERNEL_LINES = 16
_GUIDES = {part.title for name in guide_names() for part in guide(name)} | {
    "A finished kernel, of this class or near it"
}


def with_prompts(page: str, exchanges: tuple[Exchange, ...]) -> str:
    """The page with everything below its mark written anew. Raises ValueError for a page without the mark."""
    own, mark, _ = page.partition(MARK)
    if not mark:
        raise ValueError(f"the page has lost its line {MARK.strip()}")
    return own + MARK + "".join(f"\n{block}\n" for block in _blocks(exchanges))


def _blocks(exchanges: tuple[Exchange, ...]) -> Iterator[str]:
    last = {said.role: said for said in exchanges}
    asked = {role: last[role] for role in get_args(Speaker) if role in last}
    yield "### Tokens of each section"
    yield _table({role: _prompt(said) for role, said in asked.items()})
    shown: set[str] = set()
    for role, said in asked.items():
        sections = [part for message in said.prompt if message.type == "human" for part in _sections(message.content)]
        yield f"### The {role}"
        yield _folded("The question", "".join(sections), _without(shown, sections))
        shown.update(sections)
        yield _folded("The answer", said.answer, said.answer)


def _prompt(said: Exchange) -> list[str]:
    return [section for message in said.prompt for section in _sections(message.content)]


def _table(prompts: dict[str, list[str]]) -> str:
    """The sections of all prompts, those that all roles begin with first; "all" where they are the same text."""
    every = [*prompts.values()]
    alike = [len(set(sections)) == 1 for sections in zip(*every, strict=False)]
    common = alike.index(False) if False in alike else len(alike)
    lines = [f"| section | {' | '.join(prompts)} |", "|---" * (len(prompts) + 1) + "|"]
    lines += [f"| {_title(part)} | {' | '.join([_tokens(part)] * len(prompts))} |" for part in every[0][:common]]
    shared = f"{estimated_tokens(''.join(every[0][:common])):,}"
    lines.append(f"| **the same for all of them** | {' | '.join([f'**{shared}**'] * len(prompts))} |")
    own = {role: {_title(part): _tokens(part) for part in parts[common:]} for role, parts in prompts.items()}
    for title in dict.fromkeys(title for titles in own.values() for title in titles):
        lines.append(f"| {title} | {' | '.join(titles.get(title, '') for titles in own.values())} |")
    totals = (f"**{estimated_tokens(''.join(parts)):,}**" for parts in every)
    return "\n".join([*lines, f"| **all** | {' | '.join(totals)} |"])


def _tokens(section: str) -> str:
    return f"{estimated_tokens(section):,}"


def _without(shown: set[str], sections: list[str]) -> str:
    return "".join(_line(each, "as above") if each in shown else _shown(each) for each in sections)


def _shown(section: str) -> str:
    return _line(section, "from the guides") if _title(section) in _GUIDES else _cut(section)


def _line(section: str, where: str) -> str:
    return f"{section.partition(chr(10))[0]} ({where})\n\n"


def _cut(section: str) -> str:
    """The first lines of a numbered kernel, any other section whole."""
    lines = section.splitlines()
    if not _title(section).endswith("with line numbers") or len(lines) <= KERNEL_LINES:
        return section
    end = max(index for index, line in enumerate(lines) if line.startswith("```"))
    return "\n".join((*lines[:KERNEL_LINES], f"({end - KERNEL_LINES} more lines)", lines[end], "", ""))


def _sections(content: str) -> list[str]:
    """A prompt's text cut at the headings outside of its code blocks."""
    found, fence = [""], ""
    for line in content.splitlines(keepends=True):
        ticks = (re.match("`{3,}", line) or [""])[0]
        if not fence and line.startswith(("# ", "## ")):
            found.append("")
        fence = "" if fence and ticks == fence and line.strip() == ticks else fence or ticks
        found[-1] += line
    return [section for section in found if section.strip()]


def _title(section: str) -> str:
    return section.partition("\n")[0].lstrip("# ")


def _folded(title: str, measured: str, text: str) -> str:
    size = f"about {estimated_tokens(measured):,} tokens"
    return f"<details><summary>{title} ({size})</summary>\n\n{fenced(text, 'markdown')}\n\n</details>"


def main() -> None:
    """Write docs/agents.md."""
    exchanges = ReplayModel.load(CONVERSATION).exchanges
    PAGE.write_text(with_prompts(PAGE.read_text(encoding="utf-8"), exchanges), encoding="utf-8")


if __name__ == "__main__":
    main()
