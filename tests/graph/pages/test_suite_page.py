"""The pages of suites, ablations and of two runs: what they say, where they lead, and nothing executable but ours."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from ablation_records import ablation, gated
from pages_read import HOSTILE, Page
from report_records import candidate, full_record, passed, softsign_task
from scripted_judge import judging_here
from suite_records import FACTS, row, suite_record, timing
from typer.testing import CliRunner

from graph.cli.main import app
from graph.pages import ablation_page, compare_page, suite_page
from graph.pages.ablation_page import _at_best
from graph.runs.ablation import schedule_of
from graph.runs.comparing import compare_runs, read_run
from graph.runs.folder import create
from graph.runs.record import RunRecord
from graph.suites.folder import SuiteFolder
from harness.nouns.candidate import Candidate
from harness.nouns.verdict import Compiled, HeadToHead, Interval
from nodes.settings import Settings
from nodes.state import Best


def lines(html: str) -> list[list[tuple[str, dict[str, str | None]]]]:
    """The tags of each row of a page's first table, without its head."""
    rows, inside = [], False
    for tag, attributes in Page(html).tags:
        inside = inside or tag == "tbody"
        if inside and tag == "tr":
            rows.append([(tag, attributes)])
        elif inside and rows and tag not in ("section", "script"):
            rows[-1].append((tag, attributes))
        if tag == "section" and rows:
            break
    return rows


def test_a_suites_page_tells_gains_losses_and_noise_apart() -> None:
    beside = timing(2.0).model_copy(
        update={"compiled": Compiled(ms=15, speedup=1.01, interval=Interval(low=0.9, high=1.1))}
    )
    rows = (
        row(1, 2.0, floor_ms=8.0, beside_compiled=beside), row(2, 1.01, floor_ms=3.0), row(3, 0.7), row(4, None),
        row(5, None, status="waiting"),
    )  # fmt: skip
    html = suite_page.render(suite_record(*rows, outcome="running"))
    found = lines(html)
    assert [each[0][1]["class"] for each in found] == ["won", "noise", "lost", "failed", "noise"]
    links = [[attributes["href"] for tag, attributes in each if tag == "a"] for each in found]
    assert links == [[f"task{at}/report.html"] for at in (1, 2, 3, 4)] + [[]]
    tracks = [attributes.get("style") for tag, attributes in found[0] if tag in ("span", "i") and "style" in attributes]
    assert tracks == ["width:80.0%", "left:40.0%"], "10 ms and 20 ms of a floor of 8"
    assert "num noise" in [attributes.get("class") for _, attributes in found[0]], "as fast as torch.compile"
    words = " ".join(Page(html).words.split())
    assert "4 of 5 tasks have ended." in words
    assert "at most 12 optimizations a task, sizes scaled by 0.5" in words


def test_a_tasks_name_leads_nowhere_else_and_is_no_markup() -> None:
    hostile = row(1, 2.0, reason=HOSTILE).model_copy(update={"name": f"a?b#{HOSTILE.replace('/', '|')}"})
    html = suite_page.render(suite_record(hostile))
    page = Page(html)
    assert not page.open
    assert [tag for tag, _ in page.tags].count("script") == 1
    assert not [name for _, each in page.tags for name in each if name.startswith("on")]
    (link,) = [str(each["href"]) for tag, each in page.tags if tag == "a" and each.get("class") != "skip"]
    assert re.fullmatch(r"a%3Fb%23[\w%.~-]+/report\.html", link)


def test_a_suite_keeps_its_page_beside_its_results(tmp_path: Path) -> None:
    SuiteFolder(tmp_path).write(suite_record(row(1, 2.0)))
    assert sorted(file.name for file in tmp_path.iterdir()) == ["results.html", "results.json", "results.md"]
    assert "task1" in (tmp_path / "results.html").read_text(encoding="utf-8")


def test_an_ablations_page_leads_to_its_runs_and_has_bars_against_the_floor() -> None:
    schedules = (schedule_of(gated(1, 2)), schedule_of(gated(11, None)))
    html = ablation_page.render(ablation(*schedules).model_copy(update={"at_best": 3.86}))
    found = lines(html)
    assert [each[0][1]["class"] for each in found] == ["noise", "noise"], "the same kernel in both"
    assert [attributes["href"] for each in found for tag, attributes in each if tag == "a"] == [
        "profile-from-1/report.html", "profile-from-11/report.html",
    ]  # fmt: skip
    assert {attributes["style"] for tag, attributes in found[0] if tag == "span" and "style" in attributes} == {
        "width:50.0%"
    }
    best = full_record().timing
    assert best is not None
    assert _at_best(full_record(), FACTS) == pytest.approx(20 / (128 / 1e8))
    assert _at_best(full_record().model_copy(update={"best": None}), FACTS) is None


