"""What is read from an ablation's runs, withdrawn kernels among it, and what a reader measures in its figure."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from collections.abc import Callable
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path
from typing import get_args

import pytest
from report_records import full_record
from suite_records import timing

from graph.pages.ablation_page import (
    BOTTOM,
    GAP,
    HEIGHT,
    INSET,
    LANE,
    LEFT,
    RIGHT,
    TOP,
    WIDTH,
    ablation_of,
    figure,
    render,
)
from graph.runs.ablation import (
    FOLDERS,
    Ablation,
    Point,
    Schedule,
    begin_ablation,
    one_gate,
    reopen_ablation,
    schedule_of,
)
from graph.runs.record import RunRecord
from harness.nouns.errors import UserError
from harness.nouns.task import OpClass
from nodes.settings import Settings
from nodes.state import Step, TaskInput

SVG = "{http://www.w3.org/2000/svg}"


def record(*more: Step, gate: int = 1) -> RunRecord:
    full = full_record()
    return full.model_copy(
        update={"steps": (*full.steps, *more), "settings": {"profile_from_depth": {"gemm": gate, "elementwise": gate}}}
    )


def withdrawal(index: int) -> Step:
    """The sanitizer takes back the kernel that the run judged as its `index`-th."""
    judged = [step for step in full_record().steps if step.agent == "tester"]
    return Step(depth=6, agent="sanitizer", candidate=judged[index].candidate, status="refused")


# -- from the record ---------------------------------------------------------------------------------------------------


def test_the_points_are_the_records_kernels_in_their_order() -> None:
    points = schedule_of(record()).points
    assert [point.depth for point in points] == [0, 1, 2, 3, 4, 5]
    assert [point.speedup for point in points] == [0.92, None, 1.74, None, 1.66, 1.93]
    assert [point.best for point in points] == [0.92, 0.92, 1.74, 1.74, 1.74, 1.93]
    assert [point.improved for point in points] == [True, False, True, False, False, True]
    assert [point.status for point in points].count("passed") == 4
    found = timing(1.74).speedup_interval
    assert (points[2].low, points[2].high) == (found.low, found.high)
    assert [(point.low is None) == (point.speedup is None) for point in points] == [True] * 6


def test_a_kernel_that_was_withdrawn_is_not_what_the_schedule_reached() -> None:
    """A race that only the sanitizer saw is no speed-up, however early it was judged."""
    schedule = schedule_of(record(withdrawal(5)))
    last = schedule.points[-1]
    assert (last.status, last.speedup, last.improved) == ("refused", None, False)
    assert schedule.best is not None
    assert schedule.best.speedup == 1.74
    assert [point.best for point in schedule.points] == [0.92, 0.92, 1.74, 1.74, 1.74, 1.74]
    early = schedule_of(record(withdrawal(2)))
    assert [point.best for point in early.points] == [0.92, 0.92, 0.92, 0.92, 0.92, 1.93]
    none = schedule_of(record(*(withdrawal(index) for index in (0, 2, 5))))
    assert none.best is None
    assert {point.best for point in none.points} == {None}
    clean = withdrawal(5).model_copy(update={"status": "passed"})
    assert schedule_of(record(clean)) == schedule_of(record())


def test_what_is_no_kernel_is_no_point() -> None:
    more = (
        Step(depth=9, agent="tester"),
        Step(depth=9, agent="optimizer", status="passed"),
        Step(depth=7, agent="profiler"),
    )
    schedule = schedule_of(record(*more))
    assert len(schedule.points) == 6
    assert (schedule.profiles, schedule.depth) == (1, 5)
    assert not any(point.profiled for point in schedule.points), "it was read after the last kernel"
    lost = Step(depth=6, agent="tester", status="wrong", candidate="unknown")
    assert schedule_of(record(lost)).points[-1].speedup is None
    empty = schedule_of(record().model_copy(update={"steps": ()}))
    assert (empty.points, empty.depth, empty.best) == ((), 0, None)


def test_an_ablation_is_named_by_what_its_runs_share() -> None:
    bare = record().model_copy(update={"best": None, "steps": ()})
    found = ablation_of([bare, record(gate=11)])
    assert (found.task, found.shapes, found.baseline) == ("softsign", "16", "eager")
    assert [schedule.profile_from for schedule in found.schedules] == [1, 11]
    assert "no kernel" in render(found)
    assert Ablation.model_validate_json(found.model_dump_json()) == found


# -- the folder --------------------------------------------------------------------------------------------------------


def test_each_gate_has_its_run_and_is_found_again_in_order(tmp_path: Path) -> None:
    task = TaskInput(source="class Model: ...", name="mine")
    path, runs = begin_ablation(task, Settings(target="cpu", max_depth=3), (11, 2), tmp_path / "out")
    assert [folder.path for folder, _ in runs] == [path / "profile-from-11", path / "profile-from-2"]
    for depth, (_, manifest) in zip((11, 2), runs, strict=True):
        gates = manifest.settings.profile_from_depth
        assert {gates.depth(op_class) for op_class in get_args(OpClass)} == {depth}
        assert gates.when_stuck is None, "a gate that opens earlier would be another depth"
        assert gates == one_gate(depth)
        assert manifest.settings.diagnose == "every", "as it was published"
        assert (manifest.name, manifest.settings.target) == ("mine", "cpu")
    for odd in ("profile-from-x", "profile-from-", "profile-from-3", "other-4"):
        (path / odd).mkdir()
    (path / "profile-from-x" / "run.json").write_text("{}", encoding="utf-8")
    again = reopen_ablation(path)
    assert [folder.path.name for folder, _ in again] == [
        f"{FOLDERS['profile_from']}2",
        f"{FOLDERS['profile_from']}11",
    ], "numbers, not texts"
    assert [manifest.id for _, manifest in again] == [runs[1][1].id, runs[0][1].id]
    with pytest.raises(UserError, match="holds no ablation"):
        reopen_ablation(tmp_path)
    with pytest.raises(UserError, match="already holds a run"):
        begin_ablation(task, Settings(target="cpu"), (2,), path)


# -- the figure --------------------------------------------------------------------------------------------------------


def drawn(*schedules: Schedule) -> ET.Element:
    whole = Ablation(
        task="t", shapes="4", created=datetime(2026, 1, 31, tzinfo=UTC), device="GPU", baseline="eager",
        schedules=schedules,
    )  # fmt: skip
    return ET.fromstring(str(figure(whole)))


def of_class(root: ET.Element, tag: str, kind: str) -> list[ET.Element]:
    return [each for each in root.iter(SVG + tag) if kind in each.get("class", "").split()]


def told(root: ET.Element, tag: str, kind: str) -> list[ET.Element]:
    """Marks of kernels; the legend's have no title."""
    return [each for each in of_class(root, tag, kind) if each.find(SVG + "title") is not None]


