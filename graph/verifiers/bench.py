"""The verifiers measured: each right kernel and each mutant that the judge finds wrong is shown to them."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, as_completed
from itertools import count
from pathlib import Path
from statistics import fmean
from threading import Lock

from graph.runs.tables import Sheet
from graph.verifiers.corpus import Kernel, chosen, mutants_of, right_kernels
from harness.judging.device_lock import held_s
from harness.judging.protocol import KernelJudge
from harness.nouns.build import Build
from harness.nouns.candidate import Candidate
from harness.nouns.frozen import Frozen
from harness.nouns.task import Task
from harness.nouns.verdict import Status
from harness.wire.stopping import Stop, stoppable
from nodes.evolution.state import Brief, Order, Proposal
from nodes.evolution.verifier import by_models, require_verifiers
from nodes.models.select import open_model
from nodes.settings import Settings
from nodes.state import Usage
from nodes.turn.node import ModelCache, NodeContext
from tools.opinions import EVEN, EVIDENCE, Opinion, brier, score_of
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


def looks(judge: KernelJudge, *, tidy: bool = False, watched: bool = True) -> dict[str, Look]:
    """The verifiers that need no model, with or without clang-tidy; without the sanitizers where nothing is watched."""
    watching: dict[str, Look] = {"sanitizers": lambda task, candidate: _watched(judge, task, candidate)}
    return {
        "static": lambda task, candidate: [static_opinion(judge, task, candidate, tidy=tidy)],
        **(watching if watched else {}),
    }


def _watched(judge: KernelJudge, task: Task, candidate: Candidate) -> Iterator[Opinion]:
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
        self, judge: KernelJudge, folder: Path, *, verifiers: Mapping[str, Look], mutants: int, jobs: int = 1
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


def _corpus(judge: KernelJudge, mutants: int, jobs: int) -> Iterator[tuple[Kernel, str, int]]:
    for number, kernel in enumerate(right_kernels(judge, jobs)):
        yield kernel, "", 0
        made = list(mutants_of(kernel.candidate.source, judge.device.target))
        for mutant in chosen(made, mutants, number):
            candidate = kernel.candidate.model_copy(update={"source": mutant.source, "author": "mutant"})
            yield Kernel(kernel.name, kernel.task, candidate), mutant.operator, mutant.line


def _judged(judge: KernelJudge, kernel: Kernel, operator: str, line: int, build: Build | None) -> Sample:
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


# -- What the samples say of the verifiers: who drops what, how true the probabilities are, what it costs and saves ---


BUCKETS = (0.05, 0.25, 0.5, 0.75, 1.0)
"""Upper ends of the ranges of probabilities that are counted together."""


class Counted(Frozen):
    """One verifier over a corpus: of the right and of the wrong kernels those that it calls wrong."""

    verifier: str
    right: int
    alarms: int
    wrong: int
    caught: int
    seconds: float
    dollars: float
    device_s_saved: float
    brier: float


def counted(samples: Sequence[Sample]) -> tuple[Counted, ...]:
    """Each verifier by itself, those that need no model together, and all together where models were asked."""
    held = [sample for sample in samples if sample.counts]
    names = list(dict.fromkeys(each.verifier for sample in held for each in sample.opinions))
    rows = [_counted(name, held, lambda each, name=name: each.verifier == name) for name in names]  # type: ignore[misc]
    rows.append(_counted("static and sanitizers", held, lambda each: each.verifier in EVIDENCE))
    if set(names) - set(EVIDENCE):
        rows.append(_counted("all", held, lambda _: True))
    return tuple(rows)


def _counted(name: str, samples: Sequence[Sample], whose: Callable[[Opinion], bool]) -> Counted:
    scored = [(sample, [each for each in sample.opinions if whose(each)]) for sample in samples]
    pairs = [(score_of(opinions), not sample.operator) for sample, opinions in scored]
    caught = [sample for (sample, _), (score, right) in zip(scored, pairs, strict=True) if score < EVEN and not right]
    return Counted(
        verifier=name,
        right=sum(right for _, right in pairs),
        alarms=sum(right and score < EVEN for score, right in pairs),
        wrong=sum(not right for _, right in pairs),
        caught=len(caught),
        seconds=fmean(sum(each.seconds for each in opinions) for _, opinions in scored) if scored else 0.0,
        dollars=fmean(sum(each.dollars for each in opinions) for _, opinions in scored) if scored else 0.0,
        device_s_saved=sum(sample.device_s for sample in caught),
        brier=brier(pairs),
    )


def sheets(samples: Sequence[Sample]) -> tuple[Sheet, Sheet, Sheet]:
    """All that is told of them."""
    return confusion(samples), by_operator(samples), calibration(samples)


def confusion(samples: Sequence[Sample]) -> Sheet:
    """A row a verifier."""
    rows = tuple(
        (
            each.verifier,
            f"{each.alarms} of {each.right}",
            f"{each.caught} of {each.wrong}",
            f"{each.caught / each.wrong:.0%}" if each.wrong else "",
            f"{each.brier:.3f}",
            f"{each.seconds:.2f}",
            f"{each.dollars:.3f}",
            f"{each.device_s_saved:.1f}",
        )
        for each in counted(samples)
    )
    head = ("verifier", "right, dropped", "wrong, dropped", "", "Brier", "s a kernel", "$ a kernel", "device s saved")
    return Sheet("Below one half is called wrong", head, rows)


def by_operator(samples: Sequence[Sample]) -> Sheet:
    """Of each operator's mutants those that the judge finds wrong, and those that each kind of evidence sees."""
    operators = sorted({sample.operator for sample in samples if sample.operator})
    return Sheet("", ("operator", "made", "wrong", *EVIDENCE, "either"), tuple(_rows(samples, operators)))


