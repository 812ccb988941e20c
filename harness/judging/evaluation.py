"""The judging itself: a kernel's runner in its cage, and the judging child that drives it, one workload at a time."""

from __future__ import annotations

import secrets
import socket
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from functools import partial
from itertools import accumulate
from pathlib import Path
from typing import TypeVar

from pydantic import ValidationError

from harness.isolation.policy import Limits
from harness.isolation.process import IsolatedProcess
from harness.isolation.scratch import scratch_folder
from harness.judging.compile_baseline import compile_once, compile_order, with_compilers
from harness.judging.device_lock import PLACES, on_device
from harness.judging.outcome import Case, Outcome, combined
from harness.judging.roofline_bound import below_floor
from harness.judging.terms import MEMORY_BYTES, Terms, require_room, shares
from harness.nouns.batches import Batches, ServedBatches
from harness.nouns.build import Build
from harness.nouns.caller import ENDED
from harness.nouns.contest import Contest, Standing
from harness.nouns.device import DeviceName
from harness.nouns.device_facts import DeviceFacts
from harness.nouns.devices import on_gpu
from harness.nouns.errors import MachineError
from harness.nouns.frozen import Frozen
from harness.nouns.task import Task, Workload
from harness.nouns.tier import Tier
from harness.nouns.verdict import Verdict
from harness.processes.runner_process import Surroundings, how_it_ended, start_runner, why_not_trusted
from harness.processes.trusted_child import JobDiedError, warm_parent
from harness.targets.target import Target
from harness.tasks.describing import describe_task
from harness.wire.job import ContestJob, IncumbentRunner, JudgeAnswer, JudgeJob, KernelJob, MixJob, Shape
from harness.wire.layout import slot_bytes

SLOT_BUDGET_BYTES = 1 << 30
"""Memory for rotating slots; two slots of a larger task are allowed up to MEMORY_BYTES."""
LARGE_BYTES = 16 << 20
"""Of one slot. Below, page faults of the oracles take less time than to start a warm parent that has huge pages."""
WALL_S = 600.0
Answer = TypeVar("Answer", bound=Frozen)
_FEW_BYTES = 1 << 20
"""What calls that nobody times take turns on."""


@dataclass(frozen=True)
class Opponent:
    """An earlier kernel, built: it runs in the same rounds."""

    digest: str
    library: Path


@dataclass(frozen=True)
class _Stage:
    """A candidate's runner and what belongs to it, while an evaluation lasts; `alone` takes the device for a timing."""

    alone: Callable[[], None]
    held: ExitStack
    scratch: Path
    around: Surroundings
    runner: IsolatedProcess
    links: list[socket.socket]
    job: KernelJob


