"""A verdict that contradicts itself cannot be built."""

from __future__ import annotations

from itertools import product

import pytest
from pydantic import ValidationError

from harness.nouns.build import Build, Diagnostic
from harness.nouns.sanitizer_run import Finding, SanitizerRun
from harness.nouns.verdict import (
    Clocks,
    Compiled,
    Conditions,
    Correctness,
    FirstBad,
    HeadToHead,
    Interval,
    OutputError,
    Timing,
    Trial,
    Verdict,
    WorkloadResult,
)

BUILT = Build(digest="0" * 32, seconds=1)
FAILED = Build(diagnostics=(Diagnostic(severity="error", file="kernel", line=3, message="no"),), seconds=1)
RIGHT = OutputError(output="y", relative_l2=0, max_scaled=0, reference_relative_l2=0, reference_max_scaled=0)
WRONG = RIGHT.model_copy(update={"bad_fraction": 0.5, "first_bad": FirstBad(index=(0,), expected=1, got=2)})
INTERVAL = Interval(low=1.9, high=2.1)
TIMING = Timing(
    candidate_ms=1, baseline_ms=2, speedup=2, speedup_interval=INTERVAL, rounds=20, threads=1,
    converged=True,
)  # fmt: skip


def compared(*errors: OutputError) -> Correctness:
    return Correctness(trials=(Trial(distribution="given", seed=1, outputs=errors),))


def verdict(status, **fields):
    return Verdict(status=status, candidate="c", task="t", seed=1, tier="none", **fields)


POSSIBLE = {
    ("build_failed", "failed", "", "", "check"),
    *(
        (status, build, comparisons, "", "check")
        for status in ("refused", "crashed", "timed_out")
        for build in ("", "failed", "built")
        for comparisons in ("", "compared")
    ),
    ("wrong", "built", "compared", "", "check"),
    ("passed", "built", "compared", "timed", ""),
}
"""Status, build, comparisons, timing, failed check: the table of `Verdict`'s own description."""


@pytest.mark.parametrize("status", ["build_failed", "refused", "crashed", "timed_out", "wrong", "passed"])
def test_a_status_carries_its_fields_and_no_others(status):
    for build, comparisons, time, check in product(
        ("", "failed", "built"), ("", "compared"), ("", "timed"), ("", "check")
    ):
        fields = {
            "build": {"": None, "failed": FAILED, "built": BUILT}[build],
            "correctness": compared(RIGHT) if comparisons else None,
            "timing": TIMING if time else None,
            "check": check,
        }
        if (status, build, comparisons, time, check) in POSSIBLE:
            assert verdict(status, **fields).passed is (status == "passed")
        else:
            with pytest.raises(ValidationError):
                verdict(status, **fields)


@pytest.mark.parametrize("where", ["the first", "another workload"])
def test_a_pass_holds_no_wrong_comparison(where):
    bad = compared(RIGHT, WRONG)
    first = bad if where == "the first" else compared(RIGHT)
    workloads = (WorkloadResult(name="a", correctness=first), WorkloadResult(name="b", correctness=bad))
    with pytest.raises(ValidationError, match="found anything wrong"):
        verdict("passed", build=BUILT, timing=TIMING, correctness=first, workloads=workloads)
    assert verdict("wrong", build=BUILT, check="correctness", correctness=bad, workloads=workloads)


def test_a_finding_withdraws_a_pass_and_nothing_else():
    clean = SanitizerRun(tool="memcheck", status="clean")
    found = SanitizerRun(tool="racecheck", status="found", findings=(Finding(kind="race", message="A race."),))
    passed = verdict("passed", build=BUILT, timing=TIMING, correctness=compared(RIGHT), seconds={"build": 1.0})
    assert passed.sanitized((clean,)) == passed.model_copy(update={"sanitizers": (clean,)})
    refused = passed.sanitized((clean, found))
    assert (refused.status, refused.check, refused.message) == ("refused", "sanitizer", "A race.")
    assert (refused.timing, refused.sanitizers) == (None, (clean, found))
    assert (refused.build, refused.correctness, refused.seconds) == (BUILT, passed.correctness, {"build": 1.0})
    wrong = verdict("wrong", build=BUILT, check="correctness", message="It is.", correctness=compared(WRONG))
    assert wrong.sanitized((found,)) == wrong.model_copy(update={"sanitizers": (found,)})


@pytest.mark.parametrize(("low", "defect", "wins"), [(1.01, "", True), (1.0, "", False), (1.5, "constant", False)])
def test_a_win_has_its_whole_interval_above_one_on_a_sound_task(low, defect, wins):
    timing = TIMING.model_copy(update={"speedup_interval": Interval(low=low, high=9), "task_defect": defect})
    assert timing.wins is wins


@pytest.mark.parametrize(("influence", "said"), [("", False), ("given", False), ("wide", True)])
def test_the_final_word_names_the_family_that_shows_influence_where_the_files_own_inputs_do_not(influence, said):
    words = TIMING.model_copy(update={"influence": influence}).influence_said
    assert ("wide inputs show" in words, bool(words)) == (said, said)


@pytest.mark.parametrize("field", ["sm_mhz", "memory_mhz"])
@pytest.mark.parametrize(("low", "steady"), [(1000, True), (980, True), (979, False)])
def test_clocks_may_move_by_two_hundredths(field, low, steady):
    highest = Conditions(sm_mhz=1000, memory_mhz=1000, temperature_c=80)
    clocks = Clocks(lowest=highest.model_copy(update={field: low, "temperature_c": 30}), highest=highest)
    assert clocks.steady is steady
    noise = TIMING.model_copy(update={"clocks": clocks}).noise
    assert noise == "" if steady else "clocks moved" in noise


def test_noise_tells_each_of_its_reasons():
    assert (TIMING.noise, TIMING.baseline) == ("", "eager")
    low, high = (Conditions(sm_mhz=mhz, memory_mhz=2 * mhz, temperature_c=40) for mhz in (1700, 1980))
    loud = TIMING.model_copy(update={"converged": False, "clocks": Clocks(lowest=low, highest=high)})
    assert loud.noise == (
        "Noise: after 20 rounds the interval is still 5.0% to either side; "
        "the GPU's clocks moved: 1700 to 1980 MHz, memory 3400 to 3960 MHz."
    )


TIMES = [
    *((Timing, TIMING.model_dump(), field) for field in ("candidate_ms", "baseline_ms", "speedup")),
    *(
        (HeadToHead, {"incumbent": "r", "incumbent_ms": 1, "speedup": 1, "interval": INTERVAL, "rounds": 8}, field)
        for field in ("incumbent_ms", "speedup")
    ),
    *((Compiled, {"ms": 1, "speedup": 1, "interval": INTERVAL}, field) for field in ("ms", "speedup")),
]


@pytest.mark.parametrize(("noun", "fields", "field"), TIMES)
def test_a_time_may_be_short_but_not_nothing(noun, fields, field):
    assert getattr(noun(**(fields | {field: 1e-9})), field) == 1e-9
    with pytest.raises(ValidationError):
        noun(**(fields | {field: 0}))


@pytest.mark.parametrize(
    ("low", "high", "said"), [(0.98, 1.1, "0.98 to 1.10"), (0.0006, 1721.9, "open: too few rounds"), (0, 1, None)]
)
def test_an_interval_that_leaves_everything_open_is_no_pair_of_numbers(low, high, said):
    interval = Interval(low=low, high=high)
    said = said or "open: too few rounds"
    assert interval.said() == said
    met = HeadToHead(incumbent="a", incumbent_ms=1.0, speedup=1.0, interval=interval, rounds=6)
    assert met.within == f"({said})"
