"""Edits that the playbook works out itself land as the patch tool applies them."""

from __future__ import annotations

from hypothesis import assume, given
from hypothesis import strategies as st

from nodes.models.playbook import line_edits
from tools.patch import Patch

LINES = st.lists(st.sampled_from(["", "a", "b", "  c", "}", "a\x0cb"]), min_size=1, max_size=12)


@given(LINES, LINES)
def test_edits_lead_from_one_text_to_the_other(before: list[str], after: list[str]) -> None:
    assume(before != after)
    old, new = "".join(f"{line}\n" for line in before), "".join(f"{line}\n" for line in after)
    patch = Patch.model_validate({"edits": line_edits(old, new)})
    assert patch.apply(old) == new


def test_equal_texts_need_no_edit() -> None:
    assert line_edits("a\nb\n", "a\nb\n") == []


def test_edits_are_as_small_as_the_change() -> None:
    before, after = "a\nb\nc\nd\n", "a\nB\nc\nd\ne\n"
    assert line_edits(before, after) == [
        {"kind": "replace", "line": 2, "end_line": 2, "expected": "b\n", "text": "B\n"},
        {"kind": "insert", "line": 4, "expected": "d", "text": "e\n"},
    ]
