"""The report and the record: everything in them, nothing executable in them."""

import re
import xml.etree.ElementTree as ET

import pytest
from hypothesis import given
from hypothesis import strategies as st
from markupsafe import Markup
from pages_read import HOSTILE, Page
from report_records import DRAFT, PARALLEL, candidate, errors, failed, full_record, roof, softsign_task

from graph.pages.charts import Axis, roofline, trajectory
from graph.pages.kernel_changes import changes, hunks, worst_errors
from graph.pages.report import _clock, _ms, _share, _small, render, view
from graph.runs.record import RunRecord
from harness.nouns.build import Build, Resources
from harness.nouns.profile import Phase
from harness.nouns.sanitizer_run import SanitizerRun, Smaller
from harness.nouns.verdict import Busy, Correctness, HeadToHead, Interval, Trial
from nodes.state import FellBack, Step, Usage, Variant, require


def hostile_record() -> RunRecord:
    """Every text that a kernel, a model or a task file can choose is hostile."""
    record = full_record()
    bad = candidate(DRAFT + HOSTILE, f"generator:{HOSTILE}")
    worse = candidate(PARALLEL + HOSTILE, "optimizer:x", bad)
    steps = tuple(
        Step(depth=0, agent="tester", move=HOSTILE, candidate=each.digest, status="build_failed", message=HOSTILE)
        for each in (bad, worse)
    )
    task = softsign_task(HOSTILE).model_copy(update={"source": HOSTILE})
    return record.model_copy(
        update={
            "name": HOSTILE, "stop_reason": HOSTILE, "task": task, "settings": {"model": HOSTILE},
            "candidates": {**record.candidates, bad.digest: bad, worse.digest: worse},
            "verdicts": {**record.verdicts, bad.digest: failed(bad, HOSTILE), worse.digest: failed(worse, HOSTILE)},
            "profiles": {bad.digest: roof(9.0).model_copy(update={"device": HOSTILE, "findings": (HOSTILE,)})},
            "steps": (*record.steps, *steps),
        }
    )  # fmt: skip


def test_hostile_text_stays_text() -> None:
    page = Page(render(hostile_record()))
    assert not page.open, page.open
    assert {tag for tag, _ in page.tags}.isdisjoint({"script", "img", "iframe", "object", "link"})
    assert not [name for _, attributes in page.tags for name in attributes if name.startswith("on")]
    assert page.words.count("<script>alert(1)</script>") >= 8
    assert "49" not in page.words.partition("{{ 7*7 }}")[2][:20]


def test_the_page_needs_nothing_beside_itself() -> None:
    page = Page(render(full_record()))
    named = [str(value) for _, each in page.tags for name, value in each.items() if name in ("src", "href")]
    assert named == [each for each in named if each.startswith("#")], "places in the page alone"
    assert "@import" not in render(full_record())
    assert "prefers-color-scheme: dark" in render(full_record())


def test_the_page_says_what_was_found() -> None:
    words = " ".join(Page(render(full_record())).words.split())
    for expected in (
        "1.93x", "95 % interval 1.89 to 1.97", "not by a language model", "no gain in 2 depths", "streaming stores",
        "build: 'stream' was not declared", "97%", "signed, seed 1", "memory bound: 0.25 FLOP a byte", "max_depth",
    ):  # fmt: skip
        assert expected in words, expected
    assert "base_url" not in words, "a setting that was not set"


def test_the_page_says_what_the_kernel_is_made_of() -> None:
    record = full_record()
    assert record.best is not None
    use = Resources(kernel="gemm", registers=168, shared_bytes=0, spill_bytes=0)
    made = Build(digest="0" * 32, seconds=1.0, resources=(use,))
    best = record.best.model_copy(
        update={
            "verdict": record.best.verdict.model_copy(update={"build": made}),
            "instructions": "Its machine code has: wgmma, multicast; it lacks: nothing.",
        }
    )
    words = Page(render(record.model_copy(update={"best": best}))).words
    assert "gemm: 168 registers a thread, 0 bytes of shared memory, 0 bytes spilled" in words
    assert "Its machine code has: wgmma, multicast" in words


def test_a_timing_that_is_less_sure_than_usual_says_so() -> None:
    record = full_record()
    assert record.best is not None and record.best.verdict.timing is not None
    busy = Busy(stolen=0.0, others=3, threads=2, processors=2, spread=0.0)
    timing = record.best.verdict.timing.model_copy(update={"busy": busy})
    verdict = record.best.verdict.model_copy(update={"timing": timing})
    loud = record.model_copy(update={"best": record.best.model_copy(update={"verdict": verdict})})
    assert "Noise: the machine was busy: 3 other threads" in Page(render(loud)).words
    assert "Noise:" not in Page(render(record)).words


