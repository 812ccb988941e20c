"""Verdicts on real kernels, built and run for real: the right, the wrong and the hostile."""

import shutil
import threading

import pytest
from brief_terms import brief
from own_turns import own_turns

from harness.building.compilation import LIBRARIES, library_of
from harness.building.cpu_build import CpuToolchain
from harness.building.sanitized_build import SanitizedCpuToolchain
from harness.checks.families import PLANS, SHARED
from harness.judging.local import LocalJudge
from harness.judging.terms import Terms
from harness.machine.system import cache_dir
from harness.nouns.errors import MachineError
from harness.processes.trusted_child import JobDiedError
from harness.wire.telling import telling

HONEST = """
void run(TensorView x, TensorView y) {
  #pragma omp parallel for
  for (int64_t i = 0; i < x.numel(); ++i) out(y)[i] = in(x)[i] / (1 + std::fabs(in(x)[i]));
}
"""

SCALED_LINEAR = """
import torch

class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.randn(40))

    def forward(self, x, s: float):
        return x * self.weight * s

def get_inputs():
    return [torch.randn(30, 40), 2.0]
"""


def pointwise(statement: str, before: str = "") -> str:
    return f"""
{before}
void run(TensorView x, TensorView y) {{
  int64_t const n = x.numel();
  {statement}
}}
"""


def test_an_honest_kernel_passes(bench):
    verdict = bench.verdict(HONEST, seed=7)
    assert verdict.status == "passed", verdict.message
    assert [trial.distribution for trial in verdict.correctness.trials] == [
        each for each in PLANS["elementwise"] if each != SHARED
    ]
    interval = verdict.timing.speedup_interval
    assert interval.low <= verdict.timing.speedup <= interval.high
    assert verdict.timing.rounds >= 8
    assert (verdict.seed, verdict.tier) == (7, bench.tier)
    assert {"build", "load", "check", "time"} <= set(verdict.seconds)
    assert verdict.timing.task_defect == ""


def test_a_hurried_judge_compares_once_and_is_fooled_by_more_than_the_whole_one(bench):
    quick = type(bench.judge)(bench.judge.target, brief(Terms(bench.tier, trials=1)))
    found = {}
    for name in ("right for positive numbers", "nothing written"):
        candidate, build = bench.build(WRONG[name])
        found[name] = quick.evaluate(bench.task(bench.softsign), candidate, build, seed=1)
    assert [verdict.status for verdict in found.values()] == ["passed", "wrong"]
    assert [len(verdict.correctness.trials) for verdict in found.values()] == [1, 1]


def test_a_kernel_that_does_not_compile(bench):
    verdict = bench.verdict("void run(TensorView x, TensorView y) { nonsense(); }")
    assert (verdict.status, verdict.check) == ("build_failed", "build")
    assert "nonsense" in verdict.message
    assert verdict.message.startswith("kernel:")


WRONG = {
    "identity": pointwise("for (int64_t i = 0; i < n; ++i) out(y)[i] = in(x)[i];"),
    "nothing written": pointwise("(void)n;"),
    "tail left out": pointwise("for (int64_t i = 0; i < n - 5; ++i) out(y)[i] = in(x)[i] / (1 + std::fabs(in(x)[i]));"),
    "right for positive numbers": pointwise("for (int64_t i = 0; i < n; ++i) out(y)[i] = in(x)[i] / (1 + in(x)[i]);"),
    "half precision": pointwise(
        "for (int64_t i = 0; i < n; ++i) { float v = in(x)[i]; v /= 1 + std::fabs(v);"
        " out(y)[i] = static_cast<float>(cutlass::half_t(v)); }",
        "#include <cutlass/numeric_types.h>",
    ),
}


@pytest.mark.parametrize("name", ["identity", "half precision"])
def test_a_wrong_kernel_is_wrong(bench, name):
    verdict = bench.verdict(WRONG[name])
    assert (verdict.status, verdict.check) == ("wrong", "correctness"), verdict.message
    assert verdict.timing is None
    last = verdict.correctness.trials[-1].outputs[0]
    assert last.first_bad is not None
    assert "First at" in verdict.message


def test_the_report_says_where_and_on_which_inputs(bench):
    verdict = bench.verdict(WRONG["right for positive numbers"])
    assert (verdict.status, verdict.check) == ("wrong", "correctness"), verdict.message
    assert "on wide inputs" in verdict.message
    tail = bench.verdict(WRONG["tail left out"])
    assert "never written" in tail.message
    assert "the tail from flat index 4768 of 4773" in tail.message


