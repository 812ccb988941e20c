"""What the server's tools do, whoever calls them: tasks and kernels by digest, one judge, each task's best kernel."""

from __future__ import annotations

import threading
from collections import OrderedDict
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TypeVar

from graph.export.drop_in import drop_in_files, judged_library
from graph.export.serving import served_by
from graph.loading import load_task, read_source
from graph.mcp import answers
from graph.runs.folder import RunFolder
from harness.judging.protocol import JudgeOrder, KernelJudge, OpenJudge
from harness.judging.roofline_bound import floor_ms
from harness.nouns.build import Build
from harness.nouns.candidate import Candidate
from harness.nouns.errors import UserError
from harness.nouns.sanitizer_run import SanitizerRun
from harness.nouns.task import Task
from harness.nouns.verdict import HeadToHead, Interval, Verdict, precision_on
from harness.profile.render import render
from harness.wire.entry import stub
from nodes.history import outcome_against
from nodes.prompt_words import say_machine, say_operations
from nodes.state import Best, TaskInput
from nodes.turn.judged import say_arguments, say_callers, say_exactness, say_inputs, say_spreading, say_tf32
from tools.library_tool import look_up
from tools.wording import say_build, say_sanitizers, say_verdict

MOST_SOURCE_CHARS = 1 << 20
MOST_TASKS = 64
MOST_KERNELS = 256
"""Of a task. What was judged longest ago is forgotten first, the best kernel never."""
BEST, NONE = "best", "none"

Held = TypeVar("Held")


@dataclass
class Shelf:
    """What is known of one task."""

    task: Task
    best: Best | None = None
    kernels: OrderedDict[str, Candidate] = field(default_factory=OrderedDict)
    verdicts: dict[str, Verdict] = field(default_factory=dict)
    found: OrderedDict[str, tuple[SanitizerRun, ...]] = field(default_factory=OrderedDict)
    """What sanitizers found, by machine code: it holds for every text of that code, whenever that is judged."""
    lock: threading.Lock = field(default_factory=threading.Lock)


