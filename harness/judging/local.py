"""The judge's front door: screen and build a candidate, evaluate it, profile it."""

from __future__ import annotations

import secrets
import socket
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from copy import copy
from dataclasses import dataclass, replace
from itertools import accumulate
from pathlib import Path
from typing import Any

from harness.isolation.policy import Limits
from harness.isolation.process import IsolatedProcess
from harness.isolation.scratch import scratch_folder
from harness.judging.aggregate import combined
from harness.judging.compile_baseline import compile_once, compile_order, with_compilers
from harness.judging.device_lock import beside_others, one_at_a_time
from harness.judging.roofline_bound import below_floor
from harness.judging.watching import Watcher
from harness.nouns.build import Build
from harness.nouns.candidate import Candidate
from harness.nouns.errors import MachineError
from harness.nouns.profile import Profile
from harness.nouns.refusal import Refusal
from harness.nouns.sanitizer_run import SanitizerRun
from harness.nouns.task import Task, Workload
from harness.nouns.tier import Tier
from harness.nouns.verdict import Correctness, Precision, Status, Timing, Verdict, WorkloadResult
from harness.processes.runner_process import Surroundings, how_it_ended, start_runner, why_not_trusted
from harness.processes.trusted_child import JobDiedError, warm_parent
from harness.screen.imports import screen_library
from harness.screen.load_time import screen_load_time
from harness.screen.source import screen_source
from harness.targets.target import Target
from harness.wire.layout import slot_bytes

SLOT_BUDGET_BYTES = 1 << 30
"""Memory for rotating slots; two slots of a larger task are allowed up to MEMORY_BYTES."""
MEMORY_BYTES = 16 << 30
WALL_S = 600.0
TIMING_S = 1.0


@dataclass(frozen=True)
class _Stage:
    """A candidate's runner and what belongs to it, while an evaluation lasts."""

    held: ExitStack
    scratch: Path
    around: Surroundings
    runner: IsolatedProcess
    link: socket.socket
    payload: dict[str, Any]


@dataclass(frozen=True)
class _Outcome:
    """What judging one workload gave."""

    workload: str
    status: Status
    check: str
    message: str
    correctness: Correctness | None
    timing: Timing | None
    seconds: dict[str, float]

    @classmethod
    def of(cls, workload: str, raw: dict[str, Any]) -> _Outcome:
        """From the judging child's answer."""
        timing = Timing.model_validate(raw["timing"]) if "timing" in raw else None
        correctness = Correctness.model_validate(raw["correctness"]) if "correctness" in raw else None
        return cls(workload, raw["status"], raw["check"], raw["message"], correctness, timing, raw["seconds"])

    def on(self, defect: str) -> _Outcome:
        """As it is to be read where no kernel can be right."""
        if self.timing is None:
            return replace(self, message=f"{self.message} No kernel can be right here: {defect}.")
        return replace(self, timing=self.timing.model_copy(update={"task_defect": defect}))

    @property
    def result(self) -> WorkloadResult:
        """As the verdict keeps it."""
        return WorkloadResult(name=self.workload, correctness=self.correctness, timing=self.timing)


