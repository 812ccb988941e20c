"""torch.compile as the second baseline: in the same rounds, from inside the locked child, and said where it fails."""

import time
from pathlib import Path

import pytest

from harness.judging import evaluation as judge
from harness.judging.compile_baseline import compile_once, compile_order
from harness.nouns.verdict import Interval

HONEST = """
void run(TensorView x, TensorView y) {
  #pragma omp parallel for
  for (int64_t i = 0; i < x.numel(); ++i) out(y)[i] = in(x)[i] / (1 + std::fabs(in(x)[i]));
}
"""
NO_COMPILER = """
import torch._inductor.config

torch._inductor.config.cpp.cxx = ("/nonexistent/g++",)
"""


def compiled(bench, source):
    candidate, build = bench.build(HONEST)
    return bench.judge.evaluate(bench.task(source), candidate, build, seed=1, compile_baseline=True)


@pytest.fixture
def steps(monkeypatch):
    """What was compiled before the device's turn, and that the turn began after it."""
    told = []
    turn = judge.on_device

    def before(*asked):
        seconds = compile_once(*asked)
        told.append((seconds, libraries(asked[-1])))
        return seconds

    monkeypatch.setattr(judge, "compile_once", before)
    monkeypatch.setattr(judge, "on_device", lambda device, **how: told.append("turn") or turn(device, **how))
    return told


def libraries(task):
    return {file.name for file in Path(compile_order(task.digest).cache).rglob("*.so")}


def test_it_is_timed_in_the_same_rounds_and_compiled_before_them(bench, steps):
    source = bench.softsign + f"# {time.time_ns()}: in no cache"
    verdict = compiled(bench, source)
    (ahead_s, made), turn = steps
    assert turn == "turn"
    assert made
    assert libraries(bench.task(source)) == made, "nothing was compiled within the turn"
    assert verdict.seconds["compile_ahead"] == round(ahead_s, 4) > 0
    again = compile_once(bench.judge.target, bench.judge.tier, "ieee", bench.task(source))
    assert again == 0, "no second process is asked"
    assert verdict.status == "passed", verdict.message
    timing = verdict.timing
    assert timing.compiled_failure == ""
    baseline = timing.compiled
    assert isinstance(baseline.interval, Interval)
    assert baseline.interval.low <= baseline.speedup <= baseline.interval.high
    assert 0.2 < baseline.speedup / (baseline.ms / timing.candidate_ms) < 5
    assert verdict.seconds["compile"] > 0


def test_where_it_fails_eager_remains_and_the_reason_is_said(bench):
    timing = compiled(bench, NO_COMPILER + bench.softsign).timing
    assert timing.compiled is None
    assert "torch.compile failed" in timing.compiled_failure
    assert timing.baseline_ms > 0


def test_nobody_who_does_not_ask_waits_for_it(bench):
    verdict = bench.verdict(HONEST)
    assert verdict.timing.compiled is None
    assert verdict.timing.compiled_failure == ""
    assert "compile" not in verdict.seconds


def test_the_compilers_lie_where_the_child_may_read(bench, monkeypatch):
    """CC may name a compiler of another installation than CXX does; the child is shown only CXX's."""
    monkeypatch.setenv("CC", "/opt/elsewhere/bin/gcc")
    order = compile_order(bench.task(bench.softsign).digest)
    cxx = order.environment["CXX"].split()[0]
    assert Path(order.environment["CC"]).parent == Path(cxx).parent


def test_inductor_builds_nothing_to_learn_which_vectors_the_processor_has(bench):
    """The same compiler builds kernels with -march=native; a judging child builds nothing."""
    probed = "from torch._inductor.cpu_vec_isa import VecAVX2\nassert VecAVX2()\n"
    assert bench.task(NO_COMPILER + probed + bench.softsign).program


def test_a_task_that_compiles_by_itself_has_headers_of_its_own(bench):
    """The parent has imported Inductor, and may write where no child may."""
    source = bench.softsign.replace("return x /", "return twice(x) / 2 /") + "twice = torch.compile(lambda x: x * 2)\n"
    assert bench.verdict(HONEST, source).status == "passed"