# -- two runs beside each other ----------------------------------------------------------------------------------------


def slower() -> RunRecord:
    """The full record, as if the run had ended with its second best kernel."""
    record = full_record()
    third = record.steps[5].candidate
    assert third
    best = Best(candidate=record.candidates[third], verdict=record.verdicts[third])
    return record.model_copy(update={"best": best, "settings": {**record.settings, "max_depth": 3}})


def test_the_gain_of_one_run_over_another_says_what_it_rests_on() -> None:
    first, second = slower(), full_record()
    found = compare_runs(first, second)
    assert (found.task_differs, found.machines) == ("", ())
    assert [(each.name, each.first, each.second) for each in found.settings] == [("max_depth", "3", "6")]
    ratio = found.ratio
    assert (ratio.basis, ratio.speedup) == ("baseline", pytest.approx(1.93 / 1.74))
    assert ratio.interval is not None
    assert ratio.interval.low < 1.93 / 1.74 * 0.96 < 1.93 / 1.74 * 1.04 < ratio.interval.high
    assert "Not in the same rounds" in ratio.words
    turned = compare_runs(second, first).ratio
    assert turned.speedup == pytest.approx(1 / ratio.speedup)
    assert turned.interval is not None
    assert turned.interval.low == pytest.approx(1 / ratio.interval.high)


@pytest.mark.parametrize("turned", [False, True])
def test_kernels_that_ran_by_turns_are_told_by_those_rounds(*, turned: bool) -> None:
    first, second = slower(), full_record()
    assert first.best and second.best and second.timing
    met = HeadToHead(
        incumbent=first.best.candidate.digest, incumbent_ms=2.0, speedup=1.25,
        interval=Interval(low=1.2, high=1.3), rounds=40,
    )  # fmt: skip
    verdict = second.best.verdict.model_copy(update={"timing": second.timing.model_copy(update={"head_to_head": met})})
    second = second.model_copy(update={"best": second.best.model_copy(update={"verdict": verdict})})
    ratio = compare_runs(*((second, first) if turned else (first, second))).ratio
    assert ratio.basis == "same rounds"
    assert ratio.interval is not None
    assert ratio.speedup == pytest.approx(1 / 1.25 if turned else 1.25)
    assert ratio.interval.low == pytest.approx(1 / 1.3 if turned else 1.2)


def test_where_the_records_tell_no_gain_none_is_told() -> None:
    record = full_record()
    assert record.task and record.best
    other = record.task.model_copy(update={"source": "class Model: other"})
    reshaped = record.task.model_copy(update={"workloads": (record.task.workloads[0].model_copy(update={"flops": 7}),)})
    elsewhere = record.machine.model_copy(update={"cpu": "another"})
    cases = [
        ({"best": None}, "no kernel that passed"),
        ({"task": other}, "different tasks"),
        ({"task": reshaped}, "different tasks"),
        ({"task": None}, "different tasks"),
        ({"machine": elsewhere}, "nor under the same conditions"),
    ]
    for update, words in cases:
        ratio = compare_runs(slower(), record.model_copy(update=update)).ratio
        assert (ratio.basis, ratio.speedup) == ("none", None)
        assert words in ratio.words
    alike = compare_runs(record, record)
    assert alike.ratio.basis == "same kernel" and "where its times differ" in alike.ratio.words
    assert compare_page.headline(alike) == "No speed-up of one over the other."
    assert "another source" in compare_runs(record, record.model_copy(update={"task": other})).task_differs


def test_two_runs_stand_side_by_side_on_the_terminal_and_on_a_page(tmp_path: Path) -> None:
    for name, record in (("a", slower()), ("b", full_record())):
        (tmp_path / name).mkdir()
        (tmp_path / name / "record.json").write_text(record.model_dump_json(), encoding="utf-8")
    page = tmp_path / "both.html"
    arguments = ["compare", str(tmp_path / "a"), str(tmp_path / "b")]
    done = CliRunner().invoke(app, [*arguments, "--out", str(page)])
    assert done.exit_code == 0, done.output
    for words in ("1.11x as fast", "Not in the same rounds", "max_depth", "1.74x over eager", "+3 -3 lines"):
        assert words in done.output, words
    told = json.loads(CliRunner().invoke(app, [*arguments, "--json"]).output)
    assert told["ratio"]["basis"] == "baseline"
    read = Page(page.read_text(encoding="utf-8"))
    assert not read.open
    assert "schedule(static, 4096)" in read.words
    assert [tag for tag, _ in read.tags].count("svg") == 2