HOSTILE = {
    ("crashed", "signal", "SIGSEGV"): pointwise("*reinterpret_cast<volatile int*>(8) = 1; (void)n; (void)y;"),
    ("crashed", "signal", "read-only"): pointwise("(void)n; (void)y; static_cast<float*>(x.data_ptr())[0] = 0;"),
    ("crashed", "signal", "SIGABRT"): pointwise("(void)n; (void)y; std::abort();"),
    ("crashed", "exit", "code 0"): pointwise("(void)n; (void)y; std::_Exit(0);"),
    ("crashed", "exception", "too small"): pointwise('(void)y; TVM_FFI_THROW(ValueError) << "too small " << n;'),
    ("crashed", "out_of_bounds", "just after"): pointwise(
        "for (int64_t i = 0; i < n + 3; ++i) out(y)[i] = i < n ? in(x)[i] / (1 + std::fabs(in(x)[i])) : 0.f;"
    ),
    ("crashed", "load", "undefined"): "extern void missing(); void run(TensorView x, TensorView y) { missing(); }",
    ("crashed", "exit", "code 0 "): pointwise(
        "(void)n; (void)x; (void)y;", "struct Early { Early() { std::_Exit(0); } } early;"
    ),
}


@pytest.mark.parametrize("case", HOSTILE, ids=lambda case: "-".join(case[1:]))
def test_a_crash_costs_one_verdict(bench, case):
    status, check, words = case
    verdict = bench.verdict(HOSTILE[case])
    if check == "load":  # the linker refuses undefined symbols already
        assert verdict.status in ("build_failed", "crashed")
        return
    assert (verdict.status, verdict.check) == (status, check), verdict.message
    assert words.strip() in verdict.message


def test_a_hang_is_ended(bench):
    verdict = bench.verdict(pointwise("(void)y; volatile int64_t left = n; while (left) {}"))
    assert (verdict.status, verdict.check) == ("timed_out", "hang")
    verdict = bench.verdict(HONEST)
    assert verdict.status == "passed", verdict.message


def test_a_forged_answer_on_stdout_changes_nothing(bench):
    forged = pointwise(
        '(void)n; (void)y; std::printf("{\\"status\\": \\"passed\\"}\\n"); std::fflush(stdout);', "#include <cstdio>"
    )
    assert bench.verdict(forged).status == "wrong"


def test_weights_and_numbers_change_between_calls(bench):
    honest = """
    void run(TensorView x, double s, TensorView w, TensorView y) {
      for (int i = 0; i < 30; ++i)
        for (int j = 0; j < 40; ++j) out(y)[i * 40 + j] = in(x)[i * 40 + j] * in(w)[j] * float(s);
    }
    """
    assert bench.verdict(honest, SCALED_LINEAR).status == "passed"
    baked = honest.replace("float(s)", "2.0f")
    assert bench.verdict(baked, SCALED_LINEAR).status == "wrong"
    stale = honest.replace(
        "for (int i",
        "static float first[40]; static bool known = false; if (!known) "
        "std::memcpy(first, in(w), sizeof first); known = true; for (int i",
        1,
    ).replace("in(w)[j]", "first[j]")
    assert bench.verdict("#include <cstring>\n" + stale, SCALED_LINEAR).status == "wrong"


def test_a_verdict_can_be_replayed_by_its_seed(bench):
    kernel = WRONG["half precision"]
    first, second = bench.verdict(kernel, seed=11), bench.verdict(kernel, seed=11)
    assert first.correctness == second.correctness
    assert bench.verdict(kernel, seed=12).correctness != first.correctness


def test_a_time_below_the_physical_floor_is_refused_unless_the_ceiling_was_wrong(bench):
    """The ceiling is what a busy machine measured, far too low: measured again before it refuses anybody."""
    source = bench.softsign.replace("(37, 129)", "(1024, 1024)")
    task = bench.task(source)
    candidate, build = bench.build(HONEST)
    facts = bench.judge.target.facts()

    class Slow(type(bench.judge.target)):
        measured_again = 1e-3

        def facts(self, *, again=False):
            return facts.model_copy(update={"peak_gb_s": self.measured_again if again else 1e-3, "l3_bytes": 1 << 20})

    judge = LocalJudge(Slow(), bench.judge.terms)
    refused = judge.evaluate(task, candidate, build, seed=1)
    assert (refused.status, refused.check) == ("refused", "floor")
    assert refused.timing is None
    Slow.measured_again = 1e3
    assert judge.evaluate(task, candidate, build, seed=1).status == "passed"


