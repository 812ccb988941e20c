"""What a suite's figures say of any rows, failed, degenerate and waiting ones among them, against their definitions."""

from __future__ import annotations

import json
import math
import statistics
from datetime import UTC, datetime
from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st
from report_records import full_record
from suite_records import FACTS, TASK, row, suite_record, timing

from graph.runs.record import RunRecord
from graph.runs.suite_record import UNDER_WAY, Row, RowStatus, SuiteRecord, figures, ratio, row_of, summed
from graph.runs.tables import HEAD, STATUS, figures_sheet, page, rows_sheet
from graph.suites.run import line
from harness.nouns.verdict import AsCalled, Busy, CallerTiming, Compiled, Interval, Timing
from nodes.state import Step, Usage

FAILED = ("no_kernel", "not_a_task", "machine_failed", "defect", "interrupted", "waiting")


def measured(speedup: float, low: float, high: float, defect: str = "") -> Timing:
    return timing(1.0).model_copy(
        update={"speedup": speedup, "speedup_interval": Interval(low=low, high=high), "task_defect": defect}
    )


@st.composite
def rows(draw: st.DrawFn) -> list[Row]:
    """Rows as a suite leaves them; a failed one may still hold what was verified before the failure."""
    found = []
    for number in range(draw(st.integers(0, 12))):
        speedup = draw(st.floats(0.01, 100))
        low, high = speedup * draw(st.floats(0.5, 1)), speedup * draw(st.floats(1, 2))
        defect = draw(st.sampled_from(["", "", "", "The output is constant."]))
        kernel = measured(speedup, low, high, defect) if draw(st.booleans()) else None
        status = draw(st.sampled_from(FAILED)) if kernel is None else "degenerate" if defect else "improved"
        usage = Usage(calls=2, dollars=draw(st.floats(0, 9)), unpriced_calls=draw(st.sampled_from([0, 0, 0, 0, 1])))
        found.append(Row(id=number, name=f"t{number}", status=status, timing=kernel, usage=usage))
    return found


@given(rows())
def test_the_figures_are_what_their_names_say(found: list[Row]) -> None:
    told = figures(found)
    right = [each.timing for each in found if each.timing and not each.timing.task_defect]
    speedups = sorted(each.speedup for each in right)
    assert (told.tasks, told.right) == (len(found), len(right))
    assert told.faster == sum(each.speedup_interval.low > 1 for each in right)
    for threshold in (1, 1.2, 2):
        fast = [each for each in speedups if each > threshold]
        assert told.fast[f"{threshold:g}"] == pytest.approx(len(fast) / len(found) if found else 0)
    if not speedups:
        assert (told.geomean, told.median, told.per_kernel) == (None, None, None)
        return
    assert told.median == pytest.approx(statistics.median(speedups))
    assert told.geomean == pytest.approx(math.prod(speedups) ** (1 / len(speedups)))
    assert speedups[0] * (1 - 1e-9) <= told.geomean <= speedups[-1] * (1 + 1e-9)
    assert figures(found[::-1]).geomean == pytest.approx(told.geomean), "no order of tasks is better"


@given(rows())
def test_each_dollar_is_counted_once_and_an_unknown_one_makes_the_sum_unknown(found: list[Row]) -> None:
    told = figures(found)
    if any(each.usage.unpriced_calls for each in found):
        assert (told.dollars, told.per_kernel, told.per_tenth) == (None, None, None)
        return
    assert told.dollars == pytest.approx(sum(each.usage.dollars for each in found))
    gained = sum(10 * (each.timing.speedup - 1) for each in found if each.timing and each.timing.wins)
    assert told.per_tenth == (pytest.approx(told.dollars / gained) if gained else None)
    assert told.per_kernel == (pytest.approx(told.dollars / told.right) if told.right else None)


@given(rows())
def test_any_rows_make_whole_tables_and_survive_their_file(found: list[Row]) -> None:
    record = suite_record(*found)
    assert SuiteRecord.model_validate_json(record.model_dump_json()) == record
    sheet = rows_sheet("", found)
    assert [cells[:2] for cells in sheet.rows] == [(str(each.id), each.name) for each in found]
    assert all(len(cells) == len(HEAD) for cells in sheet.rows)
    text = page(record)
    table = [line.split("|") for line in text.splitlines() if line.startswith("| ")]
    assert {len(cells) for cells in table[: len(found) + 2]} == {len(HEAD) + 2}
    assert text.count("\n- t") == len(found), "each run's end is told"
    sums = figures_sheet((("all", record.figures),))
    assert all(len(cells) == len(sums.head) for cells in sums.rows)


