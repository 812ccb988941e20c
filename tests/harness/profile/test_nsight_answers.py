"""Answers of Nsight Compute that are not as usual: cut short, forged, of other versions and devices, or an error."""

from __future__ import annotations

import csv
import io
import re
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.isolation.process import Completed
from harness.nouns.profile import Hint, KernelProfile, Profile, Stall
from harness.profile import nsight as names
from harness.profile.counters import bottleneck, kernel_profiles, short_name
from harness.profile.nsight import (
    MAX_LAUNCHES,
    METRICS,
    PERMISSION,
    SECTIONS,
    STALLS,
    WAITING,
    UnprofiledError,
    command,
    number,
    parse_answer,
    read_run,
)
from harness.profile.render import MAX_LINES, render

ANSWERS = {file.stem: file.read_text() for file in sorted((Path(__file__).parent / "answers").glob("*.csv"))}
HEAD = ("ID", "Kernel Name", "Block Size", "Grid Size", "CC", "Metric Name", "Metric Unit", "Metric Value")


def table(*rows: tuple[str, ...], head: tuple[str, ...] = HEAD) -> str:
    """Rows as Nsight Compute writes them, every cell in quotes."""
    text = io.StringIO()
    csv.writer(text, quoting=csv.QUOTE_ALL, lineterminator="\n").writerows((head, *rows))
    return text.getvalue()


def row(metric: str, value: str, unit: str = "", *, number: int = 0, name: str = "k(int)") -> tuple[str, ...]:
    return (str(number), name, "(256, 1, 1)", "(1000, 1, 1)", "9.0", metric, unit, value)


def ended(outcome: str = "exited", code: int | None = 0, stderr: bytes = b"", stdout: bytes = b"") -> Completed:
    return Completed(outcome, code, None, stdout, stderr, 1.0, 0, 0, "")


def read(text: str) -> list[KernelProfile]:
    return list(kernel_profiles(read_run(ended(), text)))


# -- cut short and forged ----------------------------------------------------------------------------------------------


@given(data=st.data())
def test_an_answer_that_was_cut_off_anywhere_is_read_as_far_as_it_goes(data: st.DataObject) -> None:
    """A run that is killed while Nsight Compute writes leaves half a row; it is no defect of ours."""
    text = ANSWERS[data.draw(st.sampled_from(sorted(ANSWERS)))]
    whole = parse_answer(text.splitlines())
    found = parse_answer(text[: data.draw(st.integers(0, len(text)))].splitlines())
    assert [launch.name for launch in found] == [launch.name for launch in whole[: len(found)]]
    for some, every in zip(found[:-1], whole, strict=False):
        assert some == every, "what lies before the cut is complete"
    if found:
        last, every = found[-1].metrics, whole[len(found) - 1].metrics
        wrong = [name for name, value in last.items() if every.get(name) != value]
        assert len(wrong) <= 1, "a number at the cut may have lost digits"


def test_a_launch_whose_time_was_cut_off_is_left_out() -> None:
    """Its share would be 0 and the call's time would seem to lie between kernels."""
    rows = [
        row(names.DURATION, "50000", "ns"),
        row(names.DRAM, "80", "%"),
        row(names.DRAM, "10", "%", number=1, name="cut"),
    ]
    (kernel,) = read(table(*rows))
    assert (kernel.name, kernel.share) == ("k", 1)
    assert bottleneck((kernel,), 0.06, 132) == "memory"


@pytest.mark.parametrize("value", ["n/a", "nan", "", "inf", "0", "-5", "1e300", "(!) nan"])
def test_without_any_time_it_is_said_of_which_kernel(value: str) -> None:
    with pytest.raises(UnprofiledError, match=r"nothing: of k\(int\) it measured no time\. Try ncu"):
        read(table(row(names.DURATION, value, "ns"), row(names.DRAM, "80", "%")))


