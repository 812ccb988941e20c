"""What each move of a run's best kernel was worth: when it was made, and taken back by itself at the end."""

from __future__ import annotations

from graph.runs.record import RunRecord
from harness.nouns.frozen import Frozen
from harness.nouns.verdict import HeadToHead
from nodes.state import Step


class Worth(Frozen):
    """One accepted move. `then` is the kernel that it made against the one before, `now` the best kernel against itself
    without the move; each empty where nothing was measured. `why` says so."""

    move: str
    then: str
    now: str
    why: str = ""


def worths(record: RunRecord) -> list[Worth]:
    """One for each move that was taken back, or should have been, the oldest first."""
    best = record.best.candidate.digest if record.best else ""
    tests = {step.candidate: step for step in record.steps if step.agent == "tester"}
    taken = [step for step in record.steps if step.agent == "ablator" and step.candidate == best]
    return [_worth(step, tests.get(step.parent)) for step in taken]


def _worth(step: Step, test: Step | None) -> Worth:
    made = test.head_to_head if test else None
    return Worth(
        move=step.move,
        then=_factor(made.speedup, made.interval.low, made.interval.high) if made else "",
        now=_against(step.head_to_head) if step.head_to_head else "",
        why=step.message or ("" if step.head_to_head else "They did not meet in the same rounds."),
    )


def _against(met: HeadToHead) -> str:
    """The whole against what is left without the move: the head-to-head was the other way round."""
    return _factor(1 / met.speedup, 1 / met.interval.high, 1 / met.interval.low)


def _factor(speedup: float, low: float, high: float) -> str:
    return f"{speedup:.2f}x ({low:.2f} to {high:.2f})"
