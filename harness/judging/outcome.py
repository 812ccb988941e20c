"""From what the judging child said of each workload to one verdict."""

from __future__ import annotations

import math
import secrets
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from harness.judging.terms import Terms
from harness.nouns.build import Build
from harness.nouns.candidate import Candidate
from harness.nouns.refusal import Refusal
from harness.nouns.task import Task
from harness.nouns.verdict import (
    AsCalled,
    CallerTiming,
    Compiled,
    Correctness,
    HeadToHead,
    Interval,
    Timing,
    Untried,
    Verdict,
    WorkloadResult,
)
from harness.screen.directives import features_asked
from harness.wire.job import JudgeAnswer

# -- One timing for several workloads ---------------------------------------------------------------------------------


def combined(timings: Sequence[Timing]) -> Timing:
    """The only timing itself, or the geometric mean of several.

    Times and speed-ups are geometric means. The interval takes the workloads' own as independent: in logarithms its
    half widths are the root of the sum of their squares, divided by their number. A head-to-head and a
    compiled baseline stand where all have one. Of the clocks those are kept that moved, and of busy hours the first.
    Rounds stay with each workload.
    """
    if len(timings) == 1:
        return timings[0]
    head_to_heads = [timing.head_to_head for timing in timings if timing.head_to_head is not None]
    compiled = [timing.compiled for timing in timings if timing.compiled is not None]
    return timings[0].model_copy(
        update={
            "candidate_ms": _mean([timing.candidate_ms for timing in timings]),
            "baseline_ms": _mean([timing.baseline_ms for timing in timings]),
            "speedup": _mean([timing.speedup for timing in timings]),
            "speedup_interval": _interval([(timing.speedup, timing.speedup_interval) for timing in timings]),
            "rounds": min(timing.rounds for timing in timings),
            "converged": all(timing.converged for timing in timings),
            "head_to_head": _head_to_head(head_to_heads) if len(head_to_heads) == len(timings) else None,
            "compiled": _compiled(compiled) if len(compiled) == len(timings) else None,
            "compiled_failure": next((timing.compiled_failure for timing in timings if timing.compiled_failure), ""),
            "clocks": next(
                (timing.clocks for timing in timings if timing.clocks and not timing.clocks.steady), timings[0].clocks
            ),
            "busy": next((timing.busy for timing in timings if timing.busy and timing.busy.said), timings[0].busy),
            "samples": None,
            "hopeless": next((timing.hopeless for timing in timings if timing.hopeless), ""),
            "influence": next((each.influence for each in timings if each.influence_said), timings[0].influence),
            "task_defect": next((timing.task_defect for timing in timings if timing.task_defect), ""),
        }
    )


def as_called(parts: Sequence[CallerTiming]) -> CallerTiming:
    """The only one, or the geometric mean of several workloads', with intervals as `combined` has them."""
    if len(parts) == 1:
        return parts[0]
    waited = [part.synchronized for part in parts if part.synchronized is not None]
    graphed = [part.graphed for part in parts if part.graphed is not None]
    return CallerTiming(
        back_to_back=_called([part.back_to_back for part in parts]),
        synchronized=_called(waited) if len(waited) == len(parts) else None,
        graphed=_called(graphed) if len(graphed) == len(parts) else None,
        ungraphed=next((part.ungraphed for part in parts if part.ungraphed), ""),
        rounds=min(part.rounds for part in parts),
    )


def _called(parts: list[AsCalled]) -> AsCalled:
    return AsCalled(
        ms=_mean([part.ms for part in parts]),
        baseline_ms=_mean([part.baseline_ms for part in parts]),
        speedup=_mean([part.speedup for part in parts]),
        interval=_interval([(part.speedup, part.interval) for part in parts]),
    )


def _head_to_head(head_to_heads: list[HeadToHead]) -> HeadToHead:
    measures = {head_to_head.measure for head_to_head in head_to_heads}
    return head_to_heads[0].model_copy(
        update={
            "incumbent_ms": _mean([head_to_head.incumbent_ms for head_to_head in head_to_heads]),
            "speedup": _mean([head_to_head.speedup for head_to_head in head_to_heads]),
            "interval": _interval([(head_to_head.speedup, head_to_head.interval) for head_to_head in head_to_heads]),
            "rounds": min(head_to_head.rounds for head_to_head in head_to_heads),
            "measure": measures.pop() if len(measures) == 1 else "wall and CPU time",
            "alone": next((head_to_head.alone for head_to_head in head_to_heads if head_to_head.alone), ""),
        }
    )


