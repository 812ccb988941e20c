"""The judge of this machine: kernels are built, run and timed here, each in a cage of its own."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from threading import Thread

from pydantic import ValidationError

from harness.building.compilation import library_of
from harness.isolation.policy import Access, Limits
from harness.isolation.scratch import scratch_folder
from harness.judging.device_lock import beside_others, on_device, one_at_a_time
from harness.judging.evaluation import Opponent, TargetJudge, own_build
from harness.judging.outcome import Case, as_called
from harness.judging.terms import Terms, shares
from harness.nouns.batches import Batches, ServedBatches
from harness.nouns.build import Build
from harness.nouns.candidate import Candidate
from harness.nouns.contest import Contest
from harness.nouns.devices import on_gpu
from harness.nouns.errors import CutegenError, MachineError, UserError
from harness.nouns.events import Describing, Profiling, Sanitizing
from harness.nouns.profile import Profile
from harness.nouns.refusal import Refusal
from harness.nouns.sanitizer_run import SanitizerRun, Smaller
from harness.nouns.task import Task, TensorSpec, Workload
from harness.nouns.tier import Tier
from harness.nouns.verdict import CallerTiming, Timing, Verdict
from harness.processes.trusted_child import JobDiedError, warm_parent
from harness.sanitize.shrinking import BASES, UnclearError, fits, small, smaller_task, source_for
from harness.screen.imports import screen_library
from harness.screen.source import screen_source
from harness.screen.static_data import screen_load_time, screen_static_data
from harness.targets.target import Target
from harness.tasks.describing import describe_task, draw_arguments, other_batches
from harness.wire.job import AsCalledJob
from harness.wire.telling import tell

# -- How fast the exported drop-in is for whoever calls it: asked of a locked process that holds both sides -----------


MODULE = "model_new.py"
WALL_S = 120.0


def with_callers_clock(
    target: Target, terms: Terms, task: Task, build: Build, timing: Timing, drop_in: Mapping[str, str]
) -> Timing:
    """A passed kernel's timing that also says how fast `drop_in`, its texts by their names, is for a caller.

    Each workload has a process of its own. Where one fails, the timing says why there is no such time. Raises
    `MachineError`, and `UserError` where the task's file does.
    """
    library = library_of(build)
    if library is None:
        return _with(timing, failure="The drop-in could not be timed: its kernel was not built again.")
    try:
        parts = [_timed(target, terms, task.only(work), library, drop_in) for work in task.workloads]
    except JobDiedError as died:
        return _with(timing, failure=f"The drop-in could not be timed: its process ended, {died.reason}.")
    except ValidationError:
        return _with(timing, failure="The drop-in could not be timed: its process gave no times.")
    return _with(timing, as_called(parts))


def _with(timing: Timing, caller: CallerTiming | None = None, failure: str = "") -> Timing:
    return timing.model_copy(update={"caller": caller, "caller_failure": failure})


def _timed(target: Target, terms: Terms, task: Task, library: Path, drop_in: Mapping[str, str]) -> CallerTiming:
    job = AsCalledJob(
        source=task.source,
        name=task.name,
        variant=task.workloads[0].variant,
        library=str(library),
        drop_in=MODULE,
        device=target.name,
        precision=terms.precision,
        limit_s=terms.timing_s,
    )
    with on_device(target.device, shared=shares(task, target)) as alone, scratch_folder() as folder:
        for name, text in drop_in.items():
            (folder / name).parent.mkdir(exist_ok=True)
            (folder / name).write_text(text, encoding="utf-8")
        answer = warm_parent().run(
            "as_called",
            job,
            tier=terms.tier,
            cwd=folder,
            limits=Limits(wall_s=WALL_S, memory_bytes=64 << 30, processes=512),
            needs=target.running() + Access(read=(str(library.parent),)),
            alone=alone,
        )
    return CallerTiming.model_validate(answer)


# -- At which sizes a kernel is watched: the task's own, or smaller ones at which it is still right -------------------


CONFIRMED_S = 30.0
"""A tool, where it found fault with a kernel that was compiled for smaller sizes: is it so at the task's own?"""
_TOOLS = "sanitizers"


