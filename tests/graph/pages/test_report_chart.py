"""The report's plots, read back: what a reader measures in them by their own ticks is what the record says."""

import math
import xml.etree.ElementTree as ET
from collections.abc import Callable
from itertools import pairwise

import pytest
from markupsafe import Markup
from report_records import DRAFT, candidate, full_record, passed, roof

from graph.pages.charts import Axis, roofline, trajectory
from graph.runs.record import RunRecord, levels
from harness.nouns.contest import Standing
from harness.nouns.verdict import HeadToHead, Interval
from nodes.state import Best, Final, Step, require

Drawing = ET.Element
WIDTHS = pytest.mark.parametrize("width", [400, 940])


def drawn(markup: Markup) -> Drawing:
    """The drawing, in which nothing lies outside."""
    root = ET.fromstring(str(markup))
    _, _, width, height = map(float, root.get("viewBox", "").split())
    for each in root.iter():
        for name, bound in (("x", width), ("y", height), ("cx", width), ("cy", height), ("x1", width), ("x2", width),
                            ("y1", height), ("y2", height)):  # fmt: skip
            assert 0 <= float(each.get(name, "0")) <= bound, (each.tag, name, each.attrib)
    return root


def number(each: Drawing, name: str) -> float:
    return float(each.get(name, ""))


def of_class(root: Drawing, tag: str, kind: str) -> list[Drawing]:
    return [each for each in root.iter(tag) if kind in each.get("class", "").split()]


def texts(root: Drawing) -> list[str]:
    return [each.text or "" for each in root.iter("text")]


def points(line: Drawing) -> list[tuple[float, float]]:
    return [(float(x), float(y)) for x, y in (pair.split(",") for pair in line.get("points", "").split())]


def scale(places: list[tuple[float, float]]) -> Callable[[float], float]:
    """From pixels to values, by the first and the last tick of a logarithmic axis."""
    (low, start), (high, end) = places[0], places[-1]
    return lambda pixel: low * (high / low) ** ((pixel - start) / (end - start))


def upright(root: Drawing) -> Callable[[float], float]:
    """The vertical axis, by its grid lines and the labels beside them."""
    lines = [number(line, "y1") for line in of_class(root, "line", "grid")]
    labels = [
        text for text in of_class(root, "text", "end") if (text.text or "").removesuffix("x").replace(".", "").isdigit()
    ]
    assert [number(label, "y") - 4 for label in labels] == pytest.approx(lines, abs=0.11)
    return scale([(float((label.text or "").removesuffix("x")), at) for label, at in zip(labels, lines, strict=True)])


@WIDTHS
def test_each_judged_kernel_stands_where_its_speedup_is(width: int) -> None:
    record = full_record()
    root = drawn(trajectory(record, width))
    value = upright(root)
    judged = [step for step in record.steps if step.agent == "tester"]
    timings = [record.verdicts[step.candidate or ""].timing for step in judged]
    dots = of_class(root, "circle", "dot")
    right = [timing for timing in timings if timing]
    assert [value(number(dot, "cy")) for dot in dots] == pytest.approx([timing.speedup for timing in right], rel=0.01)
    assert ["won" in dot.get("class", "") for dot in dots] == [
        step.improved for step in judged if step.candidate_speedup
    ]
    bars = of_class(root, "line", "bar")
    for ends, wanted in (("y1", "low"), ("y2", "high")):
        found = [value(number(bar, ends)) for bar in bars]
        assert found == pytest.approx([getattr(timing.speedup_interval, wanted) for timing in right], rel=0.01)
    (one,) = of_class(root, "line", "one")
    assert value(number(one, "y1")) == value(number(one, "y2")) == pytest.approx(1.0, rel=0.01)
    assert {number(one, "x1"), number(one, "x2")} == {54, width - 16}
    assert "baseline" in texts(root)
    assert "kernels in the order they were judged, by depth" in texts(root)