def _compiled(baselines: list[Compiled]) -> Compiled:
    return Compiled(
        ms=_mean([baseline.ms for baseline in baselines]),
        speedup=_mean([baseline.speedup for baseline in baselines]),
        interval=_interval([(baseline.speedup, baseline.interval) for baseline in baselines]),
    )


def _mean(values: list[float]) -> float:
    return math.exp(sum(map(math.log, values)) / len(values))


def _interval(pairs: list[tuple[float, Interval]]) -> Interval:
    middle = _mean([speedup for speedup, _ in pairs])
    below = math.hypot(*(math.log(speedup / interval.low) for speedup, interval in pairs)) / len(pairs)
    above = math.hypot(*(math.log(interval.high / speedup) for speedup, interval in pairs)) / len(pairs)
    return Interval(low=middle * math.exp(-below), high=middle * math.exp(above))


# -- From what the judging child said of each workload to one verdict -------------------------------------------------


class Outcome(JudgeAnswer):
    """What judging one workload gave."""

    workload: str

    def on(self, defect: str) -> Outcome:
        """As it is to be read where no kernel can be right."""
        if self.timing is None:
            return self.model_copy(update={"message": f"{self.message} No kernel can be right here: {defect}."})
        return self.model_copy(update={"timing": self.timing.model_copy(update={"task_defect": defect})})

    @property
    def result(self) -> WorkloadResult:
        """As the verdict keeps it."""
        return WorkloadResult(name=self.workload, correctness=self.correctness, timing=self.timing)


@dataclass(frozen=True)
class Case:
    """One candidate before the judge: what every verdict on it says of it."""

    task: Task
    candidate: Candidate
    terms: Terms
    seed: int

    @classmethod
    def of(cls, task: Task, candidate: Candidate, terms: Terms, seed: int | None) -> Case:
        """With a seed that nobody can foresee, where none is given."""
        return cls(task, candidate, terms, secrets.randbits(31) if seed is None else seed)

    def refused(self, refusal: Refusal, build: Build | None) -> Verdict:
        """It may not run."""
        return self._verdict(build=build, status="refused", check=refusal.check, message=str(refusal))

    def not_built(self, build: Build) -> Verdict:
        """It does not compile: the first error speaks for all."""
        first = next(each for each in build.diagnostics if each.severity == "error")
        message = f"{first.file}:{first.line}: {first.message}"
        return self._verdict(build=build, status="build_failed", check="build", message=message)

    def judged(self, build: Build, outcomes: list[Outcome], ahead: dict[str, float]) -> Verdict:
        """The last outcome decides: all before it passed. `ahead` are seconds spent before the device's turn."""
        if self.task.defect:
            outcomes = [*outcomes[:-1], outcomes[-1].on(self.task.defect)]
        last = outcomes[-1]
        several = len(self.task.workloads) + len(self.task.held_out) > 1
        seconds = Counter({"build": build.seconds} | ahead)
        for outcome in outcomes:
            seconds.update(outcome.seconds)
        passed = last.status == "passed"
        return self._verdict(
            build=build,
            status=last.status,
            check=last.check,
            message=f"Workload {last.workload}: {last.message}" if several and last.message else last.message,
            correctness=self._with_features((outcomes[0] if passed else last).correctness),
            timing=combined([each.timing for each in outcomes if each.timing]) if passed else None,
            workloads=tuple(outcome.result for outcome in outcomes) if several else (),
            seconds={name: round(value, 4) for name, value in seconds.items()},
        )

    def _with_features(self, correctness: Correctness | None) -> Correctness | None:
        """With what the kernel may do on other processors, of which the trials here say nothing."""
        if correctness is None:
            return None
        asked = (
            Untried(distribution="other processors", seed=self.seed, reason=f"{each}, and may compute otherwise there")
            for each in features_asked(self.candidate.source)
        )
        return correctness.model_copy(update={"untried": (*correctness.untried, *asked)})

    def _verdict(self, **found: Any) -> Verdict:
        return Verdict(
            candidate=self.candidate.digest,
            task=self.task.digest,
            seed=self.seed,
            tier=self.terms.tier,
            precision=self.terms.precision,
            tolerance=self.terms.tolerance,
            **found,
        )