def at(each: ET.Element, *names: str) -> tuple[float, ...]:
    return tuple(float(each.get(name, "nan")) for name in names)


def upright(root: ET.Element) -> Callable[[float], float]:
    """The vertical axis as a reader measures it, by the numbers at the left."""
    labels = [
        (float((each.text or "").removeprefix("eager ").removesuffix("x")), at(each, "y")[0] - 4)
        for each in of_class(root, "text", "end")
        if (each.text or "").endswith("x") and "tick" in each.get("class", "").split()
    ]
    (low, bottom), (high, top) = labels[0], labels[-1]
    assert low < high and bottom > top
    return lambda pixel: low * (high / low) ** ((pixel - bottom) / (top - bottom))


PROFILED = schedule_of(record().model_copy(update={"steps": (
    *full_record().steps[:6], Step(depth=2, agent="profiler"), *full_record().steps[6:],
)}))  # fmt: skip
BLIND = schedule_of(record(withdrawal(5), gate=11))


def test_each_kernel_stands_at_its_speedup_within_its_panel() -> None:
    root = drawn(PROFILED, BLIND)
    value = upright(root)
    dots, bars = told(root, "circle", "dot"), of_class(root, "line", "bar")
    right = [point for point in (*PROFILED.points, *BLIND.points) if point.speedup is not None]
    assert [value(at(dot, "cy")[0]) for dot in dots] == pytest.approx([point.speedup for point in right], rel=0.01)
    assert [value(at(bar, "y1")[0]) for bar in bars] == pytest.approx([point.low for point in right], rel=0.01)
    assert [value(at(bar, "y2")[0]) for bar in bars] == pytest.approx([point.high for point in right], rel=0.01)
    assert ["won" in dot.get("class", "") for dot in dots] == [point.improved for point in right]
    (one, other) = of_class(root, "line", "one")
    assert value(at(one, "y1")[0]) == value(at(other, "y2")[0]) == pytest.approx(1.0)
    room = (WIDTH - LEFT - RIGHT - GAP) / 2
    for panel, start in ((0, LEFT), (1, LEFT + room + GAP)):
        inside = [start + INSET + (room - 2 * INSET) / 5 * index for index in range(6)]
        marks = [at(dot, "cx")[0] for dot in dots if start <= at(dot, "cx")[0] <= start + room]
        points = (PROFILED, BLIND)[panel].points
        assert marks == pytest.approx([x for x, point in zip(inside, points, strict=True) if point.speedup], abs=0.1)


