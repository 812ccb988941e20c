"""The judge with its screen: what is refused is neither built nor run, and its verdict says why."""

import pytest
from kernel_frame import HEAD, TAIL

from harness.judging.local import LocalJudge
from harness.nouns.candidate import Candidate
from harness.targets.cpu import CpuTarget

RIGHT = """
void run(TensorView x, TensorView y) {
  for (int64_t i = 0; i < x.numel(); ++i) out(y)[i] = in(x)[i] / (1 + std::fabs(in(x)[i]));
}
"""


def kernel(text):
    return Candidate(source=f"{HEAD}{text}{TAIL}", target="cpu", author="test")


@pytest.fixture(scope="module")
def judge(bench):
    return LocalJudge(CpuTarget(), bench.judge.terms)


def test_a_refused_source_is_neither_built_nor_run(bench, judge, monkeypatch):
    monkeypatch.delattr(CpuTarget, "compile")
    task = bench.task(bench.softsign)
    line = HEAD.count("\n") + 2
    verdict = judge.evaluate(task, kernel(f"\nvoid early() {{ std::system(nullptr); }}{RIGHT}"))
    assert (verdict.status, verdict.check) == ("refused", "screen:process")
    assert verdict.message.startswith(f"kernel:{line}: system: ")
    assert (verdict.build, verdict.correctness, verdict.timing) == (None, None, None)


def test_a_refused_source_stays_refused_with_a_build_at_hand(bench, judge):
    candidate, build = bench.build(f"{RIGHT}\n#define GLUE(a, b) a##b")
    verdict = judge.evaluate(bench.task(bench.softsign), candidate, build, seed=1)
    assert (verdict.status, verdict.check, verdict.build) == ("refused", "screen:paste", build)


def test_what_the_source_hides_the_library_shows(bench, judge):
    hidden = "#include <random>\nstatic std::random_device* harmless() { return new std::random_device; }"
    candidate = kernel(hidden + RIGHT.replace("{\n", "{\n  if (x.numel() < 0) harmless();\n", 1))
    task = bench.task(bench.softsign)
    assert judge.screen(task, candidate) is None
    verdict = judge.evaluate(task, candidate, seed=1)
    assert (verdict.status, verdict.check) == ("refused", "screen:import")
    assert "random_device" in verdict.message
    assert verdict.build is not None


def test_half_precision_is_for_tasks_that_have_it(bench, judge):
    candidate = kernel(f"using narrow = cutlass::half_t;{RIGHT}")
    refusal = judge.screen(bench.task(bench.softsign), candidate)
    assert refusal is not None
    assert refusal.kind == "precision"
    narrow = bench.task(bench.softsign.replace("(37, 129)", "(37, 129, dtype=torch.float16)"))
    assert judge.screen(narrow, candidate) is None
