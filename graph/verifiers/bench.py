"""The verifiers measured: each right kernel and each mutant that the judge finds wrong is shown to them."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Lock

from graph.verifiers.corpus import Kernel, right_kernels
from graph.verifiers.mutants import chosen, mutants_of
from harness.judging.device_lock import held_s
from harness.judging.protocol import Judge
from harness.nouns.candidate import Candidate
from harness.nouns.frozen import Frozen
from harness.nouns.task import Task
from harness.nouns.verdict import Status
from tools.opinions import Opinion
from tools.static_verifier import sanitizer_opinion, static_opinion

SEED = 1
"""Of the judge's inputs, so that a mutant is as wrong the next time."""

Look = Callable[[Task, Candidate], Iterable[Opinion]]


class Sample(Frozen):
    """One kernel of the corpus: the judge's word, and the verifiers'. `operator` and `line` are a mutant's.

    `device_s` is what the judge held the device for. A mutant that the judge passes is none, and has no opinions.
    """

    kernel: str
    digest: str
    operator: str = ""
    line: int = 0
    status: Status
    device_s: float
    opinions: tuple[Opinion, ...] = ()

    @property
    def counts(self) -> bool:
        """Whether it is what it should be: right, or a mutant that is wrong."""
        return (self.status == "passed") == (not self.operator)


def looks(judge: Judge, *, tidy: bool = False) -> tuple[Look, ...]:
    """The verifiers that need no model, with or without clang-tidy."""
    return (
        lambda task, candidate: [static_opinion(judge, task, candidate, tidy=tidy)],
        lambda task, candidate: _watched(judge, task, candidate),
    )


def _watched(judge: Judge, task: Task, candidate: Candidate) -> Iterator[Opinion]:
    if judge.screen(task, candidate) is None:
        yield sanitizer_opinion(judge, task, candidate)


def measured(
    judge: Judge,
    folder: Path,
    *,
    verifiers: tuple[Look, ...],
    mutants: int,
    told: Callable[[str], None],
    jobs: int = 1,
) -> list[Sample]:
    """The corpus with so many mutants of each kernel, in its order; what lies in `folder` by now is not judged again.

    So many kernels at once are built and watched; the judge has the device alone for each. Raises `MachineError`.
    """
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / "samples.jsonl"
    known = {sample.digest: sample for sample in read_samples(file)}
    writing = Lock()

    def sampled(entry: tuple[Kernel, str, int]) -> Sample:
        if found := known.get(entry[0].candidate.digest):
            return found
        sample = _sampled(judge, *entry, verifiers)
        with writing, file.open("a", encoding="utf-8") as log:
            log.write(sample.model_dump_json() + "\n")
        return sample

    samples = []
    pool = ThreadPoolExecutor(jobs, thread_name_prefix="sample")
    try:
        for sample in pool.map(sampled, _corpus(judge, mutants)):
            told(_line(sample))
            samples.append(sample)
    finally:
        pool.shutdown(cancel_futures=True)
    return samples


def read_samples(file: Path) -> list[Sample]:
    """What a folder has; a line that was cut off is left out."""
    lines = file.read_text(encoding="utf-8").splitlines(keepends=True) if file.exists() else []
    return [Sample.model_validate(json.loads(line)) for line in lines if line.endswith("}\n")]


def _corpus(judge: Judge, mutants: int) -> Iterator[tuple[Kernel, str, int]]:
    for number, kernel in enumerate(right_kernels(judge)):
        yield kernel, "", 0
        made = list(mutants_of(kernel.candidate.source, judge.device.target))
        for mutant in chosen(made, mutants, number):
            candidate = kernel.candidate.model_copy(update={"source": mutant.source, "author": "mutant"})
            yield Kernel(kernel.name, kernel.task, candidate), mutant.operator, mutant.line


def _sampled(judge: Judge, kernel: Kernel, operator: str, line: int, verifiers: tuple[Look, ...]) -> Sample:
    before = held_s()
    verdict = judge.evaluate(kernel.task, kernel.candidate, seed=SEED)
    device_s = held_s() - before
    wanted = (verdict.status == "passed") == (not operator)
    return Sample(
        kernel=kernel.name,
        digest=kernel.candidate.digest,
        operator=operator,
        line=line,
        status=verdict.status,
        device_s=device_s,
        opinions=tuple(each for look in verifiers for each in look(kernel.task, kernel.candidate)) if wanted else (),
    )


def _line(sample: Sample) -> str:
    what = f"{sample.operator}, line {sample.line}" if sample.operator else "as it is"
    said = ", ".join(f"{each.verifier} {each.right:.2f}" for each in sample.opinions)
    return f"{sample.kernel}: {what}: {sample.status}; {said or 'not what it should be: left out'}"