class Desk:
    """The judge's counter. Threads may share it.

    `out` is where drop-ins are exported to. A `local` caller may name files of this machine; any other one sends text.
    Every method raises `UserError` for what the caller got wrong, and `MachineError`.
    """

    def __init__(self, order: JudgeOrder, out: Path, open_judge: OpenJudge, *, local: bool) -> None:
        self._order, self._out, self._open, self._local = order, out, open_judge, local
        self._shelves: OrderedDict[str, Shelf] = OrderedDict()
        self._lock = threading.Lock()

    @cached_property
    def judge(self) -> KernelJudge:
        """Opened when it is first needed: a machine that lacks something is told to who asked."""
        return self._open(self._order)

    def open_task(self, source: str, path: str, name: str) -> answers.TaskCard:
        """Describe the task of a KernelBench-style file and remember it."""
        given = self._given_task(source, path, name)
        task = self.judge.describe(given.source, name=given.name)
        with self._lock:
            shelf = self._shelves.setdefault(task.digest, Shelf(task))
            _keep(self._shelves, task.digest, MOST_TASKS)
        return self._card(shelf.task)

    def entry_stub(self, task: str) -> str:
        """The source that a kernel for the task starts from."""
        return stub(self._shelf(task).task, self.judge.device.target)

    def compile(self, task: str, kernel: str, source: str, path: str) -> answers.Compiled:
        """Build a kernel."""
        shelf = self._shelf(task)
        candidate = self._candidate(shelf, kernel, source, path)
        if refusal := self.judge.screen(shelf.task, candidate):
            return answers.Compiled(kernel=candidate.digest, succeeded=False, words=f"It is not compiled: {refusal}")
        build = self.judge.build(shelf.task, candidate)
        return answers.Compiled(kernel=candidate.digest, succeeded=build.succeeded, words=say_build(build))

    def verify(self, task: str, kernel: str, source: str, path: str, against: str) -> answers.Judged:
        """Judge a kernel; a pass also meets another in the same rounds, the best so far where none is named."""
        shelf = self._shelf(task)
        candidate = self._candidate(shelf, kernel, source, path)
        incumbent = self._incumbent(shelf, against, candidate)
        build = None if self.judge.screen(shelf.task, candidate) else self.judge.build(shelf.task, candidate)
        known = _judged_before(shelf, build, incumbent)
        if build is not None and known is not None:
            verdict = known.model_copy(update={"candidate": candidate.digest, "build": build})
            with shelf.lock:
                verdict = shelf.verdicts[candidate.digest] = _as_found(shelf, verdict)
            return self._judged(shelf, candidate, verdict, earlier=known.candidate)
        verdict = self.judge.evaluate(shelf.task, candidate, build, incumbent=incumbent)
        return self._judged(shelf, candidate, _record(shelf, candidate, verdict))

    def profile(self, task: str, kernel: str) -> answers.Profiled:
        """What limits a kernel that passed."""
        shelf = self._shelf(task)
        candidate = self._named(shelf, kernel)
        verdict = shelf.verdicts.get(candidate.digest)
        if verdict is None or not verdict.passed:
            raise UserError("Only a kernel that has passed can be profiled.", "Call verify_kernel first.")
        profile = self.judge.profile(shelf.task, candidate, verdict)
        return answers.Profiled(
            kernel=candidate.digest,
            time_ms=profile.time_ms,
            bound=profile.bound,
            share_of_roof=profile.share_of_roof,
            words=render(profile),
        )

    def sanitize(self, task: str, kernel: str) -> answers.Watched:
        """Watch every access of a kernel, right or wrong. A best kernel that is found out is the best no longer."""
        shelf = self._shelf(task)
        candidate = self._named(shelf, kernel)
        if refusal := self.judge.screen(shelf.task, candidate):
            raise UserError(f"The kernel is not run: {refusal}")
        runs = self.judge.sanitize(shelf.task, candidate)
        if any(run.findings for run in runs):
            _withdraw(shelf, self.judge.build(shelf.task, candidate).machine_code or candidate.digest, runs)
        elif (verdict := shelf.verdicts.get(candidate.digest)) is not None:
            _record(shelf, candidate, verdict.sanitized(runs))
        return answers.Watched(
            kernel=candidate.digest,
            clean=any(run.status == "clean" for run in runs) and not any(run.findings for run in runs),
            words=say_sanitizers(runs),
        )

    def standing(self, task: str) -> answers.Standing:
        """The best kernel, and all that were judged."""
        shelf = self._shelf(task)
        with shelf.lock:
            tried = tuple(_tried(digest, verdict) for digest, verdict in shelf.verdicts.items())
            best = shelf.best.candidate.digest if shelf.best else None
        return answers.Standing(task=task, name=shelf.task.name, best=best, tried=tried)

    def kernel_source(self, task: str, kernel: str) -> answers.KernelText:
        """A kernel's text."""
        candidate = self._named(self._shelf(task), kernel)
        return answers.KernelText(kernel=candidate.digest, source=candidate.source)

    def export(self, task: str, kernel: str) -> answers.Exported:
        """Write a kernel that passed, and its drop-in, into a folder of their own below `out`."""
        shelf = self._shelf(task)
        candidate = self._named(shelf, kernel)
        verdict = shelf.verdicts.get(candidate.digest)
        if verdict is None or not verdict.passed:
            raise UserError("Only a kernel that has passed is exported.", "Call verify_kernel first.")
        folder = self._out / f"{shelf.task.digest}-{candidate.digest}"
        library = judged_library(candidate, verdict.tier)
        texts = {"kernel.cu": candidate.source} | drop_in_files(served_by(shelf.task, verdict), candidate, library)
        RunFolder(folder).write_drop_in(texts, library)
        files = (*texts, *([library.name] if library else []))
        return answers.Exported(kernel=candidate.digest, folder=str(folder.absolute()), files=files)

    def look_up(self, query: str) -> answers.Guides:
        """What the guides for the judge's target say."""
        return answers.Guides(words=look_up(query, self.judge.device.target))

    def _given_task(self, source: str, path: str, name: str) -> TaskInput:
        if path:
            self._require_local()
        if bool(source) == bool(path):
            raise UserError("A task is a source or a path.", "Give one of them.")
        if path:
            return load_task(path)
        _require_size(source)
        return TaskInput(source=source, name=name) if name else TaskInput(source=source)

    def _shelf(self, task: str) -> Shelf:
        with self._lock:
            if task not in self._shelves:
                raise UserError(f"There is no task {task[:80]!r} here.", "Call open_task; its answer has the digest.")
            _keep(self._shelves, task, MOST_TASKS)
            return self._shelves[task]

    def _candidate(self, shelf: Shelf, kernel: str, source: str, path: str) -> Candidate:
        """The kernel that a caller names by its digest, sends, or has in a file."""
        if sum(map(bool, (kernel, source, path))) != 1:
            raise UserError("A kernel is a digest, a source or a path.", "Give one of them.")
        if kernel:
            return self._named(shelf, kernel)
        if path:
            self._require_local()
            source = read_source(Path(path), "Name a C++ or CUDA source.")
        _require_size(source)
        candidate = Candidate(source=source, target=self.judge.device.target, author="mcp")
        with shelf.lock:
            kept = shelf.kernels.setdefault(candidate.digest, candidate)
            self._forget(shelf, candidate.digest)
        return kept

    def _named(self, shelf: Shelf, kernel: str) -> Candidate:
        with shelf.lock:
            if kernel == BEST:
                if shelf.best is None:
                    raise UserError("No kernel has passed yet.", "Call verify_kernel with one.")
                return shelf.best.candidate
            if kernel not in shelf.kernels:
                raise UserError(f"There is no kernel {kernel[:80]!r} for this task.", "Send its source.")
            return shelf.kernels[kernel]

    def _incumbent(self, shelf: Shelf, against: str, candidate: Candidate) -> Candidate | None:
        """Whom a kernel is to meet. Itself it does not."""
        if against == NONE or (against == BEST and shelf.best is None):
            return None
        incumbent = self._named(shelf, against)
        known = shelf.verdicts.get(incumbent.digest)
        if known is None or not known.passed:
            raise UserError("A kernel meets only one that has passed.", "Verify that one first.")
        return incumbent if incumbent.digest != candidate.digest else None

    @staticmethod
    def _forget(shelf: Shelf, newest: str) -> None:
        kept = shelf.best.candidate.digest if shelf.best else newest
        if kept in shelf.kernels:
            shelf.kernels.move_to_end(kept)
        for gone in _keep(shelf.kernels, newest, MOST_KERNELS):
            shelf.verdicts.pop(gone, None)

    def _require_local(self) -> None:
        if not self._local:
            raise UserError("This server reads no files of its own for its clients.", "Send the text as `source`.")

    def _card(self, task: Task) -> answers.TaskCard:
        judge, work = self.judge, task.workloads[0]
        target = judge.device.target
        text = stub(task, target)
        varied = (say_arguments(task), say_callers(target), say_tf32(task, target, self._order.precision))
        return answers.TaskCard(
            task=task.digest,
            name=task.name,
            target=target,
            op_class=task.op_class,
            arguments="\n".join(line[3:].rstrip() for line in text.splitlines() if line.startswith("// ")),
            operations=say_operations(task.program),
            flops=work.flops or None,
            bytes_moved=work.bytes_moved,
            machine=say_machine(judge.facts(), task, precision_on(target, self._order.precision)),
            compared_on=" ".join([f"{say_inputs(task)}.", *filter(None, varied)]),
            exactness=say_exactness(task, self._order.tolerance),
            special_values=say_spreading(task),
        )

    def _judged(
        self, shelf: Shelf, candidate: Candidate, verdict: Verdict, earlier: str | None = None
    ) -> answers.Judged:
        timing, met = verdict.timing, verdict.timing.head_to_head if verdict.timing else None
        busy = timing.busy.said if timing and timing.busy else ""
        low, high = _ends(timing.speedup_interval if timing else None)
        best = shelf.best
        return answers.Judged(
            kernel=candidate.digest,
            status=verdict.status,
            check=verdict.check,
            speedup=timing.speedup if timing else None,
            low=low,
            high=high,
            kernel_ms=timing.candidate_ms if timing else None,
            baseline_ms=timing.baseline_ms if timing else None,
            floor_ms=floor_ms(shelf.task, self.judge.facts(), verdict) if timing else None,
            meeting=_meeting(met) if met else None,
            is_best=best is not None and best.candidate.digest == candidate.digest,
            earlier=earlier,
            words=(_AGAIN if earlier else "")
            + say_verdict(verdict, self.judge.device.target)
            + (f" While it was timed {busy}." if busy else ""),
        )