class Judge:
    """Judges candidates for one target. Threads may share it; evaluations take turns, builds do not."""

    def __init__(
        self,
        target: Target,
        *,
        tier: Tier,
        precision: Precision = "ieee",
        tolerance: float = 1.0,
        timing_s: float = TIMING_S,
        trials: int | None = None,
    ) -> None:
        """`timing_s`: the rounds of each workload end after about so long, converged or not.

        `tolerance`: errors so many times what PyTorch's own allows are accepted.

        `trials`: a pass is no more than so many comparisons, where kernels are only to be ranked; else all.
        """
        self.target = target
        self.timing_s = timing_s
        self.trials = trials
        self.tier = tier
        self.precision = precision
        self.tolerance = tolerance

    def build(self, candidate: Candidate) -> Build:
        """Compile the candidate in isolation."""
        return self.target.compile(candidate, tier=self.tier)

    def screen(self, task: Task, candidate: Candidate) -> Refusal | None:
        """Why the candidate's source may not run, told within milliseconds; None where nothing speaks against it."""
        return screen_source(candidate.source, self.allowances(task))

    def allowances(self, task: Task) -> frozenset[str]:
        """What the screen lets pass for the task's sake: types that its forward computes in, and its precision."""
        return frozenset({self.precision, *(dtype for work in task.workloads for dtype in work.dtypes)})

    def screen_build(self, build: Build) -> Refusal | None:
        """Why the built library may not be loaded, or None."""
        return screen_load_time(build.load_time) or (screen_library(build.library) if build.library else None)

    def evaluate(
        self,
        task: Task,
        candidate: Candidate,
        build: Build | None = None,
        *,
        seed: int | None = None,
        incumbent: Verdict | None = None,
        compile_baseline: bool = False,
    ) -> Verdict:
        """Screen, build unless a `build` is given, check, then time the candidate. `seed` replays a verdict.

        A source that the screen refuses is not built: its verdict holds a build only where one was given.
        With the passed verdict of an `incumbent` that kernel runs in the same rounds, and the timing holds their
        head-to-head; with `compile_baseline` torch.compile's version of the reference does, compiled before the
        device's turn begins.
        Raises `MachineError` where the machine, not the candidate, failed.
        """
        chosen = secrets.randbits(31) if seed is None else seed
        facts: dict[str, Any] = {
            "candidate": candidate.digest,
            "task": task.digest,
            "seed": chosen,
            "tier": self.tier,
            "precision": self.precision,
            "tolerance": self.tolerance,
        }
        if refusal := self.screen(task, candidate):
            return _refused(refusal, build=build, **facts)
        build = build or self.build(candidate)
        facts["build"] = build
        if build.library is None:
            return Verdict(**facts, status="build_failed", check="build", message=_first_error(build))
        if refusal := self.screen_build(build):
            return _refused(refusal, **facts)
        self.target.require_device()
        ahead_s = compile_once(self.target, self.tier, self.precision, task) if compile_baseline else 0.0
        with one_at_a_time(self.target.name):
            outcomes = self._workloads(task, build.library, chosen, incumbent, compile_baseline)
        if task.defect:
            outcomes[-1] = outcomes[-1].on(task.defect)
        several = len(task.workloads) + len(task.held_out) > 1
        return _verdict(outcomes, several=several, ahead={"compile_ahead": ahead_s} if ahead_s else {}, **facts)

    def profile(self, task: Task, verdict: Verdict) -> Profile:
        """What limits a candidate that passed (`verdict.timing` and `verdict.build` are present)."""
        if verdict.timing is None or verdict.build is None:
            raise ValueError("only a passed verdict can be profiled")
        first = verdict.workloads[0].timing if verdict.workloads else None
        with one_at_a_time(self.target.name):
            return self.target.profile(task.workloads[0], first or verdict.timing, verdict.build, tier=self.tier)

    def sanitize(self, task: Task, candidate: Candidate) -> tuple[SanitizerRun, ...]:
        """What the target's sanitizers say of a candidate, right or wrong, on each of the task's workloads.

        Timing waits no longer than one workload's tools take. `ValueError` for a source that the screen refuses: it is
        not run under a tool either.
        """
        if refusal := self.screen(task, candidate):
            raise ValueError(str(refusal))
        return Watcher(self.target, self.tier, self._right).watch(task, candidate)

    def _right(self, task: Task, candidate: Candidate, build: Build) -> bool:
        """Whether a build may run, and gives what the reference does on the file's own inputs. Nothing is timed."""
        if build.library is None or self.screen(task, candidate) or self.screen_build(build):
            return False
        brief = copy(self)
        brief.timing_s, brief.trials = 0.0, 1
        further = {"timed": False, "compile": None}
        with beside_others(self.target.name):
            return all(
                brief._run(task.only(work), build.library, 0, None, further)["status"] == "passed"
                for work in task.workloads
            )

    def _workloads(
        self, task: Task, library: Path, seed: int, incumbent: Verdict | None, compile_baseline: bool
    ) -> list[_Outcome]:
        """Each workload's outcome, in a process of its own; held-out ones, then all by turns. Ends with a failure."""
        outcomes: list[_Outcome] = []
        for workload in (*task.workloads, *task.held_out):
            alone = task.only(workload)
            order = compile_order(task) if compile_baseline else None
            further = {"timed": workload not in task.held_out, "compile": order}
            raw = self._run(alone, library, seed, incumbent, further)
            outcomes.append(self._with_floor(alone, _Outcome.of(workload.name, raw)))
            if outcomes[-1].status != "passed":
                return outcomes
        ordered = sorted((*task.workloads, *task.held_out), key=lambda workload: slot_bytes(workload.signature))
        room = accumulate(slot_bytes(workload.signature) for workload in ordered)
        fitting = [work for work, total in zip(ordered, room, strict=True) if total <= SLOT_BUDGET_BYTES]
        if len(fitting) > 1:
            outcomes.append(self._by_turns(task, fitting, library, seed))
        return outcomes

    def _by_turns(self, task: Task, workloads: list[Workload], library: Path, seed: int) -> _Outcome:
        """These workloads in one process, the smallest first."""
        with self._stage(task.only(workloads[-1]), library, seed) as stage:
            chosen = [work.model_dump(mode="json", include={"variant", "signature"}) for work in workloads]
            raw = _as_seen(stage, self._drive("mix", stage.payload | {"workloads": chosen}, [stage.link], stage))
        return _Outcome.of("all by turns", raw)

    def _with_floor(self, task: Task, outcome: _Outcome) -> _Outcome:
        timing = outcome.timing
        if timing is None or not (floor := below_floor(task, timing, self.target)):
            return outcome
        return replace(outcome, status="refused", check="floor", message=floor, timing=None)

    def _run(
        self, task: Task, library: Path, seed: int, incumbent: Verdict | None, further: dict[str, Any]
    ) -> dict[str, Any]:
        """Start each kernel's runner in a cage of its own, and beside them the judging child that drives them."""
        with self._stage(task, library, seed) as stage:
            payload, links = stage.payload | further, [stage.link]
            if incumbent and incumbent.build and incumbent.build.library and incumbent.build.library.exists():
                other, link = start_runner(
                    stage.held, incumbent.build.library, stage.around, stage.scratch / "incumbent"
                )
                payload["incumbent"] = {
                    "digest": incumbent.candidate,
                    "library": str(incumbent.build.library),
                    "pid": other.pid,
                }
                links.append(link)
            return _as_seen(stage, self._drive("judge", payload, links, stage))

    @contextmanager
    def _stage(self, task: Task, library: Path, seed: int) -> Iterator[_Stage]:
        """A started runner, and what the judging child is told about it."""
        around = Surroundings(self.tier, self._host_bytes(task), self.target.running())
        with ExitStack() as held:
            scratch = held.enter_context(scratch_folder())
            runner, link = start_runner(held, library, around, scratch / "candidate")
            payload = {
                "source": task.source,
                "name": task.name,
                "variant": task.workloads[0].variant.model_dump(mode="json"),
                "signature": task.signature.model_dump(mode="json"),
                "op_class": task.op_class,
                "multiplies": task.multiplies,
                "steps": task.steps,
                "indexed": sorted(task.indexed),
                "library": str(library),
                "seed": seed,
                "runner_pid": runner.pid,
                "device": self.target.name,
                "precision": self.precision,
                "tolerance": self.tolerance,
                "slot_target_bytes": 2 * self.target.facts().l3_bytes,
                "memory_bytes": around.memory_bytes,
                "timing_s": self.timing_s,
                "trials": self.trials,
                "load_within_s": 60.0,
            }
            yield _Stage(held, scratch, around, runner, link, payload)

    def _drive(self, kind: str, payload: dict[str, Any], links: list[socket.socket], stage: _Stage) -> dict[str, Any]:
        limits = Limits(
            wall_s=WALL_S,
            memory_bytes=64 << 30,  # the reference's own: it ran before under the same limit
            processes=512,
            file_bytes=stage.around.memory_bytes + (1 << 30),  # shared memory counts as a file
        )
        try:
            return warm_parent().run(
                kind,
                payload,
                tier=self.tier,
                cwd=stage.scratch,
                limits=limits,
                access=with_compilers(stage.around.needs.access, payload.get("compile")),
                descriptors=tuple(link.fileno() for link in links),
            )
        except JobDiedError as died:
            raise MachineError(
                f"The judging process for {payload['name']} ended without a verdict, {died.reason}.",
                "Is there enough memory for the task? Smaller shapes need less.",
            ) from died

    def _host_bytes(self, task: Task) -> int:
        """Host memory for the slots: the usual budget, or two slots of a task that is larger than that.

        The arguments of a kernel on a GPU lie there; the judging process knows how much it has.
        """
        if self.target.name == "cuda":
            return SLOT_BUDGET_BYTES
        each = slot_bytes(task.signature)
        if each > MEMORY_BYTES:
            raise MachineError(
                f"{task.name} needs {each} bytes for one set of arguments; the judge allows {MEMORY_BYTES}.",
                "Choose smaller shapes.",
            )
        return max(SLOT_BUDGET_BYTES, min(2 * each, MEMORY_BYTES))