cells = st.one_of(
    st.sampled_from(
        ["ID", "0", "(1, 1, 1)", "(1,1)", "(,,)", "(9, 9, 999999999999999)", "ns", names.DURATION, "1e999"]
    ),
    st.text(max_size=12),
)


@given(head=st.permutations(HEAD), dropped=st.integers(0, len(HEAD)), rows=st.lists(st.lists(cells, max_size=10)))
def test_what_a_kernel_forges_into_the_file_breaks_nothing(
    head: list[str], dropped: int, rows: list[list[str]]
) -> None:
    """The file lies in a folder that the kernel under test can write."""
    kept = [name for name in head if name != "ID"][:dropped]
    text = table(*map(tuple, rows), head=("ID", *kept))
    for launch in parse_answer(text.splitlines()):
        assert launch.name and len(launch.grid) == len(launch.block) == 3
    try:
        assert all(kernel.time_ms > 0 for kernel in read(text))
    except UnprofiledError as told:
        assert len(str(told)) < 600


@given(st.dictionaries(st.sampled_from(METRICS[:16]), st.floats().map(str)), st.floats(min_value=1e-3, max_value=1e9))
def test_any_numbers_make_a_profile_and_a_page(metrics: dict[str, str], duration: float) -> None:
    rows = [row(name, value) for name, value in metrics.items() if name != names.DURATION]
    kernels = read(table(row(names.DURATION, str(duration), "ns"), *rows))
    limit = bottleneck(kernels, kernels[0].time_ms, 132)
    found = profile(kernels).model_copy(update={"bottleneck": limit})
    assert "k: " in render(found)
    assert Profile.model_validate_json(found.model_dump_json()) == found


def test_an_open_quote_and_an_endless_line_stay_in_their_line() -> None:
    text = table(row(names.DURATION, "1000", "ns"), row(names.DRAM, "70", "%"))
    first, duration, dram = text.splitlines()
    broken = '"0","open quote, "(256, 1, 1)'
    endless = f'"0","{"x" * 200_000}","(1, 1, 1)"'
    (launch,) = parse_answer([first, broken, duration, endless, dram])
    assert (launch.name, launch.metrics) == ("k(int)", {names.DURATION: 1000, names.DRAM: 70})
    assert parse_answer([duration, dram]) == [], "there is no table without its head"


@pytest.mark.parametrize(
    "extent", ["", "(1, 1)", "(1, 1, 1, 1)", "(1, 1, x)", "(1, 1, 12345678901)", "(-1, 1, 1)", "1 1 1"]
)
def test_a_row_without_its_shape_is_no_launch(extent: str) -> None:
    whole = row(names.DURATION, "1000", "ns")
    assert parse_answer(table((*whole[:2], extent, *whole[3:])).splitlines()) == []
    assert parse_answer(table((*whole[:3], extent, *whole[4:])).splitlines()) == []
    assert len(parse_answer(table(whole, (*whole[:2], extent, *whole[3:])).splitlines())) == 1
    assert parse_answer(table((whole[0], "", *whole[2:])).splitlines()) == []


def test_no_more_launches_are_taken_than_were_asked_for() -> None:
    rows = [row(names.DURATION, "1000", "ns", number=each, name=f"k{each}()") for each in range(MAX_LAUNCHES + 9)]
    assert len(read_run(ended(), table(*rows))) == MAX_LAUNCHES
    (kernel,) = read(table(row(names.DURATION, "1", "ns", name="n" * 5000)))
    assert len(kernel.name) == 100


# -- other versions, other devices -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "unit", "value"),
    [
        ("124256", "ns", 124256), ("124256", "nsecond", 124256), ("124.25", "us", 124250), ("1.2", "usecond", 1200),
        ("1.5", "ms", 1.5e6), ("1.5", "msecond", 1.5e6), ("2", "s", 2e9), ("2", "second", 2e9),
        ("268,445,184", "byte", 268445184), ("16.4", "Kbyte/block", 16400), ("1.02", "Mbyte", 1.02e6),
        ("2.3", "Tbyte/s", 2.3e12), ("3", "Gbyte", 3e9), ("48.19", "%", 48.19), ("4", "sector", 4), ("7", "inst", 7),
        ("1,000", "", 1000), ("1,234,567.5", "ns", 1234567.5), ("-1", "%", -1),
    ],
)  # fmt: skip
def test_a_number_is_read_in_its_unit(text: str, unit: str, value: float) -> None:
    assert number(text, unit) == pytest.approx(value)


