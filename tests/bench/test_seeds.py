"""What the bench of seeds counts, when a kernel is done, and what the table says."""

from __future__ import annotations

import json
import time

import pytest

from bench.seeds import Count, _judge, at_least, at_most, read, subjects, table


def test_bounds_are_those_of_binomial_counts():
    assert at_most(0, 598) == pytest.approx(1 - 0.05 ** (1 / 598))
    assert at_least(0, 598) == 0
    assert at_least(1, 1) == pytest.approx(0.05)
    assert at_most(3, 100) > 0.03 > at_least(3, 100)


def test_a_kernel_is_done_once_its_rate_is_clear():
    assert not Count(verdicts=597).done
    assert Count(verdicts=598).done
    assert not Count(verdicts=10, other=1).done
    assert Count(verdicts=10, other=2).done
    assert Count(verdicts=1, seedless=True).done


def test_what_the_screen_decides_is_judged_once_and_the_file_goes_on_where_it_was(tmp_path):
    file, wanted = tmp_path / "verdicts.jsonl", [each for each in subjects() if each.name.startswith("02_thread")]
    assert len(wanted) == 2
    for _ in range(2):
        _judge(file, wanted, time.monotonic() + 60)
    counts = read(file)
    assert [(count.verdicts, count.seedless, count.other) for count in counts.values()] == [(1, True, 0)] * 2
    assert "| cheat, decided before a seed | 2 | 1 to 1 | 2 | 0 | - |" in table(counts)


def test_trials_decide_without_a_clock_and_the_other_verdict_is_told(tmp_path):
    file = tmp_path / "verdicts.jsonl"
    (zeros,) = (each for each in subjects() if each.name == "16_zeros.cpp")
    _judge(file, [zeros], time.monotonic() + 3)
    said = json.loads(file.read_text(encoding="utf-8").splitlines()[0])
    assert (said["status"], said["check"], said["other"]) == ("wrong", "correctness", False)
    with file.open("a", encoding="utf-8") as kept:
        kept.write(json.dumps(said | {"seed": 99, "status": "passed", "other": True}) + "\n")
    assert "16_zeros.cpp: 1 of " in table(read(file))
    assert "passed correctness (seed 99)" in table(read(file))
