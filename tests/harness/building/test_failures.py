"""Builds that ended in ways the compiler has no message for."""

from __future__ import annotations

import pytest

from harness.building.gcc import failed_build
from harness.isolation.process import Completed
from harness.nouns.build import Diagnostic


def completed(outcome, **fields):
    ending = {"exit_code": None, "signal": None, "stdout": b"", "stderr": b"", "wall_s": 3.0, "strays": 0, "note": ""}
    return Completed(outcome=outcome, **{**ending, "peak_memory_bytes": 5 << 20, **fields})


@pytest.mark.parametrize(
    ("outcome", "fields", "words"),
    [
        ("timed_out", {}, "after 3 s: the source takes too long"),
        ("out_of_memory", {}, "with 5 MB in use"),
        ("flooded", {"note": "more than 64 processes"}, "stopped: more than 64 processes"),
        ("signalled", {"signal": "SIGKILL"}, "ended by SIGKILL"),
    ],
)
def test_every_violent_end_is_told_first(outcome, fields, words):
    said = Diagnostic(severity="error", file="kernel", line=9, message="something")
    build = failed_build(completed(outcome, **fields), (said,), "")
    assert words in build.diagnostics[0].message and said in build.diagnostics
    assert build.seconds == 3.0


def test_an_explained_failure_gets_nothing_added():
    said = Diagnostic(severity="error", file="kernel", line=9, message="something")
    assert failed_build(completed("exited", exit_code=1), (said,), "noise").diagnostics == (said,)


def test_an_unexplained_failure_shows_the_compilers_last_words_and_not_ninjas():
    output = "FAILED: [code=1] kernel.o \n/usr/bin/g++ -I/some/where\nstrange words\nninja: build stopped\n"
    (error,) = failed_build(completed("exited", exit_code=1), (), output).diagnostics
    assert error.message == "The compiler ended with exit code 1 and said: strange words"


def test_a_silent_failure_is_told_too():
    (error,) = failed_build(completed("exited", exit_code=7), (), "").diagnostics
    assert error.message == "The compiler ended with exit code 7 and said nothing"