@pytest.mark.parametrize(("speedup", "above"), [(1.0, 0), (1.0001, 1), (1.2, 1), (1.21, 2), (2.0, 2), (2.01, 3)])
def test_fast_means_faster_than_the_threshold(speedup: float, above: int) -> None:
    fast = figures((Row(id=1, name="t", status="improved", timing=measured(speedup, speedup, speedup)),)).fast
    assert list(fast.values()) == [1.0] * above + [0.0] * (3 - above)
    assert list(fast) == ["1", "1.2", "2"]


@pytest.mark.parametrize(
    ("low", "defect", "wins"), [(1.0, "", False), (1.001, "", True), (0.9, "", False), (1.5, "The output is 0.", False)]
)
def test_a_win_lies_wholly_above_one_on_a_task_that_means_something(low: float, defect: str, wins: bool) -> None:
    found = Row(id=1, name="t", status="improved", timing=measured(1.8, low, 2.0, defect))
    assert figures((found,)).faster == wins
    assert found.tenths == pytest.approx(8.0 if wins else 0.0)
    assert figures((found,)).right == (not defect)


def test_the_sum_of_nothing_is_known() -> None:
    assert (summed([]), summed([1.0, 0.5]), summed([1.0, None])) == (0, 1.5, None)
    assert (ratio(3.0, 2), ratio(3.0, 0), ratio(None, 2), ratio(0.0, 2)) == (1.5, None, None, 0)
    with_prices = Row(id=1, name="t", status="waiting", usage=Usage(calls=1, dollars=2.0))
    assert with_prices.dollars == 2.0
    assert with_prices.model_copy(update={"usage": Usage(calls=1, unpriced_calls=1, dollars=2.0)}).dollars is None


# -- a row -------------------------------------------------------------------------------------------------------------


def test_only_what_is_under_way_is_gone_on_with() -> None:
    statuses = get_args(RowStatus)
    assert {status for status in statuses if not Row(id=1, name="t", status=status).ended} == UNDER_WAY
    assert set(STATUS) == set(statuses)
    assert len(set(STATUS.values())) == len(statuses), "each is told apart"


@pytest.mark.parametrize(
    ("outcome", "low", "defect", "status"),
    [
        ("improved", 1.2, "", "improved"),
        ("nothing_faster", 0.9, "", "nothing_faster"),
        ("nothing_faster", 1.0, "", "nothing_faster"),
        ("improved", 1.2, "The output does not depend on the inputs.", "degenerate"),
        ("nothing_faster", 0.9, "The output does not depend on the inputs.", "degenerate"),
        ("nothing_faster", None, "", "no_kernel"),
        ("interrupted", 1.2, "", "interrupted"),
        ("running", 1.2, "", "interrupted"),
        ("waiting", None, "", "interrupted"),
    ],
)
def test_a_rows_status_is_that_of_its_runs_best_kernel(
    outcome: str, low: float | None, defect: str, status: str
) -> None:
    full = full_record()
    assert full.best is not None
    best = None
    if low is not None:
        verdict = full.best.verdict.model_copy(update={"timing": measured(1.3, low, 1.5, defect)})
        best = full.best.model_copy(update={"verdict": verdict})
    found = row_of(TASK, full.model_copy(update={"outcome": outcome, "best": best}), FACTS)
    assert found.status == status
    assert found.ended == (status != "interrupted")
    assert (found.timing is None) == (low is None)
    assert (found.floor_ms is None) == (low is None)
    assert (found.move == "") == (low is None)


def test_a_row_counts_the_testers_steps_and_no_other() -> None:
    full = full_record()
    steps = (*full.steps, Step(depth=40, agent="optimizer", move="never judged"), Step(depth=41, agent="profiler"))
    found = row_of(TASK, full.model_copy(update={"steps": steps}), FACTS)
    assert (found.depth, found.move, found.kernels_judged) == (5, "chunk size", 6)
    bare = row_of(TASK, full.model_copy(update={"steps": (), "task": None}), FACTS)
    assert (bare.depth, bare.move, bare.op_class, bare.shapes, bare.floor_ms) == (0, "", None, "", None)


