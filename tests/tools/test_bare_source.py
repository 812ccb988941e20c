"""Sources without what their authors say in them."""

from __future__ import annotations

import pytest

from tools.bare_source import bare_diff, without_comments


@pytest.mark.parametrize(
    ("source", "bare"),
    [
        ("int x = 1;  // fast\nint y;", "int x = 1;\nint y;"),
        ("a /* b\nc */ d", "a\n d"),
        ("a/**/b", "a b"),
        ('const char* s = "// no /* comment";', 'const char* s = "// no /* comment";'),
        ('auto s = R"x(// )" */ )x"; // gone', 'auto s = R"x(// )" */ )x";'),
        ('char q = \'"\'; // "gone"', "char q = '\"';"),
        ("int a; // on \\\nand on\nint b;", "int a;\n\nint b;"),
        ("int a; /* never closed", "int a;"),
        ("int n = 1'000;  // it's", "int n = 1'000;"),
    ],
)
def test_comments_go_and_lines_stay(source: str, bare: str) -> None:
    assert without_comments(source) == bare
    assert without_comments(bare) == bare


def test_a_difference_holds_no_words() -> None:
    old = "// plain\nint x = 1;\nint y = 2;\n"
    assert bare_diff(old, "// now with WGMMA\n\nint x = 1;  // the fastest\nint y = 2;\n") == ""
    changed = ["@@ -1,2 +1,2 @@", "-int x = 1;", "+int x = 4;", " int y = 2;"]
    assert bare_diff(old, "int x = 4;  // four\nint y = 2;\n").splitlines() == changed
