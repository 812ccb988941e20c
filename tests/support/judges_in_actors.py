"""Openers that a Ray actor can be given: scripted judges that leave a mark in a folder, and one that dies with it."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Any

from scripted_judge import ScriptedJudge

from harness.judging.protocol import JudgeOrder
from harness.nouns.events import BuildStarted
from harness.wire.telling import tell


class Marking(ScriptedJudge):
    """Writes down each evaluation with the GPU that it sees; ends its process in one of a kernel that says `DIE`."""

    def __init__(self, order: JudgeOrder, folder: Path) -> None:
        super().__init__(order)
        self._folder = folder

    def evaluate(self, task: Any, candidate: Any, build: Any = None, **given: Any) -> Any:
        seen = os.environ["CUDA_VISIBLE_DEVICES"]
        with (self._folder / "evaluated").open("a") as file:
            file.write(f"{seen} {candidate.digest}\n")
        if "DIE" in candidate.source:
            os.kill(os.getpid(), signal.SIGKILL)
        tell(BuildStarted(candidate=candidate.digest, target=self.device.target))
        return super().evaluate(task, candidate, build, **given)


class Opens:
    """An opener for an actor: it can be pickled."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def __call__(self, order: JudgeOrder) -> Marking:
        return Marking(order, self._folder)
