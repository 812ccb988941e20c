"""A whole model in a child process that has torch: captured, cut into regions, held against eager."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from pydantic import ValidationError

from harness.isolation.policy import Access, Limits
from harness.isolation.scratch import scratch_folder
from harness.judging.device_lock import one_at_a_time
from harness.nouns.acceptance import Acceptance
from harness.nouns.capture import Capture
from harness.nouns.errors import MachineError, UserError
from harness.nouns.frozen import Frozen
from harness.nouns.task import Variant
from harness.nouns.tier import Tier
from harness.nouns.verdict import Precision
from harness.processes.trusted_child import JobDiedError, warm_parent
from harness.targets.target import Target
from harness.wire.job import AcceptJob, CutJob, ReferenceJob, RegionCut

Noun = TypeVar("Noun", bound=Frozen)
LIMITS = Limits(wall_s=600.0, memory_bytes=1 << 40, processes=512, file_bytes=1 << 38)


@dataclass(frozen=True)
class ModelOnTarget:
    """A model's source on a device, isolated as `tier` says. `read` names folders that it may read besides."""

    source: str
    name: str
    target: Target
    tier: Tier
    precision: Precision = "ieee"
    read: tuple[str, ...] = ()

    def capture(self) -> Capture:
        """Run it on its own inputs, with every operation clocked.

        Raises `UserError` where the file is no model, and `MachineError` where it is too large for this machine.
        """
        with scratch_folder() as scratch:
            return self._validated(Capture, self._run("capture", self._job, scratch))

    def cut(self, regions: tuple[RegionCut, ...], folder: Path, *, program: str, inputs: str) -> None:
        """Write each region as files of these names, into a folder of its name in `folder`. Raises like `capture`."""
        job = CutJob(**dict(self._job), regions=regions, program=program, inputs=inputs)
        self._run("cut", job, folder)

    def accept(
        self, folder: Path, file: str, regions: tuple[str, ...], *, tolerance: float, limit_s: float
    ) -> Acceptance:
        """Hold the assembled model in `folder` against eager. Raises like `capture`."""
        job = AcceptJob(
            **dict(self._job), folder=str(folder), file=file, regions=regions, tolerance=tolerance, limit_s=limit_s
        )
        with scratch_folder() as scratch:
            return self._validated(Acceptance, self._run("accept", job, scratch, read=(str(folder),)))

    @property
    def _job(self) -> ReferenceJob:
        return ReferenceJob(
            source=self.source, name=self.name, variant=Variant(), device=self.target.name, precision=self.precision
        )

    def _run(self, kind: str, job: ReferenceJob, cwd: Path, read: tuple[str, ...] = ()) -> dict[str, Any]:
        needs = self.target.running()
        with one_at_a_time(self.target.device):
            try:
                return warm_parent().run(
                    kind,
                    job.model_dump(mode="json"),
                    tier=self.tier,
                    cwd=cwd,
                    limits=LIMITS,
                    access=needs.access + Access(read=(*self.read, *read)),
                    gpus=needs.gpus,
                )
            except JobDiedError as died:
                raise MachineError(
                    f"{self.name}: running it ended its process, {died.reason}.",
                    "Is there enough memory for it? Try smaller inputs.",
                ) from died

    def _validated(self, noun: type[Noun], answer: dict[str, Any]) -> Noun:
        try:
            return noun.model_validate(answer)
        except ValidationError as error:
            raise UserError(f"{self.name}: what it says of itself is no model.", "Try it in plain Python.") from error
