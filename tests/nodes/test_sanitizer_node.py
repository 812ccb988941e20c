"""The sanitizer's node where there is nothing to watch; what it does with a faulty kernel the graph's tests tell."""

from __future__ import annotations

import pytest
from run_samples import best, run

from harness.sanitize.report import Finding, SanitizerRun
from nodes.models.scripted import ScriptedModel
from nodes.sanitizer import sanitizer
from nodes.settings import Settings
from nodes.workshop import ModelShelf, Workshop
from tools.wording import say_sanitizers

FOUND = SanitizerRun(
    tool="memcheck", status="found", findings=(Finding(kind="read", message="line 3 reads x", line=3),)
)
SKIPPED = SanitizerRun(tool="racecheck", status="skipped", note="it did not end within 30 s")
CLEAN = SanitizerRun(tool="initcheck", status="clean")


def shop(**settings):
    return Workshop(settings=Settings(**settings), shelf=ModelShelf(lambda spec, options: ScriptedModel(answers=[])))


@pytest.mark.parametrize(("state", "settings"), [(run(), {}), (run(best=best()), {"sanitize": False})])
def test_without_a_kernel_or_the_wish_nothing_changes(state, settings):
    assert sanitizer(state, shop(**settings)) == {"mending": False}


def test_a_finding_withdraws_a_pass_and_only_that():
    passed = best().verdict
    refused = passed.sanitized((CLEAN, FOUND))
    assert (refused.status, refused.check, refused.message) == ("refused", "sanitizer", "line 3 reads x")
    assert refused.timing is None and refused.sanitizers == (CLEAN, FOUND)
    kept = passed.sanitized((CLEAN, SKIPPED))
    assert kept.passed and kept.timing == passed.timing and kept.sanitizers == (CLEAN, SKIPPED)


def test_what_ran_is_said_in_a_line_each():
    assert say_sanitizers((CLEAN, FOUND, SKIPPED)).splitlines() == [
        "initcheck: clean",
        "memcheck: line 3 reads x",
        "racecheck: not checked: it did not end within 30 s",
    ]
