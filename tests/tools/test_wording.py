"""What a model is told about builds and verdicts: short, and with what it can act on."""

from __future__ import annotations

from run_samples import built, kernel, not_built, passed, profile, wrong

from harness.nouns.build import Build, Diagnostic, Resources
from harness.nouns.sanitizer_run import Finding, SanitizerRun, Smaller
from harness.nouns.verdict import Correctness, HeadToHead, Interval, Trial, Untried, Verdict, WorkloadResult
from harness.profile.render import render
from tools.wording import (
    MAX_DIAGNOSTICS,
    MAX_MESSAGE_CHARS,
    say_build,
    say_oracle,
    say_sanitizers,
    say_trials,
    say_verdict,
)

K = kernel()


def test_a_long_list_of_errors_is_cut() -> None:
    errors = tuple(
        Diagnostic(severity="error", file="kernel", line=number, message="x" * 9999) for number in range(1, 100)
    )
    lines = say_build(Build(diagnostics=errors, seconds=1.0)).splitlines()
    assert len(lines) == 1 + MAX_DIAGNOSTICS + 1
    assert lines[-1] == f"({99 - MAX_DIAGNOSTICS} more left out)"
    assert max(map(len, lines)) < MAX_MESSAGE_CHARS + 50


def test_a_list_that_fits_is_shown_whole() -> None:
    errors = tuple(
        Diagnostic(severity="error", file="kernel", line=number, message="x") for number in range(MAX_DIAGNOSTICS)
    )
    lines = say_build(Build(diagnostics=errors, seconds=1.0)).splitlines()
    assert lines[1:] == [f"kernel:{number}:0: error: x" for number in range(MAX_DIAGNOSTICS)]


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
    assert "\nrun: 40 registers a thread, 1024 bytes of shared memory, 0 bytes spilled\n" in words
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


def test_what_met_the_best_kernel_is_told_by_how_much() -> None:
    verdict = passed(K, 1.5)
    assert verdict.timing is not None
    head_to_head = HeadToHead(
        incumbent="x", incumbent_ms=1.0, speedup=1.25, interval=Interval(low=1.2, high=1.3), rounds=24
    )
    met = verdict.model_copy(update={"timing": verdict.timing.model_copy(update={"head_to_head": head_to_head})})
    said = " Against the best kernel before it, in the same rounds: 1.250x (1.200 to 1.300)."
    assert say_verdict(met, "cpu") == say_verdict(verdict, "cpu") + said
    wide = head_to_head.model_copy(update={"interval": Interval(low=0.63, high=4.35)})
    open_still = verdict.model_copy(update={"timing": verdict.timing.model_copy(update={"head_to_head": wide})})
    assert say_verdict(open_still, "cpu").endswith("(0.630 to 4.350), which decides nothing: the machine was too busy.")


def test_of_wrong_outputs_the_first_bad_element_is_told_and_of_right_ones_nothing() -> None:
    verdict = wrong(K)
    assert verdict.correctness is not None
    (trial,) = verdict.correctness.trials
    (bad,) = trial.outputs
    good = bad.model_copy(update={"output": "second", "first_bad": None, "bad_fraction": 0.0})
    plain = bad.model_copy(update={"output": "third", "pattern": ""})
    trials = (trial.model_copy(update={"outputs": (bad, good, plain)}),)
    words = say_verdict(verdict.model_copy(update={"correctness": Correctness(trials=trials)}), "cpu").splitlines()
    what = "25.00% of the elements are wrong; relative error 0.5 (the reference's own: 1e-08)"
    first = "first at [3, 1]: expected 1.5, got 2.5"
    assert words[1:] == [
        f"- inputs 'normal', seed 7: output output: {what}; {first}; every fourth column",
        f"- inputs 'normal', seed 7: output third: {what}; {first}",
    ]


def test_what_a_sanitizer_could_not_see_is_said() -> None:
    runs = (
        SanitizerRun(tool="a", status="clean", unwatched="copies by TMA were not watched"),
        SanitizerRun(tool="b", status="skipped", note="it took too long"),
        SanitizerRun(tool="c", status="clean"),
    )
    assert say_sanitizers(runs).splitlines() == [
        "a: clean after 0.0 s, but copies by TMA were not watched",
        "b: not checked: it took too long",
        "c: clean after 0.0 s",
    ]


def test_where_a_kernel_was_watched_is_said_once_for_each_workload() -> None:
    smaller = Smaller(shapes=((512, 512), ()), numbers=((8192, 512), (67108864, 262144)))
    runs = (
        SanitizerRun(tool="a", status="clean", seconds=1.25, workload="long", smaller=smaller),
        SanitizerRun(tool="b", status="skipped", note="slow", ended=False, workload="long", smaller=smaller),
        SanitizerRun(tool="a", status="clean", smaller=Smaller(shapes=((7,),))),
    )
    where = "atched at smaller sizes than the task's, at which it is right, too:"
    assert say_sanitizers(runs).splitlines() == [
        "a, long: clean after 1.2 s",
        "b, long: not checked: slow",
        "a: clean after 0.0 s",
        f"long: w{where} (512, 512), (). The source was compiled for them: 512 for 8192, 262144 for 67108864.",
        f"W{where} (7). The source was the same.",
    ]


def test_what_a_sanitizer_found_is_said_with_the_tools_that_found_nothing() -> None:
    found = Finding(kind="read", message="line 3 reads x[16] of 16 elements", line=3)
    runs = (SanitizerRun(tool="memcheck", status="found", findings=(found,)), SanitizerRun(tool="race", status="clean"))
    assert say_verdict(passed(K, 1.5).sanitized(runs), "cpu").splitlines() == [
        "The kernel was refused (check sanitizer): line 3 reads x[16] of 16 elements",
        "- memcheck: line 3 reads x[16] of 16 elements",
        "- race: clean after 0.0 s",
        "Its results were right on every input: what is wrong is what it touches on the way.",
    ]


def test_a_profile_fits_a_prompt() -> None:
    long = profile().model_copy(update={"findings": tuple(f"finding {number}" for number in range(500))})
    assert len(render(long).splitlines()) <= 60


def test_a_missing_oracle_is_said_wherever_it_was_missing() -> None:
    verdict = passed(K, 1.5)
    assert verdict.correctness is not None
    assert say_oracle(verdict) == ""
    without = verdict.correctness.model_copy(update={"no_oracle": "in float64, forward raised X."})
    workloads = (
        WorkloadResult(name="a", correctness=verdict.correctness),
        WorkloadResult(name="b", correctness=without),
    )
    for where in ({"correctness": without}, {"workloads": workloads}):
        said = say_oracle(verdict.model_copy(update=where))
        assert said.startswith("No float64 oracle: in float64, forward raised X. Errors are held against")


def test_what_was_tried_is_said_and_what_was_not_with_its_reason() -> None:
    verdict = passed(K, 1.5)
    held = verdict.correctness
    assert held is not None
    assert say_trials(verdict.model_copy(update={"correctness": None})) == ""
    left = Untried(distribution="masked", seed=3, reason="PyTorch's outputs are NaN among them.")
    trials = tuple(
        Trial(distribution=name, seed=1, mild=name == "wide", outputs=()) for name in ("given", "wide", "stirred")
    )
    both = {"correctness": held.model_copy(update={"trials": trials, "untried": (left, left)})}
    assert say_trials(verdict.model_copy(update=both)).splitlines() == [
        "Tried on: given, wide (milder), stirred.",
        "Not tried: masked: PyTorch's outputs are NaN among them.",
    ]