def test_the_share_of_the_floor_needs_both() -> None:
    kernel = measured(2.0, 1.9, 2.1)
    found = Row(id=1, name="t", status="improved", timing=kernel, floor_ms=5.0)
    assert found.floor_share == pytest.approx(5.0 / kernel.candidate_ms)
    assert found.model_copy(update={"floor_ms": None}).floor_share is None
    assert found.model_copy(update={"timing": None}).floor_share is None
    busy = kernel.model_copy(update={"busy": Busy(stolen=0.5, others=0.0, threads=1, processors=2, spread=0.0)})
    assert (found.floor_said, found.model_copy(update={"timing": busy}).floor_said) == ("25%", "busy")


# -- tables and lines --------------------------------------------------------------------------------------------------


def cells_of(found: Row) -> dict[str, str]:
    (cells,) = rows_sheet("", (found,)).rows
    return dict(zip(HEAD, cells, strict=True))


def test_each_column_holds_what_its_head_says() -> None:
    compiled = Compiled(ms=12.0, speedup=1.25, interval=Interval(low=1.125, high=1.375))
    full = row(
        7, 2.0, floor_ms=5.0, depth=3, kernels_judged=9, seconds=61.4, usage=Usage(calls=4, dollars=1.0),
        beside_compiled=timing(2.0).model_copy(update={"compiled": compiled}),
    )  # fmt: skip
    assert cells_of(full) == {
        "id": "7", "task": "task7", "status": "faster", "speed-up": "2.00x", "95 % interval": "1.92 to 2.08",
        "clock": "judge", "over compile": "1.25x (1.12 to 1.38)", "kernel ms": "10.000", "eager ms": "20.000",
        "by other clocks": "", "of floor": "50%",
        "depth": "3", "judged": "9", "run s": "61", "cost $": "1.00", "$ per 0.1x": "0.10",
    }  # fmt: skip
    empty = cells_of(row(7, None))
    assert {name for name, cell in empty.items() if not cell} == {
        "speed-up", "95 % interval", "clock", "over compile", "kernel ms", "eager ms", "by other clocks", "of floor",
        "$ per 0.1x",
    }  # fmt: skip
    drop_in = AsCalled(ms=12.0, baseline_ms=18.0, speedup=1.5, interval=Interval(low=1.4, high=1.6))
    caller = CallerTiming(back_to_back=drop_in.model_copy(update={"speedup": 1.9}), synchronized=drop_in, rounds=8)
    slower = full.model_copy(update={"timing": timing(2.0).model_copy(update={"caller": caller})})
    found = cells_of(slower)
    assert (found["speed-up"], found["95 % interval"], found["clock"]) == ("1.50x", "1.40 to 1.60", "synchronized")
    assert (found["kernel ms"], found["by other clocks"], found["$ per 0.1x"]) == (
        "12.000", "judge 2.00x, 10.000 / 20.000; back to back 1.90x, 12.000 / 18.000", "0.20",
    )  # fmt: skip
    assert cells_of(row(7, 0.5))["$ per 0.1x"] == "", "what is slower has gained no tenth"
    graph = drop_in.model_copy(update={"ms": 0.0061, "baseline_ms": 0.012, "speedup": 1.97})
    short = {"baseline_ms": 0.0171, "caller": caller.model_copy(update={"graphed": graph})}
    bound = cells_of(full.model_copy(update={"timing": timing(2.0).model_copy(update=short)}))
    assert bound["eager ms"].endswith(" launch-bound")
    told = [
        page(suite_record(each))
        for each in (full, full.model_copy(update={"timing": timing(2.0).model_copy(update=short)}))
    ]
    assert ["timed as CUDA graphs of 20 calls" in each for each in told] == [False, True]
    assert bound["by other clocks"] == (
        "judge 2.00x, 10.000 / 0.017; back to back 1.90x, 12.000 / 18.000; graph 0.0061 (1.97x)"
    )


