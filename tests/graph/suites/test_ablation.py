"""The ablation: what is read from its runs, the figure, the page, and the command on a real task."""

import xml.etree.ElementTree as ET
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from ablation_records import ablation, gated
from click.testing import Result
from command_line import SCRIPTED, UNWATCHED, cutegen, never_built, one_object
from scripted_judge import Scripted
from softsign_script import FASTER, RIGHT, SOURCE, written
from typer.testing import CliRunner

from graph.cli.ablate import gates
from graph.cli.main import app
from graph.pages.ablation_page import figure, render
from graph.runs.ablation import Ablation, Point, Schedule, schedule_of
from graph.suites.tasks import find_task
from graph.workflow import build_graph
from harness.nouns.errors import UserError
from nodes.agents.learning import MOST_TOKENS
from nodes.models.local import ScriptedModel
from nodes.settings import Settings

HOSTILE = """</svg><script>alert(1)</script>&"'"""
SVG = "{http://www.w3.org/2000/svg}"


def elements(drawn: str, tag: str, kind: str) -> list[ET.Element]:
    return [each for each in ET.fromstring(drawn).iter(SVG + tag) if kind in each.get("class", "").split()]


def test_a_schedule_is_read_from_its_runs_record() -> None:
    schedule = schedule_of(gated(11, profiled_after=6))
    assert (schedule.profile_from, schedule.profiles) == (11, 1)
    assert [point.status for point in schedule.points] == [
        "passed", "wrong", "passed", "build_failed", "passed", "passed",
    ]  # fmt: skip
    assert [point.profiled for point in schedule.points] == [False] * 3 + [True] * 3
    assert schedule.best is not None
    assert (schedule.best.move, schedule.best.speedup) == ("chunk size", 1.93)
    assert schedule.points[1].speedup is None
    assert schedule.points[0].move == "first draft"


def test_the_figure_shows_both_trajectories_over_one_axis() -> None:
    drawn = str(figure(ablation(schedule_of(gated(1, profiled_after=4)), schedule_of(gated(11, None)))))
    assert len(elements(drawn, "polyline", "best")) == 2
    assert len([dot for dot in elements(drawn, "circle", "dot") if dot.find(SVG + "title") is not None]) == 8
    assert len([cross for cross in elements(drawn, "path", "fail") if cross.find(SVG + "title") is not None]) == 4
    assert len(elements(drawn, "line", "gateline")) == 1, "the second gate was not reached"
    words = [each.text for each in ET.fromstring(drawn).iter(SVG + "text")]
    assert {"Profile from depth 1", "Profile from depth 11", "1 profile read", "eager 1x"} <= set(words)
    assert "gate not reached: the run ended at depth 5" in words
    assert words.count("1.93x") == 2
    dots = [dot for dot in elements(drawn, "circle", "dot") if dot.find(SVG + "title") is not None]
    assert [dot.get("cy") for dot in dots[:4]] == [dot.get("cy") for dot in dots[4:]], "equal ones stand equally high"


def measured(gate: int, *speedups: float, kernels: str) -> Schedule:
    points = tuple(
        Point(
            candidate=kernel, depth=depth, move="m", status="passed", speedup=speedup, low=speedup * 0.95,
            high=speedup * 1.05, improved=True, best=speedup,
        )
        for depth, (kernel, speedup) in enumerate(zip(kernels, speedups, strict=True))
    )  # fmt: skip
    return Schedule(profile_from=gate, points=points, profiles=0, seconds=1.0, stop_reason="")


def test_what_noise_makes_of_one_kernel_tells_no_two_runs_apart() -> None:
    same = ablation(measured(1, 3.70, 4.0, kernels="ab"), measured(11, 2.34, 3.0, kernels="ac"))
    assert same.same_kernel == (2.34, 3.70) and not same.told_apart
    assert "at 2.34x in one run and at 3.70x in another: what differs by less than 1.58 times" in render(same)
    assert same.noise.endswith("The best kernels of these runs are not told apart.")
    assert elements(str(figure(same)), "text", "top") == []
    apart = ablation(measured(1, 3.70, 9.0, kernels="ab"), measured(11, 2.34, 3.0, kernels="ac"))
    assert apart.told_apart and "best kernels" not in apart.noise
    assert len(elements(str(figure(apart)), "text", "top")) == 2


def test_runs_that_share_no_kernel_are_told_apart_by_their_intervals() -> None:
    near = ablation(measured(1, 2.0, kernels="a"), measured(11, 2.1, kernels="b"))
    assert near.same_kernel is None and near.noise == "The best kernels of these runs are not told apart."
    far = ablation(measured(1, 2.0, kernels="a"), measured(11, 3.0, kernels="b"))
    assert far.told_apart and far.noise == ""
    assert ablation(measured(1, 2.0, 2.5, kernels="aa")).noise == "", "one run alone"


def test_depths_do_not_overlap_in_a_long_run() -> None:
    points = tuple(
        Point(
            depth=depth, move="m", status="passed", speedup=1 + depth / 50, low=1.0, high=2.0, improved=True, best=1.5
        )
        for depth in range(120)
    )
    schedule = Schedule(profile_from=1, points=points, profiles=0, seconds=1.0, stop_reason="")
    drawn = ET.fromstring(str(figure(ablation(schedule, schedule))))
    at = [float(text.get("x", "0")) for text in drawn.iter(SVG + "text") if (text.text or "").isdigit()]
    gaps = [after - before for before, after in pairwise(at) if after > before]
    assert len(at) > 10
    assert min(gaps) >= 20


