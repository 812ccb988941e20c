"""The judge of this machine: kernels are built, run and timed here, each in a cage of its own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path

from harness.building.compilation import library_of
from harness.judging.caller import with_callers_clock
from harness.judging.device_lock import beside_others, one_at_a_time
from harness.judging.evaluation import Evaluation, Opponent, own_build
from harness.judging.outcome import Case
from harness.judging.room import require_room
from harness.judging.terms import Terms
from harness.judging.watching import Watcher
from harness.nouns.build import Build
from harness.nouns.candidate import Candidate
from harness.nouns.contest import Contest
from harness.nouns.device import DeviceName
from harness.nouns.device_facts import DeviceFacts
from harness.nouns.errors import MachineError
from harness.nouns.events import Profiling, Sanitizing
from harness.nouns.profile import Profile
from harness.nouns.refusal import Refusal
from harness.nouns.sanitizer_run import SanitizerRun
from harness.nouns.task import Task
from harness.nouns.tier import Tier
from harness.nouns.verdict import Verdict
from harness.screen.imports import screen_library
from harness.screen.load_time import screen_load_time
from harness.screen.source import screen_source
from harness.screen.static_data import screen_static_data
from harness.targets.target import Target
from harness.tasks.describing import describe_task
from harness.wire.telling import tell


class LocalJudge:
    """Judges kernels on one of this machine's targets; see `Judge`. Evaluations take turns, builds do not."""

    def __init__(self, target: Target, terms: Terms) -> None:
        self.target = target
        self.terms = terms
        self._evaluation = Evaluation(target, terms)

    @property
    def device(self) -> DeviceName:
        """This machine's processor, or one of its GPUs."""
        return self.target.device

    @property
    def tier(self) -> Tier:
        """How it isolates what it runs."""
        return self.terms.tier

    def describe(self, source: str, *, name: str) -> Task:
        """Import, run and trace the file in a locked child."""
        task = describe_task(source, name=name, tier=self.tier, within_s=self.terms.describe_s)
        require_room(task, self.target)
        return task

    def facts(self) -> DeviceFacts:
        """Measured on first use, then kept."""
        return self.target.facts()

    def screen(self, task: Task, candidate: Candidate) -> Refusal | None:
        """By the source's tokens."""
        return screen_source(candidate.source, self.terms.allowances(task))

    def screen_build(self, build: Build) -> Refusal | None:
        """Why the built library may not be loaded, or None."""
        library = library_of(build)
        return screen_load_time(build.load_time) or (screen_library(library) if library else None)

    def screen_data(self, candidate: Candidate, build: Build) -> Refusal | None:
        """Why what outlives the kernel's calls may not, or None."""
        return screen_static_data(build.static_data, candidate.source)

    def build(self, task: Task, candidate: Candidate) -> Build:
        """Compile the candidate in isolation, the same for every task."""
        return self.target.compile(candidate, tier=self.tier)

    def evaluate(
        self,
        task: Task,
        candidate: Candidate,
        build: Build | None = None,
        *,
        seed: int | None = None,
        incumbent: Candidate | None = None,
        compile_baseline: bool = False,
    ) -> Verdict:
        """See `Judge.evaluate`. An incumbent that may not run any more, or does not compile, is left out."""
        case = Case.of(task, candidate, self.terms, seed)
        if refusal := self.screen(task, candidate):
            return case.refused(refusal, build)
        build = own_build(build, partial(self.build, task, candidate))
        library = library_of(build)
        if library is None:
            return case.not_built(build)
        if refusal := self.screen_build(build) or self.screen_data(candidate, build):
            return case.refused(refusal, build)
        theirs = self.build(task, incumbent) if incumbent else None
        same = theirs is not None and bool(theirs.machine_code) and theirs.machine_code == build.machine_code
        opponent = self._opponent(task, incumbent, theirs) if incumbent and theirs and not same else None
        verdict = self._evaluation.verdict(case, build, library, opponent, compile_baseline=compile_baseline)
        return verdict.against_itself(incumbent.digest) if incumbent and same else verdict

    def contest(self, task: Task, candidates: Sequence[Candidate]) -> Contest:
        """See `Judge.contest`. One that may not run any more, or does not compile, is what the contest failed by."""
        if len(candidates) < 2:
            raise ValueError("a contest is of two kernels or more")
        opponents = []
        for candidate in candidates:
            opponent = self._opponent(task, candidate, self.build(task, candidate))
            if opponent is None:
                return Contest(failed=candidate.digest, message="It may not run any more, or does not compile.")
            opponents.append(opponent)
        return self._evaluation.contest(task, opponents)

    def profile(self, task: Task, candidate: Candidate, verdict: Verdict) -> Profile:
        """With the first workload's timing, where there are several."""
        if verdict.timing is None:
            raise ValueError("only a passed verdict can be profiled")
        build = self.build(task, candidate)
        if not build.succeeded:
            raise MachineError("A kernel that passed does not compile here.", "Is its compiler that of `record.json`?")
        first = verdict.workloads[0].timing if verdict.workloads else None
        with one_at_a_time(self.target.device):
            tell(Profiling(candidate=candidate.digest))
            return self.target.profile(task.workloads[0], first or verdict.timing, build, tier=self.tier)

    def sanitize(self, task: Task, candidate: Candidate) -> tuple[SanitizerRun, ...]:
        """By the target's own tools. Timing waits no longer than one workload's tools take."""
        if refusal := self.screen(task, candidate):
            raise ValueError(str(refusal))
        tell(Sanitizing(candidate=candidate.digest))
        return Watcher(self.target, self.tier, self._right).watch(task, candidate)

    def as_called(self, task: Task, candidate: Candidate, verdict: Verdict, drop_in: Mapping[str, str]) -> Verdict:
        """Each workload has a process of its own, which holds both sides."""
        if verdict.timing is None:
            return verdict
        build = self.build(task, candidate)
        timing = with_callers_clock(self.target, self.terms, task, build, verdict.timing, drop_in)
        return verdict.model_copy(update={"timing": timing})

    def _right(self, task: Task, candidate: Candidate, build: Build) -> bool:
        """Whether a build may run, and gives what the reference does on the file's own inputs."""
        library = self._harmless(task, candidate, build)
        if library is None:
            return False
        with beside_others(self.target.device):
            return self._evaluation.right(task, library)

    def _opponent(self, task: Task, kernel: Candidate, build: Build) -> Opponent | None:
        library = self._harmless(task, kernel, build)
        return Opponent(kernel.digest, library) if library else None

    def _harmless(self, task: Task, candidate: Candidate, build: Build) -> Path | None:
        """The library of a build that may run."""
        refusal = self.screen(task, candidate) or self.screen_build(build) or self.screen_data(candidate, build)
        return None if refusal else library_of(build)
