"""One change out of several taken back: what is sure is merged, what is not is refused."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tools.taking_back import taken_back


def text(*lines: str) -> str:
    return "".join(f"{line}\n" for line in lines)


@pytest.mark.parametrize(
    ("before", "after", "final", "expected"),
    [
        ("abc", "aBc", "aBC", "abC"),  # neighbouring lines, each changed once
        ("abc", "aBc", "aBc", "abc"),  # the last move
        ("abc", "aBc", "aXc", None),  # changed again
        ("abc", "aBc", "ac", None),  # and left out
        ("ac", "abc", "abcd", "acd"),  # a line that came is gone
        ("ac", "abc", "abxc", None),  # but not with something beside it
        ("abc", "ac", "acd", "abcd"),  # a line that went is back
        ("abc", "ac", "axc", None),  # but not where another stands
        ("abc", "aBc", "abc", None),  # taken back already
    ],
)
def test_a_change_is_taken_back_where_no_other_stands_on_its_lines(
    before: str, after: str, final: str, expected: str | None
) -> None:
    found = taken_back(text(*before), text(*after), text(*final))
    assert found == (expected and text(*expected))


LINES = st.lists(st.sampled_from("abcd"), max_size=8).map(lambda lines: text(*lines))


@given(LINES, LINES)
def test_the_last_change_is_always_taken_back_whole(before: str, after: str) -> None:
    assert taken_back(before, after, after) == before
    assert taken_back(after, after, before) == before, "no change takes nothing back"