@WIDTHS
def test_kernels_stand_side_by_side_over_their_depths(width: int) -> None:
    record = full_record()
    root = drawn(trajectory(record, width))
    columns = [number(text, "x") for text in of_class(root, "text", "mid") if (text.text or "").isdigit()]
    assert columns == pytest.approx([54 + (width - 70) * (index + 0.5) / 6 for index in range(6)], abs=0.1)
    assert [text.text for text in of_class(root, "text", "mid") if (text.text or "").isdigit()] == list("012345")
    assert [number(dot, "cx") for dot in of_class(root, "circle", "dot")] == pytest.approx(
        [columns[0], columns[2], columns[4], columns[5]], abs=0.1
    )
    titles = [title.text or "" for title in root.iter("title")]
    assert titles[:2] == ["depth 0: first draft: passed (0.92x)", "depth 1: threads: one chunk a core: wrong"]


def test_the_stair_is_the_best_so_far() -> None:
    record = full_record()
    root = drawn(trajectory(record, 940))
    value = upright(root)
    (stair,) = of_class(root, "polyline", "best")
    path = points(stair)
    reached = [0.92, 0.92, 1.74, 1.74, 1.93, 1.93]
    assert [value(y) for _, y in path] == pytest.approx(reached, rel=0.01)
    assert [x for x, _ in path] == sorted(x for x, _ in path)
    assert path[-1][0] == 940 - 16, "held to the end"
    never = tuple(step.model_copy(update={"improved": False}) for step in record.steps)
    assert not of_class(
        drawn(trajectory(record.model_copy(update={"steps": never, "best": None}), 940)), "polyline", "best"
    )


def test_of_many_kernels_some_depths_are_labelled() -> None:
    steps = tuple(Step(depth=depth, agent="tester", status="wrong") for depth in range(30))
    record = full_record().model_copy(update={"steps": steps, "verdicts": {}})
    root = drawn(trajectory(record, 400))
    assert [text for text in texts(root) if text.isdigit()] == [str(depth) for depth in range(0, 30, 3)]
    assert len(of_class(root, "path", "fail")) == 30
    untested = Step(depth=99, agent="tester")
    assert trajectory(record.model_copy(update={"steps": (*steps, untested)}), 400) == trajectory(record, 400)


@WIDTHS
def test_each_profile_stands_at_its_rate_and_intensity_under_the_roof(width: int) -> None:
    profiles = [("depth 0", roof(21.0)), ("depth 5", roof(10.2))]
    root = drawn(roofline(profiles, width))
    rate = upright(root)
    bottom = [text for text in of_class(root, "text", "mid") if "tick" in text.get("class", "").split()]
    intensity = scale([(float(text.text or ""), number(text, "x")) for text in bottom])
    dots = of_class(root, "circle", "dot")
    assert [rate(number(dot, "cy")) for dot in dots] == pytest.approx([33 / 21.0, 33 / 10.2], rel=0.01)
    assert [intensity(number(dot, "cx")) for dot in dots] == pytest.approx([33 / 134, 33 / 134], rel=0.02)
    (line,) = of_class(root, "polyline", "roof")
    start, ridge, end = points(line)
    assert (rate(ridge[1]), intensity(ridge[0])) == pytest.approx((120.0, 120 / 22), rel=0.02)
    assert rate(start[1]) == pytest.approx(22 * intensity(start[0]), rel=0.03)
    assert end[1] == ridge[1]
    assert (start[0], end[0]) == (54, width - 16)
    for text in ("depth 0", "depth 5", "120 GFLOP/s", "memory: 22.0 GB/s", "FLOP per byte moved; vertical: GFLOP/s"):
        assert text in texts(root)


def test_a_bar_is_as_long_as_its_share_of_the_bandwidth() -> None:
    profiles = [
        (f"depth {index}", roof(ms).model_copy(update={"achieved_gflop_s": 0.0}))
        for index, ms in enumerate((12.0, 6.0, 24.0))
    ]
    root = drawn(roofline(profiles, 400))
    whole, part = (of_class(root, "rect", kind) for kind in ("empty", "full"))
    shares = [number(bar, "width") / number(room, "width") for bar, room in zip(part, whole, strict=True)]
    assert shares == pytest.approx([134 / 12 / 22, 1.0, 134 / 24 / 22], abs=0.002), "no bar leaves its room"
    assert texts(root) == ["depth 0", "11.2 GB/s", "depth 1", "22.3 GB/s", "depth 2", "5.6 GB/s"]
    tops = [number(bar, "y") for bar in whole]
    assert all(below - above >= 14 for above, below in pairwise(tops))
    left, right = of_class(root, "text", "end"), [text for text in root.iter("text") if text.get("class") == "tick"]
    for room, name, said in zip(whole, left, right, strict=True):
        assert number(name, "x") < number(room, "x") <= number(room, "x") + number(room, "width") < number(said, "x")
        assert number(room, "y") < number(name, "y") == number(said, "y") < number(room, "y") + 14


