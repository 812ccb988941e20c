"""Where a call's time goes: sampled in a real process, told apart by loops."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.building.machine_code import read_places
from harness.building.toolchain import line_finder
from harness.candidate.sampling import Code, sample
from harness.isolation.tiers import resolve_tier
from harness.nouns.build import Build, Diagnostic
from harness.nouns.candidate import Candidate
from harness.nouns.profile import Phase, Profile
from harness.nouns.task import ScalarSpec, Signature, TensorSpec
from harness.profile.phases import (
    ELSEWHERE,
    Sampled,
    Ticks,
    UnsampledError,
    read_ticks,
    sample_phases,
    split,
    with_phases,
)
from harness.profile.render import MAX_LINES, render, say_phase
from harness.profile.roofline import say_remark
from harness.targets.cpu import CpuTarget

KERNEL = """\
#include <cmath>
#include <tvm/ffi/container/tensor.h>
#include <tvm/ffi/function.h>
static inline float sum_of(float const* row, int64_t n) {
  float sum = 0;
  for (int64_t j = 0; j < n; ++j) sum += row[j];  // sum
  return sum;
}
void run(tvm::ffi::TensorView x, int64_t fails, tvm::ffi::TensorView y) {
  if (fails) TVM_FFI_THROW(ValueError) << "not\\x1b[2J with these";
  float const* a = static_cast<float const*>(x.data_ptr());
  float* b = static_cast<float*>(y.data_ptr());
  int64_t const n = 512, rows = x.numel() / n;
#pragma omp parallel for num_threads(1)
  for (int64_t i = 0; i < rows; ++i) {
    float const sum = sum_of(a + i * n, n);  // calls
    for (int64_t j = 0; j < n; ++j) {  // outer
      float v = a[i * n + j];
#pragma GCC unroll 1
      for (int k = 0; k < 50; ++k) v = std::sqrt(v + sum);  // roots
      b[i * n + j] = v;
    }
  }
}
TVM_FFI_DLL_EXPORT_TYPED_FUNC(run, run);
"""
SUM, CALLS, OUTER, ROOTS = (
    next(n for n, line in enumerate(KERNEL.splitlines(), start=1) if line.endswith(f"// {mark}"))
    for mark in ("sum", "calls", "outer", "roots")
)
BASE = Profile(
    target="cpu", device="a test's", time_ms=1, achieved_gb_s=1, peak_gb_s=2, achieved_gflop_s=1, peak_gflop_s=2,
    bound="memory", share_of_roof=0.5,
)  # fmt: skip


def signature(*, fails=0):
    x = TensorSpec(name="x", shape=(2048, 512), strides=(512, 1), dtype="float32")
    told = ScalarSpec(name="fails", type="int", value=fails)
    return Signature(inputs=(x, told), outputs=(x.model_copy(update={"name": "y"}),))


@pytest.fixture(scope="module")
def build():
    made = CpuTarget().compile(Candidate(source=KERNEL, target="cpu", author="test:test"), tier=resolve_tier("auto"))
    assert made.succeeded, made.diagnostics
    return made


@pytest.mark.skipif(line_finder() is None, reason="needs addr2line")
def test_the_loop_with_the_work_has_the_time(build):
    phases, ticks, held_up = sample_phases(build, signature(), call_ms=1, tier=resolve_tier("auto"), limit_s=10)
    assert ticks >= 30 and 0 <= held_up <= 1 and sum(phase.share for phase in phases) == pytest.approx(1, abs=0.03)
    loops = {phase.loop: phase.share for phase in phases if phase.loop}
    busiest = max(loops, key=lambda loop: loops[loop])
    assert busiest in (OUTER, ROOTS) and loops[busiest] > 5 * loops.get(SUM, 0)
    assert all(phase.loop or phase.line or phase.elsewhere for phase in phases)


def test_a_machine_that_cannot_count_says_so_and_nothing_is_called(tmp_path, monkeypatch):
    monkeypatch.setattr("harness.candidate.sampling.loaded_code", lambda: [Code("k", 0, 0, 1 << 30)])
    called = []
    sample(lambda: called.append(1), "k", beside=[], limit_s=1, enough=1, file=str(tmp_path / "ticks"))
    with pytest.raises(UnsampledError, match="too large to be sampled"):
        read_ticks((tmp_path / "ticks").read_text())
    assert not called


def test_what_cannot_be_sampled_says_why(build):
    tier = resolve_tier("auto")
    failing = with_phases(BASE, build, signature(fails=1), tier=tier)
    assert not failing.phases and failing.unsampled == "the call failed: ValueError: not\\x1b[2J with these"
    slow = with_phases(BASE.model_copy(update={"time_ms": 4000}), build, signature(), tier=tier)
    assert slow.unsampled == "a call takes 4 s, and no more than 1.5 s are sampled"
    without = with_phases(BASE, Build(digest="0" * 32, seconds=0), signature(), tier=tier)
    assert without.unsampled == "its library does not lie here"
    assert "phases      not sampled: its library does not lie here" in render(without)


def test_a_tick_counts_for_the_innermost_loop_that_it_lies_in_or_was_inlined_into():
    lines = {1: (SUM, CALLS), 2: (ROOTS,), 3: (ROOTS,), 4: (OUTER + 1,), 5: (5, CALLS), 6: (11,), 7: ()}
    counts = {1: 10, 2: 30, 3: 20, 4: 10, 5: 5, 6: 4, 7: 1}
    found = split(Ticks(counts, {"libgomp": 15, "libm.": 3, "libm-": 2}), lines, KERNEL)
    told = [(round(100 * phase.share), phase.loop, phase.line, phase.caller) for phase in found]
    assert told[:1] == [(50, ROOTS, ROOTS, None)]
    assert (10, SUM, SUM, CALLS) in told and (10, OUTER, OUTER + 1, None) in told
    assert (5, CALLS - 1, CALLS, None) in told
    assert found[1].elsewhere.startswith("OpenMP's runtime") and found[1].share == 0.15
    assert sum(phase.share for phase in found) == pytest.approx(1)
    assert found[-1].elsewhere == "the rest of the call" and len(found) <= 7
    [whole, *_] = split(Ticks(counts, {}), lines, KERNEL, {OUTER})
    assert (whole.loop, whole.line) == (OUTER, ROOTS), "a loop that is unrolled away counts with the one around it"


def test_within_a_loop_the_lines_that_take_the_most_are_told():
    source = "void f() {\n" + "for (int i = 0; i < n; ++i) {\n" + "a(i);\n" * 8 + "}\n}\n"
    lines = {at: (line,) for at, line in enumerate((3, 4, 7, 9, 2))}
    found = split(Ticks({0: 30, 1: 20, 2: 40, 3: 1, 4: 4}, {"libgomp": 5}), lines, source)
    assert [(part.first, part.last, round(part.share, 2)) for part in found[0].lines] == [(2, 4, 0.54), (7, 7, 0.4)]
    assert say_phase(found[0]) == "95% in the loop of line 2: 54% at lines 2 to 4, 40% at line 7"
    one = split(Ticks({0: 30, 1: 20}, {}), lines, source)
    assert one[0].lines == () and say_phase(one[0]) == "100% in the loop of line 2, mostly at line 3"


def test_remarks_on_loops_without_time_are_left_out(build, monkeypatch):
    remarks = tuple(
        Diagnostic(file="kernel", line=line, severity="note", message="loop vectorized") for line in (OUTER, SUM)
    )
    told = build.model_copy(update={"remarks": remarks})
    base = BASE.model_copy(update={"findings": ("It waits.", *map(say_remark, remarks))})
    met = (Phase(share=1.0, loop=OUTER, line=OUTER),)
    monkeypatch.setattr("harness.profile.phases.sample_phases", lambda *_, **__: Sampled(met, 99, 0.0))
    found = with_phases(base, told, signature(), tier=resolve_tier("auto"))
    assert found.findings == ("It waits.", f"Line {OUTER}: loop vectorized.")


def test_phases_are_told_with_their_lines():
    phases = (
        Phase(share=0.6, loop=20, line=22),
        Phase(share=0.2, loop=6, line=6, caller=17),
        Phase(share=0.1, line=11),
        Phase(share=0.1, elsewhere="OpenMP's runtime"),
    )
    text = render(BASE.model_copy(update={"phases": phases, "ticks": 312, "findings": ("x " * 99,) * 40}))
    assert "was met, 312 times in calls with the same arguments" in text
    assert "60% in the loop of line 20, mostly at line 22\n" in text
    assert "20% in the loop of line 6 (called in line 17)\n" in text
    assert "10% at line 11, in no loop\n" in text and "10% in OpenMP's runtime\n" in text
    assert len(text.splitlines()) <= MAX_LINES and "busy" not in text
    busy = render(BASE.model_copy(update={"phases": phases, "ticks": 312, "held_up": 0.55}))
    assert "for 55% of the time one of its threads was held up by others" in " ".join(busy.split())


ANSWERS = st.recursive(
    st.none() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["kernel", "beside", "1", "x"]), inner),
)


@given(ANSWERS)
def test_whatever_the_process_leaves_is_read_within_bounds(answer):
    try:
        ticks = read_ticks(json.dumps(answer))
    except UnsampledError:
        return
    assert ticks.total >= 0 and all(count <= 1 << 20 for count in ticks.kernel.values())


@pytest.mark.parametrize(("said", "meant"), [("0.25", 0.25), ("1e400", 1), ("-3", 0), ("NaN", 0)])
def test_how_long_it_was_held_up_is_a_share(said, meant):
    assert read_ticks(f'{{"kernel": {{"7": 3}}, "beside": {{"libgomp": 2}}, "held_up": {said}}}') == (
        {7: 3}, dict.fromkeys(ELSEWHERE, 0) | {"libgomp": 2}, meant
    )  # fmt: skip


@pytest.mark.parametrize("answer", ["", "[" * 100_000, '{"kernel": {"1": 1e400}, "beside": {}}', "9" * 5000])
def test_no_answer_is_none(answer):
    with pytest.raises(UnsampledError):
        read_ticks(answer)


def test_places_are_the_kernels_own_lines_innermost_first():
    said = "0x0000000000001001\n/tmp/a/kernel.cpp:6 (discriminator 3)\n/tmp/a/kernel.cpp:16\n"
    said += "0x0000000000001003\n/usr/include/x.hpp:9\nkernel.cpp:20\n0x0000000000001005\n??:?\n"
    assert read_places(said, "kernel.cpp") == {0x1001: (6, 16), 0x1003: (20,), 0x1005: ()}