def _meeting(met: HeadToHead) -> answers.Meeting:
    low, high = _ends(met.interval)
    return answers.Meeting(
        against=met.incumbent,
        speedup=met.speedup,
        low=low,
        high=high,
        rounds=met.rounds,
        measure=met.measure,
        alone=met.alone,
        outcome=met.outcome,
    )


def _ends(interval: Interval | None) -> tuple[float | None, float | None]:
    return (None, None) if interval is None or interval.is_open else (interval.low, interval.high)


_AGAIN = (
    "This machine code was judged before, and its verdict stands: nothing was run again. To time it once more, name "
    "another kernel as `against`. "
)
_SETTLED = ("passed", "wrong", "refused")
"""What the same code would be found to be again. A crash or a time-out may have been the machine's."""


def _judged_before(shelf: Shelf, build: Build | None, incumbent: Candidate | None) -> Verdict | None:
    """A verdict on this machine code. Of a kernel that passed only one with the meeting that is asked for."""
    code = build.machine_code if build else ""
    with shelf.lock:
        judged = [each for each in shelf.verdicts.values() if code and _code_of(each) == code]
        rival = shelf.verdicts.get(incumbent.digest) if incumbent else None
    settled = [each for each in judged if each.status in _SETTLED]
    if rival is not None and _code_of(rival) != code:
        settled = [each for each in settled if not each.passed or _met(each) == rival.candidate]
    return min(settled, key=lambda each: each.passed, default=None)  # what a sanitizer found holds for every text


