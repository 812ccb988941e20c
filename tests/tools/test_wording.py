"""What a model is told about builds and verdicts: short, and with what it can act on."""

from __future__ import annotations

from run_samples import built, kernel, not_built, passed, profile, wrong

from harness.build import Build, Diagnostic, Resources
from harness.profile.render import render
from harness.sanitize.report import Finding, SanitizerRun
from harness.verdict import Verdict
from tools.wording import MAX_DIAGNOSTICS, MAX_MESSAGE_CHARS, say_build, say_verdict

K = kernel()


def test_a_long_list_of_errors_is_cut() -> None:
    errors = tuple(
        Diagnostic(severity="error", file="kernel", line=number, message="x" * 9999) for number in range(1, 100)
    )
    lines = say_build(Build(diagnostics=errors, seconds=1.0)).splitlines()
    assert len(lines) == 1 + MAX_DIAGNOSTICS + 1
    assert lines[-1] == f"({99 - MAX_DIAGNOSTICS} more left out)"
    assert max(map(len, lines)) < MAX_MESSAGE_CHARS + 50


def test_warnings_are_not_shown_among_errors() -> None:
    found = (
        Diagnostic(severity="warning", file="kernel", line=1, message="unused"),
        Diagnostic(severity="error", file="cute/layout.hpp", line=9, message="no match"),
        Diagnostic(severity="note", file="kernel", line=4, message="required from here"),
    )
    words = say_build(Build(diagnostics=found, seconds=1.0))
    assert "unused" not in words
    assert "cute/layout.hpp:9:0: error: no match" in words
    assert "kernel:4:0: note: required from here" in words


def test_remarks_and_resources_of_a_build_are_said_the_same_whether_it_was_built_or_found() -> None:
    use = Resources(kernel="run", registers=40, shared_bytes=1024, spill_bytes=0)
    words = say_build(built().model_copy(update={"resources": (use,), "cached": True}))
    assert words == say_build(built().model_copy(update={"resources": (use,), "seconds": 9.0}))
    assert "run: 40 registers a thread" in words
    assert "kernel:3:0: note: loop not vectorized" in words


def test_each_status_has_its_words() -> None:
    assert "0.667 ms" in say_verdict(passed(K, 1.5), "cpu").replace("0.6667", "0.667")
    assert say_verdict(not_built(K), "cpu").startswith("The kernel does not compile:")
    assert "gives wrong results (check accuracy): 25 % of the elements are off" in say_verdict(wrong(K), "cpu")
    crashed = Verdict(
        status="crashed", candidate=K.digest, task="t", seed=1, tier="none", check="run", message="signal 11"
    )
    assert say_verdict(crashed, "cpu") == "The kernel crashed (check run): signal 11"


def test_the_processors_threads_are_said_of_its_own_kernels_alone() -> None:
    assert "ms of eager PyTorch on 2 threads: 1.500x" in say_verdict(passed(K, 1.5), "cpu")
    assert "ms of eager PyTorch: 1.500x" in say_verdict(passed(K, 1.5), "cuda")


def test_what_a_sanitizer_found_is_said_with_the_tools_that_found_nothing() -> None:
    found = Finding(kind="read", message="line 3 reads x[16] of 16 elements", line=3)
    runs = (SanitizerRun(tool="memcheck", status="found", findings=(found,)), SanitizerRun(tool="race", status="clean"))
    assert say_verdict(passed(K, 1.5).sanitized(runs), "cpu").splitlines() == [
        "The kernel was refused (check sanitizer): line 3 reads x[16] of 16 elements",
        "- memcheck: line 3 reads x[16] of 16 elements",
        "- race: clean",
        "Its results were right on every input: what is wrong is what it touches on the way.",
    ]


def test_a_profile_fits_a_prompt() -> None:
    long = profile().model_copy(update={"findings": tuple(f"finding {number}" for number in range(500))})
    assert len(render(long).splitlines()) <= 60
