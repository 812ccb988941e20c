"""docs/agents.md shows the prompts of the recording as they are now."""

from __future__ import annotations

from typing import get_args

import pytest

from bench.agents_page import CONVERSATION, GUIDES, MARK, PAGE, with_prompts
from knowledge import library
from nodes.models.replay import Exchange, ReplayModel, Said
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


def test_a_section_that_was_shown_before_is_not_repeated_and_guides_are_named() -> None:
    moves = library.moves("elementwise", "cpu", ()).rstrip()
    texts = tuple(f"## The task\n\nSum.\n\n{moves}\n\n## The kernel\n\n{kernel}\n" for kernel in ("Old.", "New."))
    page = with_prompts(f"About.\n{MARK}", (said("generator", 0, texts[0], "a"), said("diagnoser", 1, texts[1], "b")))
    shown = page.partition("### The generator")[2]
    assert shown.count("Sum.") == shown.count("## The task") == 1 and "Old." in shown and "New." in shown
    assert shown.count("# Moves on the processor (from the guides)") == 1 and "Register tile" not in page


def test_the_table_has_the_tokens_of_each_section_and_what_all_roles_begin_with() -> None:
    texts = (
        "## The task\n\nSum it up.\n\n```python\n# no heading\n## none\n```\n\n# Your part: one\n\nWrite.\n",
        "## The task\n\nSum it up.\n\n```python\n# no heading\n## none\n```\n\n# Your part: two\n\nFind it.\n",
    )
    page = with_prompts(f"About.\n{MARK}", (said("generator", 0, texts[0], "a"), said("diagnoser", 1, texts[1], "b")))
    rows = [line.split(" | ") for line in page.splitlines() if line.startswith("|")]
    assert [row[0] for row in rows] == [
        "| section", "|---|---|---|", "| rules", "| The task", "| **the same for all of them**", "| Your part: one",
        "| Your part: two", "| **all**",
    ]  # fmt: skip
    assert rows[3][1] == rows[3][2].rstrip(" |") and int(rows[3][1]) > 0
    assert rows[5][2].rstrip(" |") == "" and rows[6][1] == ""


def test_long_code_is_cut_in_questions_and_answers_and_short_code_is_not() -> None:
    kernel, short = ("\n".join(f"int {name}{number};" for number in range(1, 41)) for name in "xy")
    text = f"## The kernel\n\n```cpp\n{kernel}\n```\n\n## The form\n\n````\nint z;\n```\nint w;\n````\n"
    page = with_prompts(f"About.\n{MARK}", (said("diagnoser", 0, text, f"MOVE: a\n\n```cpp\n{short}\n```\nend"),))
    assert "int x1;" in page and "int x40;" not in page
    assert "(34 more lines)\n```\n\n## The form\n\n````\nint z;\n```\nint w;\n````" in page
    assert "int y1;" in page and "int y40;" not in page and "(34 more lines)\n```\nend" in page


def test_long_lines_are_cut() -> None:
    text = f"## The kernel\n\n{'word ' * 23}end.\n\n{'word ' * 24}end.\n"
    page = with_prompts(f"About.\n{MARK}", (said("diagnoser", 0, text, "a"),))
    assert f"\n{'word ' * 23}end.\n" in page and f"\n{'word ' * 23}w ...\n" in page


def test_sections_of_the_guides_share_a_row() -> None:
    moves = library.moves("elementwise", "cpu", ()).rstrip()
    texts = (f"{moves}\n\n## The kernel\n\nOld.\n", "## The diagnosis\n\nNone.\n")
    asked = (said("optimizer", 0, texts[0], "a"), said("repairer", 1, texts[1], "b"))
    table = with_prompts(f"About.\n{MARK}", asked).partition("### The repairer")[0]
    assert table.count(f"| {GUIDES} | ") == 1 and "| Moves" not in table


def test_a_page_that_lost_its_mark_is_not_overwritten() -> None:
    with pytest.raises(ValueError, match="lost its line"):
        with_prompts("About.\n", ())
