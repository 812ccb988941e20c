"""The verifiers measured: each right kernel and each mutant that the judge finds wrong is shown to them."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, as_completed
from pathlib import Path
from threading import Lock

from graph.verifiers.corpus import Kernel, right_kernels
from graph.verifiers.mutants import chosen, mutants_of
from harness.judging.device_lock import held_s
from harness.judging.protocol import Judge
from harness.nouns.build import Build
from harness.nouns.candidate import Candidate
from harness.nouns.frozen import Frozen
from harness.nouns.task import Task
from harness.nouns.verdict import Status
from harness.wire.stopping import Stop, stoppable
from tools.opinions import Opinion
from tools.static_verifier import sanitizer_opinion, static_opinion

SEED = 1
"""Of the judge's inputs, so that a mutant is as wrong the next time."""

Look = Callable[[Task, Candidate], Iterable[Opinion]]


class Sample(Frozen):
    """One kernel of the corpus: the judge's word, and the verifiers'. `operator` and `line` are a mutant's.

    `device_s` is what the judge held the device for. A mutant that the judge passes is none, and has no opinions.
    `looked` names the verifiers that have looked, whether or not they had something to say.
    """

    kernel: str
    digest: str
    operator: str = ""
    line: int = 0
    status: Status
    device_s: float
    opinions: tuple[Opinion, ...] = ()
    looked: tuple[str, ...] = ()

    @property
    def counts(self) -> bool:
        """Whether it is what it should be: right, or a mutant that is wrong."""
        return (self.status == "passed") == (not self.operator)


def looks(judge: Judge, *, tidy: bool = False, watched: bool = True) -> dict[str, Look]:
    """The verifiers that need no model, with or without clang-tidy; without the sanitizers where nothing is watched."""
    watching: dict[str, Look] = {"sanitizers": lambda task, candidate: _watched(judge, task, candidate)}
    return {
        "static": lambda task, candidate: [static_opinion(judge, task, candidate, tidy=tidy)],
        **(watching if watched else {}),
    }


def _watched(judge: Judge, task: Task, candidate: Candidate) -> Iterator[Opinion]:
    if judge.screen(task, candidate) is None:
        yield sanitizer_opinion(judge, task, candidate)


class Measured(Frozen):
    """The corpus as far as it was judged, in its order, and how many kernels are left."""

    samples: tuple[Sample, ...]
    left: int = 0


class Bench:
    """The corpus with so many mutants of each kernel. What lies in `folder` by now is neither judged nor shown again.

    So many kernels at once are built, ahead of so many that are judged and shown; each takes its turns on the device.
    """

    def __init__(
        self, judge: Judge, folder: Path, *, verifiers: Mapping[str, Look], mutants: int, jobs: int = 1
    ) -> None:
        self._judge, self._verifiers, self._mutants, self._jobs = judge, verifiers, mutants, jobs
        self._folder, self._file = folder, folder / "samples.jsonl"
        self._stop, self._writing = Stop(), Lock()

    def measured(self, told: Callable[[Sequence[Sample]], None], *, minutes: float | None = None) -> Measured:
        """Judge and show it all. `told` is given what is there by now, the latest last, as each kernel is done.

        When the minutes are over what is being done is ended and no more is begun. Raises `MachineError`.
        """
        until = None if minutes is None else time.monotonic() + 60 * minutes
        self._folder.mkdir(parents=True, exist_ok=True)
        known = {sample.digest: sample for sample in read_samples(self._file)}
        done: dict[Future[Sample], Sample] = {}
        builders, judges = (ThreadPoolExecutor(self._jobs, thread_name_prefix=name) for name in ("build", "judge"))
        try:
            work = []
            for entry in _corpus(self._judge, self._mutants, self._jobs):
                found = known.get(entry[0].candidate.digest)
                ahead = builders.submit(self._built, entry[0], found)
                work.append(judges.submit(self._sampled, entry, found, ahead))
            for ended in as_completed(work, None if until is None else max(until - time.monotonic(), 0.0)):
                done[ended] = ended.result()
                told(tuple(done.values()))
        except TimeoutError:
            pass
        finally:
            self._stop.ask()
            for pool in (builders, judges):
                pool.shutdown(cancel_futures=True)
        return Measured(samples=tuple(done[each] for each in work if each in done), left=len(work) - len(done))

    def _built(self, kernel: Kernel, found: Sample | None) -> Build | None:
        """The kernel's build, where one is needed."""
        with stoppable(self._stop):
            if not self._missing(found) or self._judge.screen(kernel.task, kernel.candidate):
                return None
            return self._judge.build(kernel.task, kernel.candidate)

    def _sampled(self, entry: tuple[Kernel, str, int], found: Sample | None, ahead: Future[Build | None]) -> Sample:
        build = ahead.result()
        missing = self._missing(found)
        if found and not missing:
            return found
        with stoppable(self._stop):
            sample = found or _judged(self._judge, *entry, build)
            given = [each for name in missing if sample.counts for each in self._verifiers[name](*_shown(entry[0]))]
        sample = sample.model_copy(
            update={"opinions": (*sample.opinions, *given), "looked": (*sample.looked, *missing)}
        )
        with self._writing, self._file.open("a", encoding="utf-8") as log:
            log.write(sample.model_dump_json() + "\n")
        return sample

    def _missing(self, found: Sample | None) -> list[str]:
        """Whose look a kernel still lacks; what the judge passes and should not is shown to nobody."""
        return [name for name in self._verifiers if not found or (found.counts and name not in found.looked)]


def read_samples(file: Path) -> list[Sample]:
    """What a folder has, of a kernel that was shown again the latest. A line that was cut off is left out."""
    lines = file.read_text(encoding="utf-8").splitlines(keepends=True) if file.exists() else []
    return [Sample.model_validate(json.loads(line)) for line in lines if line.endswith("}\n")]


def _corpus(judge: Judge, mutants: int, jobs: int) -> Iterator[tuple[Kernel, str, int]]:
    for number, kernel in enumerate(right_kernels(judge, jobs)):
        yield kernel, "", 0
        made = list(mutants_of(kernel.candidate.source, judge.device.target))
        for mutant in chosen(made, mutants, number):
            candidate = kernel.candidate.model_copy(update={"source": mutant.source, "author": "mutant"})
            yield Kernel(kernel.name, kernel.task, candidate), mutant.operator, mutant.line


def _judged(judge: Judge, kernel: Kernel, operator: str, line: int, build: Build | None) -> Sample:
    before = held_s()
    verdict = judge.evaluate(kernel.task, kernel.candidate, build, seed=SEED)
    return Sample(
        kernel=kernel.name,
        digest=kernel.candidate.digest,
        operator=operator,
        line=line,
        status=verdict.status,
        device_s=held_s() - before,
    )


def _shown(kernel: Kernel) -> tuple[Task, Candidate]:
    return kernel.task, kernel.candidate


def said_of(sample: Sample) -> str:
    """A sample in a line."""
    what = f"{sample.operator}, line {sample.line}" if sample.operator else "as it is"
    said = ", ".join(f"{each.verifier} {each.right:.2f}" for each in sample.opinions)
    return f"{sample.kernel}: {what}: {sample.status}; {said or 'not what it should be: left out'}"