def test_the_units_of_a_row_reach_the_profile() -> None:
    """Base units are asked for; a version that writes others all the same is not off by a thousand."""
    rows = [
        row(names.DURATION, "124.26", "us"),
        row(names.DRAM_READ, "268.4", "Mbyte"),
        row(names.DRAM_WRITTEN, "244.9", "Mbyte"),
        row(names.SHARED_STATIC, "16.38", "Kbyte/block"),
    ]
    (kernel,) = read(table(*rows))
    assert kernel.time_ms == pytest.approx(0.12426)
    assert kernel.dram_bytes == pytest.approx(513.3e6)
    assert kernel.shared_bytes == 16380


def test_base_units_and_one_call_are_asked_for() -> None:
    words = command(Path("ncu"))
    pairs = list(pairwise(words))
    assert [value for name, value in pairs if name == "--section"] == list(SECTIONS)
    for pair in (
        ("--print-units", "base"), ("--page", "details"), ("--target-processes", "all"),
        ("--profile-from-start", "off"), ("--launch-count", str(MAX_LAUNCHES)), ("--log-file", "answer.csv"),
        ("--metrics", ",".join(METRICS)),
    ):  # fmt: skip
        assert pair in pairs
    assert "--csv" in words


def named_by(text: str) -> set[str]:
    return {line["Metric Name"] for line in csv.DictReader(each for each in text.splitlines() if each[:1] == '"')}


def test_every_number_that_a_profile_is_made_of_is_in_the_real_answers() -> None:
    """A name that is spelled wrong is silently 0."""
    found = set.union(*map(named_by, ANSWERS.values()))
    asked = {value for key, value in vars(names).items() if key.isupper() and isinstance(value, str)}
    asked -= {names.STALL_PREFIX, names.STALL_SUFFIX, names.PERMISSION, names.MISSING, names._ANSWER}
    asked |= {*names.CONFLICTS, *names.WAVEFRONTS, *names.SPILLS, *names.LIMITS}
    asked |= {f"{names.STALL_PREFIX}{name}{names.STALL_SUFFIX}" for name in STALLS}
    asked -= {names.INSTRUCTIONS}  # the stored answers are older than the question for it
    assert asked - found <= {f"{names.STALL_PREFIX}warpgroup_arrive{names.STALL_SUFFIX}"}
    assert {"selected", "not_selected"} == {*STALLS} - {*WAITING}


def test_what_an_older_device_does_not_count_is_no_limit() -> None:
    """An A100 has no stalls of warp group products; some versions tell neither occupancy nor tensor cores there."""
    left_out = re.compile(r'gmma|warpgroup|sm__pipe_tensor|Theoretical Occupancy|Achieved Occupancy|"Block Limit')
    text = "\n".join(line for line in ANSWERS["pointwise"].splitlines() if not left_out.search(line))
    (kernel,) = read(text.replace('"9.0"', '"8.0"'))
    assert (kernel.tensor, kernel.occupancy, kernel.occupancy_limit) == (0, 0, "")
    assert bottleneck((kernel,), 0.126, 108) == "memory"
    assert {stall.reason for stall in kernel.stalls} <= set(STALLS.values())
    quiet = kernel.model_copy(update={"dram": 0.1, "memory": 0.1})
    assert bottleneck((quiet,), 0.126, 108) == "latency", "an occupancy that was not told is none of 0"


