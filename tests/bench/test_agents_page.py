"""docs/agents.md shows the prompts of the recording as they are now."""

from __future__ import annotations

from typing import get_args

import pytest

from bench.agents_page import CONVERSATION, MARK, PAGE, with_prompts
from nodes.models.conversation import Exchange, Said
from nodes.models.replay import ReplayModel
from nodes.roles import Speaker


def said(role: Speaker, index: int, text: str, answer: str) -> Exchange:
    prompt = (Said(type="system", content="rules"), Said(type="human", content=text))
    return Exchange(index=index, role=role, prompt_sha256="", prompt=prompt, answer=answer)


def test_the_page_is_as_new_as_the_recording() -> None:
    page = PAGE.read_text(encoding="utf-8")
    assert page == with_prompts(page, ReplayModel.load(CONVERSATION).exchanges), "run: python -m bench.agents_page"
    for role in get_args(Speaker):
        assert f"### The {role}\n" in page


def test_the_last_prompt_of_each_agent_is_shown_and_closes_no_block() -> None:
    exchanges = (said("generator", 0, "first", "a"), said("generator", 1, "````\nthe second\n````", "b"))
    page = with_prompts(f"About.\n{MARK}old", exchanges)
    assert page.startswith(f"About.\n{MARK}") and "old" not in page.partition(MARK)[2] and "first" not in page
    assert "`````markdown\n````\nthe second\n````\n`````" in page
    assert "### The optimizer" not in page


def test_a_section_that_was_shown_before_is_not_repeated_and_rules_are_listed() -> None:
    rules = Said(type="system", content="You write.\n\n## Headers\n\nInclude.\n\n## Your answer\n\nOne block.\n")
    texts = ("## The task\n\nSum.\n\n## The kernel\n\nOld.\n", "## The task\n\nSum.\n\n## The kernel\n\nNew.\n")
    exchanges = tuple(
        Exchange(index=0, role=role, prompt_sha256="", prompt=(rules, Said(type="human", content=text)), answer="a")
        for role, text in zip(("generator", "diagnoser"), texts, strict=True)
    )
    page = with_prompts(f"About.\n{MARK}", exchanges)
    assert page.count("Sum.") == 1 and "## The task (as above)" in page and "Old." in page and "New." in page
    assert "tokens: headers, your answer.\n" in page and "Include." not in page


def test_a_long_kernel_with_line_numbers_is_cut() -> None:
    kernel = "\n".join(f"{number}| int x{number};" for number in range(1, 41))
    text = f"## The kernel, with line numbers\n\n```cpp\n{kernel}\n```\n\n## What is left\n\nAll of it.\n"
    page = with_prompts(f"About.\n{MARK}", (said("diagnoser", 0, text, "a"),))
    assert "int x1;" in page and "int x40;" not in page
    assert "more lines)\n```\n\n## What is left" in page


def test_a_page_that_lost_its_mark_is_not_overwritten() -> None:
    with pytest.raises(ValueError, match="lost its line"):
        with_prompts("About.\n", ())