def test_a_profile_is_labelled_by_the_depth_its_kernel_was_judged_at() -> None:
    record = full_record()
    assert record.best is not None
    later = Step(depth=9, agent="optimizer", candidate=record.best.candidate.digest)
    words = Page(render(record.model_copy(update={"steps": (*record.steps, later)}))).words
    assert "depth 5" in words
    assert "depth 9" not in words


def test_the_profile_that_is_shown_is_that_of_the_kernel_judged_last() -> None:
    record = full_record()
    backwards = record.model_copy(update={"profiles": dict(reversed(record.profiles.items()))})
    for each in (record, backwards):
        shown = view(each)
        assert shown["profile"].time_ms == 10.2
        assert [text for text in ("depth 0", "depth 2", "depth 5") if text not in shown["roofs"][0]] == []
        assert shown["counters"] == "", "a processor has none"


def test_operations_that_nobody_counts_are_not_called_nothing() -> None:
    record = full_record()
    assert record.task is not None
    (work,) = record.task.workloads
    for flops, cell in ((32, "32"), (0, "none")):
        task = record.task.model_copy(update={"workloads": (work.model_copy(update={"flops": flops}),)})
        page = render(record.model_copy(update={"task": task}))
        assert "FLOPs of products</th>" in page
        assert f'<td class="num">{cell}</td><td class="num">128</td>' in page


@pytest.mark.parametrize(
    ("shown", "text"),
    [
        (_ms(0.012345), "0.0123 ms"),
        (_ms(999.4), "999 ms"),
        (_ms(1000.0), "1 s"),
        (_small(0.000123), "1.23e-04"),
        (_share(0.976), "98%"),
        (_clock(59.94), "59.9 s"),
        (_clock(60.0), "1 min 0 s"),
        (_clock(119.7), "2 min 0 s"),
        (_clock(125.2), "2 min 5 s"),
    ],
)
def test_figures_are_written_for_readers(shown: str, text: str) -> None:
    assert shown == text


def test_a_run_without_any_kernel_has_a_page_too() -> None:
    empty = full_record().model_copy(
        update={
            "best": None, "steps": (), "candidates": {}, "verdicts": {}, "profiles": {}, "task": None,
            "outcome": "nothing_faster",
        }
    )  # fmt: skip
    words = Page(render(empty)).words
    assert "no kernel" in words
    assert "language model" not in words, "nobody wrote anything"


def test_threads_of_the_processor_are_told_for_kernels_of_the_processor_alone() -> None:
    record = full_record()
    assert "2 threads, 40 rounds" in render(record)
    assert record.best is not None
    on_gpu = record.best.candidate.model_copy(update={"target": "cuda"})
    shown = render(record.model_copy(update={"best": record.best.model_copy(update={"candidate": on_gpu})}))
    assert "2 threads" not in shown
    assert "40 rounds" in shown


def test_the_record_survives_its_file() -> None:
    record = full_record()
    assert RunRecord.model_validate_json(record.model_dump_json(indent=1)) == record
    assert record.timing is not None
    assert record.authors == ("generator:playbook", "optimizer:playbook", "repairer:playbook")


@pytest.mark.parametrize("width", [400, 940])
def test_plots_are_well_formed_and_stay_inside(width: int) -> None:
    record = full_record()
    drawings = (trajectory(record, width), roofline([("depth 0", roof(21.0)), ("depth 5", roof(10.2))], width))
    for drawing in drawings:
        root = ET.fromstring(str(drawing))
        points = [float(dot.get("cx", "")) for dot in root.iter("circle")]
        assert points
        assert all(0 <= x <= width for x in points)
        heights = [float(dot.get("cy", "")) for dot in root.iter("circle")]
        assert all(0 <= y <= 300 for y in heights)
    marks = ET.fromstring(str(drawings[0]))
    assert len([path for path in marks.iter("path") if path.get("class") == "fail"]) == 2
    assert len(list(marks.iter("circle"))) == 4


def test_uncounted_flops_are_drawn_as_bandwidth() -> None:
    uncounted = roof(10.0).model_copy(update={"achieved_gflop_s": 0.0})
    drawing = ET.fromstring(str(roofline([("depth 0", uncounted)], 400)))
    assert "13.4 GB/s" in "".join(drawing.itertext())
    assert roofline([], 400) == Markup("")
    assert trajectory(full_record().model_copy(update={"steps": ()}), 400) == Markup("")