def test_a_device_with_more_stalls_shares_them_all() -> None:
    stalls = {"long_scoreboard": "30", "gmma": "50", "selected": "20"}
    rows = [row(f"{names.STALL_PREFIX}{name}{names.STALL_SUFFIX}", value, "inst") for name, value in stalls.items()]
    (kernel,) = read(table(row(names.DURATION, "9", "us"), *rows))
    assert [(stall.reason, stall.share) for stall in kernel.stalls] == [
        ("waiting for a warp group's matrix product", 0.5),
        ("waiting for device memory or the L2", 0.3),
    ]


@pytest.mark.parametrize(
    ("told", "name"),
    [
        ("(anonymous namespace)::kernel(float *)", "kernel"),
        ("void part1::(anonymous namespace)::kernel<4>(float *)", "part1::kernel"),
        ("void <unnamed>::kernel<(int)4, a<b>>(int)", "kernel"),
        ("part_2::softmax(const float *, float *)", "part_2::softmax"),
        ("", ""),
        ("(", "("),
    ],
)
def test_a_name_without_a_namespace_of_its_own(told: str, name: str) -> None:
    assert short_name(told) == name


# -- errors ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("done", "answer", "words"),
    [
        (ended(), "==PROF== Connected\n==WARNING== No kernels were profiled.\n", "the call launched no kernel"),
        (ended(code=1), "==ERROR== Cuda driver is not compatible with Nsight Compute.\n", "driver is not compatible"),
        (ended(code=1), "==ERROR== Driver resource was unavailable. Ensure that no other\n", "resource was unavail"),
        (ended(), "==ERROR== Profiling is not supported on device 0.\n==ERROR== second\n", "not supported on device 0"),
        (ended(code=9, stdout=b"==ERROR== The application returned an error code (9)."), "", "error code (9)"),
        (ended(code=2), "", "it ended early (exited: exit code 2)"),
        (ended("signalled", None, stderr=b"boom"), "", "it ended early (signalled"),
        (ended("timed_out", None), "==ERROR== Failed to profile.\n", "Failed to profile"),
        (ended(code=3, stderr=b"a launch failed"), "==ERROR== something else\n", "the call failed: a launch failed"),
    ],
)  # fmt: skip
def test_each_reason_is_told_in_ncus_own_words(done: Completed, answer: str, words: str) -> None:
    with pytest.raises(UnprofiledError, match=re.escape(words)) as told:
        read_run(done, answer)
    assert str(told.value).startswith("Nsight Compute read nothing: ")
    assert ".." not in str(told.value)
    assert "second" not in str(told.value)


def test_an_endless_reason_is_cut() -> None:
    with pytest.raises(UnprofiledError) as told:
        read_run(ended(), "==ERROR== " + "why " * 10_000)
    assert len(str(told.value)) < 400


def test_permission_counts_before_whatever_else_was_read() -> None:
    rows = table(row(names.DURATION, "1000", "ns"))
    for done, answer in ((ended(), f"==ERROR== ERR_NVGPUCTRPERM\n{rows}"), (ended(stdout=b"ERR_NVGPUCTRPERM"), rows)):
        with pytest.raises(UnprofiledError) as told:
            read_run(done, answer)
        assert str(told.value) == PERMISSION


# -- the page ----------------------------------------------------------------------------------------------------------


def profile(kernels: list[KernelProfile], findings: tuple[str, ...] = (), unprofiled: str = "") -> Profile:
    return Profile(
        target="cuda", device="NVIDIA H200", time_ms=1, achieved_gb_s=1, peak_gb_s=10, achieved_gflop_s=1,
        peak_gflop_s=10, bound="memory", share_of_roof=0.1, kernels=tuple(kernels), findings=findings,
        unprofiled=unprofiled,
    )  # fmt: skip