def test_the_sums_columns_hold_what_their_heads_say() -> None:
    rows = (row(1, 4.0, usage=Usage(calls=1, dollars=6.0)), row(2, 1.0), row(3, None))
    sheet = figures_sheet((("all", figures(rows)), ("none", figures(()))))
    told = [dict(zip(sheet.head, cells, strict=True)) for cells in sheet.rows]
    assert told[0] == {
        "tasks": "all (3)", "right": "2", "faster": "1", "geomean": "2.00x", "median": "2.50x", "fast_1": "33%",
        "fast_1.2": "33%", "fast_2": "33%", "cost $": "6.00", "$ a kernel": "3.00", "$ per 0.1x": "0.20",
    }  # fmt: skip
    assert told[1] == {
        "tasks": "none (0)", "right": "0", "faster": "0", "geomean": "", "median": "", "fast_1": "0%",
        "fast_1.2": "0%", "fast_2": "0%", "cost $": "0.00", "$ a kernel": "", "$ per 0.1x": "",
    }  # fmt: skip


def test_a_bar_in_a_name_opens_no_column() -> None:
    text = page(suite_record(row(1, 2.0, name="a|b", reason="c|d")))
    (found,) = (line for line in text.splitlines() if "a/b" in line and line.startswith("| "))
    assert found.count("|") == len(HEAD) + 1


def test_the_page_says_how_it_was_measured() -> None:
    whole = suite_record(row(1, 2.0))
    text = page(whole.model_copy(update={"scale": 1.0, "created": datetime(2026, 2, 3, 4, 5, tzinfo=UTC)}))
    for words in (
        "Kernels by playbook, at most ", "at the same precision (ieee)", "- Device: Test, 100 GB/s (made up)",
        "- When: 2026-02-03 04:05 UTC, 61 s with 8 jobs",
    ):  # fmt: skip
        assert words in text
    by_default = whole.model_copy(update={"settings": {**whole.settings, "precision": "default"}})
    assert "at the same precision (ieee)" in page(by_default), "a processor has no TF32"
    gpu = by_default.model_copy(update={"facts": whole.facts.model_copy(update={"architecture": "sm_90a"})})
    assert "at the same precision (default)" in page(gpu)
    assert "scaled" not in text
    assert ", sizes scaled by 0.25, all judged." in page(whole.model_copy(update={"scale": 0.25}))
    assert "Tolerance" not in text
    tolerant = page(whole.model_copy(update={"settings": whole.settings | {"tolerance": 4.0}}))
    assert "bytes alone. Tolerance 4: errors so many times what PyTorch's own allows passed.\n\n" in tolerant


def test_a_line_tells_a_kernel_in_full() -> None:
    found = row(7, 2.0, floor_ms=5.0, depth=3, seconds=61.4, usage=Usage(calls=1, output_tokens=5, dollars=0.5))
    assert str(line(found, 3, 32)) == (
        f"[ 3/32]  {'task7':<26}  {'faster':<10}    2.00x (1.92 to 2.08)  10 ms  50% of the floor  depth 3  61 s  $0.50"
    )
    silent = found.model_copy(update={"usage": Usage(calls=1), "floor_ms": None})
    assert str(line(silent, 3, 32)).endswith("10 ms    depth 3  61 s"), "the playbook's calls cost nothing"


def test_the_json_holds_what_a_reader_needs_without_the_figures_code() -> None:
    text = json.loads(suite_record(row(1, 2.0), row(2, None, reason="It declined.")).model_dump_json())
    assert [each["status"] for each in text["rows"]] == ["improved", "no_kernel"]
    assert text["rows"][0]["timing"]["speedup"] == 2.0
    assert text["rows"][1]["timing"] is None
    assert text["rows"][1]["reason"] == "It declined."
    assert {"id", "name", "outcome", "created", "scale", "jobs", "seconds", "settings", "machine", "facts"} <= {*text}


def test_a_record_of_another_version_is_refused() -> None:
    raw = full_record().model_dump(mode="json")
    assert RunRecord.model_validate(raw) == full_record()
    with pytest.raises(ValueError, match="schema_version"):
        SuiteRecord.model_validate({**suite_record().model_dump(mode="json"), "schema_version": 2})