@dataclass(frozen=True)
class Watcher:
    """Watches a target's kernels. `right` says whether a build computes what a task does; it takes its turn itself.

    The device is shared with others, for one workload's tools at a time; drawing and building hold nothing.
    """

    target: Target
    tier: Tier
    right: Callable[[Task, Candidate, Build], bool]

    def watch(self, task: Task, candidate: Candidate) -> tuple[SanitizerRun, ...]:
        """Each tool on each workload: at its own sizes where that is soon done, else at smaller ones, else for as long
        as a tool may take at its own. Raises `MachineError`."""
        own: tuple[SanitizerRun, ...] = ()
        if all(map(self.target.ends_soon, task.workloads)):
            own = self._runs(task, candidate)
            if _settled(own):
                return own
        less = self._at_smaller(task, candidate)
        if not less:
            return own or self._runs(task, candidate)
        return _chosen(own, less, lambda at_own, _: _settled((at_own,)))

    def _at_smaller(self, task: Task, candidate: Candidate) -> tuple[SanitizerRun, ...]:
        """What was found at the largest sizes at which each tool comes to an end, or else at the smallest; nothing
        where there are none at which the kernel is right."""
        runs: tuple[SanitizerRun, ...] = ()
        for sources in _smaller_sources(task):
            for other in self._small_tasks(task, sources):
                found = self._at(task, other, candidate)
                if not found:
                    break
                runs = found
                if _settled(runs):
                    return runs
            if runs:
                break
        return runs

    def _small_tasks(self, task: Task, sources: Sequence[str]) -> Iterator[Task]:
        """Those of the sources, largest first, that are small; at least the last."""
        for source in sources:
            other = self._described(source, task)
            if other and fits(task, other) and (source == sources[-1] or all(map(small, other.workloads))):
                yield other

    def _described(self, source: str, task: Task) -> Task | None:
        try:
            return describe_task(source, name=task.name, tier=self.tier)
        except UserError:
            return None  # a size that the file does not take

    def _at(self, task: Task, other: Task, candidate: Candidate) -> tuple[SanitizerRun, ...]:
        """The kernel on a smaller task, compiled for it where its source holds sizes; nothing where it is not right."""
        try:
            source, numbers = source_for(candidate.source, task, other)
        except UnclearError:
            return ()
        smaller = candidate.model_copy(update={"source": source})
        watched = self.target.compile_watched(smaller, tier=self.tier)
        # On a GPU that build is the plain one, with lines; a processor's holds the sanitizers.
        plain = watched if on_gpu(self.target.name) else self.target.compile(smaller, tier=self.tier)
        if not watched.succeeded or not self.right(other, smaller, plain):
            return ()
        marked = [
            run.model_copy(update={"smaller": Smaller(shapes=_shapes(work), numbers=numbers)})
            for work in other.workloads
            for run in self._workload_runs(other, work, watched)
        ]
        runs = tuple(marked)
        return self._confirmed(task, candidate, runs) if numbers and _found(runs) else runs

    def _confirmed(self, task: Task, candidate: Candidate, less: tuple[SanitizerRun, ...]) -> tuple[SanitizerRun, ...]:
        """What was found in a source with other numbers may be the numbers' fault: what the task's own sizes tell of
        it counts, where they tell."""
        own = self._runs(task, candidate, CONFIRMED_S)
        return _chosen(own, less, lambda at_own, run: run.status == "found" and at_own.status != "skipped")

    def _runs(self, task: Task, candidate: Candidate, limit_s: float | None = None) -> tuple[SanitizerRun, ...]:
        """Each tool on each workload at its own sizes."""
        build = self.target.compile_watched(candidate, tier=self.tier)
        return tuple(run for work in task.workloads for run in self._workload_runs(task, work, build, limit_s))

    def _workload_runs(
        self, task: Task, workload: Workload, build: Build, limit_s: float | None = None
    ) -> tuple[SanitizerRun, ...]:
        self.target.require_device()
        with scratch_folder() as values:
            try:
                draw_arguments(task, workload, values, tier=self.tier)
            except UserError as error:
                return (SanitizerRun(tool=_TOOLS, status="skipped", note=f"there are no arguments: {error}"),)
            with beside_others(self.target.device):
                runs = self.target.sanitize(build, workload, values, tier=self.tier, limit_s=limit_s)
        name = workload.name if len(task.workloads) > 1 else ""
        return tuple(run.model_copy(update={"workload": name}) for run in runs)


