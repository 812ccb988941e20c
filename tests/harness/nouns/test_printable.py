"""Text of others cannot steer the terminal that shows it."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.nouns.build import Diagnostic
from harness.nouns.frozen import printable
from harness.nouns.verdict import Verdict
from harness.screen.source import screen_source

CLEARS = "\x1b[2J\x1b]0;owned\x07"


@pytest.mark.parametrize(
    ("said", "shown"),
    [
        ("expected 1,\n\tgot 2: größer", "expected 1,\n\tgot 2: größer"),
        (CLEARS, r"\x1b[2J\x1b]0;owned\x07"),
        ("one\rtwo\x08\x9b31m\x7f", r"one\rtwo\x08\x9b31m\x7f"),
        ("passed \u202edeliaf", r"passed \u202edeliaf"),
    ],
)
def test_what_steers_a_terminal_is_written_out(said, shown):
    assert printable(said) == shown


@given(st.text())
def test_nothing_else_is_changed_and_nothing_twice(text):
    shown = printable(text)
    assert printable(shown) == shown
    assert shown == text or not text.replace("\n", "").replace("\t", "").isprintable()


def test_verdicts_diagnostics_and_refusals_hold_no_others():
    verdict = Verdict(
        candidate="c", task="t", seed=0, tier="none", status="crashed", check=f"x{CLEARS}", message=f"ended {CLEARS}"
    )
    diagnostic = Diagnostic(severity="error", file=CLEARS, line=1, message=CLEARS)
    refusal = screen_source(f"#include <{CLEARS}>\n")
    held = (verdict.check, verdict.message, diagnostic.file, diagnostic.message, str(refusal))
    assert all("\\x1b[2J" in text and "\x1b" not in text for text in held)
    assert Verdict.model_validate_json(verdict.model_dump_json()) == verdict