def test_a_run_without_any_kernel_still_draws() -> None:
    empty = Schedule(profile_from=1, points=(), profiles=0, seconds=0.0, stop_reason="declined")
    failing = (Point(depth=0, move="first draft", status="build_failed"),)
    whole = ablation(empty, empty.model_copy(update={"profile_from": 11, "points": failing}))
    ET.fromstring(str(figure(whole)))
    assert "no kernel" in render(whole)


def test_nothing_that_a_model_chose_becomes_markup() -> None:
    point = Point(depth=0, move=HOSTILE, status="passed", speedup=2.0, low=1.9, high=2.1, improved=True, best=2.0)
    schedule = Schedule(profile_from=1, points=(point,), profiles=0, seconds=1.0, stop_reason=HOSTILE)
    whole = ablation(schedule, task=HOSTILE)
    assert render(whole).count("<script>") == 1, "that which sorts"
    ET.fromstring(str(figure(whole)))


def test_gates_and_tasks_are_read_as_people_write_them(tmp_path: Path) -> None:
    assert gates("1, 11") == (1, 11)
    for wrong in ("", "1,", "a", "1,1", "1,01", "\N{SUPERSCRIPT TWO}", "-1"):
        with pytest.raises(UserError, match="names no depths"):
            gates(wrong)
    assert find_task("level1:8", 1.0).name == "08_irregular_matmul"
    assert '"m": 127' in find_task("level1:8", 1 / 64).source or '"m": 129' in find_task("level1:8", 1 / 64).source
    with pytest.raises(UserError, match="There is no file"):
        find_task(str(tmp_path / "level9"), 1.0)


def test_both_schedules_run_and_leave_figure_page_and_data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    task = never_built(tmp_path)
    done = cutegen(
        "ablate", task, "--profile-from", "0,11", "--depth", 1, *UNWATCHED, "--out", "both", "--json", cwd=tmp_path,
        command=SCRIPTED,
    )  # fmt: skip
    assert done.returncode in (0, 1), done.stderr
    found = Ablation.model_validate(one_object(done.stdout))
    assert [schedule.profile_from for schedule in found.schedules] == [0, 11]
    assert found.schedules[0].profiles > 0
    assert found.schedules[1].profiles == 0
    assert found.shapes == "64x1024"
    folder = tmp_path / "both"
    assert Ablation.model_validate_json((folder / "ablation.json").read_bytes()) == found
    ET.parse(folder / "ablation.svg")
    assert "Profile from depth 11" in (folder / "ablation.html").read_text(encoding="utf-8")

    monkeypatch.chdir(tmp_path)
    again = ablate("--resume", "both")
    assert again.exit_code == done.returncode, "both had ended: they are read, not run"
    assert "profile from depth" in again.stdout
    taken = ablate(task, "--profile-from", "0,11", "--out", "both", "--target", "cpu")
    assert taken.exit_code == 2
    assert ablate("--resume", "nowhere").exit_code == 2
    asks = ablate(task, "--model", "manual", "--target", "cpu", "--out", "asks")
    assert asks.exit_code == 2
    assert "An ablation does not stop for answers." in asks.stderr
    assert not (tmp_path / "asks").exists()
    assert ablate("--target", "cpu").exit_code == 2


def test_runs_with_and_without_lessons_stand_side_by_side(tmp_path: Path) -> None:
    task = never_built(tmp_path)
    archive = tmp_path / "archive.sqlite"
    answers = {"generator": [written(RIGHT)], "optimizer": [written(FASTER, "vectors"), "DONE: enough"]}
    graph = build_graph(lambda spec, _: ScriptedModel(answers=answers), Scripted()).compile()
    learnt: Any = {"source": SOURCE, "name": "softsign"}
    chosen = Settings(model="author", archive=str(archive), lessons=2, max_tool_calls=0)
    graph.invoke(learnt, {"configurable": {"thread_id": "before"}}, context=chosen)
    settings = (*UNWATCHED, "--depth", 1, "--set", f"archive={archive}")
    done = cutegen(
        "ablate", task, "--by-lessons", "0,2", *settings, "--out", "both", "--json", cwd=tmp_path, command=SCRIPTED
    )
    assert done.returncode in (0, 1), done.stderr
    found = Ablation.model_validate(one_object(done.stdout))
    assert (found.varied, [(each.lessons, each.named) for each in found.schedules]) == (
        "lessons", [(0, "lessons 0"), (2, "lessons 2")],
    )  # fmt: skip
    without, shown = found.schedules
    assert 0 < without.asked_tokens < shown.asked_tokens <= without.asked_tokens + MOST_TOKENS * shown.depth * 2
    assert [point.move for point in without.points] == [point.move for point in shown.points]
    page = (tmp_path / "both" / "ablation.html").read_text(encoding="utf-8")
    assert "Lessons 2" in page and 'href="lessons-2/report.html"' in page and "profile from depth" not in page
    with pytest.raises(UserError, match="--by-lessons '0,a' names no numbers"):
        gates("0,a", "--by-lessons", "numbers")


def ablate(*arguments: object) -> Result:
    return CliRunner().invoke(app, ["ablate", *map(str, arguments)])
