"""From what the judging child said of each workload to one verdict."""

from __future__ import annotations

import secrets
from collections import Counter
from dataclasses import dataclass, replace
from typing import Any

from harness.judging.aggregate import combined
from harness.judging.terms import Terms
from harness.nouns.build import Build
from harness.nouns.candidate import Candidate
from harness.nouns.refusal import Refusal
from harness.nouns.task import Task
from harness.nouns.verdict import Correctness, Status, Timing, Untried, Verdict, WorkloadResult
from harness.screen.processor_features import features_asked


@dataclass(frozen=True)
class Outcome:
    """What judging one workload gave."""

    workload: str
    status: Status
    check: str
    message: str
    correctness: Correctness | None
    timing: Timing | None
    seconds: dict[str, float]

    @classmethod
    def of(cls, workload: str, raw: dict[str, Any]) -> Outcome:
        """From the judging child's answer."""
        timing = Timing.model_validate(raw["timing"]) if "timing" in raw else None
        correctness = Correctness.model_validate(raw["correctness"]) if "correctness" in raw else None
        return cls(workload, raw["status"], raw["check"], raw["message"], correctness, timing, raw["seconds"])

    def on(self, defect: str) -> Outcome:
        """As it is to be read where no kernel can be right."""
        if self.timing is None:
            return replace(self, message=f"{self.message} No kernel can be right here: {defect}.")
        return replace(self, timing=self.timing.model_copy(update={"task_defect": defect}))

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