def _rows(samples: Sequence[Sample], operators: Sequence[str]) -> Iterator[tuple[str, ...]]:
    for operator in operators:
        made = [sample for sample in samples if sample.operator == operator]
        wrong = [sample for sample in made if sample.counts]
        seen = [{each.verifier for each in sample.opinions if each.right < EVEN} & set(EVIDENCE) for sample in wrong]
        each_alone = (str(sum(name in found for found in seen)) for name in EVIDENCE)
        yield operator, str(len(made)), str(len(wrong)), *each_alone, str(sum(map(bool, seen)))


def calibration(samples: Sequence[Sample]) -> Sheet:
    """Kernels by the probability that they were given, with the share of them that is right."""
    pairs = [(score_of(sample.opinions), not sample.operator) for sample in samples if sample.counts]
    rows = []
    for low, high in zip((-1.0, *BUCKETS), BUCKETS, strict=False):
        within = [(score, right) for score, right in pairs if low < score <= high]
        if within:
            said, came = fmean(score for score, _ in within), fmean(right for _, right in within)
            rows.append((f"to {high:g}", str(len(within)), f"{said:.2f}", f"{came:.2f}"))
    return Sheet("All verifiers together", ("probability", "kernels", "mean", "right"), tuple(rows))


# -- The verifiers that are models, outside of a run: for a corpus ----------------------------------------------------


class ModelVerifiers:
    """Asks the settings' verifiers about one kernel after the other. Raises `UserError` where they have no model."""

    def __init__(self, settings: Settings, judge: KernelJudge) -> None:
        require_verifiers(settings)
        self._judge = judge
        self._context = NodeContext(settings, ModelCache(open_model), open_judge=lambda _: judge)
        self._looked = count()

    def __call__(self, task: Task, candidate: Candidate) -> Iterator[Opinion]:
        """Their opinions; a model that gives no answer has none."""
        order = Order(number=next(self._looked), generation=0, operator="translation", model="verifiers")
        brief = Brief(
            order=order,
            task=task,
            target=self._judge.device.target,
            tier=self._judge.tier,
            pool=(Proposal(order=order, candidate=candidate),),
            attempts=0,
            usage=Usage(),
            seconds=0.0,
            device_seconds=0.0,
        )
        for opinion, _ in by_models(brief, brief.pool[0], self._context):
            yield from [opinion] if opinion else []
