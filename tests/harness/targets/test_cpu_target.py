"""The processor's facts and the profile drawn from them."""

from __future__ import annotations

import os

import pytest

from harness.isolation.tiers import resolve_tier
from harness.machine.processor import processor
from harness.nouns.build import Build, Diagnostic
from harness.nouns.candidate import Candidate
from harness.nouns.task import Signature, TensorSpec, Workload
from harness.nouns.verdict import Interval, Timing
from harness.targets import ceilings
from harness.targets.ceilings import Ceilings, measured_ceilings
from harness.targets.cpu import CpuTarget


@pytest.fixture(scope="module")
def facts():
    return CpuTarget().facts()


def test_the_ceilings_are_those_of_a_processor_of_this_century(facts):
    assert 0.5 < facts.peak_gb_s < 5000
    assert 1 < facts.peak_gflop_s < 1e6
    assert facts.threads == len(os.sched_getaffinity(0))
    assert facts.simd_floats in (4, 8, 16)
    assert facts.l1_bytes < facts.l2_bytes < facts.l3_bytes
    assert facts.source.startswith("measured")


def test_the_ceilings_are_measured_once(facts):
    again = measured_ceilings(processor())
    assert (again.gb_s, again.gflop_s) == (facts.peak_gb_s, facts.peak_gflop_s)


def test_the_ceilings_outlive_the_process_and_belong_to_the_thread_count(tmp_path, monkeypatch, facts):
    monkeypatch.setenv("CUTEGEN_CACHE", str(tmp_path))
    first = measured_ceilings(processor())
    (kept,) = tmp_path.glob("machine/*/*/ceilings.json")
    kept.write_text(kept.read_text().replace(str(first.gb_s), "123.25"))
    assert measured_ceilings(processor()).gb_s == 123.25


def test_what_a_busy_machine_measured_is_measured_again_by_the_next_process_on_a_quieter_one(tmp_path, monkeypatch):
    monkeypatch.setenv("CUTEGEN_CACHE", str(tmp_path))
    monkeypatch.setattr(ceilings, "_LOOKED_AT", set())
    load, here = 20.0 * processor().threads, processor()
    monkeypatch.setattr("os.getloadavg", lambda: (load, load, load))
    measured_ceilings(here)
    (kept,) = tmp_path.glob("machine/*/*/ceilings.json")
    kept.write_text(f'{{"gb_s": 0.01, "gflop_s": 0.01, "load": {load}}}')
    load = 0.5
    assert measured_ceilings(here).gb_s == 0.01, "this process was told of it already"
    ceilings._LOOKED_AT.clear()
    quieter = measured_ceilings(here)
    assert quieter.gb_s > 0.5
    assert quieter.load == 0.5
    assert Ceilings(gb_s=1, gflop_s=1, load=20).held_down(10, 2)
    assert not Ceilings(gb_s=1, gflop_s=1, load=20).held_down(11, 2)
    assert not Ceilings(gb_s=1, gflop_s=1, load=2).held_down(0, 2)


def test_ceilings_of_a_busy_machine_are_raised_when_measured_again(tmp_path, monkeypatch, facts):
    monkeypatch.setenv("CUTEGEN_CACHE", str(tmp_path))
    measured_ceilings(processor())
    (kept,) = tmp_path.glob("machine/*/*/ceilings.json")
    kept.write_text('{"gb_s": 0.01, "gflop_s": 1e9}')
    assert CpuTarget().facts().peak_gb_s == 0.01
    raised = CpuTarget().facts(again=True)
    assert raised.peak_gb_s > 0.5
    assert raised.peak_gflop_s == 1e9
    assert CpuTarget().facts() == raised


def test_a_profile_names_the_nearer_roof_and_the_scalar_loops(facts):
    x = TensorSpec(name="x", shape=(1 << 24,), strides=(1,), dtype="float32")
    signature = Signature(inputs=(x,), outputs=(x.model_copy(update={"name": "y"}),))
    workload = Workload(name="main", signature=signature, flops=1 << 24, bytes_moved=1 << 27)
    milliseconds = 4 * (1 << 27) / facts.peak_gb_s * 1e-6
    timing = Timing(
        candidate_ms=milliseconds,
        baseline_ms=2 * milliseconds,
        speedup=2,
        speedup_interval=Interval(low=1.9, high=2.1),
        rounds=10,
        threads=facts.threads,
        converged=True,
    )
    remark = Diagnostic(severity="note", file="kernel", line=7, message="loop not vectorized: a call")
    build = Build(digest="0" * 32, remarks=(remark,), seconds=1)
    profile = CpuTarget().profile(workload, timing, build, tier="none")
    assert profile.bound == "memory" and profile.share_of_roof == pytest.approx(0.25)
    assert "up to 4.0x is left" in profile.findings[0]
    assert "Line 7: loop not vectorized: a call." in profile.findings


def test_the_cpu_target_compiles_the_emptiest_kernel():
    candidate = Candidate(source="void run() {}\n", target="cpu", author="test:test")
    assert CpuTarget().compile(candidate, tier=resolve_tier("auto")).succeeded
