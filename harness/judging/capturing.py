"""A whole model in a child process that has torch: captured, cut into regions, held against eager."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from pydantic import ValidationError

from harness.isolation.policy import Access, Limits
from harness.isolation.scratch import scratch_folder
from harness.judging.compile_baseline import compile_order, with_compilers
from harness.judging.device_lock import beside_others, one_at_a_time
from harness.nouns.acceptance import Acceptance, BesideCompiled
from harness.nouns.capture import Capture
from harness.nouns.device import DeviceName
from harness.nouns.errors import CutegenError, MachineError, UserError
from harness.nouns.events import WholeModel
from harness.nouns.frozen import Frozen
from harness.nouns.model_budget import LATE_S
from harness.nouns.task import Variant
from harness.nouns.tier import Tier
from harness.nouns.verdict import Precision
from harness.processes.trusted_child import JobDiedError, warm_parent
from harness.targets.target import Target
from harness.wire.deadline import Deadline
from harness.wire.job import AcceptJob, CaptureJob, CompileOrder, CutJob, ReferenceJob, RegionCut, WholeCompileJob
from harness.wire.stopping import TimeIsOverError, limited
from harness.wire.telling import tell

Noun = TypeVar("Noun", bound=Frozen)
Turn = Callable[[DeviceName], AbstractContextManager[None]]
LIMITS = Limits(wall_s=600.0, memory_bytes=1 << 40, processes=512, file_bytes=1 << 38)
COMPILE_S = 150.0
"""For torch.compile's work on a whole model, in all modes together."""
LATE = "It was not held against eager in time: the budget was over."
FOR_OTHERS = 0.6
"""Of it, for modes beside those that kernels are tried in: what they leave is the trials'."""
LEAST_COMPILE_S = 10.0
"""With less there is no use in beginning."""


