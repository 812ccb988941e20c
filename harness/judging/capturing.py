"""From a model's source to its `Capture`, in a child process that has torch."""

from __future__ import annotations

import tempfile
from pathlib import Path

from pydantic import ValidationError

from harness.isolation.policy import Access, Limits
from harness.judging.device_lock import one_at_a_time
from harness.nouns.capture import Capture
from harness.nouns.errors import MachineError, UserError
from harness.nouns.task import Variant
from harness.nouns.tier import Tier
from harness.nouns.verdict import Precision
from harness.processes.trusted_child import JobDiedError, warm_parent
from harness.targets.target import Target
from harness.wire.job import ReferenceJob

LIMITS = Limits(wall_s=600.0, memory_bytes=1 << 40, processes=512, file_bytes=1 << 30)


def capture_model(
    source: str, *, name: str, target: Target, tier: Tier, precision: Precision = "ieee", read: tuple[str, ...] = ()
) -> Capture:
    """Run a model on its own inputs, with every operation clocked. `read` names folders that it may read besides.

    Raises `UserError` where the file is no model, and `MachineError` where the model is too large for this machine.
    """
    needs = target.running()
    job = ReferenceJob(source=source, name=name, variant=Variant(), device=target.name, precision=precision)
    with tempfile.TemporaryDirectory(prefix="cutegen-") as scratch, one_at_a_time(target.device):
        try:
            answer = warm_parent().run(
                "capture",
                job.model_dump(mode="json"),
                tier=tier,
                cwd=Path(scratch),
                limits=LIMITS,
                access=needs.access + Access(read=read),
                gpus=needs.gpus,
            )
            return Capture.model_validate(answer)
        except JobDiedError as died:
            raise MachineError(
                f"{name}: running it ended its process, {died.reason}.",
                "Is there enough memory for it? Try smaller inputs.",
            ) from died
        except ValidationError as error:
            raise UserError(f"{name}: what it says of itself is no model.", "Try it in plain Python.") from error
