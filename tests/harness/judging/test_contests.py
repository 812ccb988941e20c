"""Contests by the real judge: what is verified in them, and kernels of very different speed."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import pytest
from brief_terms import MANY_BYTES, brief
from kernel_frame import HEAD, TAIL
from lenient_judge import Lenient
from own_turns import own_turns

from harness.judging import evaluation
from harness.judging.terms import Terms
from harness.nouns.candidate import Candidate
from harness.nouns.contest import Contest
from harness.nouns.device import DeviceName
from harness.targets.cpu import CpuTarget

SOFTSIGN = """
import torch

class Model(torch.nn.Module):
    def forward(self, x):
        return x / (1 + x.abs())

def get_inputs():
    return [torch.rand(37, 129)]
"""
LOOP = """
static int calls = 0;
static bool tried = false;

void run(TensorView x, TensorView y) {
  ++calls;
  BEFORE
  for (int64_t i = 0; i < x.numel(); ++i) {
    const float value = VALUE;
    out(y)[i] = value / (1 + std::fabs(value));
  }
}
"""
CARELESS = """
  if (calls <= LOOKS) for (int64_t i = 0; i < x.numel(); ++i) tried = tried || std::fabs(in(x)[i]) > 1000;
"""


def kernel(before: str = "", value: str = "in(x)[i]") -> Candidate:
    text = LOOP.replace("BEFORE", before).replace("VALUE", value)
    return Candidate(source=HEAD + text + TAIL, target="cpu", author="test")


RIGHT = kernel()
STATELESS = Candidate(source=re.sub(r"static (int|bool) .*;|\+\+calls;", "", RIGHT.source), target="cpu", author="test")


@pytest.fixture(scope="module")
def judge(bench) -> Lenient:
    return Lenient(CpuTarget(), brief(Terms(bench.tier), MANY_BYTES))


@pytest.fixture(scope="module")
def held(judge: Lenient) -> Callable[..., Contest]:
    task = judge.describe(SOFTSIGN, name="softsign")

    def contest(*candidates: Candidate) -> Contest:
        with own_turns():
            return judge.contest(task, candidates)

    return contest


def test_a_kernel_that_is_much_slower_is_not_taken_for_a_wrong_one(held: Callable[..., Contest]) -> None:
    """It is called once a burst: what it left in slots whose inputs have changed since is nobody's result."""
    slow = kernel("for (volatile int at = 0; at < 40000000; at = at + 1) {}")
    found = held(slow, RIGHT)
    assert found.failed == "", found.message
    first, last = (each.timing for each in found.standings)
    assert first.candidate_ms > 4 * last.candidate_ms
    assert first.head_to_head is not None
    assert first.head_to_head.outcome == "not faster"


def test_verdicts_share_the_device_for_their_trials_and_have_it_alone_for_their_timing(
    judge: Lenient, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both are on the device at once; neither is timed while the other is there."""
    together, timed, beside = threading.Barrier(2), list[str](), list[int]()
    there = evaluation.on_device

    @contextmanager
    def watched(device: DeviceName, *, shared: bool) -> Iterator[Callable[[], None]]:
        with there(device, shared=shared) as alone:
            together.wait(60)

            def begin() -> None:
                alone()
                timed.append("begun")
                beside.append(timed.count("begun") - timed.count("over"))

            yield begin
            timed.append("over")

    monkeypatch.setattr(evaluation, "on_device", watched)
    task = judge.describe(SOFTSIGN, name="softsign")
    build = judge.build(task, STATELESS)
    with own_turns(), ThreadPoolExecutor(2) as threads:
        verdicts = [*threads.map(lambda seed: judge.evaluate(task, STATELESS, build, seed=seed), (1, 2))]
    assert [verdict.status for verdict in verdicts] == ["passed", "passed"], verdicts[0].message
    assert all(verdict.timing for verdict in verdicts)
    assert beside == [1, 1]


@pytest.mark.sampled(3)
@pytest.mark.parametrize(("place", "looks"), [(0, 1), (1, 64)])
def test_who_is_careful_only_where_trials_came_first_is_lost(
    judge: Lenient, held: Callable[..., Contest], place: int, looks: int
) -> None:
    """No trial of an earlier kernel precedes the rounds; some of each one's lie amid them.

    Its first call sets its pace. The next ones can be a trial already: who looked at those, too, might be right.
    """
    before = CARELESS.replace("LOOKS", str(looks))
    careless = kernel(before, "tried ? in(x)[i] : std::fmin(std::fmax(in(x)[i], -1000.0f), 1000.0f)")
    if place == 0:
        found = held(careless, RIGHT)
        assert (found.failed, found.standings) == (careless.digest, ())
        assert "Called between timed calls" in found.message
    else:
        assert held(RIGHT, careless).failed == "", "it was tried, and is right then"