@dataclass(frozen=True)
class ModelOnTarget:
    """A model's source on a device, isolated as `tier` says. `read` names folders that it may read besides."""

    source: str
    name: str
    target: Target
    tier: Tier
    precision: Precision = "default"
    read: tuple[str, ...] = ()

    def capture(self, deadline: Deadline, compile_s: float = 0.0) -> Capture:
        """Run it on its own inputs, with every operation clocked; in what Inductor makes of it within `compile_s`.

        Raises `UserError` where the file is no model, or no answer fits before the `deadline`, and `MachineError` where
        it is too large for this machine.
        """
        tell(WholeModel(doing="running the model with every operation clocked"))
        order = compile_order(self._digest) if compile_s >= LEAST_COMPILE_S else None
        job = CaptureJob(
            **dict(self._job),
            budget_s=deadline.budget_s,
            ends_at=deadline.ends_at,
            compile=order,
            compile_s=compile_s,
        )
        with scratch_folder() as scratch:
            return self._validated(Capture, self._run("capture", job, scratch))

    def cut(self, regions: tuple[RegionCut, ...], folder: Path, *, program: str, inputs: str) -> None:
        """Write each region as files of these names, into a folder of its name in `folder`. Raises like `capture`."""
        tell(WholeModel(doing="writing each region as a task"))
        job = CutJob(**dict(self._job), regions=regions, program=program, inputs=inputs)
        self._run("cut", job, folder, turn=beside_others)  # nothing in it is timed

    def accept(
        self,
        folder: Path,
        file: str,
        regions: tuple[str, ...],
        *,
        tolerance: float,
        limit_s: float,
        deadline: Deadline,
        modes: tuple[str, ...] = (),
        compile_s: float = COMPILE_S,
        within: tuple[str, ...] = (),
    ) -> Acceptance:
        """Hold the model in `folder` against eager, and beside these modes of torch.compile.

        Kernels are put into what torch.compile makes of it in the first mode of `within` that it is compiled in; where
        there is none, into the exported model.
        Rounds of a comparison end after about `limit_s`, and what there is by the `deadline` is the answer. What cannot
        be compiled within `compile_s`, of which the first modes have theirs first, is no baseline, and said so. Where
        its process dies, or is ended because it is late, nothing is accepted. Raises like `capture`.
        """
        order = compile_order(self._digest) if modes else None
        late = self._compiled_ahead(order, modes, Deadline.of(compile_s), within) if order else {}
        base = next((mode for mode in within if mode not in late), "")
        job = AcceptJob(
            **dict(self._job),
            folder=str(folder),
            file=file,
            regions=regions,
            tolerance=tolerance,
            limit_s=limit_s,
            ends_at=deadline.ends_at,
            compile=order,
            modes=tuple(mode for mode in modes if mode not in late),
            form="compiled" if base else "assembled",
            within=base,
        )
        tell(WholeModel(doing="loading the model with its kernels"))
        with scratch_folder() as scratch:
            try:
                with deadline.before(-LATE_S).limiting():
                    found = self._validated(Acceptance, self._answer("accept", job, scratch, read=(str(folder),)))
            except JobDiedError as died:
                found = Acceptance(accepted=False, reason=f"With its kernels it ended its process: {died.reason}.")
            except TimeIsOverError:
                found = Acceptance(accepted=False, reason=LATE)
        absent = tuple(BesideCompiled(mode=mode, failure=failure) for mode, failure in late.items())
        unasked = bool(within) and not base
        instead = f"torch.compile did not compile the model: {late[within[-1]]}" if unasked else found.instead
        return found.model_copy(update={"compiled": (*found.compiled, *absent), "instead": instead})

    def _compiled_ahead(
        self, order: CompileOrder, modes: tuple[str, ...], deadline: Deadline, within: tuple[str, ...]
    ) -> dict[str, str]:
        """Why the accepting child is not to try them, by mode; it finds filled caches for the others.

        Where kernels are tried `within` some modes, the others leave time for that.
        """
        late: dict[str, str] = {}
        for mode in modes:
            others = bool(within) and mode not in within
            compile_s = deadline.left_s - (1.0 - FOR_OTHERS) * deadline.budget_s * others
            if compile_s < LEAST_COMPILE_S:
                late[mode] = "the time for compiling was over before it"
                continue
            tell(WholeModel(doing=f"torch.compile on the whole model, {mode}"))
            job = WholeCompileJob(**dict(self._job), compile=order, modes=(mode,))
            try:
                with scratch_folder() as scratch, limited(compile_s):
                    failure = str(self._run("compile_whole", job, scratch).get(mode, "no answer"))
            except CutegenError as error:
                failure = " ".join(str(error).split())[:300]
            except TimeIsOverError:
                failure = f"it was not compiled within {compile_s:.0f} s"
            late |= {mode: failure} if failure else {}
        return late

    @property
    def _job(self) -> ReferenceJob:
        return ReferenceJob(
            source=self.source, name=self.name, variant=Variant(), device=self.target.name, precision=self.precision
        )

    @property
    def _digest(self) -> str:
        return hashlib.sha256(self._job.model_dump_json().encode()).hexdigest()

    def _run(
        self,
        kind: str,
        job: ReferenceJob,
        cwd: Path,
        turn: Turn = one_at_a_time,
    ) -> dict[str, Any]:
        try:
            return self._answer(kind, job, cwd, turn=turn)
        except JobDiedError as died:
            raise MachineError(
                f"{self.name}: running it ended its process, {died.reason}.",
                "Is there enough memory for it? Try smaller inputs.",
            ) from died

    def _answer(
        self,
        kind: str,
        job: ReferenceJob,
        cwd: Path,
        read: tuple[str, ...] = (),
        turn: Turn = one_at_a_time,
    ) -> dict[str, Any]:
        """Raises `JobDiedError` where the child ends before it has answered."""
        order = job.compile if isinstance(job, WholeCompileJob | AcceptJob | CaptureJob) else None
        needs = with_compilers(self.target.running() + Access(read=(*self.read, *read)), order)
        with turn(self.target.device):
            return warm_parent(large=True).run(kind, job, tier=self.tier, cwd=cwd, limits=LIMITS, needs=needs)

    def _validated(self, noun: type[Noun], answer: dict[str, Any]) -> Noun:
        try:
            return noun.model_validate(answer)
        except ValidationError as error:
            raise UserError(f"{self.name}: what it says of itself is no model.", "Try it in plain Python.") from error
