"""The arithmetic of the roofline, and the page it is rendered to."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.nouns.build import Build, Diagnostic
from harness.nouns.device_facts import DeviceFacts
from harness.nouns.profile import Profile
from harness.nouns.task import Signature, TensorSpec, Workload
from harness.nouns.verdict import Busy, Interval, Timing
from harness.profile.render import MAX_LINES, render
from harness.profile.roofline import roofline

FACTS = DeviceFacts(
    device="test processor",
    threads=4,
    simd_floats=8,
    l1_bytes=32_000,
    l2_bytes=1_000_000,
    l3_bytes=10_000_000,
    peak_gb_s=100,
    peak_gflop_s=1000,
    source="given",
)
OUTPUT = TensorSpec(name="y", shape=(4,), strides=(1,), dtype="float32")


BUSY = Busy(stolen=0.0, others=3.0, threads=4, processors=4, spread=0.1)


def profile(*, flops, bytes_moved, milliseconds, threads=4, remarks=(), busy=None):
    workload = Workload(
        name="main", signature=Signature(inputs=(), outputs=(OUTPUT,)), flops=flops, bytes_moved=bytes_moved
    )
    timing = Timing(
        candidate_ms=milliseconds,
        baseline_ms=milliseconds,
        speedup=1,
        speedup_interval=Interval(low=1, high=1),
        rounds=1,
        threads=threads,
        converged=True,
        busy=busy,
    )
    return roofline(workload, timing, Build(digest="0" * 32, remarks=remarks, seconds=0), FACTS, target="cpu")


def test_a_memory_bound_kernel():
    found = profile(flops=10**8, bytes_moved=10**9, milliseconds=20)
    assert found.bound == "memory"
    assert found.achieved_gb_s == pytest.approx(50) and found.achieved_gflop_s == pytest.approx(5)
    assert found.share_of_roof == pytest.approx(0.5)
    assert "10 ms" in found.findings[0] and "up to 2.0x is left: touch each byte once" in found.findings[0]


def test_a_compute_bound_kernel():
    found = profile(flops=10**11, bytes_moved=10**9, milliseconds=400)
    assert found.bound == "compute" and found.share_of_roof == pytest.approx(0.25)
    assert "up to 4.0x is left: keep more operands in registers" in found.findings[0]


def test_a_kernel_near_its_roof_is_told_how_little_is_left():
    assert "at most 1.11x is left" in profile(flops=1, bytes_moved=10**9, milliseconds=10 / 0.9).findings[0]


def test_a_kernel_faster_than_memory_is_served_by_caches_and_its_share_is_one():
    found = profile(flops=1, bytes_moved=10**9, milliseconds=5)
    assert found.share_of_roof == 1.0 and found.achieved_gb_s == pytest.approx(200)
    assert "caches served it" in found.findings[0]


@pytest.mark.parametrize(("moved", "level"), [(900_000, "L2"), (9_000_000, "L3")])
def test_small_data_is_told_with_the_cache_it_fits(moved, level):
    (finding,) = profile(flops=1, bytes_moved=moved, milliseconds=10).findings[1:]
    assert f"fits one {level} cache" in finding


def test_fewer_threads_than_the_roof_was_measured_with_are_told():
    (finding,) = profile(flops=1, bytes_moved=10**9, milliseconds=20, threads=1).findings[1:]
    assert finding == "It was timed with 1 threads; the roofs were measured with 4."


def test_scalar_loops_are_listed_and_cut():
    remarks = tuple(
        Diagnostic(severity="note", file="kernel", line=n, message="loop not vectorized: a call") for n in range(1, 30)
    )
    findings = profile(flops=1, bytes_moved=10**9, milliseconds=20, remarks=remarks).findings
    assert findings[1] == "Line 1: loop not vectorized: a call." and len(findings) == 9


def test_the_page_shows_the_rates_and_the_findings():
    page = render(profile(flops=10**8, bytes_moved=10**9, milliseconds=20)).splitlines()
    assert page[0] == "device      test processor (cpu)"
    assert page[2] == "memory      50 of 100 GB/s (50%)"
    assert page[4] == "bound       memory, at 50% of the roof"
    assert page[5].startswith("1. Moving its bytes takes at least 10 ms")


def test_a_time_under_load_is_no_share_of_the_roof():
    found = profile(flops=10**8, bytes_moved=10**9, milliseconds=20, busy=BUSY)
    assert found.share_of_roof is None
    assert "%" not in render(found) and "a busy machine does not tell" in render(found)
    idle = BUSY.model_copy(update={"others": 0.0})
    assert profile(flops=10**8, bytes_moved=10**9, milliseconds=20, busy=idle).share_of_roof == pytest.approx(0.5)


def test_without_a_count_of_bytes_and_operations_there_is_no_roof():
    found = profile(flops=0, bytes_moved=0, milliseconds=20)
    assert (found.share_of_roof, found.achieved_gb_s, found.achieved_gflop_s) == (0, 0, 0)
    assert found.findings[0].startswith("Nobody counted bytes or operations")
    assert "bound       memory, at 0% of the roof" in render(found)


@given(
    flops=st.integers(0, 10**18),
    bytes_moved=st.integers(0, 10**15),
    milliseconds=st.floats(1e-9, 1e9),
)
def test_any_counts_have_their_place_under_the_roof(flops, bytes_moved, milliseconds):
    found = profile(flops=flops, bytes_moved=bytes_moved, milliseconds=milliseconds)
    memory_ms, compute_ms = bytes_moved / 100e6, flops / 1000e6
    assert found.bound == ("memory" if memory_ms >= compute_ms else "compute")
    assert found.share_of_roof == pytest.approx(min(1, max(memory_ms, compute_ms) / milliseconds))
    assert found.share_of_roof <= 1
    assert len(render(found).splitlines()) <= MAX_LINES


@pytest.mark.parametrize(
    ("milliseconds", "words"),
    [
        (10, "it is faster than that: caches served it"),
        (10.01, "at 100% of that roof, at most 1.00x is left."),
        (12.49, "at 80% of that roof, at most 1.25x is left."),
        (12.6, "at 79% of that roof, up to 1.3x is left: touch each byte once"),
    ],
)
def test_what_is_left_is_told_by_how_near_the_roof_is(milliseconds, words):
    (finding,) = profile(flops=1, bytes_moved=10**9, milliseconds=milliseconds).findings
    assert finding.startswith(
        "Moving its bytes takes at least 10 ms (its products, all that is counted, take at least 1e-09 ms); "
    )
    assert words in finding


@pytest.mark.parametrize(
    ("bytes_moved", "words"),
    [
        (10**6, "All its data (1 MB) fits one L2 cache (1 MB)"),
        (10**6 + 1, "fits one L3 cache (10 MB)"),
        (10**7, "fits one L3 cache (10 MB)"),
        (10**7 + 1, ""),
    ],
)
def test_data_that_fits_a_cache_is_told_with_the_smallest(bytes_moved, words):
    told = profile(flops=1, bytes_moved=bytes_moved, milliseconds=20).findings[1:]
    assert len(told) == bool(words)
    assert all(words in finding for finding in told)


@given(st.lists(st.text(max_size=2000), max_size=80))
def test_the_page_never_grows_beyond_its_limit(findings):
    found = Profile(
        target="cpu",
        device="x",
        time_ms=1,
        achieved_gb_s=1,
        peak_gb_s=0,
        achieved_gflop_s=0,
        peak_gflop_s=1,
        bound="memory",
        share_of_roof=0,
        findings=tuple(findings),
    )
    assert len(render(found).split("\n")) <= MAX_LINES