def test_what_moved_no_byte_has_no_place_under_a_roof() -> None:
    still = roof(10.0).model_copy(update={"achieved_gb_s": 0.0})
    assert "0.0 GB/s" in texts(drawn(roofline([("depth 0", still), ("depth 1", roof(9.0))], 400)))


def test_an_axis_keeps_its_order() -> None:
    axis = Axis(0.5, 40.0, 300, 0)
    assert [axis.at(0.5 * 2**power) for power in range(7)] == pytest.approx(
        [300 - 300 * power * math.log(2) / math.log(80) for power in range(7)]
    )


def met(incumbent: str, speedup: float) -> HeadToHead:
    interval = Interval(low=0.95 * speedup, high=1.05 * speedup)
    return HeadToHead(incumbent=incumbent, incumbent_ms=1.0, speedup=speedup, interval=interval, rounds=16)


def fallen(final: Final | None = None) -> RunRecord:
    """A run in which each move won its duel while its speed-up over eager, in rounds of its own, was the smaller."""
    kernels = [candidate(f"{DRAFT}// {number}", "generator:playbook") for number in range(4)]
    own, won = (1.96, 2.98, 2.78, 2.54), (None, 1.31, 1.1, 0.5)
    steps = tuple(
        Step(
            depth=depth, agent="tester", candidate=kernel.digest, status="passed", candidate_speedup=speedup,
            speedup=speedup, improved=gain is None or gain > 1,
            head_to_head=met(kernels[min(depth - 1, 2)].digest, gain) if gain else None,
        )
        for depth, (kernel, speedup, gain) in enumerate(zip(kernels, own, won, strict=True))
    )  # fmt: skip
    verdicts = {kernel.digest: passed(kernel, speedup) for kernel, speedup in zip(kernels, own, strict=True)}
    best = Best(candidate=kernels[2], verdict=verdicts[kernels[2].digest])
    return full_record().model_copy(
        update={"steps": steps, "verdicts": verdicts, "best": best, "final": final or Final()}
    )


def together(*speedups: float) -> Final:
    kept = [step.candidate for step in fallen().steps if step.improved]
    timings = [require(passed(candidate(DRAFT, "a:b"), speedup).timing, "timing") for speedup in speedups]
    pairs = zip(kept, timings, strict=True)
    return Final(standings=tuple(Standing(candidate=kernel or "", timing=timing) for kernel, timing in pairs))


@pytest.mark.parametrize(
    ("final", "heights"),
    [
        (None, [2.78 / 1.1 / 1.31, 2.78 / 1.1, 2.78]),
        (together(1.9, 2.5, 2.6), [1.9, 2.5, 2.6]),
        (together(1.9, 2.65, 2.6), [1.9, 2.6, 2.6]),
    ],
)
def test_the_curve_of_a_run_in_which_each_move_won_does_not_fall(final: Final | None, heights: list[float]) -> None:
    """By the duels where nothing was timed together; what nobody can tell apart is level."""
    record = fallen(final)
    root = drawn(trajectory(record, 940))
    value = upright(root)
    (curve,) = of_class(root, "polyline", "best")
    reached = [value(y) for _, y in points(curve)]
    assert reached == sorted(reached)
    assert reached == pytest.approx([heights[0], heights[0], heights[1], heights[1], heights[2], heights[2]], rel=0.01)
    found = levels(record)
    assert found[record.steps[3].candidate].speedup == pytest.approx(0.5 * found[record.steps[2].candidate].speedup)
