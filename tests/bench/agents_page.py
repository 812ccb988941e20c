"""The second half of docs/agents.md: each agent's question and the answer it got, from a recorded conversation.

A table has the tokens of each section, in the order in which they are sent; sections of the guides share a row. Of
rules and guides, which `cutegen prompts` prints, of instructions that stand in a template, of sources, and of the
diagnosis, which is an answer, the question shows the titles. What was shown before is left out, and long code blocks
and long lines are cut.

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

BLOCK_LINES, LINE = 6, 120
GUIDES = "Guides and a finished kernel"
_GUIDES = {part.title for name in guide_names() for part in guide(name)} | {
    "A finished kernel, of this class or near it"
}
_TEMPLATES = ("Before you write", "Your answer", "How to choose")


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
        yield _folded("The answer", said.answer, _cut(said.answer))


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
    own: dict[str, dict[str, str]] = {}
    for role, parts in prompts.items():
        own[role] = {}
        for part in parts[common:]:
            row = GUIDES if _title(part) in _GUIDES else _title(part)
            own[role][row] = own[role].get(row, "") + part
    for title in dict.fromkeys(title for titles in own.values() for title in titles):
        cells = (_tokens(titles[title]) if title in titles else "" for titles in own.values())
        lines.append(f"| {title} | {' | '.join(cells)} |")
    totals = (f"**{estimated_tokens(''.join(parts)):,}**" for parts in every)
    return "\n".join([*lines, f"| **all** | {' | '.join(totals)} |"])


def _tokens(section: str) -> str:
    return f"{estimated_tokens(section):,}"


def _without(shown: set[str], sections: list[str]) -> str:
    return "".join(_shown(each) for each in sections if each not in shown)


def _shown(section: str) -> str:
    heading, title = section.partition("\n")[0], _title(section)
    if title in _GUIDES:
        return f"{heading} (from the guides)\n\n"
    if title in _TEMPLATES:
        return f"{heading} (from the template)\n\n"
    if title.endswith("with line numbers") or title == "The diagnosis":
        return f"{heading} (in full)\n\n"
    return _cut(section)


def _cut(text: str) -> str:
    """The text with the first lines of each code block, and the beginning of each line."""

    def beginning(block: re.Match[str]) -> str:
        lines = block[3].splitlines(keepends=True)
        left = len(lines) - BLOCK_LINES
        kept = f"{''.join(lines[:BLOCK_LINES])}({left} more lines)\n" if left > 1 else block[3]
        return f"{block[1]}{kept}{block[2]}"

    short = re.sub(r"^((`{3,})\w*\n)(.*?)^\2$", beginning, text, flags=re.S | re.M)
    return re.sub(rf"^(.{{{LINE - 4}}}).{{5,}}$", r"\1 ...", short, flags=re.M)


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
