"""The exported drop-in by its caller's clock: what is measured, and which speed-up counts."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from types import SimpleNamespace

import pytest
from report_records import passed

from graph.export.drop_in import drop_in_files
from harness.judging.outcome import as_called
from harness.judging.protocol import JudgeOrder
from harness.nouns.candidate import Candidate
from harness.nouns.verdict import AsCalled, CallerTiming, Interval, Timing
from harness.trusted.timing import as_called as timing_as_called
from harness.trusted.timing.as_called import GRAPHED_CALLS, MIN_ROUNDS, _timed_by_turns, graphed
from tools.judges import open_judge
from tools.wording import say_headline, say_other_clocks

SOFTSIGN = """import torch

class Model(torch.nn.Module):
    def forward(self, x):
        return x / (1 + x.abs())

def get_inputs():
    return [torch.randn(64, 33)]
"""
KERNEL = """
void run(tvm::ffi::TensorView x, tvm::ffi::TensorView y) {
  auto in = static_cast<float const*>(x.data_ptr());
  auto out = static_cast<float*>(y.data_ptr());
%s  for (int64_t i = 0; i < x.numel(); ++i) out[i] = in[i] / (1 + std::abs(in[i]));
}
TVM_FFI_DLL_EXPORT_TYPED_FUNC(run, run);
"""


def called(speedup: float) -> AsCalled:
    interval = Interval(low=speedup * 0.9, high=speedup * 1.1)
    return AsCalled(ms=2.0, baseline_ms=2 * speedup, speedup=speedup, interval=interval)


def judged(speedup: float, caller: CallerTiming | None) -> Timing:
    timing = passed(Candidate(source="", target="cpu", author="a:b"), speedup).timing
    assert timing is not None
    return timing.model_copy(update={"caller": caller})


@pytest.mark.parametrize(
    ("back_to_back", "synchronized", "clock", "counts"),
    [
        (1.96, None, "judge", 2.0),
        (1.96, 1.91, "judge", 2.0),
        (2.5, 3.0, "judge", 2.0),
        (1.8, None, "back to back", 1.8),
        (1.8, 1.99, "back to back", 1.8),
        (1.8, 1.05, "synchronized", 1.05),
    ],
)
def test_the_callers_worst_counts_where_it_is_smaller_by_more_than_5_percent(
    back_to_back: float, synchronized: float | None, clock: str, counts: float
) -> None:
    waited = called(synchronized) if synchronized else None
    timing = judged(2.0, CallerTiming(back_to_back=called(back_to_back), synchronized=waited, rounds=9))
    assert (timing.headline.clock, timing.headline.speedup) == (clock, counts)
    assert timing.wins is (counts * 0.9 > 1)
    assert say_headline(timing).endswith(f", {timing.headline.whose}.")
    others = [each.clock for each in timing.other_clocks]
    every = ["judge", "back to back", *(["synchronized"] if synchronized else [])]
    assert others == [each for each in every if each != clock], "a row each, none twice"
    assert len(say_other_clocks(timing)) == len(others)
    assert judged(2.0, None).headline.clock == "judge"


@pytest.mark.parametrize(
    ("speedup", "spread", "clock", "wins"),
    [
        (1.97, 0.1, "back to back", True),
        (2.1, 0.1, "judge", True),
        (0.9, 0.05, "back to back", False),
        (2.1, 0.6, "judge", False),
    ],
)
def test_a_short_task_wins_by_the_callers_clock_or_not_at_all(
    speedup: float, spread: float, clock: str, wins: bool
) -> None:
    interval = Interval(low=speedup * (1 - spread), high=speedup * (1 + spread))
    met = called(speedup).model_copy(update={"interval": interval})
    long = judged(2.0, CallerTiming(back_to_back=met, synchronized=None, rounds=9))
    short = long.model_copy(update={"baseline_ms": 0.09, "candidate_ms": 0.045})
    assert (short.headline.clock, short.wins) == (clock, wins)
    assert long.wins is (speedup > 1)


def test_several_workloads_are_their_geometric_mean() -> None:
    one, other = (CallerTiming(back_to_back=called(s), synchronized=called(s), rounds=8) for s in (1.0, 4.0))
    both = as_called([one, other])
    assert both.back_to_back.speedup == pytest.approx(2.0)
    assert both.synchronized is not None
    assert as_called([one, other.model_copy(update={"synchronized": None})]).synchronized is None


def test_sides_take_turns_and_are_waited_for_as_a_caller_would(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[str] = []
    now = 0.0
    monkeypatch.setattr(timing_as_called, "time", SimpleNamespace(perf_counter=lambda: now))

    def side(name: str, seconds: float) -> None:
        nonlocal now
        seen.append(name)
        now += seconds

    sides = (lambda: side("eager", 0.004), lambda: side("drop-in", 0.002))
    told = _timed_by_turns(sides, lambda: seen.append("|"), 0.0, queues=True)
    assert told["rounds"] == MIN_ROUNDS
    for way in ("back_to_back", "synchronized"):
        assert (told[way]["ms"], told[way]["baseline_ms"]) == (pytest.approx(2.0), pytest.approx(4.0))
    assert _timed_by_turns(sides, lambda: None, 0.0, queues=False)["synchronized"] is None
    turns = [one for one, other in pairwise(seen) if one != "|" and other == "|"]
    assert turns.count("eager") > 2 * MIN_ROUNDS, "each is waited for in half of the bursts"


@pytest.mark.usefixtures("brief")
def test_a_real_drop_in_is_timed_and_one_that_fails_says_why() -> None:
    judge = open_judge(JudgeOrder("cpu"))
    task = judge.describe(SOFTSIGN, name="softsign")
    for spoilt, words in (
        ("", ""),
        ('  if (in[0] == in[0]) TVM_FFI_THROW(ValueError) << "not today";\n', "not today"),
        ("  static int calls = 0; if (++calls > 9) { out[7] = 3; return; }\n", "not the reference's while it is timed"),
    ):
        kernel = Candidate(source=KERNEL % spoilt, target="cpu", author="a:b")
        verdict = judge.as_called(task, kernel, passed(kernel, 2.0), drop_in_files(task, kernel))
        assert verdict.timing is not None
        assert (verdict.timing.caller is None) is bool(words)
        assert words in verdict.timing.caller_failure


@pytest.mark.usefixtures("brief")
def test_a_drop_in_with_drawn_weights_has_the_references_while_it_is_timed() -> None:
    scaled = SOFTSIGN.replace(
        "    def forward", "    def __init__(self):\n        super().__init__()\n"
        "        self.scale = torch.nn.Parameter(torch.randn(33) + 2)\n\n    def forward",
    ).replace("x / (1 + x.abs())", "x * self.scale")  # fmt: skip
    times = KERNEL.replace("x, tvm::ffi::TensorView y", "x, tvm::ffi::TensorView scale, tvm::ffi::TensorView y")
    times = times.replace("in[i] / (1 + std::abs(in[i]))", "in[i] * static_cast<float*>(scale.data_ptr())[i %% 33]")
    judge, kernel = open_judge(JudgeOrder("cpu")), Candidate(source=times % "", target="cpu", author="a:b")
    task = judge.describe(scaled, name="scaled")
    verdict = judge.as_called(task, kernel, passed(kernel, 2.0), drop_in_files(task, kernel))
    assert verdict.timing is not None
    assert (verdict.timing.caller is not None, verdict.timing.caller_failure) == (True, "")


def test_short_calls_are_also_timed_without_their_launches() -> None:
    """A graph of each side, replayed by turns; one that cannot be captured is told, and costs nothing else."""
    told: list[str] = []

    def captured(side: Callable[[], object]) -> Callable[[], object]:
        return lambda: [side() for _ in range(GRAPHED_CALLS)]

    sides = (lambda: told.append("eager"), lambda: told.append("drop-in"))
    found = graphed(sides, lambda: None, captured)
    assert found["ungraphed"] == "" and AsCalled.model_validate(found["graphed"]).speedup > 0
    runs = [told[at] for at in range(0, len(told), GRAPHED_CALLS)]
    assert runs.count("eager") == runs.count("drop-in") > MIN_ROUNDS, "as often"

    def refused(side: Callable[[], object]) -> Callable[[], object]:
        raise RuntimeError("operation not permitted\nwhen stream is capturing")

    failed = graphed(sides, lambda: None, refused)
    assert failed == {"graphed": None, "ungraphed": "operation not permitted when stream is capturing"}


def test_a_graphs_times_are_told_and_decide_nothing() -> None:
    caller = CallerTiming(back_to_back=called(1.9), synchronized=called(1.8), graphed=called(0.5), rounds=8)
    timing = judged(2.0, caller).model_copy(update={"baseline_ms": 0.019})
    assert timing.headline.speedup == 1.8 and timing.launch_bound
    graph = say_other_clocks(timing)[-1]
    assert graph.startswith("In a CUDA graph, without its launches: 0.50x over eager")
    assert "2 ms against 1 ms" in graph
    both = as_called([caller, caller.model_copy(update={"graphed": called(2.0)})])
    assert both.graphed is not None and both.graphed.speedup == pytest.approx(1.0)
    failed = caller.model_copy(update={"graphed": None, "ungraphed": "It waits."})
    assert as_called([caller, failed]).graphed is None
    assert (
        "could not be timed in a CUDA graph: It waits."
        in say_other_clocks(judged(2.0, as_called([caller, failed])))[-1]
    )
