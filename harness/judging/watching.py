"""At which sizes a kernel is watched: the task's own, or smaller ones at which it is still right."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from harness.isolation.scratch import scratch_folder
from harness.judging.device_lock import beside_others
from harness.nouns.build import Build
from harness.nouns.candidate import Candidate
from harness.nouns.errors import UserError
from harness.nouns.sanitizer_run import SanitizerRun, Smaller
from harness.nouns.task import Task, TensorSpec, Workload
from harness.nouns.tier import Tier
from harness.sanitize.shrinking import BASES, UnclearError, fits, small, smaller_task, source_for
from harness.targets.target import Target
from harness.tasks.describing import describe_task
from harness.tasks.drawing import draw_arguments

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
        plain = watched if self.target.name == "cuda" else self.target.compile(smaller, tier=self.tier)
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