def met(record: RunRecord, kernel: Candidate, incumbent: Candidate, speedup: float) -> RunRecord:
    """The record, with a duel in which `kernel` was so many times as fast as `incumbent`."""
    duel = HeadToHead(
        incumbent=incumbent.digest, incumbent_ms=1.0, rounds=40, speedup=speedup,
        interval=Interval(low=speedup * 0.9, high=speedup * 1.1),
    )  # fmt: skip
    verdict = record.verdicts[kernel.digest]
    assert verdict.timing
    verdict = verdict.model_copy(update={"timing": verdict.timing.model_copy(update={"head_to_head": duel})})
    return record.model_copy(update={"verdicts": {**record.verdicts, kernel.digest: verdict}})


def disagreeing(folder: Path) -> list[str]:
    """Two runs begun here, which hold the same two kernels; each kept the one that lost in the other run."""
    task = softsign_task()
    one, two = (candidate(f"int a;  // judge: passed {speedup}x", "optimizer:m") for speedup in (1.5, 3.0))
    names = []
    for name, kept, lost in (("a", one, two), ("b", two, one)):
        made, manifest = create(folder / name, name="softsign", source=task.source, settings=Settings(target="cpu"))
        record = full_record().model_copy(
            update={
                "id": manifest.id, "task": task,
                "candidates": {each.digest: each for each in (one, two)},
                "verdicts": {each.digest: passed(each, 2.0) for each in (one, two)},
                "best": Best(candidate=kept, verdict=passed(kept, 2.0)),
            }
        )  # fmt: skip
        made.record.write_text(met(record, lost, kept, 0.8).model_dump_json(), encoding="utf-8")
        names.append(str(made.path))
    return names


def test_two_kernels_that_two_runs_hold_are_timed_again(tmp_path: Path) -> None:
    names = disagreeing(tmp_path)
    records = [read_run(Path(name)) for name in names]
    ratio = compare_runs(*records).ratio
    assert ratio.basis == "same rounds" and ratio.speedup == pytest.approx(1.25)
    assert "0.80x (0.72 to 0.88) in the first run and 1.25x (1.14 to 1.39) in the second run" in ratio.words
    with judging_here() as judges:
        done = CliRunner().invoke(app, ["compare", *names])
        told = json.loads(CliRunner().invoke(app, ["compare", *names, "--json"]).output)
    assert [kind for kind, _ in judges.asked] == ["build", "evaluate"] * 2
    assert done.exit_code == 0, done.output
    words = " ".join(done.output.split())
    assert "The second kernel is 2.00x as fast as the first" in words
    assert "Timed again now" in words and "0.80x (0.72 to 0.88) in the first run" in words
    assert told["ratio"]["speedup"] == pytest.approx(2.0)


@pytest.mark.parametrize("changed", ["manifest", "task"])
def test_nothing_of_a_run_that_was_begun_elsewhere_is_run(changed: str, tmp_path: Path) -> None:
    names = disagreeing(tmp_path)
    file = tmp_path / "a" / ("run.json" if changed == "manifest" else "record.json")
    text = file.read_text(encoding="utf-8")
    file.write_text(text + "\n" if changed == "manifest" else text.replace("class Model: ...", "import os"))
    if changed == "task":  # in both, so that it still is one task
        other = tmp_path / "b" / "record.json"
        other.write_text(other.read_text(encoding="utf-8").replace("class Model: ...", "import os"), encoding="utf-8")
    with judging_here() as judges:
        done = CliRunner().invoke(app, ["compare", *names])
    assert judges.asked == []
    assert done.exit_code == 0, done.output
    words = " ".join(done.output.split())
    assert "1.25x as fast" in words and "The kernels were not timed again." in words
    assert ("was not written by you" if changed == "manifest" else "is not that of run.json") in words


@pytest.mark.parametrize(("text", "words"), [(None, "holds no record"), ("{}", "not a record of this version")])
def test_what_is_no_run_is_one_sentence(text: str | None, words: str, tmp_path: Path) -> None:
    if text is not None:
        (tmp_path / "record.json").write_text(text, encoding="utf-8")
    done = CliRunner().invoke(app, ["compare", str(tmp_path), str(tmp_path)])
    assert done.exit_code == 2
    assert words in " ".join(done.stderr.split())


def test_a_hostile_run_is_no_markup_in_a_comparison() -> None:
    record = full_record()
    assert record.best
    bad = record.best.candidate.model_copy(update={"source": HOSTILE, "author": HOSTILE})
    hostile = record.model_copy(
        update={
            "name": HOSTILE, "stop_reason": HOSTILE, "settings": {"model": HOSTILE},
            "best": Best(candidate=bad, verdict=passed(bad, 2.0)),
        }
    )  # fmt: skip
    page = Page(compare_page.render(compare_runs(record, hostile), (HOSTILE, "b")))
    assert not page.open
    assert "script" not in {tag for tag, _ in page.tags}