def _smaller_sources(task: Task) -> Iterator[list[str]]:
    """The task's file by size: with all sizes smaller, then with those of a batch alone, where that is another file."""
    told: list[str] = []
    for leading in (False, True):
        found = [source for base in BASES if (source := smaller_task(task, base, leading=leading))]
        if found and found != told:
            yield found
        told = found


def _chosen(
    own: tuple[SanitizerRun, ...],
    less: tuple[SanitizerRun, ...],
    is_own: Callable[[SanitizerRun, SanitizerRun], bool],
) -> tuple[SanitizerRun, ...]:
    """Those at smaller sizes, but for those where the same tool's run at the task's own is to be told."""
    if len(own) != len(less):
        return less
    return tuple(at_own if is_own(at_own, run) else run for at_own, run in zip(own, less, strict=True))


def _settled(runs: tuple[SanitizerRun, ...]) -> bool:
    return all(run.ended or run.status == "found" for run in runs)


def _found(runs: tuple[SanitizerRun, ...]) -> bool:
    return any(run.status == "found" for run in runs)


def _shapes(workload: Workload) -> tuple[tuple[int, ...], ...]:
    return tuple(spec.shape for spec in workload.signature.arguments if isinstance(spec, TensorSpec))


_ASKS = re.compile(r"[.>]\s*(size|shape|sizes|numel)\s*\(")
"""How a kernel learns a tensor's sizes: one that never does is for one size."""


def _quietly(make: Callable[[], object]) -> None:
    with suppress(CutegenError):
        make()


# -- The judge of this machine: kernels are built, run and timed here, each in a cage of its own ----------------------


class LocalJudge(TargetJudge):
    """Judges kernels on one of this machine's targets; see `KernelJudge`. Evaluations take turns, builds do not."""

    def describe(self, source: str, *, name: str) -> Task:
        """In a locked child. What this machine's builds need once is made meanwhile, and before anything is timed."""
        preparations = self.target.preparations(self.tier)
        making = [Thread(target=_quietly, args=(each,), daemon=True) for each in preparations]
        for each in making:
            each.start()
        task = super().describe(source, name=name)
        if any(each.is_alive() for each in making):
            tell(Describing(name=name, doing="precompiling headers, once on this machine"))
        for each in making:
            each.join()
        return task

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

    def batches(self, task: Task) -> Batches:
        """By a process that runs the file's forward at them."""
        return other_batches(task, tier=self.tier)

    def serves(self, task: Task, candidate: Candidate, batches: Batches) -> ServedBatches:
        """Judged at the largest that fits, timed against eager; then at all by turns with the task's own."""
        alone = partial(ServedBatches, own=batches.own)
        if not batches.workloads:
            return alone(refused=batches.refused)
        if not _ASKS.search(candidate.source):
            return alone(refused="the kernel's sizes are constants")
        library = self._harmless(task, candidate, self.build(task, candidate))
        if library is None:
            return alone(refused="the kernel may not run any more, or does not compile")
        case = Case.of(task, candidate, self.terms, None)
        return self._evaluation.serves(case, library, batches)

    def _right(self, task: Task, candidate: Candidate, build: Build) -> bool:
        """Whether a build may run, and gives what the reference does on the file's own inputs."""
        library = self._harmless(task, candidate, build)
        if library is None:
            return False
        return self._evaluation.right(task, library)

    def _opponent(self, task: Task, kernel: Candidate, build: Build) -> Opponent | None:
        library = self._harmless(task, kernel, build)
        return Opponent(kernel.digest, library) if library else None

    def _harmless(self, task: Task, candidate: Candidate, build: Build) -> Path | None:
        """The library of a build that may run."""
        refusal = self.screen(task, candidate) or self.screen_build(build) or self.screen_data(candidate, build)
        return None if refusal else library_of(build)