@dataclass(frozen=True)
class Evaluation:
    """Checks and times on a target, by these terms, what has been built and may run. Timings take turns."""

    target: Target
    terms: Terms

    def verdict(
        self,
        case: Case,
        build: Build,
        library: Path,
        incumbent: Opponent | None = None,
        *,
        compile_baseline: bool = False,
    ) -> Verdict:
        """Of a case whose build may be loaded. torch.compile does its work before the device is taken."""
        self.target.require_device()
        ahead_s = (
            compile_once(self.target, self.terms.tier, self.terms.precision, case.task) if compile_baseline else 0.0
        )
        outcomes = self._workloads(case, library, incumbent, compile_baseline)
        return case.judged(build, outcomes, {"compile_ahead": ahead_s} if ahead_s else {})

    def serves(self, case: Case, library: Path, batches: Batches) -> ServedBatches:
        """At which of these batches, of one workload, a build is right: the largest is timed, then all take turns."""
        self.target.require_device()
        own = case.task.workloads[0]
        fitting = self._fitting((own, *batches.workloads))
        others = tuple(work for work in fitting if work != own)
        if not others:
            return ServedBatches(own=batches.own, refused="other batches would take too much to be tried")
        alone = self._run(case.task.only(others[-1]), library, case.seed, timed=True)
        at, found, timing = others[-1].variant.batch, partial(ServedBatches, own=batches.own), alone.timing
        if timing and timing.speedup < 1:
            return found(refused=f"at {at} it is {timing.speedup:.2f}x over eager")
        turns = self._by_turns(case.task, fitting, library, case.seed) if alone.status == "passed" else alone
        if turns.status != "passed":
            where = f"at {at} " if turns is alone else ""
            return found(refused=f"{where}it fails ({turns.check}): {turns.message}")
        return found(workloads=others, speedup=timing.speedup if timing else None)

    def contest(self, task: Task, opponents: Sequence[Opponent]) -> Contest:
        """These kernels in the same rounds, on each workload; the last one is whom the others stand against."""
        self.target.require_device()
        found = list[Contest]()
        for workload in task.workloads:
            found.append(self._contest(task.only(workload), opponents))
            if found[-1].failed:
                return found[-1]
        return Contest(standings=tuple(map(_over_workloads, zip(*(part.standings for part in found), strict=True))))

    def right(self, task: Task, library: Path) -> bool:
        """Whether a build gives what the reference does on the file's own inputs. Nothing is timed."""
        brief = Evaluation(self.target, replace(self.terms, timing_s=0.0, trials=1, rotation_bytes=_FEW_BYTES))
        return all(brief._run(task.only(work), library, 0, timed=False).status == "passed" for work in task.workloads)

    def _workloads(
        self, case: Case, library: Path, incumbent: Opponent | None, compile_baseline: bool
    ) -> list[Outcome]:
        """Each workload's outcome and a held-out one's, in processes of their own; then all by turns. Fails early."""
        task, outcomes = case.task, list[Outcome]()
        for workload in (*task.workloads, *task.held_out[:1]):
            alone = task.only(workload)
            answer = self._run(
                alone,
                library,
                case.seed,
                timed=workload not in task.held_out,
                incumbent=incumbent,
                compile_baseline=compile_baseline,
            )
            outcomes.append(self._with_floor(alone, Outcome(workload=workload.name, **dict(answer))))
            if outcomes[-1].status != "passed":
                return outcomes
        fitting = self._fitting((*task.workloads, *task.held_out))
        if len(fitting) > 1:
            outcomes.append(self._by_turns(task, fitting, library, case.seed))
        return outcomes

    @staticmethod
    def _fitting(workloads: Sequence[Workload]) -> list[Workload]:
        """Those that one process has room for together, the smallest first."""
        ordered = sorted(workloads, key=lambda workload: slot_bytes(workload.signature))
        room = accumulate(slot_bytes(workload.signature) for workload in ordered)
        return [work for work, total in zip(ordered, room, strict=True) if total <= SLOT_BUDGET_BYTES]

    def _by_turns(self, task: Task, workloads: list[Workload], library: Path, seed: int) -> Outcome:
        """These workloads in one process, the smallest first."""
        with self._stage(task.only(workloads[-1]), library, seed, timed=False) as stage:
            shapes = tuple(Shape(variant=work.variant, signature=work.signature) for work in workloads)
            job = MixJob(**dict(stage.job), shapes=shapes)
            answer = _as_seen(stage, self._drive("mix", job, JudgeAnswer, stage.links, stage))
        return Outcome(workload="all by turns", **dict(answer))

    def _with_floor(self, task: Task, outcome: Outcome) -> Outcome:
        timing = outcome.timing
        if timing is None or not (floor := below_floor(task, timing, self.target)):
            return outcome
        return outcome.model_copy(update={"status": "refused", "check": "floor", "message": floor, "timing": None})

    def _run(
        self,
        task: Task,
        library: Path,
        seed: int,
        *,
        timed: bool,
        incumbent: Opponent | None = None,
        compile_baseline: bool = False,
    ) -> JudgeAnswer:
        """Start each kernel's runner in a cage of its own, and beside them the judging child that drives them."""
        order = compile_order(task.digest) if compile_baseline else None
        with self._stage(task, library, seed, timed=timed) as stage:
            links, opponent = [*stage.links], None
            if incumbent:
                other, link = start_runner(stage.held, incumbent.library, stage.around, stage.scratch / "incumbent")
                opponent = IncumbentRunner(digest=incumbent.digest, library=str(incumbent.library), pid=other.pid)
                links.append(link)
            job = JudgeJob(**dict(stage.job), compile=order, incumbent=opponent)
            return _as_seen(stage, self._drive("judge", job, JudgeAnswer, links, stage))

    def _contest(self, task: Task, opponents: Sequence[Opponent]) -> Contest:
        """On one workload, every kernel in a cage of its own."""
        *others, last = opponents
        with self._stage(task, last.library, secrets.randbits(31), timed=True) as stage:
            links, runners, told = [*stage.links], {last.digest: stage.runner}, list[IncumbentRunner]()
            for each in others:
                runner, link = start_runner(stage.held, each.library, stage.around, stage.scratch / each.digest)
                links.append(link)
                runners[each.digest] = runner
                told.append(IncumbentRunner(digest=each.digest, library=str(each.library), pid=runner.pid))
            job = ContestJob(**dict(stage.job), digest=last.digest, others=tuple(told))
            found = self._drive("contest", job, Contest, links, stage)
            for digest, runner in runners.items():
                if not found.failed and (trespass := why_not_trusted(runner)):
                    return Contest(failed=digest, message=trespass["message"])
        for standing in found.standings:
            if floor := below_floor(task, standing.timing, self.target):
                return Contest(failed=standing.candidate, message=floor)
        return found

    @contextmanager
    def _stage(self, task: Task, library: Path, seed: int, *, timed: bool) -> Iterator[_Stage]:
        """A started runner on the device, beside others where there is room, and what the judging child is told."""
        terms, shared = self.terms, shares(task, self.target)
        around = Surroundings(terms.tier, self._host_bytes(task), self.target.running())
        with on_device(self.target.device, shared=shared) as alone, ExitStack() as held:
            scratch = held.enter_context(scratch_folder())
            runner, link = start_runner(held, library, around, scratch / "candidate")
            gauge = start_runner(held, library, around, scratch / "gauge") if timed else None
            job = KernelJob(
                source=task.source,
                name=task.name,
                variant=task.workloads[0].variant,
                signature=task.signature,
                facts=task.facts,
                library=str(library),
                seed=seed,
                runner_pid=runner.pid,
                gauge_pid=gauge[0].pid if gauge else 0,
                device=self.target.name,
                precision=terms.precision,
                tolerance=terms.tolerance,
                slot_target_bytes=self._rotation_bytes(),
                memory_bytes=self._slots_within(around, shared=shared),
                timing_s=terms.timing_s,
                trials=terms.trials,
                load_within_s=terms.load_within_s,
            )
            yield _Stage(alone, held, scratch, around, runner, [link, gauge[1]] if gauge else [link], job)

    def _drive(
        self, kind: str, job: KernelJob, answer: type[Answer], links: list[socket.socket], stage: _Stage
    ) -> Answer:
        limits = Limits(
            wall_s=WALL_S,
            memory_bytes=64 << 30,  # the reference's own: it ran before under the same limit
            processes=512,
            file_bytes=stage.around.memory_bytes + (1 << 30),  # shared memory counts as a file
        )
        order = job.compile if isinstance(job, JudgeJob) else None
        try:
            found = warm_parent(large=slot_bytes(job.signature) >= LARGE_BYTES).run(
                kind,
                job,
                tier=self.terms.tier,
                cwd=stage.scratch,
                limits=limits,
                needs=with_compilers(stage.around.needs, order),
                descriptors=tuple(link.fileno() for link in links),
                alone=stage.alone,
            )
            return answer.model_validate(found)
        except (JobDiedError, ValidationError) as died:
            reason = died.reason if isinstance(died, JobDiedError) else "with an answer that is none"
            raise MachineError(
                f"The judging process for {job.name} ended without a verdict, {reason}.",
                "Is there enough memory for the task? Smaller shapes need less.",
            ) from died

    def _rotation_bytes(self) -> int:
        asked = self.terms.rotation_bytes
        return 2 * self.target.facts().l3_bytes if asked is None else asked

    def _slots_within(self, around: Surroundings, *, shared: bool) -> int:
        """Bytes of the device within which slots are made: with neighbours or without, a shared task has as many.

        0 where a GPU does not say how much it has: then what is free counts.
        """
        if not on_gpu(self.target.name):
            return around.memory_bytes
        return self.target.facts().memory_bytes // (PLACES if shared else 1)

    def _host_bytes(self, task: Task) -> int:
        """Host memory for the slots: the usual budget, or two slots of a task that is larger than that.

        The arguments of a kernel on a GPU lie there; the judging process knows how much it has.
        """
        require_room(task, self.target)
        if on_gpu(self.target.name):
            return SLOT_BUDGET_BYTES
        return max(SLOT_BUDGET_BYTES, min(2 * slot_bytes(task.signature), MEMORY_BYTES))