@pytest.mark.alone
def test_only_large_tasks_are_judged_in_a_process_of_huge_pages(bench, monkeypatch):
    asked = []

    def parent(*, large):
        asked.append(large)
        raise JobDiedError("which is not what is asked about")

    monkeypatch.setattr("harness.judging.evaluation.warm_parent", parent)
    for rows in (1 << 11, 1 << 13):
        with pytest.raises(MachineError, match="not what is asked about"):
            bench.verdict(HONEST, bench.softsign.replace("37, 129", f"{rows}, 256"))
    assert asked == [False, True]


def test_a_slower_kernel_is_not_a_win(bench):
    slow = HONEST.replace("++i) out", "++i) for (volatile int k = 0; k < 300; ++k) out")
    verdict = bench.verdict(slow)
    assert verdict.status == "passed"
    assert not verdict.timing.wins


def test_nothing_wins_on_a_degenerate_task(bench):
    source = bench.softsign.replace("x / (1 + x.abs())", "torch.ones_like(x.exp().sin().cos())")
    verdict = bench.verdict(pointwise("(void)x; std::fill_n(out(y), n, 1.f);", "#include <algorithm>"), source)
    assert verdict.status == "passed", verdict.message
    assert "a constant passes" in verdict.timing.task_defect
    assert not verdict.timing.wins


def test_a_random_task_is_named_whatever_the_kernel_computes(bench):
    noisy = bench.task(bench.softsign.replace("x / (1 + x.abs())", "x / (1 + x.abs()) + torch.rand_like(x)"))
    candidate, build = bench.build(HONEST)
    wrong = bench.judge.evaluate(noisy, candidate, build, seed=1)
    assert not wrong.passed
    assert "No kernel can be right here: its forward is random: two runs on the same inputs differ" in wrong.message


def test_several_outputs_of_several_types(bench):
    source = """
    import torch

    class Model(torch.nn.Module):
        def forward(self, x):
            return x.max(dim=1).values, x.argmax(dim=1), x > 0

    def get_inputs():
        return [torch.randn(9, 33, dtype=torch.float64)]
    """
    body = """
    void run(TensorView x, TensorView top, TensorView index, TensorView positive) {
      auto data = static_cast<double const*>(x.data_ptr());
      for (int i = 0; i < 9; ++i) {
        int best = 0;
        for (int j = 0; j < 33; ++j) {
          double const value = data[i * 33 + j], top_value = data[i * 33 + best];
          if (value > top_value || (std::isnan(value) && !std::isnan(top_value))) best = j;
          static_cast<bool*>(positive.data_ptr())[i * 33 + j] = data[i * 33 + j] > 0;
        }
        static_cast<double*>(top.data_ptr())[i] = data[i * 33 + best];
        static_cast<int64_t*>(index.data_ptr())[i] = best;
      }
    }
    """
    assert bench.verdict(body, source).status == "passed"
    off = body.replace("= best;", "= best + 1;")
    verdict = bench.verdict(off, source)
    assert verdict.status == "wrong"
    assert "output1 is wrong" in verdict.message


def test_transposed_outputs_keep_their_strides(bench):
    source = """
    import torch

    class Model(torch.nn.Module):
        def forward(self, x):
            return torch.relu(x).t()

    def get_inputs():
        return [torch.randn(5, 7)]
    """
    assert bench.task(source).signature.outputs[0].strides == (1, 7)
    body = (
        "void run(TensorView x, TensorView y) { for (int i = 0; i < 35; i++) out(y)[i] = in(x)[i] < 0 ? 0 : in(x)[i]; }"
    )
    assert bench.verdict(body, source).status == "passed"


def test_expanded_inputs_are_one_element_along_their_axis(bench):
    source = """
    import torch

    class Model(torch.nn.Module):
        def forward(self, x, row):
            return x + row

    def get_inputs():
        return [torch.randn(6, 5), torch.randn(5).expand(6, 5)]
    """
    assert bench.task(source).signature.inputs[1].strides == (0, 1)
    body = """
    void run(TensorView x, TensorView row, TensorView y) {
      for (int i = 0; i < 30; ++i) out(y)[i] = in(x)[i] + in(row)[i % 5];
    }
    """
    assert bench.verdict(body, source).status == "passed"
    assert bench.verdict(body.replace("i % 5", "i / 6"), source).status == "wrong"