def talkative(index: int) -> KernelProfile:
    """A kernel of which everything is told, under a long name."""
    return KernelProfile(
        name=f"part_{index}::" + "very_long_name_" * 6, launches=2, time_ms=0.1, share=0.1, grid=(132, 8, 4),
        block=(256, 2, 1), registers=255, shared_bytes=232448, waves=1, compute=0.5, memory=0.5, dram=0.5,
        dram_bytes=1e9, fma=0.1, tensor=0.1, issue=0.1, l1_hits=0.5, l2_hits=0.5, occupancy=0.5, occupancy_possible=0.5,
        occupancy_limit="blocks a multiprocessor", load_efficiency=0.5, store_efficiency=0.5, load_sectors=32,
        store_sectors=32, bank_conflicts=0.5, spills=0.5,
        stalls=tuple(Stall(reason=reason, share=0.2) for reason in sorted(STALLS.values(), key=len)[-4:]),
        hints=(Hint(message="m", gain=0.5),),
    )  # fmt: skip


@pytest.mark.parametrize("count", [0, 1, 4, 5, 6, 24])
def test_the_page_keeps_its_limit_and_its_findings_for_any_number_of_kernels(count: int) -> None:
    findings = ("Moving its bytes takes at least 1 ms.", "Limited by spills: smaller fragments.", "Use vectors. " * 20)
    lines = render(profile([talkative(index) for index in range(count)], findings)).split("\n")
    assert len(lines) <= MAX_LINES
    assert [f"1. {findings[0]}", f"2. {findings[1]}"] == [line for line in lines if line[:3] in ("1. ", "2. ")]
    assert sum(line.startswith("kernel      part_") for line in lines) == min(count, 5)
    assert ("kernel      19 more, 190% of the time" in lines) == (count == 24)
    assert all(len(line) <= 120 for line in lines)


@given(
    count=st.integers(0, 30),
    findings=st.lists(st.text(min_size=1, max_size=400), max_size=60),
    unprofiled=st.text(max_size=9000),
)
def test_whatever_is_told_the_page_has_sixty_lines_at_most(count: int, findings: list[str], unprofiled: str) -> None:
    page = render(profile([talkative(index) for index in range(count)], ("Limited by x.", *findings), unprofiled))
    assert len(page.split("\n")) <= MAX_LINES
    assert "1. Limited by x." in page


def test_what_was_left_out_is_counted() -> None:
    told = render(profile([], tuple(f"Finding {number}." for number in range(100)))).split("\n")
    assert len(told) == MAX_LINES
    assert told[-2:] == ["54. Finding 53.", "(46 more lines left out)"]
    assert len(render(profile([], tuple("x" for _ in range(MAX_LINES - 5)))).split("\n")) == MAX_LINES


def test_a_kernels_lines_say_what_was_counted_and_nothing_else() -> None:
    plain = talkative(0).model_copy(
        update={
            "name": "k", "launches": 1, "grid": (132, 1, 1), "block": (1, 1, 1), "occupancy_limit": "", "stalls": (),
            "load_efficiency": None, "store_sectors": None, "bank_conflicts": 0.009, "spills": 0.0, "waves": 1.5,
        }
    )  # fmt: skip
    lines = render(profile([plain])).split("\n")[5:]
    assert lines == [
        "kernel      k: 0.1 ms, 10% of the time; grid 132, block 1, 1.50 waves; 255 registers a thread, 232448 bytes "
        "of shared",
        "            memory a block",
        "            of peak: device memory 50%, memory path 50%, compute 50% (FMA 10%, tensor cores 10%, issue slots "
        "10%)",
        "            occupancy 50% of 50% possible; hits: L1 50%, L2 50%; 1000 MB through device memory",
    ]
    page = " ".join(render(profile([talkative(0)])).split())
    for words in (
        "in 2 launches", "grid 132 x 8 x 4", "block 256 x 2,", "limited by blocks a multiprocessor;",
        "global loads use 50% of each sector, 32.0 sectors a request", "global stores use 50%",
        "bank conflicts cost 50% of shared memory's turns", "50.0% local-memory instructions",
        "warps: 20% waiting",
    ):  # fmt: skip
        assert words in page