class TargetJudge:
    """What both judges of this machine have in common; see `Judge`."""

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
        """Import, run and trace the task's file in a locked child."""
        task = describe_task(source, name=name, tier=self.tier, within_s=self.terms.describe_s)
        require_room(task, self.target)
        return task

    def facts(self) -> DeviceFacts:
        """Measured on first use, then kept."""
        return self.target.facts()


def _over_workloads(parts: tuple[Standing, ...]) -> Standing:
    """One kernel's standing, out of that on each workload."""
    timings = tuple(part.timing for part in parts)
    return Standing(
        candidate=parts[0].candidate, timing=combined(timings), workloads=timings if len(timings) > 1 else ()
    )


def own_build(given: Build | None, build: Callable[[], Build]) -> Build:
    """The build that was given, where it failed or is what `build` finds in this machine's store; else what that made.

    A verdict of another machine, or of before the store was emptied, names what does not lie here.
    """
    if given is not None and not given.succeeded:
        return given
    own = build()
    return given if given is not None and given.digest == own.digest else own


def _as_seen(stage: _Stage, answer: JudgeAnswer) -> JudgeAnswer:
    """The judging child's answer, corrected by what the kernel's process did otherwise."""
    if answer.check == "process":
        ended, (_, _, called) = how_it_ended(stage.runner.wait(2.0)), answer.message.partition(ENDED)
        return answer.model_copy(update=ended | {"message": f"{ended['message']}{called}"})
    if answer.status != "passed" or not (trespass := why_not_trusted(stage.runner)):
        return answer
    return answer.model_copy(update=trespass | {"timing": None})
