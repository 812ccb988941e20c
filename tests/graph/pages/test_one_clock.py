"""A ratio is the quotient of the times that stand beside it, by one clock, wherever it is shown."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from markupsafe import escape
from report_records import full_record
from suite_records import row

from graph.api.calls import RunResult
from graph.cli.optimize import sentences
from graph.pages.compare_page import facts
from graph.pages.report import render
from graph.runs.comparing import compare_runs
from graph.runs.folder import RunFolder
from graph.runs.record import RunRecord
from graph.runs.tables import HEAD, rows_sheet
from harness.nouns.verdict import AsCalled, CallerTiming, Interval

CALLED = AsCalled(ms=4.38, baseline_ms=6.57, speedup=1.5, interval=Interval(low=1.4, high=1.6))
SAID = re.compile(r"([\d.]+)x over eager \(95 % interval [\d.]+ to [\d.]+\): ([\d.]+) ms against ([\d.]+) ms")
CLOCKS = {"judge": None, "back to back": CallerTiming(back_to_back=CALLED, rounds=23)}


@pytest.fixture(params=CLOCKS)
def record(request: pytest.FixtureRequest) -> RunRecord:
    """A run whose headline is by the judge's clock, or by a caller's."""
    found = full_record()
    assert found.best is not None and found.timing is not None
    timing = found.timing.model_copy(update={"caller": CLOCKS[request.param]})
    assert timing.headline.clock == request.param
    verdict = found.best.verdict.model_copy(update={"timing": timing})
    return found.model_copy(update={"best": found.best.model_copy(update={"verdict": verdict})})


def quotients(text: str) -> int:
    found = SAID.findall(text)
    for ratio, ms, baseline in found:
        assert float(ratio) == pytest.approx(float(baseline) / float(ms), rel=0.01)
    return len(found)


def test_the_terminal_says_each_clocks_own_times(record: RunRecord, tmp_path: Path) -> None:
    assert record.timing is not None
    said = sentences(RunResult(RunFolder(tmp_path), record), judged_before=False)
    assert quotients("\n".join(said)) == 1 + len(record.timing.other_clocks)
    assert quotients(said[0]) == 1
    assert said[0].endswith(f", {record.timing.headline.whose}.")
    assert RunResult(RunFolder(tmp_path), record).speedup == record.timing.headline.speedup


def test_the_reports_head_is_by_one_clock_and_the_others_are_named(record: RunRecord) -> None:
    assert record.timing is not None
    head = re.findall(r"<header>.*?</header>", render(record), re.DOTALL)[0]
    number = float(re.findall(r'class="number[^"]*">([\d.]+)x', head)[0])
    tiles = dict(re.findall(r"<dt>([^<]+)</dt><dd>([\d.]+) ms</dd>", head))
    kernel = float(tiles["this kernel" if record.timing.headline.clock == "judge" else "this drop-in"])
    assert number == pytest.approx(float(tiles["eager"]) / kernel, rel=0.01)
    assert escape(record.timing.headline.whose) in head
    assert f"{record.timing.headline.rounds} rounds" in head
    assert quotients(head) == len(record.timing.other_clocks)


def test_two_runs_beside_each_other_have_the_same_figures(record: RunRecord) -> None:
    told = {name: values[0] for name, values in facts(compare_runs(record, record))}
    ratio = float(told["speed-up"].partition("x")[0])
    assert ratio == pytest.approx(float(told["baseline ms"]) / float(told["kernel ms"]), rel=0.01)


def test_a_suites_line_has_the_same_figures(record: RunRecord) -> None:
    line = row(1, 2.0).model_copy(update={"timing": record.timing})
    told = dict(zip(HEAD, rows_sheet("", (line,)).rows[0], strict=True))
    ratio = float(told["speed-up"].partition("x")[0])
    assert ratio == pytest.approx(float(told["eager ms"]) / float(told["kernel ms"]), rel=0.01)
    assert record.timing is not None and told["clock"] == record.timing.headline.clock