def test_what_failed_lies_below_the_axis_and_says_how() -> None:
    root = drawn(PROFILED, BLIND)
    crosses = told(root, "path", "fail")
    assert [(cross.find(SVG + "title").text or "") for cross in crosses] == [  # type: ignore[union-attr]
        "depth 1: threads: one chunk a core: wrong", "depth 3: streaming stores: build_failed",
        "depth 1: threads: one chunk a core: wrong", "depth 3: streaming stores: build_failed",
        "depth 5: chunk size: refused",
    ]  # fmt: skip
    floor = HEIGHT - BOTTOM
    for cross in crosses:
        y = float(cross.get("d", "").split("l")[0].split()[1])
        assert floor <= y <= y + 8 <= floor + LANE
    words = [each.text for each in root.iter(SVG + "text")]
    assert words.count("failed") == 2, "beside the lane, and in the legend"
    whole = PROFILED.model_copy(update={"points": PROFILED.points[:1]})
    assert [each.text for each in drawn(whole).iter(SVG + "text")].count("failed") == 1


def test_the_stair_is_the_best_that_stood_to_the_panels_end() -> None:
    root = drawn(PROFILED, BLIND)
    value = upright(root)
    stairs = [
        [tuple(map(float, pair.split(","))) for pair in each.get("points", "").split()]
        for each in of_class(root, "polyline", "best")
    ]
    for stair, schedule in zip(stairs, (PROFILED, BLIND), strict=True):
        assert [x for x, _ in stair] == sorted(x for x, _ in stair)
        best = [point.best for point in schedule.points]
        wanted = [best[0], *(each for pair in pairwise(best) for each in pair), best[-1]]
        assert [value(y) for _, y in stair] == pytest.approx(wanted, rel=0.01)
    room = (WIDTH - LEFT - RIGHT - GAP) / 2
    assert [stair[-1][0] for stair in stairs] == pytest.approx([LEFT + room, WIDTH - RIGHT], abs=0.1)
    tops = [each.text for each in of_class(root, "text", "top")]
    assert tops == ["1.93x", "1.74x"]


def test_the_ground_is_shaded_from_the_first_kernel_with_a_profile() -> None:
    first = next(index for index, point in enumerate(PROFILED.points) if point.profiled)
    assert first == 3
    root = drawn(PROFILED, BLIND)
    grounds = [each for each in of_class(root, "rect", "gate") if at(each, "height")[0] > 20]
    (x, y, width, height) = at(grounds[0], "x", "y", "width", "height")
    room = (WIDTH - LEFT - RIGHT - GAP) / 2
    step = (room - 2 * INSET) / 5
    assert (x, x + width) == pytest.approx((LEFT + INSET + step * 2.5, LEFT + room), abs=0.1)
    assert (y, y + height) == (TOP, HEIGHT - BOTTOM + LANE)
    assert len(grounds) == len(of_class(root, "line", "gateline")) == 1
    always = PROFILED.model_copy(
        update={"points": tuple(point.model_copy(update={"profiled": True}) for point in PROFILED.points)}
    )
    (ground,) = (each for each in of_class(drawn(always), "rect", "gate") if at(each, "height")[0] > 20)
    assert at(ground, "x", "width") == pytest.approx((LEFT, WIDTH - LEFT - RIGHT), abs=0.1), "the whole panel"


@pytest.mark.parametrize(
    ("profiles", "words"),
    [(0, "gate not reached: the run ended at depth 5"), (1, "1 profile read"), (2, "2 profiles read")],
)
def test_how_often_a_profile_was_read_is_told(profiles: int, words: str) -> None:
    root = drawn(PROFILED.model_copy(update={"profiles": profiles}))
    assert words in [each.text for each in of_class(root, "text", "gatename")]
    assert "Profile from depth 1" in [each.text for each in of_class(root, "text", "head")]


@pytest.mark.parametrize("count", [0, 1, 2, 5])
def test_any_number_of_schedules_stays_inside(count: int) -> None:
    root = drawn(*[PROFILED] * count)
    frames = [at(each, "x", "width") for each in of_class(root, "rect", "frame")]
    assert len(frames) == count
    for (x, width), (after, _) in pairwise(frames):
        assert x + width + GAP == pytest.approx(after, abs=0.2)
    for each in root.iter():
        for name, most in (("x", WIDTH), ("cx", WIDTH), ("x1", WIDTH), ("x2", WIDTH), ("y", HEIGHT), ("cy", HEIGHT)):
            if each.get(name) is not None:
                assert 0 <= at(each, name)[0] <= most
    failing = Point(depth=0, move="m", status="wrong")
    drawn(PROFILED.model_copy(update={"points": (failing,)}), PROFILED)