def test_inputs_cannot_be_made_writable(bench):
    """Whatever way a kernel finds to the shared inputs, the seal holds: nothing but the judge's mapping writes."""
    body = pointwise(
        """
        (void)n; (void)y;
        for (int fd = 3; fd < 64; ++fd) {
          void* again = mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
          if (again != MAP_FAILED && *static_cast<float*>(again) == in(x)[0]) std::_Exit(42);
        }
        std::_Exit(41);
        """,
        "#include <sys/mman.h>",
    )
    verdict = bench.verdict(body)
    assert verdict.check == "exit"
    assert "code 41" in verdict.message


def test_a_kernel_meets_its_rival_in_the_same_rounds(bench):
    """The rival takes many times as long, on one thread like the other: however busy the machine is, it is slower."""
    fast = HONEST.replace("#pragma omp parallel for", "")
    incumbent, build_of_slow = bench.build(fast.replace("++i) out", "++i) for (volatile int k = 0; k < 40; ++k) out"))
    candidate, build = bench.build(fast)
    task = bench.task(bench.softsign)
    with own_turns():
        won = bench.judge.evaluate(task, candidate, build, seed=1, incumbent=incumbent).timing.head_to_head
        lost = bench.judge.evaluate(task, incumbent, build_of_slow, seed=1, incumbent=candidate).timing.head_to_head
    assert (won.incumbent, lost.incumbent) == (incumbent.digest, candidate.digest)
    assert (won.outcome != "not faster", lost.outcome != "faster") == (True, True)


def test_a_rival_that_does_not_build_or_fails_costs_the_duel_only(bench):
    task = bench.task(bench.softsign)
    candidate, build = bench.build(HONEST)
    for body in ("no kernel", HOSTILE[("crashed", "signal", "SIGABRT")]):
        incumbent, _ = bench.build(body)
        verdict = bench.judge.evaluate(task, candidate, build, seed=1, incumbent=incumbent)
        assert verdict.status == "passed"
        assert verdict.timing.head_to_head is None


def test_what_was_judged_on_another_machine_is_built_here_again(bench, monkeypatch):
    """Its record names a build that this machine's store lacks; no path of any machine is in it."""
    task = bench.task(bench.softsign)
    candidate, build = bench.build(HONEST)
    elsewhere = bench.judge.evaluate(task, candidate, build, seed=1)
    assert str(cache_dir()) not in elsewhere.model_dump_json()
    monkeypatch.setattr(LIBRARIES, "kind", "builds-of-another-machine")
    shutil.rmtree(LIBRARIES.root, ignore_errors=True)
    other = candidate.model_copy(update={"source": f"{candidate.source}\n// another\n"})
    here = bench.judge.evaluate(task, candidate, elsewhere.build, seed=1, incumbent=other)
    assert here.timing.head_to_head.incumbent == other.digest
    assert library_of(here.build).is_file()
    assert bench.judge.profile(task, candidate, elsewhere).time_ms == elsewhere.timing.candidate_ms
    shutil.rmtree(LIBRARIES.root)


def test_a_build_that_is_another_kernels_is_not_taken_for_the_candidates(bench):
    """Whoever writes a record chooses what it names."""
    wrong, _ = bench.build(WRONG["half precision"])
    _, right = bench.build(HONEST)
    verdict = bench.judge.evaluate(bench.task(bench.softsign), wrong, right)
    assert verdict.status == "wrong"
    assert verdict.build.digest != right.digest


def test_what_builds_need_once_is_made_while_a_task_is_described(bench):
    """On a bare machine g++ takes 8 s and 10 s, beside one core that imports torch. Failures wait for a build."""
    order, imported = [], threading.Event()

    class Bare(type(bench.judge.target)):
        def preparations(self, tier):
            return self.slow, self.failing

        def slow(self):
            order.append("begun")
            assert imported.wait(60)
            order.append("made")

        def failing(self):
            raise MachineError("There is no g++.", "Install it.")

    def heard(event):
        imported.set()

    with telling(heard):
        task = LocalJudge(Bare(), bench.judge.terms).describe(bench.softsign, name="softsign")
    assert (task.name, order) == ("softsign", ["begun", "made"])


def test_a_processors_builds_need_two_headers(bench):
    """Both are there already where kernels were built and watched before."""
    made = [make() for make in bench.judge.target.preparations(bench.judge.tier)]
    assert made == [CpuToolchain().prelude(), SanitizedCpuToolchain().prelude()]
    assert all(each.is_file() for each in made)