def test_an_axis_is_monotonous_and_labelled() -> None:
    axis = Axis(0.5, 40.0, 300, 0)
    assert axis.at(0.5) == 300
    assert axis.at(40.0) == 0
    assert axis.at(1.0) > axis.at(2.0) > axis.at(4.0)
    assert (axis.at(0.4), axis.at(50.0)) == (300, 0), "what lies outside is drawn at the edge"
    assert axis.ticks() == [0.5, 1, 2, 5, 10, 20]
    assert Axis(0.8, 8.0, 0, 1).ticks() == [1, 1.5, 2, 3, 5, 7]
    assert Axis(2.0, 2.0 * 10**4, 0, 1).ticks() == [10, 100, 1000, 10000]
    assert Axis(1e-3, 1e4, 0, 1).ticks() == [10.0**power for power in range(-3, 5)]


def test_each_change_is_shown_against_its_parent() -> None:
    shown = changes(full_record())
    assert [change.step.status for change in shown] == [
        "passed", "wrong", "passed", "build_failed", "passed", "passed",
    ]  # fmt: skip
    assert shown[0].parent is None
    assert shown[0].hunks == []
    assert (shown[1].added, shown[1].removed) == (2, 1)
    assert shown[1].errors[0].error.first_bad is not None


def test_a_kernel_that_was_judged_again_is_shown_once_and_one_that_is_not_recorded_never() -> None:
    record = full_record()
    again = record.steps[-1].model_copy(update={"depth": 9})
    unknown = again.model_copy(update={"candidate": "0" * 64})
    shown = changes(record.model_copy(update={"steps": (*record.steps, again, unknown)}))
    assert shown == changes(record)


def test_among_passing_comparisons_the_largest_error_is_shown() -> None:
    (trial,) = errors().trials
    (error,) = trial.outputs
    sizes = {"signed": 1e-7, "wide": 3e-7, "tiny": 2e-7, "same": 3e-7}
    trials = tuple(
        Trial(distribution=name, seed=3, outputs=(error.model_copy(update={"max_scaled": size}),))
        for name, size in sizes.items()
    )
    verdict = full_record().best.verdict.model_copy(update={"correctness": Correctness(trials=trials)})  # type: ignore[union-attr]
    (worst,) = worst_errors(verdict)
    assert (worst.distribution, worst.error.max_scaled) == ("wide", 3e-7)


def test_the_worst_comparison_is_the_failing_one() -> None:
    wrong = changes(full_record())[1].verdict
    assert wrong is not None
    assert wrong.correctness is not None
    (bad,) = wrong.correctness.trials[0].outputs
    large = bad.model_copy(update={"bad_fraction": 0.0, "first_bad": None, "max_scaled": 1e9})
    trials = (*wrong.correctness.trials, Trial(distribution="wide", seed=2, outputs=(large,)))
    (worst,) = worst_errors(wrong.model_copy(update={"correctness": Correctness(trials=trials)}))
    assert worst.distribution == "signed"


texts = st.lists(st.sampled_from(["a", "b", "", "  c", "<d>"]), max_size=30).map("\n".join)


@given(texts, texts)
def test_a_difference_turns_the_old_text_into_the_new(old: str, new: str) -> None:
    before, after = old.splitlines(), new.splitlines()
    found = [line for hunk in hunks(old, new) for line in hunk.lines]
    assert bool(found) == (before != after)
    for line in found:
        assert line.old is None or before[line.old - 1] == line.text
        assert line.new is None or after[line.new - 1] == line.text
    removed = {line.old for line in found if line.kind == "removed"}
    added = {line.new for line in found if line.kind == "added"}
    rest_before = [text for number, text in enumerate(before, 1) if number not in removed]
    rest_after = [text for number, text in enumerate(after, 1) if number not in added]
    assert rest_before == rest_after


def test_the_page_says_what_watched_the_kernel_and_why_no_counters_were_read() -> None:
    record = full_record()
    assert record.best is not None
    runs = (
        SanitizerRun(tool="memcheck", status="clean", seconds=2, smaller=Smaller(shapes=((512,),))),
        SanitizerRun(tool="racecheck", status="skipped", note="slow", ended=False),
    )
    best = record.best.model_copy(update={"verdict": record.best.verdict.sanitized(runs)})
    profiles = {
        digest: profile.model_copy(
            update={"unprofiled": "ncu was not found.", "phases": (Phase(share=0.75, loop=12, line=14),), "ticks": 99}
        )
        for digest, profile in record.profiles.items()
    }
    page = Page(render(record.model_copy(update={"best": best, "profiles": profiles}))).words
    assert "Watched by memcheck (clean after 2.0 s); racecheck (not checked: slow). Watched at smaller sizes" in page
    assert "The GPU's counters were not read. ncu was not found." in page
    assert "was met, 99 times" in page and "75% in the loop of line 12, mostly at line 14" in page
    assert "Watched by" not in Page(render(record)).words and "was met" not in Page(render(record)).words