def _code_of(verdict: Verdict) -> str:
    return verdict.build.machine_code if verdict.build else ""


def _met(verdict: Verdict) -> str | None:
    met = verdict.timing.head_to_head if verdict.timing else None
    return met.incumbent if met else None


def _record(shelf: Shelf, candidate: Candidate, verdict: Verdict) -> Verdict:
    """Keep a verdict, with what sanitizers found in this machine code; a faster kernel becomes the best."""
    with shelf.lock:
        verdict = shelf.verdicts[candidate.digest] = _as_found(shelf, verdict)
        if outcome_against(verdict, shelf.best) == "faster":
            shelf.best = Best(candidate=candidate, verdict=verdict)
        _replace_fallen(shelf)
        return verdict


def _as_found(shelf: Shelf, verdict: Verdict) -> Verdict:
    runs = shelf.found.get(_code_of(verdict) or verdict.candidate)
    return verdict.sanitized(runs) if runs else verdict


def _withdraw(shelf: Shelf, code: str, runs: tuple[SanitizerRun, ...]) -> None:
    """Take back what was and what will be said of this machine code, in whatever text."""
    with shelf.lock:
        shelf.found[code] = runs
        _keep(shelf.found, code, MOST_KERNELS)
        shelf.verdicts |= {digest: _as_found(shelf, known) for digest, known in shelf.verdicts.items()}
        _replace_fallen(shelf)


def _replace_fallen(shelf: Shelf) -> None:
    """A best kernel that passes no longer makes room for the next best."""
    if shelf.best is None or shelf.verdicts[shelf.best.candidate.digest].passed:
        return
    shelf.best = None
    for digest, known in shelf.verdicts.items():
        if digest in shelf.kernels and outcome_against(known, shelf.best) == "faster":
            shelf.best = Best(candidate=shelf.kernels[digest], verdict=known)


def _keep(held: OrderedDict[str, Held], newest: str, most: int) -> list[str]:
    """Let the oldest go where there are more than `most`; which ones went."""
    held.move_to_end(newest)
    return [held.popitem(last=False)[0] for _ in range(len(held) - most)]


def _require_size(source: str) -> None:
    if len(source) > MOST_SOURCE_CHARS:
        raise UserError(f"A source has at most {MOST_SOURCE_CHARS} characters; this one has {len(source)}.")


def _tried(digest: str, verdict: Verdict) -> answers.Tried:
    return answers.Tried(
        kernel=digest,
        status=verdict.status,
        speedup=verdict.timing.speedup if verdict.timing else None,
        note=verdict.check,
    )