def _as_seen(stage: _Stage, outcome: dict[str, Any]) -> dict[str, Any]:
    """The judging child's outcome, corrected by what the kernel's process did otherwise."""
    if outcome["check"] == "process":
        return outcome | how_it_ended(stage.runner.wait(2.0))
    if outcome["status"] != "passed" or not (trespass := why_not_trusted(stage.runner)):
        return outcome
    return {name: value for name, value in (outcome | trespass).items() if name != "timing"}


def _verdict(outcomes: list[_Outcome], *, several: bool, ahead: dict[str, float], **facts: Any) -> Verdict:
    """The last outcome decides: all before it passed. `ahead` are seconds spent before the device's turn."""
    last = outcomes[-1]
    passed = last.status == "passed"
    seconds = Counter({"build": facts["build"].seconds} | ahead)
    for outcome in outcomes:
        seconds.update(outcome.seconds)
    return Verdict(
        **facts,
        status=last.status,
        check=last.check,
        message=f"Workload {last.workload}: {last.message}" if several and last.message else last.message,
        correctness=(outcomes[0] if passed else last).correctness,
        timing=combined([each.timing for each in outcomes if each.timing]) if passed else None,
        workloads=tuple(outcome.result for outcome in outcomes) if several else (),
        seconds={name: round(value, 4) for name, value in seconds.items()},
    )


def _refused(refusal: Refusal, **facts: Any) -> Verdict:
    return Verdict(**facts, status="refused", check=refusal.check, message=str(refusal))


def _first_error(build: Build) -> str:
    first = next(d for d in build.diagnostics if d.severity == "error")
    return f"{first.file}:{first.line}: {first.message}"