def test_a_sweeps_variants_stand_beside_the_kernel_that_won() -> None:
    record = full_record()
    assert record.best is not None
    variants = (
        Variant(
            values={"kTile": "64"},
            status="passed",
            latency_ms=1.25,
            speedup=2.5,
            gain=1.75,
            interval=Interval(low=1.7, high=1.8),
            chosen=True,
        ),
        Variant(values={"kTile": "<b>"}, status="build_failed", message="static <b> assertion"),
        Variant(values={"kTile": "256"}),
    )
    step = Step(depth=1, agent="sweeper", move="tiles", candidate=record.best.candidate.digest, variants=variants)
    first = record.steps[1].candidate
    other = step.model_copy(update={"candidate": first, "variants": variants[2:]})
    both = changes(record.model_copy(update={"steps": (*record.steps, step, other)}))
    assert {change.digest: change.variants for change in both if change.variants} == {
        first: variants[2:],
        record.best.candidate.digest: variants,
    }
    swept = record.model_copy(update={"steps": (*record.steps, step)})
    assert [change.variants for change in changes(swept) if change.variants] == [variants]
    words = Page(render(swept)).words
    assert all(
        said in words
        for said in (
            "kTile = 64",
            "over the best then",
            "1.75x (1.70 to 1.80)",
            "kTile = <b>",
            "static <b>",
            "not tried",
        )
    )
    assert "kTile" not in Page(render(record)).words


def test_the_variant_that_a_sweep_chose_is_told_with_the_figure_of_its_full_judgment() -> None:
    """The sweep's own is from rounds of its own: beside the test's alone it would contradict it."""
    record = full_record()
    digest = require(record.best, "best").candidate.digest
    interval = Interval(low=1.083, high=1.171)
    met = HeadToHead(incumbent="0" * 16, incumbent_ms=1.0, speedup=1.13, interval=interval, rounds=16)
    tested = [
        step.model_copy(update={"head_to_head": met}) if step.agent == "tester" and step.candidate == digest else step
        for step in record.steps
    ]
    variants = (Variant(values={"kTile": "64"}, status="passed", speedup=2.5, gain=1.05, chosen=True),)
    step = Step(depth=1, agent="sweeper", move="tiles", candidate=digest, variants=variants)
    words = Page(render(record.model_copy(update={"steps": (*tested, step)}))).words
    assert "1.05x" in words and "judged in full: 1.13x the best before it (1.08 to 1.17)" in words


def test_what_models_cost_is_said_for_each_step_and_agent() -> None:
    fell_back = FellBack(model="openai:a", answered_by="openai:b", because="A <script> is down.")
    usage = Usage(calls=3, input_tokens=900, cached_tokens=700, output_tokens=80, dollars=0.25, fell_back=(fell_back,))
    record = full_record()
    first, *rest = record.steps
    record = record.model_copy(update={"steps": (first.model_copy(update={"usage": usage}), *rest), "usage": usage})
    shown = render(record)
    assert "openai:b goes on for openai:a. A &lt;script&gt; is down." in shown
    assert shown.count("$0.25") == 3, "in sum, of the step, of the agent"
    assert '<td class="num">700</td>' in shown


def test_a_steps_verdict_and_speed_up_come_before_its_long_words() -> None:
    """On a phone the columns to the right lie behind a sideways scroll."""
    head = render(full_record()).partition(">Steps</h2>")[2].partition("</tr>")[0]
    assert re.findall(r"<th[^>]*>([^<]+)</th>", head)[:5] == ["depth", "agent", "verdict", "speed-up", "move"]


def test_every_place_can_be_found_without_seeing_it() -> None:
    """Landmarks with names, a way past them, tables with captions and headed columns, pictures with words."""
    page = Page(render(full_record()))
    tags = page.tags
    assert [tag for tag, _ in tags].count("main") == 1
    assert next(each for tag, each in tags if tag == "a") == {"class": "skip", "href": "#main"}
    ids = [each["id"] for _, each in tags if "id" in each]
    assert len(ids) == len(set(ids))
    named = [each.get("aria-labelledby") for tag, each in tags if tag == "section"]
    assert len(named) > 8 and set(named) <= set(ids)
    kinds = [tag for tag, _ in tags]
    assert kinds.count("caption") == kinds.count("table")
    assert all(each.get("scope") for tag, each in tags if tag == "th")
    assert all(each.get("role") == "img" and each.get("aria-label") for tag, each in tags if tag == "svg")
    scrolled = [each for _, each in tags if "scroll" in (each.get("class") or "")]
    assert scrolled and all(each.get("tabindex") == "0" and each.get("aria-label") for each in scrolled)
    assert kinds.count("details") == kinds.count("summary")
